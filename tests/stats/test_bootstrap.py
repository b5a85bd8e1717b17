"""Bootstrap intervals: agreement with scipy, coverage on bounded scores, refusals."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats import intervals
from pcsuite.stats.bootstrap import (
    bootstrap_mean,
    bootstrap_means,
    bootstrap_micro_f1,
    bootstrap_micro_f1_difference,
    bootstrap_ratio,
    bootstrap_totals,
    paired_bootstrap,
    random_bit_totals,
    resample_totals,
)
from pcsuite.stats.f1 import micro_f1


def generator(seed=0):
    return np.random.default_rng(seed)


def test_the_interval_is_scipys_percentile_at_wider_levels():
    deltas = generator(1).beta(2, 5, 250)
    # Φ(t₂₄₉ · √(250/249)) at 97.5 % is 0.97578: what "expanded" means.
    reference = stats.bootstrap(
        (deltas,),
        np.mean,
        n_resamples=20_000,
        method="percentile",
        confidence_level=0.95156,
        random_state=generator(2),
    ).confidence_interval
    ours = paired_bootstrap(deltas, rng=generator(3), resamples=20_000)
    assert ours.method == "bootstrap expanded"
    assert ours.low == pytest.approx(reference.low, abs=0.0015)
    assert ours.high == pytest.approx(reference.high, abs=0.0015)


def test_the_default_interval_is_nearly_students_for_normal_scores():
    deltas = generator(4).normal(0.2, 0.3, 25)
    reference = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    ours = paired_bootstrap(deltas, rng=generator(5), resamples=40_000)
    assert ours.low == pytest.approx(reference.low, abs=0.02)
    assert ours.high == pytest.approx(reference.high, abs=0.02)
    assert ours.method == "bayesian bootstrap, end item"


def test_pairing_is_by_item_and_same_seed_gives_same_interval():
    rng = generator(8)
    control = rng.random(60)
    treated = control + 0.05
    estimate = paired_bootstrap(treated, control, rng=generator(9))
    assert estimate.value == pytest.approx(0.05)
    assert estimate.low < 0.05 < estimate.high
    noisy = treated + rng.normal(0, 0.1, 60)
    assert paired_bootstrap(noisy, control, rng=generator(9)) == paired_bootstrap(
        noisy, control, rng=generator(9)
    )


@pytest.mark.slow
def test_both_ways_of_drawing_have_the_moments_of_a_resample():
    few_values = generator(10).choice([0.0, 0.5, 1.0], size=(400, 1))
    many_values = generator(11).random((400, 1))
    for column in (few_values, many_values):
        means = resample_totals(column, generator(12), 20_000)[:, 0] / 400
        assert means.mean() == pytest.approx(column.mean(), abs=4 * column.std() / np.sqrt(400 * 20_000))
        assert means.std() == pytest.approx(column.std() / 20, rel=0.03)


def test_random_halves_are_fair():
    totals = random_bit_totals(np.ones((11, 1)), generator(13), 20_000)[:, 0]
    assert totals.mean() == pytest.approx(5.5, abs=0.05)
    assert totals.var() == pytest.approx(11 / 4, rel=0.05)


def test_micro_f1_by_hand():
    # tp=3 fp=1 fn=2: 6 / (6+1+2) = 2/3
    counts = np.array([[2, 1, 0], [1, 0, 2]])
    assert micro_f1(counts.sum(0)[None, :].astype(float))[0] == pytest.approx(2 / 3)
    assert bootstrap_micro_f1(counts, rng=generator()).value == pytest.approx(2 / 3)
    assert micro_f1(np.zeros((1, 3)))[0] == 1.0


def test_micro_f1_is_pooled_not_averaged():
    counts = np.array([[10, 0, 0]] * 20 + [[0, 1, 1]] * 20)
    assert bootstrap_micro_f1(counts, rng=generator()).value == pytest.approx(400 / 440)


def test_flawless_micro_f1_is_not_given_certainty():
    estimate = bootstrap_micro_f1(np.array([[1, 0, 0]] * 30), rng=generator())
    assert estimate.value == 1.0
    # The share of weight on 30 flawless items beside half an unseen one is Beta(30, 1/2).
    tail = stats.norm.cdf(-stats.t.ppf(0.975, 29) * np.sqrt(30 / 29))
    assert estimate.low == pytest.approx(stats.beta.ppf(tail, 30, 0.5), abs=1e-5)
    nothing_found = bootstrap_micro_f1(np.array([[0, 1, 1]] * 30), rng=generator())
    assert nothing_found.value == 0.0
    assert nothing_found.high > 0.05


def test_few_changed_items_leave_room_for_doubt():
    control = np.array([[2, 1, 1]] * 40)
    same = bootstrap_micro_f1_difference(control, control, rng=generator())
    assert same.value == 0.0
    assert same.low < -0.02
    assert same.high > 0.02
    treated = control.copy()
    treated[:3] = [3, 0, 0]
    gained = bootstrap_micro_f1_difference(treated, control, rng=generator())
    # tp 83, fp 37, fn 37 against tp 80, fp 40, fn 40
    assert gained.value == pytest.approx(166 / 240 - 160 / 240)
    assert gained.low < gained.value < gained.high
    assert gained.method == "bayesian bootstrap, end item"


@pytest.mark.parametrize("n", [2, 8, 100])
@pytest.mark.parametrize("change", [-1.0, 0.0, 0.25, 1.0])
def test_equal_differences_are_no_certainty(n, change):
    estimate = paired_bootstrap(np.full(n, change), rng=generator())
    assert estimate.value == change
    assert estimate.high - estimate.low > 1 / n
    assert -1 <= estimate.low <= change <= estimate.high <= 1
    levels = bootstrap_means(np.zeros((n, 1)), rng=generator())[0]
    assert levels.low == 0
    assert levels.high > 1 / (n + 1)


def test_all_ones_of_eight_by_hand():
    # No item is tied, so the gains are binomial. At the 0.63 of Clopper and Pearson's limit two gains or fewer are
    # likelier (0.033) than eight (0.025); Blaker's limit is where both are alike and together exceed 5 %.
    estimate = paired_bootstrap(np.ones(8), rng=generator())
    share = (estimate.low + 1) / 2
    assert share**8 == pytest.approx(stats.binom.cdf(2, 8, share), abs=1e-9)
    assert share**8 > 0.025
    assert estimate.high == 1.0


def test_one_item_has_a_value_but_no_interval():
    estimate = paired_bootstrap([0.25], rng=generator())
    assert estimate.value == 0.25
    assert np.isnan(estimate.low)
    assert np.isnan(bootstrap_micro_f1_difference([[1, 0, 0]], [[0, 1, 1]], rng=generator()).high)


def test_ratio_by_hand_and_undefined():
    tokens = np.array([100.0, 200.0, 300.0])
    correct = np.array([1.0, 0.0, 1.0])
    assert bootstrap_ratio(tokens, correct, rng=generator()).value == pytest.approx(300)
    nothing = bootstrap_ratio(tokens, np.zeros(3), rng=generator())
    assert not nothing.defined


def test_columns_share_their_resamples():
    column = generator(14).random(50)
    first, second = bootstrap_means(np.column_stack([column, column]), rng=generator(15))
    assert first == second


def coverage(draw, truth, *, repetitions=600, resamples=1000, interval=paired_bootstrap, seed=0):
    rng = generator(seed)
    hits = 0
    for _ in range(repetitions):
        estimate = interval(draw(rng), rng=rng, resamples=resamples)
        hits += estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
    return hits / repetitions


def averaged_replicates(n, replicates):
    def draw(rng):
        chance = rng.beta(0.5, 0.5, n)
        return (rng.binomial(replicates, chance**0.7) - rng.binomial(replicates, chance)) / replicates

    # E[p^0.7] - E[p] for p ~ Beta(1/2, 1/2) by the Beta function
    return draw, stats.beta(0.5, 0.5).expect(lambda p: p**0.7) - 0.5


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100, 500])
@pytest.mark.parametrize("replicates", [1, 3, 10])
def test_paired_interval_covers_on_bounded_scores(n, replicates):
    draw, truth = averaged_replicates(n, replicates)
    # 300 studies are uncertain by 0.025; the table of 500 and more is in benchmarks/README.md
    assert 0.92 <= coverage(draw, truth, seed=n + replicates, repetitions=300) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200])
def test_mean_interval_covers_on_skewed_scores(n):
    def zero_one_inflated(rng):
        return np.where(rng.random(n) < 0.3, 1.0, rng.beta(2, 2, n))

    covered = coverage(zero_one_inflated, 0.65, interval=bootstrap_mean, seed=n, repetitions=300)
    assert 0.92 <= covered <= 0.985


@pytest.mark.slow
def test_few_discordant_pairs_still_cover():
    def rare(rng):
        return rng.choice([-1.0, 0.0, 1.0], p=[0.02, 0.9, 0.08], size=30)

    covered = coverage(rare, 0.06, seed=1)
    assert covered >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 200])
def test_micro_f1_difference_covers(n):
    found_treated, found_control, spurious = 0.8, 0.7, 0.4

    def draw(rng):
        gold = rng.poisson(2, n)
        ease = rng.beta(4, 4, n) * 2  # shared by both conditions: the pairing
        sides = []
        for chance in (found_treated, found_control):
            hit = rng.binomial(gold, np.clip(chance * (0.75 + 0.25 * ease), 0, 1))
            sides.append(np.column_stack([hit, rng.poisson(spurious, n), gold - hit]))
        return sides

    big = generator(99)
    n_saved, n = n, 400_000
    treated, control = draw(big)
    truth = micro_f1(treated.sum(0)[None].astype(float))[0] - micro_f1(control.sum(0)[None].astype(float))[0]
    n = n_saved
    covered = coverage(
        draw,
        truth,
        interval=lambda sides, **kw: bootstrap_micro_f1_difference(*sides, **kw),
        seed=n,
        repetitions=300,
    )
    assert 0.92 <= covered <= 0.985


@pytest.mark.slow
def test_item_is_the_unit_replicates_are_not():
    """Rows treated as independent are too sure; items are not (issue: item-by-seed rows)."""
    items, replicates = 40, 10
    rng = generator(21)
    wrong = right = 0
    for _ in range(600):
        # Null: same mean for both conditions, but each condition has its own per-item chance of success.
        a = rng.binomial(1, rng.beta(1, 1, (items, 1)), (items, replicates))
        b = rng.binomial(1, rng.beta(1, 1, (items, 1)), (items, replicates))
        deltas = (a - b).astype(float)
        rows = deltas.ravel()
        half = 1.96 * rows.std(ddof=1) / np.sqrt(rows.size)
        wrong += abs(rows.mean()) > half
        right += paired_bootstrap(deltas.mean(axis=1), rng=rng, resamples=1000).excludes(0.0)
    assert wrong / 600 > 0.15
    assert 0.03 <= right / 600 <= 0.07


def test_refusals_name_the_problem():
    with pytest.raises(AnalysisError, match="first in row 1"):
        paired_bootstrap([0.0, np.nan], rng=generator())
    with pytest.raises(AnalysisError, match="3 and 2 items"):
        paired_bootstrap([0.0, 1.0, 0.0], [0.0, 1.0], rng=generator())
    with pytest.raises(AnalysisError, match="3 are needed"):
        bootstrap_micro_f1([[1, 2]], rng=generator())
    with pytest.raises(AnalysisError, match="level"):
        bootstrap_totals([[1.0], [0.0]], lambda t: t[:, 0], rng=generator(), level=95)


def test_no_resample_lies_beyond_the_values_it_is_made_of():
    columns = np.array([[0.1, -1.0], [0.7, 0.3], [1.0, 0.9]])
    totals = resample_totals(columns, np.random.default_rng(0), 2000)
    assert (totals >= 3 * columns.min(axis=0)).all()
    assert (totals <= 3 * columns.max(axis=0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "lognormal", "few values"])
def test_from_a_thousand_items_the_interval_is_computed_not_drawn(law, monkeypatch):
    rng = generator(40)
    drawn = {
        "normal": rng.normal(0.1, 0.4, 1500),
        "lognormal": rng.lognormal(0, 1, 1500),
        "few values": rng.choice([-1.0, 0.0, 0.5, 1.0], 1500, p=[0.1, 0.6, 0.1, 0.2]),
    }[law]
    computed = paired_bootstrap(drawn, rng=generator(41))
    monkeypatch.setattr(intervals, "CLOSED_FORM_ITEMS", np.inf)
    reference = paired_bootstrap(drawn, rng=generator(42), resamples=100_000)
    assert computed.method == "bootstrap expanded, closed form"
    assert computed.value == reference.value
    # 100,000 draws are off by a hundredth of a standard error, values on a grid by a little more
    assert computed.low == pytest.approx(reference.low, abs=0.03 * reference.se)
    assert computed.high == pytest.approx(reference.high, abs=0.03 * reference.se)


@pytest.mark.slow
def test_micro_f1_of_a_thousand_items_is_computed_not_drawn(monkeypatch):
    rng = generator(43)
    control = rng.poisson([2.0, 0.8, 1.2], (1500, 3)).astype(float)
    treated = np.maximum(control + rng.integers(-1, 2, (1500, 3)), 0)
    for interval, given in (
        (bootstrap_micro_f1, (treated,)),
        (bootstrap_micro_f1_difference, (treated, control)),
    ):
        computed = interval(*given, rng=generator(44))
        with monkeypatch.context() as drawn:
            drawn.setattr(intervals, "CLOSED_FORM_ITEMS", np.inf)
            reference = interval(*given, rng=generator(45), resamples=100_000)
        assert computed.method == "bootstrap expanded, closed form"
        assert computed.value == reference.value
        width = reference.high - reference.low
        assert computed.low == pytest.approx(reference.low, abs=0.02 * width)
        assert computed.high == pytest.approx(reference.high, abs=0.02 * width)


def test_totals_of_many_rows_are_drawn_from_the_normal_distribution_that_they_have():
    columns = np.random.default_rng(3).normal([1.0, -2.0], [1.0, 3.0], size=(6_000, 2))
    halves = random_bit_totals(columns, np.random.default_rng(0), 4_000)
    resampled = resample_totals(columns, np.random.default_rng(0), 4_000)
    spread = columns.T @ columns
    apart = columns - columns.mean(axis=0)
    assert halves.mean(axis=0) == pytest.approx(columns.sum(axis=0) / 2, rel=0.02)
    assert np.cov(halves.T) == pytest.approx(spread / 4, rel=0.1, abs=300)
    assert resampled.mean(axis=0) == pytest.approx(columns.sum(axis=0), rel=0.02)
    assert np.cov(resampled.T) == pytest.approx(apart.T @ apart, rel=0.1, abs=1_500)


def test_one_row_that_outweighs_the_others_is_drawn_and_not_taken_for_normal():
    columns = np.zeros((6_000, 1))
    columns[0] = 1.0
    assert set(random_bit_totals(columns, np.random.default_rng(0), 200).ravel().tolist()) == {0.0, 1.0}
    assert set(resample_totals(columns, np.random.default_rng(0), 200).ravel().tolist()) <= set(range(12))
