"""What a gate can find, held against the rules that judge a run."""

import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, Family, Gate, gate_of, judge, measure
from pcsuite.errors import AnalysisError
from pcsuite.stats.power import BinaryWorld

MARGIN = 0.05


def judged(gate, loss, studies):
    """Shares of simulated runs that the real rules call worse, and no worse."""
    rng, worse, shown = np.random.default_rng(5), 0, 0
    for differences in gate.world.draw(-loss, gate.items, gate.repeats, rng, studies):
        # Scores with these differences: the lower side of each item at 0.
        old, new = np.maximum(-differences, 0), np.maximum(differences, 0)
        arms = {
            name: ArmScores(values, replicates=gate.repeats, bounds=(0.0, 1.0))
            for name, values in (("new", new), ("old", old))
        }
        measured = measure(arms, [Contrast.of("new", "old")], rng=rng, limits=False)
        (result,) = judge(measured, Family("holm", margin=MARGIN, smallest=MARGIN))
        worse += result.verdict == "worse"
        shown += result.shown_no_worse
    return worse / studies, shown / studies


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "loss"), [(1, 0.0), (1, 0.15), (3, 0.1)])
def test_the_chances_are_those_of_the_rules_themselves(repeats, loss):
    gate = Gate(BinaryWorld(0.8, 0.8, 0.5), items=60, repeats=repeats, margin=MARGIN)
    worse, shown = judged(gate, loss, 300)
    # Two shares of 300 and 1,000 (250) draws: four standard errors of their difference.
    assert gate.fails(loss) == pytest.approx(worse, abs=0.13)
    assert gate.shows_no_worse(loss) == pytest.approx(shown, abs=0.17)


def test_five_items_can_never_fail():
    # The smallest two-sided p-value of five sign flips is 2/32.
    gate = Gate(BinaryWorld(0.8), items=5, margin=MARGIN)
    assert (gate.fails(0.8), gate.least_loss()) == (0.0, None)


def test_more_items_and_more_repeats_find_more_and_alarm_no_oftener():
    few, many, repeated = (
        Gate(BinaryWorld(0.8), items=items, repeats=repeats, margin=MARGIN)
        for items, repeats in ((40, 1), (200, 1), (40, 5))
    )
    assert few.fails(0.1) < repeated.fails(0.1) < many.fails(0.1)
    assert max(few.fails(0.0), many.fails(0.0), repeated.fails(0.0)) <= 0.05
    needed = few.items_to_find(0.1)
    assert Gate(BinaryWorld(0.8), items=needed, margin=MARGIN).fails(0.1) >= 0.8
    assert Gate(BinaryWorld(0.8), items=needed // 2, margin=MARGIN).fails(0.1) < 0.8


def test_a_gate_is_read_from_two_arms():
    before, after = np.tile([1.0, 1, 1, 0], 10), np.tile([1.0, 1, 0, 0], 10)
    gate = gate_of(ArmScores(before), ArmScores(after), margin=MARGIN)
    assert (gate.items, gate.repeats, gate.unit) == (40, 1, "item")
    assert gate.world.accuracy == 0.75


def test_clusters_are_the_units():
    scores, clusters = np.linspace(0, 1, 40), np.repeat(np.arange(8), 5)
    first = ArmScores(scores, clusters=clusters)
    second = ArmScores(scores**2, clusters=clusters)
    gate = gate_of(first, second, margin=MARGIN)
    assert (gate.items, gate.unit) == (8, "cluster")


@pytest.mark.slow
def test_graded_scores_are_put_to_the_rules_that_hold_whatever_their_shape():
    rng = np.random.default_rng(4)
    before = rng.uniform(0.3, 1.0, 60)
    after = np.clip(before + rng.normal(0, 0.15, 60), 0, 1)
    gate = gate_of(ArmScores(before), ArmScores(after), margin=MARGIN)
    assert gate.graded
    worse = 0
    for differences in gate.world.draw(-0.15, gate.items, 1, np.random.default_rng(6), 60):
        # Any two scores with these differences will do: the rules go by the differences.
        new = np.clip(0.5 + differences / 2, 0, 1)
        arms = {
            "new": ArmScores(new, bounds=(0.0, 1.0)),
            "old": ArmScores(new - differences, bounds=(0.0, 1.0)),
        }
        measured = measure(arms, [Contrast.of("new", "old")], rng=rng, limits=False)
        (result,) = judge(measured, Family("holm", margin=MARGIN, smallest=MARGIN))
        worse += result.verdict == "worse"
    assert gate.fails(0.15) == pytest.approx(worse / 60, abs=0.2)


def test_another_scale_has_no_gate():
    arms = [ArmScores(np.linspace(1, 5, 40) ** power, bounds=(1.0, 5.0)) for power in (1.0, 0.9)]
    assert gate_of(*arms, margin=MARGIN) is None


def test_nothing_is_said_of_graded_scores_without_any_difference():
    graded = ArmScores(np.linspace(0, 1, 40))
    assert gate_of(graded, graded, margin=MARGIN) is None


@pytest.mark.parametrize("wrong", [{"items": 1}, {"items": 9, "repeats": 0}, {"items": 9, "margin": 1.0}])
def test_impossible_designs_are_refused(wrong):
    with pytest.raises(AnalysisError):
        Gate(BinaryWorld(0.8), **wrong)


def test_a_loss_without_room_is_refused():
    with pytest.raises(AnalysisError, match="room for 0.8"):
        Gate(BinaryWorld(0.8), items=9).fails(0.9)
