"""The mixed model against stored fits of R (tests/fixtures/lme4: script, data, versions), and its errors."""

import re

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.mixed import fit_mixed
from support.lme4 import fit_mixed_rows

MODELS = ("crossed", "crossed_no_replicate_effect", "plain", "singular", "full")


def like_r(name):
    return re.sub(r"\[(.*?)\]", r"\1", name)


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_lme4(name, reference_fit, lme4_reference):
    fit, reference = reference_fit(name), lme4_reference[name]
    by_name = {like_r(c.name): c for c in fit.coefficients}
    assert set(by_name) == set(reference["names"])
    for i, key in enumerate(reference["names"]):
        ours = by_name[key]
        assert ours.estimate == pytest.approx(reference["beta"][i], abs=1e-5)
        assert ours.se == pytest.approx(reference["se"][i], rel=1e-3)
        assert ours.df == pytest.approx(reference["df"][i], rel=1e-2)
        assert ours.p_value == pytest.approx(reference["p"][i], rel=1e-2, abs=1e-5)
    assert fit.deviance == pytest.approx(reference["deviance"], abs=1e-3)
    assert fit.converged


@pytest.mark.parametrize("name", MODELS)
def test_variance_components_agree_with_lme4(name, reference_fit, lme4_reference):
    fit, components = reference_fit(name), lme4_reference[name]["components"]
    for key, value in components.items():
        ours = fit.components[
            "item:cell" if key.startswith("item:") else key.lower() if key == "Residual" else key
        ]
        assert ours.value == pytest.approx(value, rel=1e-3, abs=1e-6)
        assert ours.low <= ours.value <= ours.high


@pytest.mark.parametrize("seed", range(8))
def test_variances_of_a_balanced_table_are_those_of_the_analysis_of_variance(seed):
    """Where no component is negative, REML and the mean squares agree (Searle et al. 1992, chapter 4)."""
    rng, n, p = np.random.default_rng(seed), 10, 6
    y = rng.normal(0, 0.6, (n, 1)) + rng.normal(0, 0.6, (1, p)) + rng.normal(size=(n, p))
    rows, columns, mean = y.mean(axis=1, keepdims=True), y.mean(axis=0), y.mean()
    residual = ((y - rows - columns + mean) ** 2).sum() / ((n - 1) * (p - 1))
    item = (p * ((rows - mean) ** 2).sum() / (n - 1) - residual) / p
    column = (n * ((columns - mean) ** 2).sum() / (p - 1) - residual) / n
    within = ((y - rows) ** 2).sum() / (n * (p - 1))
    item_alone = (p * ((rows - mean) ** 2).sum() / (n - 1) - within) / p
    assert min(item, column, item_alone) > 0
    cells, codes = encode_cells({"column": np.tile(np.arange(p), n).astype(str).tolist()})
    totals = cell_totals(np.repeat(np.arange(n), p), codes, y.ravel())
    fit = fit_mixed(totals, fixed_design(cells, []), small_factors={"column": np.arange(p)})
    found = [fit.components[name].value for name in ("item", "column", "residual")]
    assert found == pytest.approx([item, column, residual], rel=1e-3)
    alone = fit_mixed(totals, fixed_design(cells, []))
    assert alone.components["item"].value == pytest.approx(item_alone, rel=1e-3)


def test_a_zero_variance_is_said_to_be_one(reference_fit):
    fit = reference_fit("singular")
    assert fit.singular
    assert fit.components["item"].value == 0.0
    assert 0 < fit.components["item"].high < fit.components["residual"].value


def test_grouped_totals_give_the_same_fit_as_rows(reference_fit, reference_columns):
    columns = reference_columns("plain")
    scores, items = np.array(columns["score"], dtype=float), columns["item"]
    cells, codes = encode_cells({"condition": columns["condition"]})
    order = np.random.default_rng(0).permutation(len(scores))
    totals = cell_totals(np.array(items)[order], codes[order], scores[order])
    fit = fit_mixed(totals, fixed_design(cells, ["condition"]))
    assert fit.beta == pytest.approx(reference_fit("plain").beta, abs=1e-9)


def test_balanced_two_way_fit_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    base = rng.normal(0, 1, 20)
    scores = np.concatenate([base + rng.normal(0, 0.5, 20), base + 0.4 + rng.normal(0, 0.5, 20)])
    fit = fit_mixed_rows(scores, list(range(20)) * 2, {"condition": ["a"] * 20 + ["b"] * 20}, ["condition"])
    reference = stats.ttest_rel(scores[20:], scores[:20])
    effect = fit.coefficients[1]
    assert effect.t == pytest.approx(reference.statistic, rel=1e-4)
    assert effect.p_value == pytest.approx(reference.pvalue, rel=1e-3)
    assert effect.df == pytest.approx(19, rel=1e-2)


@pytest.mark.slow
def test_replicates_without_their_effect_are_too_sure():
    """Type-I error at 5 %: with (1|item:cell) near nominal, without it far above."""
    rng = np.random.default_rng(4)
    items, replicates = 30, 8
    repetitions = {True: 500, False: 60}
    cells, codes = encode_cells({"condition": ["a", "b"]})
    design = fixed_design(cells, ["condition"])
    item = np.repeat(np.arange(items), 2 * replicates)
    cell = np.tile(np.repeat(codes, replicates), items)
    rejected = {True: 0, False: 0}
    for repetition in range(repetitions[True]):
        means = rng.normal(0, 0.3, (items, 1)) + rng.normal(0, 0.2, (items, 2))
        scores = (means[:, :, None] + rng.normal(0, 0.3, (items, 2, replicates))).ravel()
        totals = cell_totals(item, cell, scores)
        for with_effect in rejected:
            if repetition >= repetitions[with_effect]:
                continue
            fit = fit_mixed(totals, design, replicate_effect=with_effect)
            rejected[with_effect] += fit.coefficients[1].p_value <= 0.05
    assert 0.03 <= rejected[True] / repetitions[True] <= 0.07
    assert rejected[False] / repetitions[False] > 0.15


def test_replicates_that_never_differ_are_one_answer():
    rng = np.random.default_rng(6)
    scores = rng.integers(0, 2, 40).astype(float)
    items, factors = np.repeat(np.arange(20), 2), {"condition": ["a", "b"] * 20}
    once = fit_mixed_rows(scores, items, factors, ["condition"])
    tripled = fit_mixed_rows(
        np.repeat(scores, 3), np.repeat(items, 3), {"condition": np.repeat(["a", "b"] * 20, 3)}, ["condition"]
    )
    assert tripled.coefficients[1] == once.coefficients[1]


@pytest.mark.parametrize("scores", [[0.5] * 8, [0.0, 1.0] * 4])
def test_scores_without_noise_are_refused(scores):
    with pytest.raises(AnalysisError, match="do not vary"):
        fit_mixed_rows(scores, np.repeat(np.arange(4), 2), {"condition": ["a", "b"] * 4}, ["condition"])


def test_refusals():
    factors = {"condition": ["a", "b"] * 3}
    items, scores = np.repeat(np.arange(3), 2), np.random.default_rng(5).random(6)
    with pytest.raises(AnalysisError, match="did you mean 'condition'"):
        fit_mixed_rows(scores, items, factors, ["conditon"])
    with pytest.raises(AnalysisError, match="without replicates"):
        fit_mixed_rows(scores, items, factors, ["condition"], replicate_effect=True)
    with pytest.raises(AnalysisError, match="does not occur"):
        fit_mixed_rows(scores, items, factors, ["condition"], references={"condition": "c"})
    with pytest.raises(AnalysisError, match="too few"):
        fit_mixed_rows(scores[:2], items[:2], {"condition": ["a", "b"]}, ["condition"])


def clustered_rows(sizes, *, seed, effect=0.3, spread=(0.5, 0.4, 0.3), varies=0.0):
    """Items of clusters of these sizes, two answers each under two conditions: item, cluster, condition and score."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    level = rng.normal(1, spread[0], len(sizes))[cluster] + rng.normal(0, spread[1], len(cluster))
    change = effect + rng.normal(0, varies, len(sizes))[cluster] if varies else np.full(len(cluster), effect)
    item = np.repeat(np.arange(len(cluster)), 4)
    condition = np.tile(["C0", "C0", "C1", "C1"], len(cluster))
    score = level[item] + (condition == "C1") * change[item] + rng.normal(0, spread[2], len(item))
    return item, cluster[item], condition, score


def test_the_effect_of_a_cluster_agrees_with_statsmodels():
    pandas = pytest.importorskip("pandas")
    import statsmodels.api as sm

    item, cluster, condition, score = clustered_rows([2, 3, 4, 5, 6, 3, 4, 4, 5, 4, 3, 5], seed=3)
    cells, codes = encode_cells({"condition": condition.tolist()})
    totals = cell_totals(item, codes, score)
    of_row = np.array([cluster[item == code][0] for code in totals.item])
    design = fixed_design(cells, ["condition"])
    fit = fit_mixed(totals, design, clusters=of_row, replicate_effect=False)
    frame = pandas.DataFrame(
        {"y": score, "treated": (condition == "C1") * 1.0, "cluster": cluster, "item": item}
    )
    reference = sm.MixedLM.from_formula(
        "y ~ treated", frame, groups="cluster", re_formula="1", vc_formula={"item": "0 + C(item)"}
    ).fit(reml=True)
    assert fit.beta == pytest.approx(reference.fe_params.to_numpy(), abs=1e-5)
    assert [c.se for c in fit.coefficients] == pytest.approx(reference.bse_fe.to_numpy(), rel=1e-3)
    assert fit.components["cluster"].value == pytest.approx(float(reference.cov_re.iloc[0, 0]), rel=5e-3)
    assert fit.components["item"].value == pytest.approx(float(reference.vcomp[0]), rel=5e-3)
    assert fit.components["residual"].value == pytest.approx(reference.scale, rel=1e-3)


def test_clusters_of_one_item_each_change_nothing_and_an_item_in_two_is_refused():
    item, _, condition, score = clustered_rows([1] * 12, seed=5)
    cells, codes = encode_cells({"condition": condition.tolist()})
    totals, design = cell_totals(item, codes, score), fixed_design(cells, ["condition"])
    alone = fit_mixed(totals, design, jackknife=True)
    clustered = fit_mixed(totals, design, clusters=totals.item + 100, jackknife=True)
    assert clustered.coefficients == alone.coefficients
    assert "cluster" not in clustered.components
    with pytest.raises(AnalysisError, match="an item is in two clusters"):
        fit_mixed(totals, design, clusters=np.arange(len(totals.item)))


def test_copies_of_items_are_no_further_evidence():
    """Twelve texts once, and five times each: with their clusters the same standard error, without them 5^-½ of it."""
    item, _, condition, score = clustered_rows([1] * 12, seed=7, varies=0.3)
    cells, codes = encode_cells({"condition": condition.tolist()})
    design = fixed_design(cells, ["condition"])
    once = fit_mixed(cell_totals(item, codes, score), design, jackknife=True).coefficients[1]
    copies = np.concatenate([item + 12 * copy for copy in range(5)])
    repeated = cell_totals(copies, np.tile(codes, 5), np.tile(score, 5))
    clustered = fit_mixed(repeated, design, clusters=repeated.item % 12, jackknife=True).coefficients[1]
    taken_apart = fit_mixed(repeated, design, jackknife=True).coefficients[1]
    assert clustered.estimate == pytest.approx(once.estimate)
    assert clustered.se == pytest.approx(once.se, rel=1e-6)
    assert clustered.df == pytest.approx(once.df)
    assert taken_apart.se < 0.5 * once.se


def test_below_six_clusters_nothing_is_tested():
    item, _, condition, score = clustered_rows([6] * 5, seed=1)
    cells, codes = encode_cells({"condition": condition.tolist()})
    totals = cell_totals(item, codes, score)
    fit = fit_mixed(totals, fixed_design(cells, ["condition"]), clusters=totals.item // 6, jackknife=True)
    assert fit.coefficients[1].note == "not tested: 5 clusters, at least 6 are needed"
    assert np.isnan(fit.coefficients[1].p_value)
    together = fit_mixed(
        totals, fixed_design(cells, ["condition"]), clusters=np.zeros_like(totals.item), jackknife=True
    )
    assert together.coefficients[1].note == "rests on one cluster alone"


def test_false_alarms_stay_at_five_per_cent_where_effects_vary_by_cluster():
    alarms = {"clustered": 0, "items": 0}
    studies = 200
    for seed in range(studies):
        item, _, condition, score = clustered_rows([5] * 12, seed=seed, effect=0.0, varies=0.3)
        cells, codes = encode_cells({"condition": condition.tolist()})
        totals, design = cell_totals(item, codes, score), fixed_design(cells, ["condition"])
        for name, clusters in (("clustered", totals.item // 5), ("items", None)):
            fit = fit_mixed(totals, design, clusters=clusters, jackknife=True)
            alarms[name] += fit.coefficients[1].p_value < 0.05
    assert stats.binom.sf(alarms["clustered"] - 1, studies, 0.05) > 0.01
    assert alarms["items"] > 0.2 * studies
