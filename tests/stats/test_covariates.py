"""Control variates: what they take off, their coverage, and that they cost nothing where they foretell nothing."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.covariates import adjusted_mean


def drawn(rng, *, share, asked=60, items=600):
    """Differences of which a ``share`` of the variance is foretold; their true mean over all items is 0.1."""
    known = rng.normal(0, 1, items)
    values = 0.1 + np.sqrt(share) * known + np.sqrt(1 - share) * rng.normal(0, 1, items)
    return values[:asked], known[:asked], known


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_it_takes_off_what_is_foretold(share):
    saved = [adjusted_mean(*drawn(np.random.default_rng(seed), share=share)).saved for seed in range(60)]
    # Of what is foretold a tenth stays: the mean of the covariate is known of ten times the items asked.
    assert np.median(saved) == pytest.approx(0.9 * share, abs=0.06)


def test_limits_cover_the_mean_in_19_of_20_studies():
    covered = dict.fromkeys((0.0, 0.8), 0)
    for share in covered:
        for seed in range(400):
            limits = adjusted_mean(*drawn(np.random.default_rng([seed, 5]), share=share)).estimate
            covered[share] += limits.low <= 0.1 <= limits.high
    assert all(count >= 400 * 0.92 for count in covered.values())


def test_the_mean_stays_where_nothing_is_foretold_and_has_no_bias_where_all_is():
    values = [
        adjusted_mean(*drawn(np.random.default_rng(seed), share=0.9)).estimate.value for seed in range(200)
    ]
    assert np.mean(values) == pytest.approx(0.1, abs=0.02)
    plain, *_ = drawn(np.random.default_rng(1), share=0.0)
    assert adjusted_mean(plain, np.zeros(60), np.zeros(600)).estimate.value == pytest.approx(plain.mean())


def test_where_all_items_were_asked_there_is_nothing_to_take_off():
    saved = []
    for seed in range(40):
        values, known, _ = drawn(np.random.default_rng(seed), share=0.8, asked=200, items=200)
        saved.append(adjusted_mean(values, known, known).saved)
    assert np.median(saved) == pytest.approx(0.0, abs=0.05)


def test_copies_are_one_item():
    rng = np.random.default_rng(3)
    values, known, everywhere = drawn(rng, share=0.5, asked=40)
    copies = np.repeat(np.arange(40), 4)
    alone = adjusted_mean(values, known, everywhere).estimate
    four = adjusted_mean(values[copies], known[copies], everywhere, clusters=copies).estimate
    assert four.value == pytest.approx(alone.value, abs=1e-9)
    assert four.se == pytest.approx(alone.se, rel=0.03)


def test_a_slope_needs_items():
    with pytest.raises(AnalysisError, match="19 items are too few"):
        adjusted_mean(np.zeros(19), np.zeros(19), np.zeros(19))
