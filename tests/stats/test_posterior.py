"""Posterior probabilities: by hand where they are closed, by integration where they are not, and calibrated."""

import numpy as np
import pytest
from scipy import integrate, stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.posterior import shrunken_effects, standard_error


def effect(value, error):
    return Estimate(value, value - 1.959963985 * error, value + 1.959963985 * error)


def test_one_effect_is_that_of_the_shrinkage_prior():
    """Alone: θ ~ N(0, 1.25 τ²) with a density of 3B² of B = s²/(s²+τ²), integrated by quadrature."""
    value, error = 0.2, 0.1

    def part(share, point):
        tau2 = error**2 * (1 - share) / share
        total = 1.25 * tau2 + error**2
        centre, spread = value * 1.25 * tau2 / total, np.sqrt(1.25 * tau2 * error**2 / total)
        return share**2 * stats.norm.pdf(value, 0, np.sqrt(total)) * stats.norm.cdf(point, centre, spread)

    def below(point):
        return integrate.quad(part, 0, 1, (point,))[0] / integrate.quad(part, 0, 1, (1e9,))[0]

    (posterior,) = shrunken_effects([effect(value, error)], margin=0.05)
    assert posterior.p_better == pytest.approx(1 - below(0.0), abs=1e-3)
    assert posterior.p_within == pytest.approx(below(0.05) - below(-0.05), abs=1e-3)
    assert below(posterior.estimate.low) == pytest.approx(0.025, abs=1e-3)
    assert below(posterior.estimate.high) == pytest.approx(0.975, abs=1e-3)


def test_two_effects_agree_with_dense_matrices():
    values, errors = np.array([0.3, -0.1]), np.array([0.1, 0.2])
    typical = 2 / (1 / errors**2).sum()
    weights, means = [], []
    for share in (np.arange(100) + 0.5) / 100:
        prior = typical * (1 - share) / share * (np.eye(2) + 0.25)
        total = prior + np.diag(errors**2)
        weights.append(share**2 * stats.multivariate_normal.pdf(values, [0, 0], total))
        means.append(prior @ np.linalg.solve(total, values))
    expected = np.average(means, axis=0, weights=weights)
    posteriors = shrunken_effects([effect(v, e) for v, e in zip(values, errors, strict=True)])
    assert [p.estimate.value for p in posteriors] == pytest.approx(expected, abs=1e-9)
    assert all(p.p_within is None for p in posteriors)


def test_direction_company_and_undefined_effects():
    large, small = effect(0.2, 0.1), effect(0.0, 0.1)
    (up,), (down,) = shrunken_effects([large]), shrunken_effects([large], better=-1)
    assert up.p_better + down.p_better == pytest.approx(1)
    among, *_ = shrunken_effects([large, *[small] * 5])
    together, *_ = shrunken_effects([large] * 6)
    assert among.p_better < up.p_better < together.p_better
    assert among.estimate.value < up.estimate.value < together.estimate.value < 0.2
    none = Estimate(0.4, float("nan"), float("nan"))
    first, second = shrunken_effects([none, large], margin=0.1)
    assert np.isnan(first.p_better)
    assert second.p_better == up.p_better  # what has no limits tells nothing about the others
    assert standard_error(large) == pytest.approx(0.1)
    with pytest.raises(AnalysisError, match="negative"):
        shrunken_effects([large], margin=-0.1)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 0.05), (0.1, 0.1), (0.0, 0.3)])
def test_probabilities_are_calibrated(centre, spread):
    """Of effects that are said to be better with 0.8 to 1, so many are (8 blocks, standard error 0.1)."""
    rng = np.random.default_rng(5)
    stated, right = [], []
    for _ in range(150):
        true = rng.normal(centre, spread, 8)
        posteriors = shrunken_effects([effect(value, 0.1) for value in rng.normal(true, 0.1)])
        stated += [max(p.p_better, 1 - p.p_better) for p in posteriors]
        right += [(p.p_better > 0.5) == (theta > 0) for p, theta in zip(posteriors, true, strict=True)]
    stated, right = np.array(stated), np.array(right)
    for low, high in ((0.5, 0.8), (0.8, 1.0)):
        inside = (stated >= low) & (stated < high)
        assert inside.sum() > 30
        error = 3 * np.sqrt(0.25 / inside.sum())
        assert right[inside].mean() > stated[inside].mean() - error
