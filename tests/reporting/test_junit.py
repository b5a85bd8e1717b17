"""A comparison as JUnit XML: what fails a gate fails a case."""

from xml.etree import ElementTree

import numpy as np

from pcsuite.analysis.compare import compare_runs
from pcsuite.reporting.junit import comparison_junit
from support.two_runs import SCORE_ONLY, run_of


def suite_of(comparison):
    (suite,) = ElementTree.fromstring(comparison_junit(comparison, "before", "after\x00")).iter("testsuite")
    return suite


def test_a_regression_and_missing_scores_fail_their_cases_and_nothing_else_does():
    before = run_of(np.ones(60))
    same = suite_of(compare_runs(before, before, metrics=SCORE_ONLY, margin=0.05))
    assert (same.get("tests"), same.get("failures")) == ("1", "0")
    lower = suite_of(compare_runs(before, run_of([0.0] * 20 + [1.0] * 40), metrics=SCORE_ONLY))
    (failure,) = lower.iter("failure")
    assert (failure.get("type"), failure.get("message")) == ("regression", "1 → 0.6667")
    lost = suite_of(
        compare_runs(before, run_of(np.ones(60), failed=range(10)), metrics=SCORE_ONLY, margin=0.1)
    )
    (failure,) = lost.iter("failure")
    assert (failure.get("type"), failure.get("message")) == (
        "missing",
        "10 missing scores could hide a regression",
    )
    facts = {entry.get("name"): entry.get("value") for entry in lost.iter("property")}
    assert facts == {
        "standing": "undecided", "margin": "0.1", "missing": "bound", "missing_first": "0", "missing_second": "10",
    }  # fmt: skip
    assert "Missing in after" in lost.find("system-out").text
    dropped = compare_runs(
        before, run_of(np.ones(60), failed=range(10)), metrics=SCORE_ONLY, margin=0.1, missing="drop"
    )
    assert suite_of(dropped).get("failures") == "0"
