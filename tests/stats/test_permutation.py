"""Permutation tests: agreement with scipy and with McNemar, size under the null."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from pcsuite.errors import AnalysisError
from pcsuite.stats import permutation
from pcsuite.stats.permutation import (
    adjust_within_families,
    benjamini_hochberg,
    holm,
    micro_f1_permutation_test,
    sign_flip_test,
    smallest_p,
)


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("graded", [True, False])
def test_exact_agrees_with_scipy(alternative, graded):
    deltas = generator(3).normal(0.2, 1, 11)
    if not graded:
        deltas = np.round(deltas * 3) / 3
    reference = stats.permutation_test(
        (deltas, np.zeros_like(deltas)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
        alternative=alternative,
    )
    ours = sign_flip_test(deltas, rng=generator(), alternative=alternative)
    assert ours.p_value == pytest.approx(reference.pvalue, abs=1e-12)
    assert "exact" in ours.method


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_binary_scores_give_the_exact_mcnemar_test(gains, losses):
    deltas = np.array([1.0] * gains + [-1.0] * losses + [0.0] * 5)
    p_value = sign_flip_test(deltas, rng=generator()).p_value
    reference = mcnemar([[10, gains], [losses, 10]], exact=True).pvalue if gains + losses else 1.0
    assert p_value == pytest.approx(reference, abs=1e-12)


@pytest.mark.slow
def test_monte_carlo_agrees_with_scipy_and_is_never_zero():
    deltas = generator(5).normal(0.15, 1, 150)
    reference = stats.permutation_test(
        (deltas, np.zeros_like(deltas)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=generator(6),
    )
    ours = sign_flip_test(deltas, rng=generator(7), permutations=20_000)
    assert ours.p_value == pytest.approx(reference.pvalue, abs=0.012)
    far = sign_flip_test(deltas + 5, rng=generator(8), permutations=999)
    assert far.p_value == pytest.approx(1 / 1000)


def test_lattice_and_monte_carlo_agree():
    deltas = generator(9).integers(-10, 12, 300) / 10
    exact = sign_flip_test(deltas, rng=generator(10))
    nudged = sign_flip_test(
        deltas + generator(11).normal(0, 1e-7, 300), rng=generator(12), permutations=50_000
    )
    assert "lattice" in exact.method
    assert "draws" in nudged.method
    assert exact.p_value == pytest.approx(nudged.p_value, abs=4 * np.sqrt(exact.p_value / 50_000) + 1e-3)


def test_one_sided_p_values_of_equal_steps_are_binomial():
    deltas = np.array([0.5] * 9 + [-0.5] * 3)
    assert sign_flip_test(deltas, rng=generator(), alternative="greater").p_value == pytest.approx(
        stats.binom.sf(8, 12, 0.5)
    )
    assert sign_flip_test(deltas, rng=generator(), alternative="less").p_value == pytest.approx(
        stats.binom.cdf(9, 12, 0.5)
    )


@pytest.mark.slow
def test_size_under_the_null():
    rng = generator(13)
    rejections = 0
    for _ in range(1000):
        deltas = (rng.binomial(3, 0.6, 80) - rng.binomial(3, 0.6, 80)) / 3
        rejections += sign_flip_test(deltas, rng=rng).p_value <= 0.05
    assert rejections / 1000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    assert rejections / 1000 >= 0.03


def brute_force_f1(first, second):
    def f1(totals):
        return 2 * totals[0] / (2 * totals[0] + totals[1] + totals[2])

    n = len(first)
    gaps = []
    for pattern in range(2**n):
        swap = np.array([(pattern >> i) & 1 for i in range(n)], dtype=bool)[:, None]
        a, b = np.where(swap, second, first).sum(0), np.where(swap, first, second).sum(0)
        gaps.append(f1(a) - f1(b))
    return np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-12)


def test_micro_f1_exact_by_brute_force_and_monte_carlo_close():
    rng = generator(14)
    first = rng.poisson([3, 1, 1], (9, 3))
    second = rng.poisson([2, 1, 2], (9, 3))
    exact = micro_f1_permutation_test(first, second, rng=rng)
    assert exact.p_value == pytest.approx(brute_force_f1(first, second), abs=1e-12)
    long_first, long_second = np.repeat(first, 4, axis=0), np.repeat(second, 4, axis=0)
    p_values = [
        micro_f1_permutation_test(long_first, long_second, rng=generator(s), permutations=5000).p_value
        for s in (1, 2)
    ]
    assert p_values[0] == pytest.approx(p_values[1], abs=0.02)
    assert p_values[0] < exact.p_value


def test_identical_conditions_have_p_one():
    counts = [[1, 0, 2]] * 30
    assert micro_f1_permutation_test(counts, counts, rng=generator()).p_value == 1.0
    assert sign_flip_test(np.zeros(30), rng=generator()).p_value == 1.0


def test_unknown_alternative():
    with pytest.raises(AnalysisError, match="greater"):
        sign_flip_test([1.0], rng=generator(), alternative="greter")


@pytest.fixture(scope="module")
def heap_out_of_sight():
    """statsmodels collects garbage at every call: what is there already need not be looked at."""
    gc.collect()
    gc.freeze()


@pytest.mark.slow
@pytest.mark.usefixtures("heap_out_of_sight")
@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_agrees_with_statsmodels(p_values):
    assert benjamini_hochberg(p_values) == pytest.approx(multipletests(p_values, method="fdr_bh")[1])
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])


def test_untested_stays_untested():
    adjusted = benjamini_hochberg([0.01, np.nan, 0.04])
    assert adjusted[0] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)
    assert holm([]).size == 0


def test_families_are_adjusted_apart():
    adjusted = adjust_within_families([0.01, 0.02, 0.03], ["a", "b", "a"])
    assert adjusted == pytest.approx([0.02, 0.02, 0.03])
    with pytest.raises(AnalysisError, match="2 families"):
        adjust_within_families([0.1], ["a", "b"])


@pytest.mark.slow
def test_false_discovery_rate_and_family_wise_error_are_kept():
    """8 conditions share a control, as in a run: 5 without effect, 3 with one."""
    rng = np.random.default_rng(5)
    repetitions, items = 500, 100
    shares, any_false = [], 0
    for _ in range(repetitions):
        ease = rng.beta(2, 2, items)
        control = rng.binomial(3, ease) / 3
        p_values = []
        for effect in (0.0,) * 5 + (0.5,) * 3:
            treated = rng.binomial(3, np.clip(ease + effect * (1 - ease), 0, 1)) / 3
            p_values.append(sign_flip_test(treated - control, rng=rng).p_value)
        found = benjamini_hochberg(p_values) <= 0.05
        shares.append(found[:5].sum() / max(found.sum(), 1))
        any_false += bool((holm(p_values)[:5] <= 0.05).any())
        assert found[5:].all()
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / np.sqrt(repetitions)
    assert any_false / repetitions <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repetitions)


def test_refuses_what_is_not_a_p_value():
    with pytest.raises(AnalysisError, match="outside"):
        holm([1.2])


def test_the_floor_of_the_exact_test():
    for n in (1, 5, 8):
        same_way = sign_flip_test(np.arange(1.0, n + 1), rng=np.random.default_rng(0))
        assert smallest_p(n) == pytest.approx(same_way.p_value)
        one_sided = sign_flip_test(np.ones(n), rng=np.random.default_rng(0), alternative="greater")
        assert smallest_p(n, "greater") == pytest.approx(one_sided.p_value)
    assert smallest_p(0) == 1.0
    with pytest.raises(AnalysisError, match="items"):
        smallest_p(-1)


@pytest.mark.parametrize("parts", [1, 9, 10])
@pytest.mark.parametrize("lean", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_the_saddlepoint_is_the_exact_distribution_of_many_signs(parts, lean, alternative):
    rng = np.random.default_rng([parts, int(100 * lean)])
    if parts == 1:
        deltas = rng.choice([-2.0, -1.0, 1.0, 2.0], size=2_500, p=[0.25, 0.25 - lean, 0.25 + lean, 0.25])
    else:
        deltas = (rng.binomial(parts, 0.5 + lean, 3_000) - rng.binomial(parts, 0.5, 3_000)) / parts
    moved = deltas[deltas != 0]
    exact = permutation._lattice_p(permutation._lattice_steps(moved), alternative)
    found = sign_flip_test(deltas, rng=rng, alternative=alternative)
    assert found.method == "sign-flip saddlepoint"
    assert found.p_value == pytest.approx(exact, rel=2e-3, abs=1e-11)


@pytest.mark.slow
def test_the_saddlepoint_of_values_without_a_grid_is_what_drawing_gives():
    rng = np.random.default_rng(4)
    deltas = rng.normal(0.03, 1, 3_000)
    signs = rng.choice([-1.0, 1.0], size=(4_000, 3_000))
    drawn = float((np.abs(signs @ np.abs(deltas)) >= abs(deltas.sum())).mean())
    assert sign_flip_test(deltas, rng=rng).p_value == pytest.approx(drawn, abs=0.02)


def test_differences_that_all_go_one_way_have_a_p_value_and_not_zero_items():
    found = sign_flip_test(np.linspace(0.1, 0.9, 2_500), rng=np.random.default_rng(0))
    assert 0 <= found.p_value < 1e-200


def test_differences_of_one_size_are_the_sign_test_whatever_the_size():
    deltas = np.full(40, 1 / 7) * np.where(np.arange(40) < 28, 1, -1)
    expected = stats.binomtest(28, 40, 0.5).pvalue
    assert sign_flip_test(deltas, rng=np.random.default_rng(0)).p_value == pytest.approx(expected)


def test_a_difference_that_outweighs_all_others_is_not_left_to_the_saddlepoint():
    rng = np.random.default_rng(8)
    deltas = np.append(rng.normal(0, 0.01, 2_500), 1_000.0)
    found = sign_flip_test(deltas, rng=rng)
    assert found.method == "sign-flip 10000 draws"
