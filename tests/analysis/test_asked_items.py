"""Items of two runs side by side: what was planned, what is missing and why, and whose clusters count."""

import numpy as np
import pytest

from pcsuite.analysis.asked_items import RunPlan, cluster_labels, clustered_scores, ids_digest
from pcsuite.analysis.compare import compare_runs
from pcsuite.data.items import Item
from pcsuite.errors import AnalysisError
from pcsuite.logging.manifest import RegisteredPlan, RunManifest, TaskNote
from pcsuite.reporting.markdown import comparison_text
from support.two_runs import KEY, SCORE_ONLY, run_of


def plan_of(names, **more):
    return RunPlan({"t": len(names)}, {"t": ids_digest(names)}, **more)


def test_why_a_score_is_missing():
    before = run_of(np.ones(40))
    after = run_of(np.ones(40), failed=[0, 1, 2], unscored=[5])
    found = compare_runs(before, after, metrics=SCORE_ONLY, margin=0.1)
    assert [(entry.run, entry.item_id, entry.why) for entry in found.missing] == [
        ("second", "i000", "failed"),
        ("second", "i001", "failed"),
        ("second", "i002", "failed"),
        ("second", "i005", "not scored"),
    ]
    (record,) = found.table.records()
    assert (record["n_items"], record["missing_first"], record["missing_second"]) == (36, 0, 4)
    assert (record["delta"], record["delta_least"], record["delta_most"]) == (0.0, -0.1, 0.0)
    assert found.hidden
    assert not found.passes
    text = comparison_text(found, "a", "b")
    assert (
        "Missing in b: 4 scores of 4 planned items (3 failed, 1 not scored): i000, i001, i002, i005." in text
    )
    assert "One lost score moves a bound by 0.028." in text  # of 36 items


def test_what_was_wrong_before_cannot_be_lost():
    """Twenty calls fail of which none was right before: nothing can be hidden by them."""
    before = run_of([1.0] * 60 + [0.0] * 20)
    found = compare_runs(
        before, run_of([1.0] * 60 + [0.0] * 20, failed=range(60, 80)), metrics=SCORE_ONLY, margin=0.05
    )
    assert (found.standing, found.passes, len(found.missing)) == ("no worse", True, 20)


def test_a_loss_that_was_seen_stays_one_whatever_is_missing():
    before = run_of([1.0] * 60)
    found = compare_runs(before, run_of([0.0] * 15 + [1.0] * 45, failed=range(40, 60)), metrics=SCORE_ONLY)
    assert (found.standing, len(found.regressions)) == ("worse", 1)


def test_a_gain_that_missing_scores_could_undo_is_no_improvement():
    before = run_of([0.0] * 12 + [1.0] * 48)
    after = run_of([1.0] * 60, failed=range(30, 60))
    found = compare_runs(before, after, metrics=SCORE_ONLY)
    assert (found.improvements, found.standing) == ([], "undecided")
    assert len(compare_runs(before, after, metrics=SCORE_ONLY, missing="drop").improvements) == 1


def test_a_plan_that_both_share_tells_missing_items_from_other_ones():
    names = [f"i{n:03d}" for n in range(40)]
    before, after = run_of(np.ones(40)), run_of(np.ones(30))
    with pytest.raises(AnalysisError, match="the first has 40, the second 30, and 30 are in common"):
        compare_runs(before, after, metrics=SCORE_ONLY)
    plans = (plan_of(names), plan_of(names))
    found = compare_runs(before, after, metrics=SCORE_ONLY, plans=plans, margin=0.2)
    assert {entry.why for entry in found.missing} == {"not asked"}
    assert len(found.missing) == 10
    # Of earlier versions only the number is known: it fits, and one of them has all.
    counted = RunPlan({"t": 40})
    assert len(compare_runs(before, after, metrics=SCORE_ONLY, plans=(counted, counted)).missing) == 10
    with pytest.raises(AnalysisError, match="the first has 40, the second 30"):
        compare_runs(before, after, metrics=SCORE_ONLY, plans=(plan_of(names), plan_of(names[:30])))
    # A run that stops early has asked fewer by design: nothing is missing, and nobody may take them for the same.
    early = (plan_of(names), plan_of(names, partial=True))
    with pytest.raises(AnalysisError, match="under condition C0 the first has 40, the second 30"):
        compare_runs(before, after, metrics=SCORE_ONLY, plans=early)
    allowed = compare_runs(before, after, metrics=SCORE_ONLY, plans=early, allow_different_items=True)
    assert allowed.missing == []
    told = "Different items of C0 on t: 40 in a, 30 in b, compared are the 30 in common."
    assert told in comparison_text(allowed, "a", "b")


def test_more_items_than_before_are_other_items_too():
    with pytest.raises(AnalysisError, match="the first has 30, the second 40"):
        compare_runs(run_of(np.ones(30)), run_of(np.ones(40)), metrics=SCORE_ONLY)
    found = compare_runs(
        run_of(np.ones(30)), run_of(np.ones(40)), metrics=SCORE_ONLY, allow_different_items=True
    )
    assert [record["n_items"] for record in found.table.records()] == [30]


def test_too_little_in_common_is_said_as_it_is():
    one = run_of([1.0])
    with pytest.raises(AnalysisError, match="one item in common"):
        compare_runs(one, one, metrics=SCORE_ONLY)
    with pytest.raises(AnalysisError, match="no item in common: of task 't' the first has 3, the second 3"):
        compare_runs(run_of(np.ones(3)), run_of(np.ones(3), names=["x", "y", "z"]), metrics=SCORE_ONLY)
    with pytest.raises(
        AnalysisError, match=r"30 items in common and fewer than 2 .*\(29 scores are missing\)"
    ):
        compare_runs(run_of(np.ones(30)), run_of(np.ones(30), failed=range(29)), metrics=SCORE_ONLY)


def test_a_cell_without_a_score_on_one_side_passes_no_gate():
    other = KEY._replace(condition="C1")
    sides = [run_of(np.ones(30)), run_of(np.ones(30), failed=range(30))]
    for side in sides:
        side.cells[other] = run_of(np.ones(30), key=other).cells[other]
    del sides[1].cells[KEY].values["score"]
    found = compare_runs(sides[0], sides[1], metrics=SCORE_ONLY, margin=0.2)
    assert (list(found.unscored), found.passes, found.standing) == ([KEY], False, "undecided")
    assert "Not compared: hardly an item of C0 on t with m has a score in both runs" in comparison_text(
        found, "a", "b"
    )


def test_the_plan_that_a_manifest_tells_of():
    note = TaskNote(items=12, item_ids="abc")
    assert RunPlan.of(RunManifest(tasks={"t": note})) == RunPlan({"t": 12}, {"t": "abc"})
    stopping = RegisteredPlan(plan={"stopping": {"rule": "decided"}})
    assert RunPlan.of(RunManifest(preregistration=stopping)).partial
    assert not RunPlan.of(
        RunManifest(preregistration=RegisteredPlan(plan={"stopping": {"rule": "all_items"}}))
    ).partial
    assert RunPlan.of(RunManifest(blocks={"pairs": {"planned_rows": 3}})).partial
    assert RunPlan.of(RunManifest()) == RunPlan()
    assert ids_digest(["b", "a"]) == ids_digest(["a", "b"]) != ids_digest(["a"])


def test_clusters_by_columns_of_the_items_take_the_place_of_the_logs():
    scores = run_of(np.ones(6))
    items = {
        f"i{n:03d}": Item(f"i{n:03d}", f"text {n}", {}, attributes={"who": "ab"[n % 2]}) for n in range(5)
    }
    related = clustered_scores(scores, {"t": items}, ["who"])
    codes = related.clusters["t"]
    assert codes[0] == codes[2] == codes[4] != codes[1] == codes[3]
    assert codes[5] not in codes[:5], "an item that is not at hand stands for itself"
    with pytest.raises(AnalysisError, match="the items of task 't' are not at hand"):
        cluster_labels({"t": ["i000"]}, {}, ["who"])
