"""Two one-sided tests against statsmodels, their verdicts and their size."""

import numpy as np
import pytest
from statsmodels.stats.weightstats import ttost_paired

from pcsuite.errors import AnalysisError
from pcsuite.stats.emmeans import interaction_contrasts
from pcsuite.stats.equivalence import all_equivalent, tost, tost_contrast, tost_paired


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_statsmodels(seed):
    rng = np.random.default_rng(seed)
    control = rng.random(40)
    treated = control + rng.normal(0.01, 0.1, 40)
    reference = ttost_paired(treated, control, -0.04, 0.04)[0]
    assert tost_paired(treated, control, bound=0.04).p_value == pytest.approx(reference)


@pytest.mark.parametrize(
    ("estimate", "se", "verdict"),
    [
        (0.001, 0.005, "equivalent"),
        (0.1, 0.005, "different"),
        (0.012, 0.004, "both"),
        (0.01, 0.05, "inconclusive"),
    ],
)
def test_verdicts(estimate, se, verdict):
    result = tost(estimate, se, 500, bound=0.02)
    assert result.verdict == verdict
    assert (result.p_value <= 0.05) == (result.low > -0.02 and result.high < 0.02)


def test_error_rate_at_the_bound():
    rng = np.random.default_rng(5)
    claims = sum(tost_paired(rng.normal(0.05, 0.1, 60), bound=0.05).p_value <= 0.05 for _ in range(2000))
    assert claims / 2000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_interaction_of_a_fit(reference_fit):
    contrasts = interaction_contrasts(reference_fit("crossed"), "condition", "size")
    results = [tost_contrast(c.contrast, bound=0.05) for c in contrasts]
    joint = all_equivalent(results)
    assert joint.p_value == max(r.p_value for r in results)
    assert joint.verdict == "different"


def test_exact_sameness_and_undefined_and_refusal():
    assert tost(0.0, 0.0, 9, bound=0.01).verdict == "equivalent"
    assert tost(float("nan"), 1.0, 9, bound=0.01).verdict == "inconclusive"
    with pytest.raises(AnalysisError, match="positive"):
        tost(0.0, 1.0, 9, bound=0.0)
