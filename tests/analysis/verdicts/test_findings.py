"""From effects to words."""

import pytest

from pcsuite.analysis.verdicts.evidence import Effect
from pcsuite.analysis.verdicts.findings import Finding, judge, judge_all, scope_words, weakest
from pcsuite.stats.pooling import random_effects

STUDIES = ((0.1, 0.05), (0.3, 0.05), (0.2, 0.05))


def effect(low, high, p_value=0.001, **more):
    return Effect((low + high) / 2, low, high, p_value, 30.0, 31, 1, 1, 1, **more)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (effect(0.1, 0.3), "supported"),
        (effect(-0.3, -0.1), "contradicted"),
        (effect(-0.1, 0.3), "inconclusive"),
        (effect(0.1, 0.3, p_value=0.06), "inconclusive"),
        (effect(0.1, 0.3, opposed=("t on m",)), "inconclusive"),
        (Effect(untested="no pair"), "not tested"),
    ],
)
def test_interval_and_exact_test_must_agree(found, verdict):
    assert judge(found, 1) == verdict


def test_a_claim_of_several_parts():
    good, bad, open_ = effect(0.1, 0.3), effect(-0.3, -0.1), effect(-0.1, 0.3)
    assert judge_all([good, good], 1) == "supported"
    assert judge_all([good, Effect(untested="none")], 1) == "supported"
    assert judge_all([good, open_], 1) == "inconclusive"
    assert judge_all([good, bad], 1) == "contradicted"
    # At 5 % by itself, but not at 5 % divided by two parts.
    assert judge_all([good, effect(-0.21, -0.003, p_value=0.045)], 1) == "inconclusive"
    assert judge_all([Effect(untested="none")], 1) == "not tested"
    assert weakest({"a": good, "b": open_}, 1) is open_


def test_limits_at_another_level_stretch_each_arm():
    found = Effect(0.2, 0.1, 0.4, 0.01, 1e9)
    # Normal quantiles 1.645 and 1.96.
    assert found.limits(0.90) == pytest.approx((0.2 - 0.1 * 0.8392, 0.2 + 0.2 * 0.8392), abs=1e-4)


def test_a_finding_has_the_numbers_it_rests_on():
    columns = Finding("in words", "supported", effect(0.1, 0.3, studies=STUDIES)).columns()
    assert (columns["evidence"], columns["effect"], columns["effect_low"]) == ("in words", 0.2, 0.1)
    pooled = random_effects(*zip(*STUDIES, strict=True))
    assert columns["new_task_low"] == pooled.prediction_low
    assert columns["new_task_high"] == pooled.prediction_high
    assert scope_words(effect(0.1, 0.3)) == "over 1 pair of cells, 1 task, 31 items"
    assert "(a new task of this kind: " in scope_words(effect(0.1, 0.3, studies=STUDIES))
