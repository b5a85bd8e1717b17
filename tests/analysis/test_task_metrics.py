import json

import pytest

from pcsuite.analysis.item_scores import item_scores
from pcsuite.analysis.tables import RunTables
from pcsuite.analysis.task_metrics import task_metrics
from pcsuite.report.build import build_report
from support.synthetic_log import make_row, write_log


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
        records = list(task_metrics(item_scores(tables)).records())
    found = {(r["condition"], r["metric"]): (r["mean"], r["standard_error"]) for r in records}
    assert found["C0", "omissions"] == pytest.approx((4.0, 2.0))
    assert found["C3", "omissions"] == pytest.approx((1.0, 0.0))
    assert found["C0", "hallucinations"] == pytest.approx((2.0, 2.0))
    assert not [key for key in found if key[1] in ("score", "token_cost", "truncated")]


def test_replicates_count_once_and_a_single_item_has_no_standard_error(tmp_path):
    rows = [
        make_row(item="a", decoding="d1_sampled", seed=seed, metrics={"evidence_f1": value})
        for seed, value in enumerate((0.0, 1.0))
    ]
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        (record,) = task_metrics(item_scores(tables)).records()
    assert (record["mean"], record["standard_error"], record["n_items"]) == (0.5, None, 1)


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", set()), ("micro_f1", {"buildingspec_json"})])
def test_counts_are_pooled_only_where_the_run_says_so(tmp_path, pooling, pooled):
    log = write_log(tmp_path / "a.jsonl", extraction_rows())
    manifest = {"tasks": {"buildingspec_json": {"pooling": pooling}}}
    log.with_suffix(".manifest.json").write_text(json.dumps(manifest))
    with RunTables([log], tmp_path / "tables") as tables:
        assert item_scores(tables).pooled == pooled


def test_the_page_shows_errors_by_condition(tmp_path):
    log = write_log(tmp_path / "runs" / "a.jsonl", extraction_rows())
    files = build_report([log], tmp_path, plots=False)
    page = files.index.read_text(encoding="utf-8")
    assert "What else was measured on buildingspec_json" in page
    assert "omissions</th>" in page
    assert "hallucinations</th>" in page
    assert tmp_path / "tables" / "task_metrics.csv" in files.tables
