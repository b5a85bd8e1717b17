"""The logistic mixed model against stored fits of glmmTMB (tests/fixtures/lme4)."""

import re

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.logistic_mixed import fit_logistic_mixed, predicted_rates

LONG = ["condition", "size", "family", "decoding", "condition:size"]
MODELS = {
    "full_logistic": (LONG, [], False),
    "full_logistic_size": (["condition"], ["size"], False),
    "full_logistic_replicates": (LONG, [], True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_glmmtmb(name, reference_columns, lme4_reference):
    terms, random_factors, replicate_effect = MODELS[name]
    reference = lme4_reference[name]
    columns = reference_columns("full")
    scores, items = np.array(columns.pop("score"), dtype=float), columns.pop("item")
    cells, codes = encode_cells(columns)
    small = {f: np.unique([cell[f] for cell in cells], return_inverse=True)[1] for f in random_factors}
    fit = fit_logistic_mixed(
        cell_totals(items, codes, scores),
        fixed_design(cells, terms),
        small_factors=small,
        replicate_effect=replicate_effect,
    )
    assert fit.converged
    ours = {re.sub(r"\[(.*?)\]", r"\1", c.name): c for c in fit.coefficients}
    for key, beta, se in zip(reference["names"], reference["beta"], reference["se"], strict=True):
        assert ours[key].estimate == pytest.approx(beta, abs=1e-3)
        assert ours[key].se == pytest.approx(se, rel=1e-3)
    for key, variance in reference["components"].items():
        assert fit.components["item:cell" if ":" in key else key] == pytest.approx(variance, rel=1e-3)
    assert fit.log_likelihood == pytest.approx(reference["log_likelihood"], abs=1e-4)


def two_condition_totals(scores):
    """``scores`` is items × 2 conditions."""
    cells, codes = encode_cells({"condition": ["a", "b"]})
    n = len(scores)
    totals = cell_totals(
        np.repeat(np.arange(n), 2), np.tile(codes, n), np.asarray(scores, dtype=float).ravel()
    )
    return totals, fixed_design(cells, ["condition"])


def test_predicted_rate_of_a_typical_item():
    rng = np.random.default_rng(0)
    ease = rng.normal(0, 0.5, 400)
    chance = 1 / (1 + np.exp(-(np.column_stack([ease, ease + 1.0]))))
    totals, design = two_condition_totals(rng.random((400, 2)) < chance)
    fit = fit_logistic_mixed(totals, design)
    assert fit.coefficients[1].low < 1.0 < fit.coefficients[1].high
    assert predicted_rates(fit, [[1, 0], [1, 1]]) == pytest.approx([0.5, 1 / (1 + np.exp(-1))], abs=0.08)


def test_a_perfect_condition_is_reported_not_hidden():
    rng = np.random.default_rng(1)
    scores = np.column_stack([rng.random(40) < 0.5, np.ones(40)])
    totals, design = two_condition_totals(scores)
    fit = fit_logistic_mixed(totals, design)
    assert not fit.converged
    assert fit.message


def test_refusals():
    rng = np.random.default_rng(2)
    totals, design = two_condition_totals(rng.random((10, 2)))
    with pytest.raises(AnalysisError, match="0 and 1"):
        fit_logistic_mixed(totals, design)
    totals, design = two_condition_totals(rng.random((10, 2)) < 0.5)
    with pytest.raises(AnalysisError, match="replicates"):
        fit_logistic_mixed(totals, design, replicate_effect=True)
