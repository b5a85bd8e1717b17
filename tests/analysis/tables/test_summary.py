import json
import math
import re

import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import CellKey, item_scores, natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.analysis.tables.summary import summary_by_condition, task_metrics
from pcsuite.reporting.build import build_report
from pcsuite.stats.proportions import blaker
from support.analysed import tables_of
from support.synthetic_log import make_row, write_log


def summarise(tmp_path, rows):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        return scores, list(summary_by_condition(tables, scores, bundled_metrics()).records())


def test_replicates_are_averaged_within_the_item_first(tmp_path):
    # Item a: 4 replicates, all right; item b: 1 replicate, wrong. Rows average 0.8, items 0.5.
    rows = [make_row(item="a", decoding="D1", seed=seed, score=1.0) for seed in range(4)]
    rows.append(make_row(item="b", decoding="D1", seed=0, score=0.0))
    _, (record,) = summarise(tmp_path, rows)
    assert record["score"] == 0.5
    assert (record["n_items"], record["n_rows"], record["n_errors"]) == (2, 5, 0)


def test_interval_of_binary_scores_is_blakers(tmp_path):
    rows = [make_row(item=f"i{k}", score=float(k < 14)) for k in range(20)]
    _, (record,) = summarise(tmp_path, rows)
    expected = blaker(14, 20)
    assert record["score"] == 0.7
    assert (record["score_low"], record["score_high"]) == pytest.approx((expected.low, expected.high))


def test_median_and_quartiles_over_items(tmp_path):
    rows = [make_row(item=f"i{k}", score=score) for k, score in enumerate([0.0, 0.25, 0.5, 0.75, 1.0])]
    _, (record,) = summarise(tmp_path, rows)
    assert (record["score_q1"], record["score_median"], record["score_q3"]) == (0.25, 0.5, 0.75)
    assert record["score_iqr"] == 0.5


def test_seed_variance_is_that_of_seed_means(tmp_path):
    # Seed 1 means (1+1)/2 = 1, seed 2 means (0+1)/2 = 0.5: sample variance 0.125.
    given = {("a", 1): 1.0, ("b", 1): 1.0, ("a", 2): 0.0, ("b", 2): 1.0}
    rows = [make_row(item=i, decoding="D1", seed=s, score=v) for (i, s), v in given.items()]
    _, (record,) = summarise(tmp_path, rows)
    assert record["seed_variance"] == pytest.approx(0.125)


def test_ner_is_micro_f1_of_pooled_counts(tmp_path):
    # tp 3+0, fp 1+0, fn 0+4 → 2·3 / (2·3 + 1 + 4) = 6/11, although the mean of item scores is 0.4286.
    rows = [
        make_row(task="ner", item="a", score=6 / 7, metrics={"tp": 3, "fp": 1, "fn": 0}),
        make_row(task="ner", item="b", score=0.0, metrics={"tp": 0, "fp": 0, "fn": 4}),
    ]
    scores, (record,) = summarise(tmp_path, rows)
    assert scores.pooled == {"ner"}
    assert record["measure"] == "micro-F1"
    assert record["score"] == pytest.approx(6 / 11)
    assert record["score_low"] <= record["score"] <= record["score_high"]


def test_errors_are_counted_and_kept_out(tmp_path):
    rows = [
        make_row(item="a", score=1.0),
        make_row(item="b", errors=["timeout"]),
        make_row(item="c", score=0.0),
    ]
    _, (record,) = summarise(tmp_path, rows)
    assert record["score"] == 0.5
    assert (record["n_items"], record["n_rows"], record["n_errors"]) == (2, 3, 1)
    assert record["score_if_errors_were_wrong"] == pytest.approx(1 / 3)


def test_auxiliary_rows_stay_out(tmp_path):
    rows = [make_row(item="a", score=1.0), make_row(item="a", kind="verifier", score=0.0)]
    _, (record,) = summarise(tmp_path, rows)
    assert (record["score"], record["n_rows"]) == (1.0, 1)


def test_truncation_is_what_the_backend_said(tmp_path):
    rows = [
        make_row(item="a", finish_reason="length"),
        make_row(item="b"),
        make_row(item="c"),
        make_row(item="d"),
    ]
    _, (record,) = summarise(tmp_path, rows)
    assert record["truncated"] == 0.25


def test_cells_share_item_codes(tmp_path):
    rows = [make_row(item=item, condition="C0", score=0.0) for item in "abc"]
    rows += [make_row(item=item, condition="C1", score=1.0) for item in "bcd"]
    scores, _ = summarise(tmp_path, rows)
    treated = CellKey("agnews_json", "m1", "D0", "none", "C1")
    control = treated._replace(condition="C0")
    first, second = scores.paired(treated, control, "score")
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert np.intersect1d(scores.cells[treated].items, scores.cells[control].items).tolist() == [1, 2]


def test_conditions_sort_as_people_count():
    assert sorted(["C10", "C2", "mine", "C0"], key=natural_key) == ["C0", "C2", "C10", "mine"]


def extraction_rows():
    """Two documents under two conditions; under C0 the counts are worked out below."""
    counts = {("a", "C0"): (6, 4), ("b", "C0"): (2, 0), ("a", "C3"): (1, 0), ("b", "C3"): (1, 2)}
    return [
        make_row(
            task="buildingspec_json", item=item, condition=condition, score=0.5,
            metrics={"omissions": omitted, "hallucinations": invented, "tp": 1, "fp": 0, "fn": 1, "token_cost": 9},
        )
        for (item, condition), (omitted, invented) in counts.items()
    ]  # fmt: skip


def test_means_and_standard_errors_are_over_items(tmp_path):
    # Omissions under C0: 6 and 2, mean 4, sd 2·√2, standard error 2.
    log = write_log(tmp_path / "a.jsonl", extraction_rows())
    with RunTables([log], tmp_path / "tables") as tables:
        records = list(task_metrics(item_scores(tables), bundled_metrics()).records())
    found = {(r["condition"], r["metric"]): (r["mean"], r["standard_error"]) for r in records}
    assert found["C0", "omissions"] == pytest.approx((4.0, 2.0))
    assert found["C3", "omissions"] == pytest.approx((1.0, 0.0))
    assert found["C0", "hallucinations"] == pytest.approx((2.0, 2.0))
    assert not [key for key in found if key[1] in ("score", "token_cost", "truncated")]


def test_replicates_count_once_and_a_single_item_has_no_standard_error(tmp_path):
    rows = [
        make_row(item="a", decoding="D1", seed=seed, metrics={"evidence_f1": value})
        for seed, value in enumerate((0.0, 1.0))
    ]
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        (record,) = task_metrics(item_scores(tables), bundled_metrics()).records()
    assert (record["mean"], record["standard_error"], record["n_items"]) == (0.5, None, 1)


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", set()), ("micro_f1", {"buildingspec_json"})])
def test_counts_are_pooled_only_where_the_run_says_so(tmp_path, pooling, pooled):
    log = write_log(tmp_path / "a.jsonl", extraction_rows())
    manifest = {"tasks": {"buildingspec_json": {"pooling": pooling}}}
    log.with_suffix(".manifest.json").write_text(json.dumps(manifest))
    with RunTables([log], tmp_path / "tables") as tables:
        assert item_scores(tables).pooled == pooled


@pytest.mark.slow
def test_the_page_shows_errors_by_condition(tmp_path):
    log = write_log(tmp_path / "runs" / "a.jsonl", extraction_rows())
    files = build_report([log], tmp_path, plots=False)
    page = files.index.read_text(encoding="utf-8")
    assert "What else was measured on buildingspec_json" in page
    (data,) = re.findall(r'id="metrics-0-table"[^>]*><script[^>]*>(.*?)</script>', page)
    assert {"omissions", "hallucinations"} <= {label for label, *_ in json.loads(data)["columns"]}
    assert tmp_path / "tables" / "a" / "task_metrics.csv" in files.tables


@pytest.mark.slow
def test_closed_answers_have_their_entropy_in_the_summary(tmp_path):
    rows = [
        make_row(item=f"{k}", decoding="D1", seed=seed, answer="World" if seed == 1 or k else "Sports")
        for k in range(4)
        for seed in (1, 2, 3)
    ]
    found = tables_of(tmp_path, rows)
    (level,), (varied,) = found["summary_by_condition"], found["entropy_by_condition"]
    assert level["entropy_nats"] == pytest.approx(varied["entropy_nats"])
    assert level["entropy_normalised"] == pytest.approx(varied["entropy_normalised"])
    # One item of four has answers 1 : 2, the others agree; the corrected value is above the plain one.
    plain = -(math.log(1 / 3) / 3 + 2 * math.log(2 / 3) / 3) / 4
    assert level["entropy_cat"] == varied["entropy_cat"] == pytest.approx(plain)
    assert level["entropy_nats"] > plain


def test_open_answers_and_single_ones_have_none(tmp_path):
    single = [make_row(item=f"{k}", answer="World") for k in range(4)]
    assert tables_of(tmp_path, single)["summary_by_condition"][0]["entropy_cat"] is None
