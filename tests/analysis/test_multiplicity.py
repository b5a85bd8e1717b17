"""Adjusted p-values against statsmodels, and the rates they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pcsuite.analysis.multiplicity import adjust_within_families, benjamini_hochberg, holm
from pcsuite.analysis.permutation import sign_flip_test
from pcsuite.errors import AnalysisError


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
