"""Two one-sided tests: exact one-sided limits, their verdicts and their size."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.equivalence import noninferior_paired, tost_paired


@pytest.mark.parametrize(("n", "failed"), [(2, 0), (8, 0), (100, 0), (100, 2), (100, 5)])
def test_limits_of_losses_are_clopper_pearsons(n, failed):
    deltas = np.array([-1.0] * failed + [0.0] * (n - failed))
    exact = stats.binomtest(failed, n).proportion_ci(0.90, method="exact").high
    result = noninferior_paired(deltas, margin=0.05)
    assert result.low == pytest.approx(-exact, abs=1e-5)
    # p-value: as few failures as these where one in twenty fails
    assert result.p_value == pytest.approx(stats.binom.cdf(failed, n, 0.05), rel=1e-6)
    assert (result.verdict == "noninferior") == (exact < 0.05)


def test_nothing_differed_on_few_items_is_no_sameness():
    assert tost_paired(np.zeros(2), bound=0.05).verdict == "inconclusive"
    assert tost_paired(np.zeros(2), bound=0.05).p_value == pytest.approx(0.95**2)
    # 1 - 0.05^(1/n) < 0.05 from n = 59 on
    assert tost_paired(np.zeros(58), bound=0.05).verdict == "inconclusive"
    assert tost_paired(np.zeros(59), bound=0.05).verdict == "equivalent"


def test_limits_and_p_values_agree_and_mirror():
    rng = np.random.default_rng(1)
    for _ in range(20):
        deltas = rng.choice([-1, -0.5, 0, 0.5, 1], size=40, p=[0.05, 0.1, 0.6, 0.15, 0.1])
        result = noninferior_paired(deltas, margin=0.1)
        assert (result.p_value <= 0.05) == (result.low >= -0.1)
        mirrored = noninferior_paired(-deltas, margin=0.1)
        assert mirrored.high == pytest.approx(-result.low, abs=1e-5)
        assert tost_paired(deltas, bound=0.1).p_value >= result.p_value - 1e-12


def test_loss_beyond_the_margin_is_inferior():
    result = noninferior_paired(np.array([-1.0] * 30 + [0.0] * 30), margin=0.1)
    assert result.verdict == "inferior"
    assert result.high < -0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "only_treated", "only_control"),
    [(8, 0.05, 0.0), (8, 0.06, 0.01), (100, 0.05, 0.001), (30, 0.1, 0.05)],
)
def test_equivalence_at_the_margin_errs_in_one_of_twenty(n, only_treated, only_control):
    """Exactly: summed over every table of gains and losses, not simulated."""
    margin = only_treated - only_control
    shares = [only_treated, only_control, 1 - only_treated - only_control]
    error = 0.0
    for gains in range(n + 1):
        for losses in range(n + 1 - gains):
            chance = stats.multinomial.pmf([gains, losses, n - gains - losses], n, shares)
            if chance > 1e-5:
                deltas = np.array([1.0] * gains + [-1.0] * losses + [0.0] * (n - gains - losses))
                error += chance * (tost_paired(deltas, bound=margin).p_value <= 0.05)
    assert error <= 0.05


@pytest.mark.slow
def test_error_rate_at_the_bound():
    rng = np.random.default_rng(5)
    claims = sum(tost_paired(rng.normal(0.05, 0.1, 60), bound=0.05).p_value <= 0.05 for _ in range(300))
    assert claims / 300 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_refusals():
    with pytest.raises(AnalysisError, match="positive"):
        tost_paired([0.0, 0.0], bound=0.0)
    with pytest.raises(AnalysisError, match="positive"):
        noninferior_paired([0.0, 0.0], margin=-0.1)
    with pytest.raises(AnalysisError, match="outside -1..1"):
        tost_paired([0.0, 3.0], bound=0.1, bounds=(-1, 1))
