"""Variance components: recovery of known variances, coverage, agreement of moments and REML."""

import numpy as np
import pytest

from pcsuite.errors import AnalysisError
from pcsuite.stats.variance import decompose_variance, decompose_variance_unbalanced

TRUE = {"items": 0.09, "perturbations": 0.02, "seeds": 0.04, "within_seed": 0.01}


def simulate(rng, n, p, s, r, *, common=0.0):
    item = rng.normal(0, TRUE["items"] ** 0.5, (n, 1, 1, 1))
    interaction = rng.normal(0, TRUE["perturbations"] ** 0.5, (n, p, 1, 1))
    seed = rng.normal(0, TRUE["seeds"] ** 0.5, (n, p, s, 1))
    repeat = rng.normal(0, TRUE["within_seed"] ** 0.5, (n, p, s, r))
    return 0.5 + item + common * np.arange(p)[None, :, None, None] + interaction + seed + repeat


def test_components_are_recovered_on_average():
    rng = np.random.default_rng(0)
    found = {name: [] for name in TRUE}
    for _ in range(200):
        result = decompose_variance(simulate(rng, 60, 3, 4, 2), rng=rng, resamples=2)
        for name in TRUE:
            found[name].append(getattr(result, name).value)
    for name, variance in TRUE.items():
        assert np.mean(found[name]) == pytest.approx(variance, rel=0.07)


def test_a_shift_common_to_all_items_counts_as_perturbation_not_as_item():
    rng = np.random.default_rng(1)
    result = decompose_variance(simulate(rng, 400, 3, 3, 1, common=0.3), rng=rng, resamples=200)
    # the shifts 0, 0.3, 0.6 have variance 0.09
    assert result.perturbations.value == pytest.approx(0.09 + TRUE["perturbations"], rel=0.15)
    assert result.items.value == pytest.approx(TRUE["items"], rel=0.2)
    assert sum(v for v in result.shares().values() if np.isfinite(v)) == pytest.approx(1.0)


@pytest.mark.slow
def test_intervals_cover():
    rng = np.random.default_rng(2)
    hits = dict.fromkeys(TRUE, 0)
    for _ in range(500):
        result = decompose_variance(simulate(rng, 100, 3, 3, 2), rng=rng, resamples=500)
        for name, variance in TRUE.items():
            estimate = getattr(result, name)
            hits[name] += estimate.low <= variance <= estimate.high
    for count in hits.values():
        assert 0.92 <= count / 500 <= 0.98


def test_what_cannot_be_separated_is_said():
    rng = np.random.default_rng(3)
    single = decompose_variance(simulate(rng, 30, 1, 3, 1), rng=rng, resamples=50)
    assert not single.perturbations.defined
    assert not single.within_seed.defined
    assert single.confounded == {"within_seed": "seeds"}
    greedy = decompose_variance(simulate(rng, 30, 3, 1, 1), rng=rng, resamples=50)
    assert greedy.confounded == {"seeds": "perturbations", "within_seed": "perturbations"}
    assert not greedy.seeds.defined


def test_reml_agrees_with_moments_on_balanced_data():
    rng = np.random.default_rng(4)
    scores = simulate(rng, 80, 3, 4, 1)
    moments = decompose_variance(scores, rng=rng, resamples=100)
    items = np.repeat(np.arange(80), 12)
    perturbations = np.tile(np.repeat(["a", "b", "c"], 4), 80)
    reml = decompose_variance_unbalanced(scores.ravel(), items, perturbations)
    assert reml.items.value == pytest.approx(moments.items.value, rel=0.02)
    assert reml.seeds.value == pytest.approx(moments.seeds.value, rel=1e-3)
    assert reml.perturbations.value == pytest.approx(moments.perturbations.value, rel=0.05)
    assert reml.perturbations.low < reml.perturbations.value < reml.perturbations.high
    assert reml.confounded == {"within_seed": "seeds"}


def test_reml_with_gaps_and_with_one_perturbation():
    rng = np.random.default_rng(5)
    scores = simulate(rng, 200, 2, 4, 1).ravel()
    items, perturbations = np.repeat(np.arange(200), 8), np.tile(np.repeat(["a", "b"], 4), 200)
    keep = rng.random(1600) < 0.8
    gaps = decompose_variance_unbalanced(scores[keep], items[keep], perturbations[keep])
    assert gaps.items.low < TRUE["items"] < gaps.items.high
    first = perturbations == "a"
    one = decompose_variance_unbalanced(scores[first], items[first], perturbations[first])
    assert not one.perturbations.defined
    assert one.seeds.value == pytest.approx(0.05, rel=0.2)


def test_gaps_in_a_balanced_array_are_refused():
    scores = np.full((5, 2, 2), np.nan)
    with pytest.raises(AnalysisError, match="unbalanced"):
        decompose_variance(scores, rng=np.random.default_rng())


def test_no_variation_seen_is_not_none_for_certain():
    parts = decompose_variance(np.ones((20, 1, 3)), rng=np.random.default_rng(0), resamples=100)
    assert parts.seeds.value == parts.seeds.low == 0
    assert 0.005 < parts.seeds.high < 0.25


def test_items_that_no_attack_moved_have_no_variance_but_their_own():
    """Attacks that change no answer, on items of which some were not attacked: the items' share grew without bound."""
    solved = np.random.default_rng(3).random(200) < 0.3
    items, kinds = zip(
        *((item, kind) for item in range(200) for kind in range(6 if item % 2 else 1)), strict=True
    )
    scores = solved[list(items)].astype(float)
    with pytest.raises(AnalysisError, match="no answer to an item differs"):
        decompose_variance_unbalanced(scores, items, kinds)
    scores[1] = 1 - scores[1]  # one answer that an attack changed is enough
    found = decompose_variance_unbalanced(scores, items, kinds)
    assert found.items.value == pytest.approx(solved.var(), rel=0.05)
    assert 0 < found.perturbations.value < 0.01 * found.items.value
