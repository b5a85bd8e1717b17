"""The jackknife over items and tasks: by deleting them one at a time with dense matrices, and against t tests."""

import numpy as np
import pytest
from scipy import stats

from pcsuite.errors import AnalysisError
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.mixed import fit_mixed

RNG = np.random.default_rng


def fitted(scores, items, factors, terms, small=None, cluster_size=0, **options):
    cells, codes = encode_cells(factors)
    design = fixed_design(cells, terms, **options)
    codes_of = {
        name: np.unique([cell[name] for cell in cells], return_inverse=True)[1] for name in small or ()
    }
    totals = cell_totals(items, codes, scores)
    clusters = totals.item // cluster_size if cluster_size else None
    fit = fit_mixed(totals, design, small_factors=codes_of, clusters=clusters, jackknife=True)
    return fit, totals, design, codes_of


def without_each(fit, totals, design, small, cluster_size=0):
    """Coefficients without each unit, by generalised least squares with the fitted variances."""
    relative = {name: e.value / fit.components["residual"].value for name, e in fit.components.items()}
    count, mean = totals.count, totals.total / totals.count
    own = design.matrix[totals.cell]
    same = totals.item[:, None] == totals.item
    v = np.diag(1 / count + relative.get("item:cell", 0.0)) + relative["item"] * same
    units = totals.item
    if cluster_size:
        units = totals.item // cluster_size
        v = v + relative["cluster"] * (units[:, None] == units)
    for name, codes in small.items():
        units = codes[totals.cell]
        v = v + relative[name] * (units[:, None] == units)
    found = []
    for unit in np.unique(units):
        rows = np.flatnonzero(units != unit)
        inverse = np.linalg.inv(v[np.ix_(rows, rows)])
        x = own[rows]
        found.append(np.linalg.solve(x.T @ inverse @ x, x.T @ inverse @ mean[rows]))
    return np.array(found)


def unbalanced(seed, tasks=1):
    rng = RNG(seed)
    rows = [
        (task, item, condition, size, seed)
        for task in range(tasks)
        for item in range(12)
        for condition in "abc"
        for size in "sl"
        for seed in range(2)
        if rng.random() < 0.8
    ]
    effects = rng.normal(0, 0.3, (tasks, 12))
    scores = [effects[t, i] + 0.2 * (c == "b") + rng.normal(0, 0.3) for t, i, c, _, _ in rows]
    items = [f"{t}/{i}" for t, i, *_ in rows]
    factors = {
        "task": [str(r[0]) for r in rows],
        "condition": [r[2] for r in rows],
        "size": [r[3] for r in rows],
    }
    return scores, items, factors


@pytest.mark.parametrize(
    ("tasks", "small", "cluster_size"), [(1, (), 0), (4, ("task",), 0), (3, (), 2), (4, ("task",), 3)]
)
def test_moves_are_those_of_fits_without_each_unit(tasks, small, cluster_size):
    scores, items, factors = unbalanced(3, tasks)
    made = fitted(scores, items, factors, ["condition", "size", "condition:size"], small, cluster_size)
    expected = made[0].beta - without_each(*made, cluster_size)
    assert made[0].units.moves == pytest.approx(expected, abs=1e-9)


def test_a_balanced_contrast_is_the_paired_t_test():
    rng = RNG(1)
    base = rng.normal(0, 1, 40)
    table = np.column_stack([base, base + rng.normal(0.2, 0.5, 40), base + rng.normal(0, 3, 40)])
    fit, *_ = fitted(table.ravel(), np.repeat(range(40), 3), {"condition": list("abc") * 40}, ["condition"])
    for column, effect in ((1, fit.coefficients[1]), (2, fit.coefficients[2])):
        reference = stats.ttest_rel(table[:, column], table[:, 0])
        assert effect.t == pytest.approx(reference.statistic, rel=1e-6)
        assert effect.p_value == pytest.approx(reference.pvalue, rel=1e-6)
        assert effect.df == pytest.approx(39)


def test_few_items_that_move_are_judged_by_their_signs():
    # Free decoding is valid on 4 of 8 items, constrained on all: exact two-sided p = 2/16.
    free = np.array([0, 0, 0, 0, 1, 1, 1, 1.0])
    scores = np.column_stack([free, np.ones(8)]).ravel()
    fit, *_ = fitted(scores, np.repeat(range(8), 2), {"condition": ["C4", "C6"] * 8}, ["condition"])
    assert fit.coefficients[1].p_value == pytest.approx(0.125)


def test_what_changed_alike_everywhere_has_no_p_value():
    rng = RNG(2)
    base = rng.normal(0, 1, 10)
    scores = np.column_stack([base, base + 1.0, base + rng.normal(0, 1, 10)]).ravel()
    fit, *_ = fitted(scores, np.repeat(range(10), 3), {"condition": list("abc") * 10}, ["condition"])
    alike = fit.coefficients[1]
    assert alike.estimate == pytest.approx(1.0)
    assert np.isnan([alike.se, alike.p_value, alike.low]).all()
    assert alike.note == "every item changed alike: no spread to infer from"


def test_what_one_task_alone_has_is_said_to_rest_on_it():
    rng = RNG(3)
    factors = {"task": ["1"] * 20 + ["2"] * 30, "condition": ["a", "b"] * 10 + ["a", "b", "c"] * 10}
    items = [f"1/{k // 2}" for k in range(20)] + [f"2/{k // 3}" for k in range(30)]
    fit, *_ = fitted(rng.random(50), items, factors, ["condition"], ("task",))
    named = {effect.name: effect for effect in fit.coefficients}
    assert named["condition[c]"].note == "rests on one task alone"
    assert np.isfinite(named["condition[b]"].p_value)


def test_two_random_factors_are_refused():
    cells, codes = encode_cells({"task": list("aabb") * 3, "condition": list("cdcd") * 3})
    totals = cell_totals(np.repeat(range(6), 2), codes, RNG(0).random(12))
    small = {"task": np.array([0, 0, 1, 1]), "other": np.array([0, 1, 0, 1])}
    with pytest.raises(AnalysisError, match="one random factor at most"):
        fit_mixed(totals, fixed_design(cells, ["condition"]), small_factors=small, jackknife=True)


def test_linked_factors_average_over_what_occurs():
    from pcsuite.stats.emmeans import contrasts_with_reference, marginal_means

    rng = RNG(5)
    models = [("small", "llama"), ("large", "llama"), ("api", "gpt")]
    rows = [(i, c, *m) for i in range(15) for m in models for c in ("C0", "C1")]
    factors = {name: [row[k] for row in rows] for k, name in ((1, "condition"), (2, "size"), (3, "family"))}
    scores = rng.random(len(rows))
    fit, *_ = fitted(
        scores,
        [row[0] for row in rows],
        factors,
        ["condition", "size", "family", "condition:size"],
        linked=("size", "family"),
    )
    means = {m.levels["condition"]: m.contrast.estimate for m in marginal_means(fit, ["condition"])}
    plain = {
        c: np.mean([s for s, row in zip(scores, rows, strict=True) if row[1] == c]) for c in ("C0", "C1")
    }
    assert means == pytest.approx(plain)
    by_size = {
        m.levels["size"]: m.contrast.estimate for m in contrasts_with_reference(fit, "condition", by=["size"])
    }
    api = {
        c: np.mean([s for s, r in zip(scores, rows, strict=True) if r[1:3] == (c, "api")])
        for c in ("C0", "C1")
    }
    assert by_size["api"] == pytest.approx(api["C1"] - api["C0"])
