"""Planning: closed forms by hand, the report's own test and correction in simulation, and what cannot hold."""

import math

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.permutation import benjamini_hochberg, holm, sign_flip_test
from pcsuite.stats.power import (
    BinaryWorld,
    MeasuredWorld,
    PairedVariances,
    _lattice_p_values,
    achieved_power,
    items_to_hold,
    least_p,
    minimal_detectable_effect,
    pilot_variances,
    pilot_world,
    required_items,
    required_replicates,
)

VARIANCES = PairedVariances(between=0.05, within_a=0.1, within_b=0.12)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_variance_of_a_difference():
    assert VARIANCES.of_difference(1) == pytest.approx(0.27)
    assert VARIANCES.of_difference(10) == pytest.approx(0.05 + 0.022)


@pytest.mark.parametrize("effect", [0.0, 0.2, -0.3])
def test_single_answers_have_the_masses_of_the_stated_moments(effect):
    before, after, share = 0.4, 0.4 + effect, 0.3 * (1 - 0.6)
    covariance = share * math.sqrt(before * (1 - before) * after * (1 - after))
    gained = after * (1 - before) - covariance
    lost = before * (1 - after) - covariance
    masses = BinaryWorld(before, correlation=0.3, noise=0.6).masses(effect, 1)
    assert masses == pytest.approx([lost, 1 - gained - lost, gained], abs=2e-3)


def test_replicates_shrink_the_noise_and_leave_the_items():
    world = BinaryWorld(0.5, correlation=0.5, noise=0.5)
    for replicates in (1, 3, 10):
        masses = world.masses(0.0, replicates)
        support = np.linspace(-1, 1, 2 * replicates + 1)
        # p(1-p) = 0.25, half of it within: between = 0.125 + 0.125 - 0.125, within 0.125 each
        assert masses @ support**2 == pytest.approx(0.125 + 0.25 / replicates, rel=0.01)


def test_p_values_of_counts_are_those_of_the_reports_test():
    for replicates in (1, 2, 3):
        counts = rng(3).multinomial(12, BinaryWorld(0.4).masses(0.3, replicates), size=20)
        values = np.linspace(-1, 1, 2 * replicates + 1)
        expected = [sign_flip_test(np.repeat(values, row), rng=rng()).p_value for row in counts]
        assert _lattice_p_values(counts, replicates) == pytest.approx(expected, abs=1e-12)


def test_long_transforms_are_replaced_by_a_close_limit():
    replicates = 3
    counts = rng(4).multinomial(900, BinaryWorld(0.5).masses(0.05, replicates), size=12)
    values = np.linspace(-1, 1, 2 * replicates + 1)
    expected = [sign_flip_test(np.repeat(values, row), rng=rng()).p_value for row in counts]
    assert np.log(_lattice_p_values(counts, replicates)) == pytest.approx(np.log(expected), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accuracy", "items", "replicates", "families"),
    [(0.05, 8, 1, 1), (0.05, 100, 3, 8), (0.5, 30, 1, 8), (0.95, 30, 3, 8), (0.5, 30, 3, 1)],
)
def test_promised_power_is_what_the_report_delivers(accuracy, items, replicates, families):
    """Studies with a shared control, each comparison tested and the family corrected as in ``effects.csv``."""
    world = BinaryWorld(accuracy)
    effect = minimal_detectable_effect(
        world, items, rng=rng(), replicates=replicates, comparisons=families, loss=accuracy > 0.9
    )
    assert effect is not None
    promised = achieved_power(world, effect, items, rng=rng(1), replicates=replicates, comparisons=families)
    assert promised == pytest.approx(0.8, abs=0.03)
    draws, found, studies = rng(2), 0, 250

    def rates(latent, rate):
        size = world.noise / (1 - world.noise)
        return stats.beta.ppf(stats.norm.cdf(latent), size * rate, size * (1 - rate))

    def answers(latent, rate):
        return draws.binomial(replicates, rates(latent, rate)) / replicates

    def dependence(change):
        """The latent correlation whose item rates correlate as stated."""
        first, second = rng(9).standard_normal((2, 20_000))
        grid = np.linspace(0.05, 0.999, 60)
        reached = [
            np.corrcoef(
                rates(first, accuracy), rates(r * first + math.sqrt(1 - r * r) * second, accuracy + change)
            )[0, 1]
            for r in grid
        ]
        return float(np.interp(world.correlation, reached, grid))

    latent = {change: dependence(change) for change in (effect, 0.0)[: 1 + (families > 1)]}
    for _ in range(studies):
        shared = draws.standard_normal(items)
        control = answers(shared, accuracy)
        p_values = []
        for change in (effect, *[0.0] * (families - 1)):
            r = latent[change]
            own = r * shared + math.sqrt(1 - r * r) * draws.standard_normal(items)
            p_values.append(sign_flip_test(answers(own, accuracy + change) - control, rng=draws).p_value)
        found += benjamini_hochberg(p_values)[0] < 0.05
    # 0.05 is the promise; 250 studies add a standard error of 0.025
    assert found / studies == pytest.approx(promised, abs=0.05 + 0.03)


@pytest.mark.parametrize("correction", ["benjamini_hochberg", "holm"])
@pytest.mark.parametrize("affected", [1, 3, 6])
def test_power_counts_what_the_named_correction_finds(correction, affected):
    """The same draws, each study's family adjusted by the function of that name."""

    class World:
        room = (-1.0, 1.0)

        def p_values(self, effect, items, replicates, draws, studies):
            return draws.uniform(0, 0.06 if effect else 1.0, studies)

    def power(adjusted):
        return achieved_power(
            World(), 0.2, 20, rng=rng(3), comparisons=6, affected=affected, correction=adjusted, studies=800
        )

    draws, world = rng(3), World()
    own = world.p_values(0.2, 20, 1, draws, 800)
    idle = world.p_values(0.0, 20, 1, draws, 800) if affected < 6 else own
    shared, alone = draws.choice(own, size=(800, affected - 1)), draws.choice(idle, size=(800, 6 - affected))
    adjust = {"benjamini_hochberg": benjamini_hochberg, "holm": holm}[correction]
    found = [adjust(family)[0] < 0.05 for family in np.column_stack([own, shared, alone])]
    assert power(correction) == np.mean(found) > 0
    assert power("holm") < power("benjamini_hochberg")


def test_nothing_holds_below_the_floor_of_the_test():
    assert least_p(8) == 2 / 256
    assert [items_to_hold(m) for m in (1, 8, 48)] == [6, 9, 11]
    world = BinaryWorld(0.02)
    assert achieved_power(world, 0.98, 8, comparisons=8, rng=rng()) == 0.0
    assert minimal_detectable_effect(world, 8, comparisons=8, rng=rng()) is None
    assert achieved_power(world, 0.98, 9, comparisons=8, rng=rng()) > 0.8
    # Two of eight that reach the least p-value hold together: 2/256 * 8 / 2 < 0.05
    assert achieved_power(world, 0.98, 8, comparisons=8, affected=2, rng=rng()) > 0.7  # 0.98 ** 16


@pytest.mark.slow
def test_no_room_means_no_detectable_gain():
    assert minimal_detectable_effect(BinaryWorld(0.95), 30, rng=rng()) is None
    loss = minimal_detectable_effect(BinaryWorld(0.95), 30, rng=rng(), loss=True)
    mirrored = minimal_detectable_effect(BinaryWorld(0.05), 30, rng=rng())
    assert loss == pytest.approx(-mirrored, abs=0.01)


@pytest.mark.slow
def test_large_sample_formula_of_miller():
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    # At accuracy 0.5 and a small effect the variance of a difference of two replicates is 0.125 + 0.25 / 2.
    n = z**2 * 0.25 / 0.04**2
    assert required_items(BinaryWorld(0.5), 0.04, replicates=2, rng=rng()) == pytest.approx(n, rel=0.06)


@pytest.mark.slow
def test_items_and_replicates_reach_the_power():
    world = BinaryWorld(0.4)
    n = required_items(world, 0.1, replicates=3, comparisons=8, rng=rng())
    assert achieved_power(world, 0.1, n, replicates=3, comparisons=8, rng=rng(5)) == pytest.approx(
        0.8, abs=0.03
    )
    k = required_replicates(world, 0.1, n + 20, comparisons=8, rng=rng())
    assert k in (2, 3)
    assert required_replicates(world, 0.01, 100, rng=rng()) is None


def test_a_pilot_of_answers_is_read_back():
    draws = rng(7)
    ease = draws.beta(0.5, 0.5, 4000)
    other = np.where(draws.random(4000) < 0.6, ease, draws.beta(0.5, 0.5, 4000))
    control, treated = (draws.binomial(1, rate[:, None], (4000, 4)) for rate in (ease, other))
    world = pilot_world(treated, control)
    assert isinstance(world, BinaryWorld)
    assert world.accuracy == pytest.approx(0.5, abs=0.03)
    assert world.noise == pytest.approx(0.5, abs=0.03)
    assert world.correlation == pytest.approx(0.6, abs=0.05)


def test_a_pilot_of_graded_scores_is_drawn_from():
    draws = rng(8)
    control = draws.random((60, 1))
    treated = control + draws.normal(0.0, 0.1, (60, 1))
    world = pilot_world(treated, control)
    assert isinstance(world, MeasuredWorld)
    assert world.variances.within_a == 0.0
    effect = minimal_detectable_effect(world, 40, rng=rng())
    found = 0
    centred = world.differences - world.differences.mean()
    for _ in range(200):
        drawn = draws.choice(centred, 40) + effect
        found += sign_flip_test(drawn, rng=draws, permutations=1000).p_value < 0.05
    assert found / 200 == pytest.approx(0.8, abs=0.09)


def test_single_replicate_pilot_keeps_the_noise_in_between():
    a, b = rng(1).random((50, 1)), rng(2).random((50, 1))
    variances = pilot_variances(a, b)
    assert variances.within_a == 0.0
    assert variances.between == pytest.approx((a - b).var(ddof=1))


def test_refusals():
    world = BinaryWorld(0.9)
    with pytest.raises(AnalysisError, match="does not fit"):
        required_items(world, 0.2, rng=rng())
    with pytest.raises(AnalysisError, match="effect is 0"):
        required_items(world, 0.0, rng=rng())
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        minimal_detectable_effect(world, 100, power=80, rng=rng())
    with pytest.raises(AnalysisError, match="accuracy must lie"):
        BinaryWorld(1.0)
    with pytest.raises(AnalysisError, match="affected"):
        achieved_power(world, 0.05, 20, comparisons=2, affected=3, rng=rng())
