import numpy as np
import pytest
from scipy import stats

from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.bootstrap import bootstrap_micro_f1_difference, paired_bootstrap
from pcsuite.stats.permutation import sign_flip_test
from pcsuite.stats.random_weights import mean_interval, mean_test

NAN = np.nan
AGAINST = Contrast.of("new", "old")


def rng():
    return np.random.default_rng(0)


def one(arms, contrast=AGAINST, **more):
    (measured,) = measure(arms, [contrast], rng=rng(), **more)
    return measured


def test_a_difference_is_paired_over_the_items_that_both_have():
    found = one(
        {"new": ArmScores(np.array([1, 1, 1, 0, NAN])), "old": ArmScores(np.array([0.0, 1, 0, 0, 1]))}
    )
    assert found.differences.tolist() == [1, 0, 1, 0]
    assert found.levels == {"new": 0.75, "old": 0.25}
    assert (found.n, found.estimate.value) == (4, 0.5)
    assert found.test.p_value == 0.5  # two items moved, both up: 2 / 2^2
    assert found.estimate == paired_bootstrap([1, 0, 1, 0], rng=rng())


def test_an_interaction_is_a_difference_of_differences():
    full, without_a, without_b, neither = (
        np.array(column) for column in ([1.0, 1, 1, 0], [1.0, 0, 1, 0], [0.0, 1, 1, 0], [0.0, 0, 0, 1])
    )
    arms = {
        name: ArmScores(values, bounds=(0, 1))
        for name, values in (("AB", full), ("B", without_a), ("A", without_b), ("-", neither))
    }
    found = one(arms, Contrast("A × B", {"AB": 1, "A": -1, "B": -1, "-": 1}))
    assert found.differences.tolist() == [0, 0, -1, 1]
    assert (found.estimate.value, found.test.p_value, found.bounds) == (0, 1, (-2, 2))
    assert found.levels == {"AB": 0.75, "A": 0.5, "B": 0.5, "-": 0.25}


def test_rounding_errors_of_averages_are_no_differences():
    thirds = np.array([1 / 3, 2 / 3, 0.1] * 4)
    arms = {"a": thirds, "b": thirds + 0.3, "c": thirds + 0.6, "d": thirds + 0.3 + 0.6}
    weights = {"a": 1.0, "b": -1.0, "c": -1.0, "d": 1.0}
    found = one({name: ArmScores(values) for name, values in arms.items()}, Contrast("sum", weights))
    assert not found.differences.any()
    assert found.test.p_value == 1


COUNTS = {
    "new": np.array([[2.0, 0, 0], [1, 1, 0], [0, 0, 2]]),  # tp 3, fp 1, fn 2: F1 = 6 / 9
    "old": np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 2]]),  # tp 2, fp 2, fn 3: F1 = 4 / 9
}


def test_counts_are_pooled_into_micro_f1():
    found = one({name: ArmScores(counts) for name, counts in COUNTS.items()})
    assert found.counted
    assert found.levels == pytest.approx({"new": 6 / 9, "old": 4 / 9})
    assert found.estimate.value == pytest.approx(2 / 9)
    assert found.differences.mean() == pytest.approx(2 / 9)
    assert found.test.method == "label-swap exact"
    wanted = bootstrap_micro_f1_difference(COUNTS["new"], COUNTS["old"], rng=rng())
    assert found.estimate == wanted


def test_counts_of_three_arms_are_linearised():
    arms = {name: ArmScores(counts) for name, counts in (COUNTS | {"other": COUNTS["old"]}).items()}
    found = one(arms, Contrast("mean", {"new": 1.0, "old": -0.5, "other": -0.5}))
    assert not found.counted
    assert found.estimate.value == pytest.approx(2 / 9)


def test_unequal_replicates_forbid_flipping_signs():
    new, old = np.array([1.0, 1, 0, 1, 1, 0, 1, 1]), np.array([0.5, 0.25, 0, 1, 0.75, 0.5, 0.5, 0])
    arms = {"new": ArmScores(new, replicates=1), "old": ArmScores(old, replicates=4)}
    found = one(arms)
    # One answer on the smaller side can move an item's difference by the whole range.
    assert found.test == mean_test(new - old, bounds=(-1, 1), grain=1.0)
    assert found.estimate == mean_interval(new - old, bounds=(-1, 1), grain=1.0)
    alike = one({"new": ArmScores(new, replicates=3.7), "old": ArmScores(old, replicates=4)})
    assert alike.test.method.startswith("sign-flip")


def test_students_t_stands_in_for_many_items():
    deltas = np.random.default_rng(1).normal(0.05, 0.3, 50)
    found = one({"new": ArmScores(deltas), "old": ArmScores(np.zeros(50))}, student_from=49).under(
        "symmetric"
    )
    reference = stats.ttest_1samp(deltas, 0)
    assert found.test.p_value == pytest.approx(reference.pvalue)
    assert (found.estimate.low, found.estimate.high) == pytest.approx(tuple(reference.confidence_interval()))
    same = one({"new": ArmScores(np.ones(60)), "old": ArmScores(np.zeros(60))}, student_from=49)
    assert same.test.method.startswith("sign-flip")  # nothing varies


def test_what_is_not_asked_for_is_not_made():
    arms = {"new": ArmScores(np.array([1.0, 0, 1])), "old": ArmScores(np.zeros(3))}
    untested = one(arms, Contrast.of("new", "old", tested=False))
    assert np.isnan(untested.test.p_value)
    assert untested.estimate.low < untested.estimate.value
    bare = one(arms, limits=False)
    assert bare.estimate.value == pytest.approx(2 / 3)
    assert np.isnan(bare.estimate.low)
    nothing = one({"new": ArmScores(np.array([NAN])), "old": ArmScores(np.ones(1))})
    assert (nothing.n, nothing.test.p_value, nothing.estimate.defined) == (0, 1.0, False)


def test_draws_are_those_of_all_tests_then_of_all_limits():
    """Contrasts that share a generator do not depend on what is asked of the first."""
    draws = np.random.default_rng(4)
    scores = {name: ArmScores(draws.random(300)) for name in ("a", "b", "c")}
    pair = [Contrast.of("a", "c"), Contrast.of("b", "c")]
    found = measure(scores, pair, rng=rng(), resamples=500)
    again, deltas = rng(), [(scores[name].values - scores["c"].values) for name in "ab"]
    found = [m.under("symmetric") for m in found]
    assert [m.test.p_value for m in found] == [sign_flip_test(d, rng=again).p_value for d in deltas]
    assert [m.estimate for m in found] == [paired_bootstrap(d, rng=again, resamples=500) for d in deltas]


def test_bounds_of_what_failures_hide():
    # Item a: half of new's calls failed, the other scored 1; item b: all of new's failed; c: old's failed.
    new = ArmScores(np.array([1.0, NAN, 1, 0]), failed=np.array([0.5, 1, 0, 0]), bounds=(0, 1))
    old = ArmScores(np.array([0.0, 1, NAN, 0]), failed=np.array([0.0, 0, 1, 0]), bounds=(0, 1))
    found = one({"new": new, "old": old})
    assert found.n == 2
    missing = found.missing
    assert missing.failed == {"new": 0.375, "old": 0.25}
    # Against new: (0.5 + 0 + 1 + 0) / 4 less (0 + 1 + 1 + 0) / 4; in its favour: (1 + 1 + 1 + 0) / 4 less 1 / 4.
    assert (missing.least, missing.most) == pytest.approx((-0.125, 0.5))
    assert missing.p_value == 1.0  # gaps 1/2, 1, -1: sums of ±1/2 ±1 ±1 are all at least 1/2 away from 0
    open_ended = one({"new": ArmScores(new.values, failed=new.failed), "old": old})
    assert np.isnan(open_ended.missing.least)
    amounts = one({"new": ArmScores(new.values, failed=new.failed, bounds=(0, np.inf)), "old": old})
    assert np.isnan(amounts.missing.most)
    assert one({"new": new, "old": ArmScores(old.values)}).missing is None
    whole = ArmScores(np.ones(4), failed=np.zeros(4), bounds=(0, 1))
    assert one({"new": whole, "old": whole}).missing is None


def test_a_failed_answer_missed_all_or_found_all_of_micro_f1():
    new = ArmScores(np.array([[1.0, 0, 0], [NAN] * 3, [NAN] * 3]), failed=np.array([0.0, 1, 1]))
    old = ArmScores(np.array([[1.0, 0, 0], [1, 0, 1], [NAN] * 3]), failed=np.array([0.0, 0, 1]))
    # The third item is left out: nobody knows what there was to find. Old: tp 2, fn 1 → 4/5 whatever happens.
    missing = one({"new": new, "old": old}).missing
    assert missing.least == pytest.approx(2 / 4 - 4 / 5)  # tp 1, fn 2
    assert missing.most == pytest.approx(1 - 4 / 5)


def test_more_than_two_arms_are_bounded_too():
    part = ArmScores(np.array([1.0, NAN]), failed=np.array([0.0, 1]), bounds=(0, 1))
    rest = ArmScores(np.array([1.0, 0]), failed=np.zeros(2), bounds=(0, 1))
    missing = one({"a": part, "b": rest, "c": rest}, Contrast("mean", {"a": 1, "b": -0.5, "c": -0.5})).missing
    assert (missing.least, missing.most) == pytest.approx((0.0, 0.5))


def clustered(values, size, **more):
    return ArmScores(
        np.repeat(values, size), clusters=np.repeat(np.arange(len(values)), size), bounds=(0, 1), **more
    )


def test_copies_of_texts_are_tested_as_the_texts():
    new, old = np.array([1.0] * 14 + [0.0] * 6), np.array([1.0] * 8 + [0.0] * 12)
    texts = one({"new": ArmScores(new, bounds=(0, 1)), "old": ArmScores(old, bounds=(0, 1))})
    copies = one({"new": clustered(new, 5), "old": clustered(old, 5)})
    assert (copies.n, copies.n_clusters) == (100, 20)
    assert copies.test.p_value == pytest.approx(texts.test.p_value) == 2 / 2**6
    assert copies.estimate.value == pytest.approx(texts.estimate.value)
    # Texts have the interval of paired proportions, clusters one that is exact: alike, and no shorter for the copies.
    assert copies.estimate.high - copies.estimate.low == pytest.approx(
        texts.estimate.high - texts.estimate.low, rel=0.3
    )


def test_clusters_of_one_item_each_change_nothing():
    new, old = np.array([1.0, 1, 1, 0, 0, 1, 1, 0]), np.zeros(8)
    labels = np.arange(8)
    plain = one({"new": ArmScores(new), "old": ArmScores(old)})
    labelled = one({"new": ArmScores(new, clusters=labels), "old": ArmScores(old)})
    assert labelled.clusters is None
    assert (labelled.estimate, labelled.test) == (plain.estimate, plain.test)


def test_below_six_clusters_there_is_a_figure_and_a_reason():
    found = one({"new": clustered(np.ones(5), 10), "old": clustered(np.zeros(5), 10)})
    assert found.estimate.value == 1
    assert np.isnan([found.estimate.low, found.test.p_value]).all()
    assert found.reason == "not tested: 5 clusters, at least 6 are needed"
    assert np.isnan(found.limits_at(0.9).low)


def test_micro_f1_of_copies_is_tested_by_cluster():
    draws = np.random.default_rng(5)
    right = draws.integers(0, 4, (2, 12))
    tables = [np.column_stack([row, np.ones(12), 4 - row]).astype(float) for row in right]
    labels = np.repeat(np.arange(12), 4)
    names = ("new", "old")
    copies = one(
        {
            name: ArmScores(np.repeat(table, 4, axis=0), clusters=labels)
            for name, table in zip(names, tables, strict=True)
        }
    )
    texts = one({name: ArmScores(table) for name, table in zip(names, tables, strict=True)})
    assert copies.estimate.value == pytest.approx(texts.estimate.value)
    deltas = copies.differences[::4]
    assert copies.test.p_value == pytest.approx(stats.ttest_1samp(deltas, 0).pvalue)


GRADED = {
    "new": ArmScores(np.full(24, 0.45), bounds=(0, 1)),
    "old": ArmScores(np.full(24, 0.5), bounds=(0, 1)),
}


def test_graded_scores_have_a_claim_for_any_shape_and_one_for_symmetric_ones():
    """Twenty-four losses of 0.05: by signs 2^-23; one unseen gain of 1 in twenty-four outweighs all of them."""
    found = one(GRADED)
    assert found.kind == "graded"
    assert found.symmetric.test.p_value == pytest.approx(2**-23)
    assert found.test.p_value == pytest.approx(2 * stats.beta.sf(0.05 / 1.05, 1, 24), abs=1e-6)
    assert found.estimate.low < -0.05 < 0 < found.estimate.high
    bold = found.under("symmetric")
    assert bold.test is found.symmetric.test
    assert bold.estimate.high < found.estimate.high
    assert (found.any_shape, bold.any_shape) == (True, False)


def test_averages_of_0_and_1_are_clusters_of_them_and_not_graded():
    draws = np.random.default_rng(2)
    new, old = draws.binomial(3, 0.7, 40) / 3, draws.binomial(3, 0.5, 40) / 3
    found = one({name: ArmScores(v, replicates=3, bounds=(0, 1)) for name, v in (("new", new), ("old", old))})
    assert (found.kind, found.symmetric) == ("averaged", None)
    flips = sign_flip_test(new - old, rng=rng()).p_value
    assert found.test.p_value == pytest.approx(max(flips, stats.ttest_1samp(new - old, 0).pvalue))


@pytest.mark.parametrize(
    ("values", "bounds", "kind"),
    [
        ([1.0, 0, 1, 0], (0, 1), "binary"),
        ([100.0, 0, 100, 0], (0, 100), "binary"),
        ([0.3, 0, 1, 0], (0, 1), "graded"),
        ([0.3, 0, 1, 0], None, "graded"),
        ([300.0, 0, 120, 0], None, "amount"),
    ],
)
def test_what_scores_are_decides_the_test(values, bounds, kind):
    arms = {"new": ArmScores(np.array(values), bounds=bounds), "old": ArmScores(np.zeros(4), bounds=bounds)}
    assert one(arms).kind == kind


def test_limits_of_another_level_are_of_the_same_kind():
    found = one(GRADED)
    assert found.limits_at(0.95).low == pytest.approx(found.estimate.low)
    assert found.limits_at(0.99).low < found.estimate.low
    exact = one({"new": ArmScores(np.array([1.0] * 9 + [0.0] * 11)), "old": ArmScores(np.zeros(20))})
    assert exact.limits_at(0.95) == exact.estimate
    copies = one({"new": clustered(np.eye(8)[0], 3), "old": clustered(np.zeros(8), 3)})
    assert copies.limits_at(0.95).high == pytest.approx(copies.estimate.high)


def test_failures_are_compared_by_cluster():
    failed = np.repeat([1.0, 1, 1, 0, 0, 0, 0, 0], 10)
    labels = np.repeat(np.arange(8), 10)
    arms = {
        "new": ArmScores(np.where(failed == 1, NAN, 1.0), failed=failed, bounds=(0, 1), clusters=labels),
        "old": ArmScores(np.ones(80), failed=np.zeros(80), bounds=(0, 1), clusters=labels),
    }
    assert one(arms).missing.p_value == 0.25  # three clusters of eight, all on one side
