"""Marginal means against R's emmeans on the stored fits, and contrasts by hand."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.emmeans import contrasts_with_reference, marginal_means
from support.lme4 import fit_mixed_rows


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("crossed", ["condition", "size"]),
        ("crossed_no_replicate_effect", ["condition"]),
        ("plain", ["condition"]),
        ("full", ["condition"]),
    ],
)
def test_agrees_with_emmeans(name, over, reference_fit, lme4_reference):
    reference = lme4_reference[name]["emmeans"]
    ours = {
        tuple(mean.levels[f] for f in over): mean.contrast
        for mean in marginal_means(reference_fit(name), over)
    }
    assert len(ours) == len(reference["value"])
    for levels, value, se in zip(reference["levels"], reference["value"], reference["se"], strict=True):
        mean = ours[tuple(levels[f] for f in over)]
        assert mean.estimate == pytest.approx(value, abs=1e-5)
        assert mean.se == pytest.approx(se, rel=1e-3)


def test_contrast_with_reference_is_the_coefficient_where_nothing_interacts(reference_fit):
    fit = reference_fit("plain")
    contrasts = contrasts_with_reference(fit, "condition")
    assert [c.levels["condition"] for c in contrasts] == ["C1", "C2"]
    for contrast, coefficient in zip(contrasts, fit.coefficients[1:], strict=True):
        assert contrast.contrast.estimate == pytest.approx(coefficient.estimate)
        assert contrast.contrast.se == pytest.approx(coefficient.se)


def test_contrast_by_size_adds_the_interaction(reference_fit):
    fit = reference_fit("crossed")
    beta = dict(zip(fit.design.names, fit.beta, strict=True))
    by_size = {
        (c.levels["condition"], c.levels["size"]): c.contrast.estimate
        for c in contrasts_with_reference(fit, "condition", by=["size"])
    }
    assert by_size["C2", "large"] == pytest.approx(beta["condition[C2]"])
    assert by_size["C2", "small"] == pytest.approx(beta["condition[C2]"] + beta["condition[C2]:size[small]"])


def test_what_the_cells_do_not_determine_is_nan():
    factors = {"condition": ["a", "b", "a"] * 8, "size": ["s", "s", "t"] * 8}
    scores = np.random.default_rng(2).random(24)
    fit = fit_mixed_rows(scores, np.repeat(np.arange(8), 3), factors, ["condition", "size", "condition:size"])
    means = {
        tuple(m.levels.values()): m.contrast.estimate for m in marginal_means(fit, ["condition", "size"])
    }
    assert np.isnan(means["b", "t"])
    assert np.isfinite(means["a", "t"])


def test_unknown_factor(reference_fit):
    with pytest.raises(AnalysisError, match="did you mean 'condition'"):
        marginal_means(reference_fit("plain"), ["conditions"])
