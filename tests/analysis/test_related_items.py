"""Items that are related, from the log to the report: copies of texts and customers, all the way through the tables."""

import csv

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from pcsuite.analysis.analyse import analyse_scores
from pcsuite.analysis.load.item_scores import item_scores, number_clusters
from pcsuite.analysis.load.runs import RunTables
from pcsuite.reporting.build import build_report
from support.analysed import tables_of
from support.synthetic_log import make_row, write_log

TEXTS, COPIES = 16, 4


def copied(condition, scores, **more):
    """Each score as that of a text which stands in the table four times."""
    return [
        make_row(item=f"{k:02d}.{copy}", condition=condition, score=float(v), cluster=f"text {k}", **more)
        for k, v in enumerate(scores)
        for copy in range(COPIES)
    ]


def once(condition, scores, **more):
    return [
        make_row(item=f"{k:02d}", condition=condition, score=float(v), **more) for k, v in enumerate(scores)
    ]


CONTROL, TREATED = [0] * 12 + [1] * 4, [1] * 7 + [0] * 5 + [1] * 4


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Tables of sixteen texts, and of the same with every text four times."""
    folder = tmp_path_factory.mktemp("related")
    return [
        tables_of(folder / made.__name__, made("C0", CONTROL) + made("C1", TREATED))
        for made in (once, copied)
    ]


def of(records, **names):
    (record,) = [row for row in records if all(row[key] == value for key, value in names.items())]
    return record


def test_copies_are_no_further_evidence(both):
    alone, related = (of(tables["effects"], metric="score", kind="control") for tables in both)
    assert (alone["n_items"], related["n_items"], related["n_clusters"]) == (16, 64, 16)
    assert alone["n_clusters"] is None
    assert related["delta"] == alone["delta"] == pytest.approx(7 / 16)
    # Seven texts won, none lost: the exact test of seven equal signs, whatever the copies.
    assert alone["p_value"] == pytest.approx(2 * 0.5**7)
    assert related["p_value"] == pytest.approx(2 * 0.5**7)
    assert related["delta_high"] - related["delta_low"] > 0.8 * (alone["delta_high"] - alone["delta_low"])
    # Limits of effect sizes take items for independent.
    assert alone["odds_ratio_low"] is not None
    assert (related["odds_ratio"], related["odds_ratio_low"]) == (alone["odds_ratio"], None)


def test_levels_and_the_best_condition_go_by_cluster(both):
    for condition in ("C0", "C1"):
        alone, related = (of(tables["summary_by_condition"], condition=condition) for tables in both)
        assert (related["score"], related["n_clusters"]) == (alone["score"], 16)
        width, expected = (row["score_high"] - row["score_low"] for row in (related, alone))
        assert 0.8 * expected < width < 1.5 * expected


def test_the_mixed_model_has_the_random_effect_of_the_cluster(both):
    alone, related = ([row for row in tables["mixed_model"] if row["metric"] == "score"] for tables in both)
    assert {row["term"] for row in related if row["kind"] == "variance"} >= {"item", "cluster", "residual"}
    assert "cluster" not in {row["term"] for row in alone}
    first, second = (of(rows, kind="fixed", term="condition[C1]") for rows in (alone, related))
    assert second["estimate"] == pytest.approx(first["estimate"])
    assert second["se"] == pytest.approx(first["se"], rel=1e-3)
    assert (second["clusters"], first["clusters"]) == (16, None)


def test_an_item_without_a_label_stands_for_itself(tmp_path):
    rows = [
        make_row(item=name, cluster=label) for name, label in (("a", "x"), ("b", ""), ("c", "x"), ("d", ""))
    ]
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
    codes = scores.clusters["agnews_json"]
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 3
    assert scores.clusters_of("agnews_json", np.array([0, 1, 3])) is None


def test_the_newest_label_counts_in_every_cell(tmp_path):
    """A run that was begun without clusters and went on with them: rows of one item have two labels."""
    rows = [
        make_row(item=f"{k}", condition="C0", cluster=f"text {k}", timestamp="2030-01-01T00:00:00Z")
        for k in range(8)
    ]
    rows += [make_row(item=f"{k}", condition="C1", cluster=f"customer {k % 4}") for k in range(8)]
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
    assert len(set(scores.clusters["agnews_json"].tolist())) == 4


def test_a_label_in_two_tasks_is_one_cluster():
    numbered = number_clusters({"a": ["x", "y"], "b": ["y", "z"], "c": ["p", "q"]})
    assert set(numbered) == {"a", "b"}
    assert numbered["a"][1] == numbered["b"][0]


def test_below_six_clusters_the_report_says_why_nothing_was_tested(tmp_path):
    rows = [
        make_row(item=f"{k:02d}", condition=name, score=score, cluster=f"customer {k % 4}")
        for k in range(40)
        for name, score in (("C0", 0.0), ("C1", 1.0))
    ]
    log = write_log(tmp_path / "runs" / "four.jsonl", rows)
    files = build_report([log], tmp_path, plots=False)
    page = files.index.read_text(encoding="utf-8")
    reason = "not tested: 4 clusters, at least 6 are needed"
    assert f"Effects were {reason}." in page
    with (tmp_path / "tables" / "effects.csv").open(encoding="utf-8", newline="") as stream:
        record = of(list(csv.DictReader(stream)), metric="score")
    assert (record["delta"], record["p_value"], record["caution"]) == ("1", "", reason)
    with (tmp_path / "tables" / "mixed_model.csv").open(encoding="utf-8", newline="") as stream:
        terms = [row for row in csv.DictReader(stream) if row["metric"] == "score"]
    assert terms == [] or all(row["p_value"] == "" for row in terms if row["kind"] == "fixed")


def test_hypotheses_count_clusters_and_name_the_tasks(tmp_path):
    bundles = {"C2": ("GOAL",), "C3": ("GOAL", "SCHEMA")}
    rows = [
        row
        for task in ("a", "b")
        for name, scores in (("C2", CONTROL), ("C3", TREATED))
        for row in copied(name, scores, task=task, operators=bundles[name], answer="World")
    ]
    record = of(tables_of(tmp_path, rows)["hypotheses"], id="H1")
    assert record["verdict"] == "supported"
    assert record["statement"].endswith("raise task success, on a and b (a general claim needs 3 tasks).")
    # The labels are the same in both tasks: sixteen texts, not thirty-two.
    assert (record["items"], record["n_clusters"]) == (128, 16)
    assert "items in 16 clusters" in record["evidence"]
    assert record["p_value"] == pytest.approx(2 * 0.5**7)


def test_false_effects_stay_at_five_per_cent_where_texts_are_copied(tmp_path):
    """Eighty small runs of twelve texts five times each, in one log: nothing works, five in a hundred may say so."""
    rng, rows = np.random.default_rng(11), []
    for run in range(80):
        chance = rng.beta(2, 2, 12)
        for name in ("C0", "C1"):
            answers = rng.random(12) < chance
            rows += [
                make_row(
                    task=f"t{run:02d}",
                    item=f"{k}.{copy}",
                    condition=name,
                    score=float(answers[k]),
                    cluster=f"{run}/{k}",
                )
                for k in range(12)
                for copy in range(5)
            ]
    found = {}
    apart = [replace(row, task=replace(row.task, cluster="")) for row in rows]
    for name, written in (("clustered", rows), ("apart", apart)):
        log = write_log(tmp_path / name / "a.jsonl", written)
        with RunTables([log], tmp_path / name / "tables") as tables:
            effects = analyse_scores(tables).tables["effects"].records()
        found[name] = sum(row["p_value"] < 0.05 for row in effects if row["metric"] == "score")
    assert stats.binom.sf(found["clustered"] - 1, 80, 0.05) > 0.01
    assert found["apart"] > 20
