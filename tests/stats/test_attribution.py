"""Attribution against worked values, ordinary least squares, and shapiq as the oracle of Shapley values."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.attribution import attribute, attribution_weights, unidentified, varied_operators
from pcsuite.stats.permutation import sign_flip_test


def factorial(names):
    return [own for k in range(len(names) + 1) for own in itertools.combinations(names, k)]


def by(found, method):
    return {entry.operator: entry for entry in found if entry.method == method}


def value_of(bundles, game, method):
    values = np.array([game(frozenset(own)) for own in bundles])
    return {
        name: float(values @ entry.weights)
        for name, entry in by(attribution_weights(bundles), method).items()
    }


def majority(own):
    """A game of three whose Shapley values are a third each, though alone none gains anything."""
    return float(len(own) >= 2)


def test_the_four_methods_on_a_game_worked_by_hand():
    bundles = factorial("ABD")
    assert value_of(bundles, majority, "shapley") == pytest.approx(dict.fromkeys("ABD", 1 / 3))
    assert value_of(bundles, majority, "add-one-in") == dict.fromkeys("ABD", 0.0)
    assert value_of(bundles, majority, "leave-one-out") == dict.fromkeys("ABD", 0.0)
    # With A: 0, 1, 1, 1 of four; without: 0, 0, 0, 1.
    assert value_of(bundles, majority, "least squares") == pytest.approx(dict.fromkeys("ABD", 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("players", [3, 5])
def test_shapley_values_are_those_of_shapiq(players):
    shapiq = pytest.importorskip("shapiq")
    rng = np.random.default_rng(players)
    names = "ABDEF"[:players]
    bundles = factorial(names)
    worth = {frozenset(own): rng.normal() for own in bundles}

    def game(coalitions):
        chosen = np.atleast_2d(coalitions)
        return np.array(
            [worth[frozenset(n for n, on in zip(names, row, strict=True) if on)] for row in chosen]
        )

    reference = shapiq.ExactComputer(game, n_players=players)("SV")
    ours = value_of(bundles, lambda own: worth[own], "shapley")
    assert [ours[name] for name in names] == pytest.approx([reference[(k,)] for k in range(players)])
    entry = by(attribution_weights(bundles), "shapley")["A"]
    assert entry.exact
    assert entry.orders == math.factorial(players)


@pytest.mark.slow
def test_sampled_orders_are_unbiased():
    rng = np.random.default_rng(1)
    names = tuple("ABDEF")
    worth = {frozenset(own): rng.normal() for own in factorial(names)}
    exact = value_of(factorial(names), lambda own: worth[own], "shapley")
    totals = dict.fromkeys(names, 0.0)
    draws = 600
    for _ in range(draws):
        orders = [rng.permutation(names) for _ in range(4)]
        bundles = {frozenset(order[:k]) for order in orders for k in range(len(names) + 1)}
        found = value_of([tuple(own) for own in bundles], lambda own: worth[own], "shapley")
        assert sum(found.values()) == pytest.approx(worth[frozenset(names)] - worth[frozenset()])
        for name, value in found.items():
            totals[name] += value / draws
    assert totals == pytest.approx(exact, abs=0.12)


def test_a_ladder_has_one_order_and_says_so():
    ladder = [(), ("A",), ("A", "B"), ("A", "B", "D")]
    found = by(attribution_weights(ladder), "shapley")
    assert found["B"].weights.tolist() == [0, -1, 1, 0]
    assert (found["B"].orders, found["B"].exact) == (1, False)
    assert by(attribution_weights(ladder), "leave-one-out").keys() == {"D"}
    assert by(attribution_weights(ladder), "add-one-in").keys() == {"A"}


def test_least_squares_is_that_of_numpy():
    bundles = [(), ("A",), ("A", "B"), ("B", "D"), ("A", "B", "D")]
    y = np.array([0.1, 0.3, 0.35, 0.2, 0.7])
    design = np.array([[1.0, "A" in own, "B" in own, "D" in own] for own in bundles])
    reference = np.linalg.lstsq(design, y, rcond=None)[0][1:]
    found = by(attribution_weights(bundles), "least squares")
    assert [float(y @ found[name].weights) for name in "ABD"] == pytest.approx(reference)


def test_leave_one_out_and_add_one_in_designs_identify_their_own():
    out = [("A", "B"), ("B",), ("A",)]
    assert by(attribution_weights(out), "leave-one-out").keys() == {"A", "B"}
    assert by(attribution_weights(out), "shapley") == {}
    one_in = [("G",), ("G", "A"), ("G", "B")]
    assert by(attribution_weights(one_in), "add-one-in").keys() == {"A", "B"}
    assert by(attribution_weights(one_in), "leave-one-out") == {}


def test_what_cannot_be_told_is_said():
    assert unidentified([("GOAL",), ("GOAL", "SCHEMA", "VERIFIER")]) == [
        "GOAL is in every condition: no effect can be told.",
        "SCHEMA and VERIFIER always come together: only their joint effect can be told.",
    ]
    assert unidentified(factorial("AB")) == []
    assert unidentified([(), ("A", "B"), ("B", "D")]) == [
        "The conditions do not tell the effects of A, B and D apart from sums of others: there are too few of them, or"
        " they vary together."
    ]
    assert by(attribution_weights([(), ("SCHEMA", "VERIFIER")]), "least squares").keys() == {
        "SCHEMA+VERIFIER"
    }
    assert attribution_weights([("A",)]) == []
    assert varied_operators([("B",), ("A", "B")]) == ("A",)


def test_effects_are_paired_over_items():
    rng = np.random.default_rng(4)
    items = rng.normal(0, 5, (40, 1))
    bundles = factorial("AB")
    truth = np.array([0.0, 0.4, 0.0, 0.4])
    found = attribute(items + truth + rng.normal(0, 0.1, (40, 4)), bundles, rng=rng)
    effects = {(e.operator, e.method): e for e in found}
    for method in ("least squares", "shapley", "leave-one-out", "add-one-in"):
        assert effects["A", method].effect.value == pytest.approx(0.4, abs=0.06)
        assert effects["A", method].test.p_value < 0.001
        assert effects["A", method].effect.low < 0.4 < effects["A", method].effect.high
        assert effects["B", method].effect.low < 0 < effects["B", method].effect.high


def test_many_items_are_judged_by_the_t_test():
    rng = np.random.default_rng(5)
    values = rng.random((3000, 2)) + np.array([0.0, 0.02])
    (found, *_) = attribute(values, [(), ("A",)], rng=rng)
    reference = stats.ttest_rel(values[:, 1], values[:, 0])
    assert found.test.p_value == pytest.approx(reference.pvalue)
    assert found.effect.low == pytest.approx(reference.confidence_interval().low)


def test_wrong_arguments():
    rng = np.random.default_rng(0)
    with pytest.raises(AnalysisError, match="2 columns of values and 1 bundles"):
        attribute([[0.1, 0.2]], [()], rng=rng)
    with pytest.raises(AnalysisError, match="same operators"):
        attribution_weights([("A", "B"), ("B", "A")])


def test_a_sham_gets_no_effect_from_blocks_that_work_against_each_other():
    rng = np.random.default_rng(3)
    n = 200
    bundles = [(), ("A",), ("B",), ("A", "B"), ("A", "B", "SHAM"), ("A", "B", "C")]
    # A and B each do the whole work, together no more: 0.2 -> 0.8; C adds 0.15; SHAM does nothing
    rates = [0.2, 0.8, 0.8, 0.8, 0.8, 0.95]
    values = np.column_stack([rng.random(n) < rate for rate in rates]).astype(float)
    found = {
        one.operator: one for one in attribute(values, bundles, rng=rng) if one.method == "least squares"
    }
    sham, paired = found["SHAM"], values[:, 4] - values[:, 3]
    assert sham.pairs.value == pytest.approx(paired.mean())
    assert sham.pairs.low < 0 < sham.pairs.high
    # the sum of A and B leaves -0.15 over at A+B, and its two neighbours take it up
    assert sham.effect.value == pytest.approx(-0.15, abs=0.1)
    assert sham.effect.high < 0
    assert sham.test.p_value == pytest.approx(sign_flip_test(paired, rng=rng).p_value)
    assert sham.test.p_value > 0.05
    assert sham.test.method.endswith("by pairs that differ in it alone")
    assert found["C"].pairs.value == pytest.approx((values[:, 5] - values[:, 3]).mean())


def test_ladders_and_factorials_have_pairs_that_say_the_same():
    for bundles in ([(), ("A",), ("A", "B")], [(), ("A",), ("B",), ("A", "B")]):
        assert [w.pairs for w in attribution_weights(bundles) if w.method == "least squares"] == [None, None]
