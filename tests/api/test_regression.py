"""A run held against a committed baseline: the judgement in words, and what cannot be compared."""

import json

import pytest

import pcsuite as pcs
from pcsuite.api.regression import check_regression
from pcsuite.errors import AnalysisError
from support.own_task import write_own_profile


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return pcs.run(write_own_profile(tmp_path_factory.mktemp("own"), count=60), quiet=True, conditions="C1")


@pytest.fixture
def baseline(made, tmp_path):
    return made.baseline().write(tmp_path / "own.json", made.metrics)


def with_scores(path, change):
    document = json.loads(path.read_text())
    for cell in document["cells"]:
        cell["metrics"]["score"] = change(cell["metrics"]["score"])
    path.write_text(json.dumps(document))
    return path


def test_the_same_run_again_is_no_worse(made, baseline):
    check = check_regression(made, baseline, margin=0.05)
    assert check.standing == "no worse"
    assert check.sentence().startswith(
        "own: no worse than own.json (non-inferior at a margin of 0.05) (score 0."
    )
    assert "over 60 items, 0 scores moved)" in check.sentence()
    assert "broken: " not in check.details()


def test_a_baseline_that_was_much_better_makes_it_worse_and_names_the_items(made, baseline):
    check = check_regression(made, with_scores(baseline, lambda scores: [1.0] * len(scores)), margin=0.05)
    assert check.standing == "worse"
    assert "worse than own.json: reliably lower, and the loss seen is over 0.05" in check.sentence()
    lost = len(check.comparison.broke)
    assert f"broken: {lost} items: " in check.details()
    assert f"… and {lost - 3} more" in check.details(most=3)


def test_three_flips_of_sixty_are_no_regression(made, baseline):
    def flip(scores):
        lower = [position for position, score in enumerate(scores) if score == 0.0][:3]
        return [1.0 if position in lower else score for position, score in enumerate(scores)]

    check = check_regression(made, with_scores(baseline, flip), margin=0.05)
    assert (check.standing, len(check.comparison.broke)) == ("undecided", 3)


def test_what_cannot_be_compared_is_one_line(made, baseline, tmp_path):
    with pytest.raises(AnalysisError, match="margin 5: a share"):
        check_regression(made, baseline, margin=5)
    with pytest.raises(AnalysisError, match=r"gone.json: no such baseline"):
        check_regression(made, tmp_path / "gone.json", margin=0.05)
    document = json.loads(baseline.read_text())
    for cell in document["cells"]:
        cell["items"] = [f"other-{item}" for item in cell["items"]]
    baseline.write_text(json.dumps(document))
    with pytest.raises(AnalysisError, match="the baseline is of other tasks, models or items"):
        check_regression(made, baseline, margin=0.05)
