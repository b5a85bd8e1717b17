"""Agreement of two raters, against published and hand-worked figures."""

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa as reference_kappa

from pcsuite.errors import AnalysisError
from pcsuite.stats.agreement import cohens_kappa, rater_agreement


def alpha_of(first, second, **options):
    """Krippendorff's alpha of two raters, each answer an item of its own."""
    values = sorted({*first, *second})
    rng = np.random.default_rng(0)
    return rater_agreement(first, second, range(len(first)), values=values, rng=rng, **options).alpha.value


def test_alpha_of_krippendorffs_own_nominal_example():
    # Krippendorff 2011, section B (two observers, no missing data): alpha = 0.692.
    jon = ["a", "a", "b", "b", "d", "c", "c", "c", "e", "d", "d", "a"]
    meg = ["b", "a", "b", "b", "b", "c", "c", "c", "e", "d", "d", "d"]
    assert alpha_of(jon, meg) == pytest.approx(0.692, abs=5e-4)


def test_ordinal_alpha_forgives_near_misses():
    near, far = [1, 2, 3, 4, 5, 5], [5, 2, 3, 4, 5, 1]
    truth = [1, 2, 3, 4, 5, 4]
    assert alpha_of(near, truth, metric="ordinal") > alpha_of(far, truth, metric="ordinal")
    assert alpha_of([1, 2, 3], [1, 2, 3], metric="ordinal") == 1.0


def test_ordinal_alpha_by_hand():
    # Values 1, 2, 3 with marginals 2, 3, 3 (n = 8), so that δ²(2, 3) is 3²; one pair of the four disagrees by it.
    first, second = [1, 2, 3, 3], [1, 2, 2, 3]
    middle = np.array([1.0, 3.5, 6.5])
    marginal = np.array([2.0, 3.0, 3.0])
    distance = (middle[:, None] - middle[None, :]) ** 2
    expected = float(marginal @ distance @ marginal)
    wanted = 1 - 7 * 2 * 9 / expected
    assert alpha_of(first, second, metric="ordinal") == pytest.approx(wanted)


def test_kappa_and_its_interval_over_items():
    rng = np.random.default_rng(0)
    gold = rng.random(400) < 0.5
    said = np.where(rng.random(400) < 0.8, gold, ~gold)
    words = {True: "pass", False: "fail"}
    first, second = [words[bool(v)] for v in said], [words[bool(v)] for v in gold]
    found = rater_agreement(first, second, range(400), values=["fail", "pass"], rng=rng)
    plain = cohens_kappa(first, second)
    assert found.kappa.value == pytest.approx(plain.value)
    assert found.kappa.low == pytest.approx(plain.low, abs=0.03)
    assert found.kappa.high == pytest.approx(plain.high, abs=0.03)


def test_answers_of_one_item_are_not_independent():
    rng = np.random.default_rng(0)
    gold = rng.random(40) < 0.5
    said = np.where(rng.random(40) < 0.7, gold, ~gold)
    once = rater_agreement(said.tolist(), gold.tolist(), range(40), values=[False, True], rng=rng)
    repeated = [np.repeat(v, 10).tolist() for v in (said, gold)]
    tenfold = rater_agreement(*repeated, np.repeat(np.arange(40), 10).tolist(), values=[False, True], rng=rng)
    assert tenfold.kappa.value == pytest.approx(once.kappa.value)
    assert tenfold.kappa.high - tenfold.kappa.low > 0.8 * (once.kappa.high - once.kappa.low)


def test_one_rating_only_has_no_kappa():
    found = rater_agreement(
        ["pass"] * 5, ["pass"] * 5, range(5), values=["fail", "pass"], rng=np.random.default_rng(0)
    )
    assert found.share == 1.0
    assert not found.kappa.defined
    assert not found.alpha.defined
    nothing = rater_agreement([], [], [], values=["fail", "pass"], rng=np.random.default_rng(0))
    assert not nothing.alpha.defined


def test_ratings_that_do_not_pair_are_refused():
    with pytest.raises(AnalysisError, match="do not pair"):
        rater_agreement([1], [1, 2], [0], values=[1, 2], rng=np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_statsmodels(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 120)
    second = np.where(rng.random(120) < 0.6, first, rng.integers(0, 4, 120))
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    reference = reference_kappa(table)
    ours = cohens_kappa(first, second)
    assert ours.value == pytest.approx(reference.kappa)
    assert ours.se == pytest.approx(reference.std_kappa)
    assert ours.low == pytest.approx(reference.kappa_low)


def test_labels_may_be_words_and_one_label_is_undefined():
    assert cohens_kappa(["a", "b", "a"], ["a", "b", "a"]).value == pytest.approx(1.0)
    assert not cohens_kappa(["a", "a"], ["a", "a"]).defined
    with pytest.raises(AnalysisError, match="one length"):
        cohens_kappa(["a"], ["a", "b"])


def test_full_agreement_is_no_certainty():
    kappa = cohens_kappa(["yes", "no"] * 10, ["yes", "no"] * 10)
    assert kappa.value == kappa.high == 1
    # At least about 80 % agree where chance gives half: kappa at least about 0.6.
    assert 0.5 < kappa.low < 0.8
