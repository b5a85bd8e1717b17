"""Known truth against what is printed: mixed-model p-values, pooled effects, attribution, the best condition.

The table behind "Models, pooling and attribution" of benchmarks/README.md.
Run: OMP_NUM_THREADS=1 python benchmarks/simulate_models.py [studies] [part …], parts: mixed pooled attribution best
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

from pcsuite.analysis.tables.pooled import _pooled, _Slice
from pcsuite.stats.attribution import ATTRIBUTION_METHODS, attribute
from pcsuite.stats.design import cell_totals, encode_cells, fixed_design
from pcsuite.stats.emmeans import contrasts_with_reference
from pcsuite.stats.mixed import fit_mixed
from pcsuite.stats.permutation import benjamini_hochberg
from pcsuite.stats.selection import best_of


def answers(rng, ease, shifts):
    """0/1 answers with chance logistic(ease + shift)."""
    return (rng.random(shifts.shape) < 1 / (1 + np.exp(-(ease + shifts)))).astype(float)


def main() -> None:
    """Print the parts asked for, or all."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    parts = {"mixed": mixed, "pooled": pooled, "attribution": attribution, "best": best}
    for name in sys.argv[2:] or parts:
        print(f"\n{name}, {studies} studies")
        parts[name](studies)


# Mixed models: false alarms at 5 % of the condition's marginal contrast, by the model and as printed.
def mixed(studies: int) -> None:
    worlds = {
        "floor, 8 items": {"items": 8, "level": -3.0},
        "floor, 30 items": {"items": 30, "level": -3.5},
        "floor and ceiling of items, 30": {"items": 30, "level": 0.0, "item_sd": 4.0},
        "middle, 8 items": {"items": 8, "level": 0.0},
        "two cells in the middle, two at the floor": {"items": 30, "at_floor": 2},
        "the same with 4 models": {"items": 30, "at_floor": 2, "sizes": 4},
        "2 sizes": {"items": 30, "sizes": 2, "slope_sd": 1.0},
        "4 sizes": {"items": 30, "sizes": 4, "slope_sd": 1.0},
        "6 sizes": {"items": 30, "sizes": 6, "slope_sd": 1.0},
        "6 sizes, 20 % of answers missing": {"items": 30, "sizes": 6, "slope_sd": 1.0, "missing": 0.2},
        "2 tasks, tau 0.1": {"items": 60, "tasks": 2, "task_sd": 0.5},
        "4 tasks, tau 0.1": {"items": 60, "tasks": 4, "task_sd": 0.5},
        "6 tasks of unequal size, tau 0.1": {"items": 60, "tasks": 6, "task_sd": 0.5, "unequal": True},
        "3 replicates": {"items": 30, "replicates": 3, "slope_sd": 1.0},
    }
    print(f"{'world':36s} {'tests':>6s} {'model':>7s} {'printed':>8s}")
    for name, world in worlds.items():
        rng = np.random.default_rng(len(name))
        rejected, tests = np.zeros(2), np.zeros(2)
        for _ in range(studies):
            fits = fitted(rng, **world)
            for pair in p_values(fits, 1 if "at_floor" in world else None) if fits else ():
                tested = np.isfinite(pair)
                rejected += np.where(tested, pair < 0.05, 0)
                tests += tested
        model, printed = rejected / np.maximum(tests, 1)
        print(f"{name:36s} {int(tests[1]):6d} {model:7.3f} {printed:8.3f}", flush=True)


def fitted(
    rng, *, items, level=0.0, item_sd=1.0, sizes=1, slope_sd=0.0, tasks=1, task_sd=0.0, replicates=1, **more
):
    """Both fits of a study in which conditions do the same on average, or nothing where scores do not vary."""
    rows = []
    for task in range(tasks):
        count = items * (task + 1) // 3 + 8 if more.get("unequal") else items
        ease = level + rng.normal(0, item_sd, count)
        # What a condition does for an item, the same at every size; what it does on a task.
        conditions = 2 + more.get("at_floor", 1)
        slope = rng.normal(0, slope_sd, (count, conditions)) + rng.normal(0, task_sd, conditions)
        slope[:, 2:] -= 8.0 if "at_floor" in more else 0.0
        shape = (count, conditions, sizes, replicates)
        y = answers(rng, ease[:, None, None, None], np.broadcast_to(slope[:, :, None, None], shape))
        index = np.argwhere(rng.random(shape) >= more.get("missing", 0.0))
        rows.append(np.column_stack([np.full(len(index), task), index[:, :3], y[tuple(index.T)]]))
    task, item, condition, size, score = np.concatenate(rows).T
    if np.ptp(score) == 0:
        return None
    factors = {"task": task.astype(int).astype(str), "condition": condition.astype(int).astype(str)}
    factors["size"] = size.astype(int).astype(str)
    cells, codes = encode_cells(factors)
    terms = ["condition"] + (["size", "condition:size"] if sizes > 1 else [])
    totals, design = cell_totals(item + 1e6 * task, codes, score), fixed_design(cells, terms)
    small = {"dataset": np.array([int(cell["task"]) for cell in cells])} if tasks > 1 else None
    try:
        return [
            fit_mixed(totals, design, small_factors=small, jackknife=by_unit) for by_unit in (False, True)
        ]
    except Exception as error:  # a study without any spread has no fit and no p-value
        if "vary" not in str(error) and "finite" not in str(error):
            raise
        return None


def p_values(fits, first):
    """P-values of the conditions that do what the reference does, by both fits."""
    by_fit = [[c.contrast.p_value for c in contrasts_with_reference(fit, "condition")] for fit in fits]
    return np.array(by_fit).T[:first]


# Pooled effects: false alarms and coverage of the mean, and of the effect on a task that was not run.
def pooled(studies: int) -> None:
    print(f"{'world':40s} {'over':18s} {'false +':>8s} {'covers':>7s} {'new one':>8s}")
    for tasks, models, tau, items in (
        (2, 1, 0.1, 30), (3, 1, 0.1, 30), (6, 1, 0.1, 30), (6, 1, 0.0, 30), (6, 3, 0.1, 30), (1, 4, 0.1, 30),
        (10, 1, 0.1, 8),
    ):  # fmt: skip
        rng = np.random.default_rng(tasks + 10 * models)
        tally: dict[str, list[tuple[bool, bool, bool]]] = {}
        for _ in range(studies):
            by_task, by_model = (
                rng.normal(0, tau if tasks > 1 else 0.0, tasks + 1),
                rng.normal(0, tau, models + 1),
            )
            slices = {}
            for task in range(tasks):
                shared = rng.choice([-0.2, 0.0, 0.2], items)[:, None]
                share = by_task[task] + (by_model[:models] if models > 1 else 0.0) + shared
                gain = np.clip(np.broadcast_to(share, (items, models)), -0.9, 0.9)
                drawn = rng.random((items, models))
                effects = np.where(
                    drawn < (0.4 + gain) / 2, 1.0, np.where(drawn > 1 - (0.4 - gain) / 2, -1.0, 0.0)
                )
                slices[f"t{task}"] = _Slice(effects, tuple(f"m{k}" for k in range(models)))
            for record in _pooled(slices):
                new = {"tasks": by_task[tasks], "models": by_model[models]}.get(record["over"])
                # On these tasks and models the truth is 0 plus what is not pooled over.
                centre = {
                    "tasks": by_model[:models].mean() if models > 1 else 0.0,
                    "models": by_task[:tasks].mean(),
                }.get(record["over"], 0.0)
                covers = record["effect_low"] <= centre <= record["effect_high"]
                inside = new is None or record["prediction_low"] is None
                inside = inside or record["prediction_low"] <= new + centre <= record["prediction_high"]
                tally.setdefault(record["over"], []).append((not covers, covers, inside))
        for over, found in tally.items():
            name = f"{tasks} tasks, {models} models, tau {tau}, {items} items"
            wrong, covers, inside = np.mean(found, axis=0)
            print(f"{name:40s} {over:18s} {wrong:8.3f} {covers:7.3f} {inside:8.3f}", flush=True)


# Attribution: chance of any false finding where nothing works, share of false ones where one operator does.
def attribution(studies: int) -> None:
    letters = "ABD"
    factorial = [own for k in range(4) for own in itertools.combinations(letters, k)]
    designs = {
        "factorial": factorial,
        "leave-one-out": [tuple(letters)] + [tuple(o for o in letters if o != k) for k in letters],
        "add-one-in": [()] + [(k,) for k in letters],
        "ladder": [tuple(letters[:k]) for k in range(4)],
    }
    print(
        f"{'design':16s} {'items':>5s} {'level':>6s} {'works':>5s} "
        + " ".join(f"{m:>14s}" for m in ATTRIBUTION_METHODS)
    )
    for (name, bundles), items, level, working in itertools.product(
        designs.items(), (8, 30), (-2.5, 0.0), (0, 1)
    ):
        rng = np.random.default_rng(items)
        shares: dict[str, list[float]] = {}
        strength = np.array([[1.5 * working * ("A" in own) for own in bundles]])
        for _ in range(studies):
            ease = level + rng.normal(0, 1, items)
            values = answers(rng, ease[:, None], np.broadcast_to(strength, (items, len(bundles))))
            found = attribute(values, bundles, rng=rng)
            for method in ATTRIBUTION_METHODS:
                own = [effect for effect in found if effect.method == method]
                if own:
                    held = benjamini_hochberg([effect.test.p_value for effect in own]) < 0.05
                    null = np.array([not (working and effect.operator == "A") for effect in own])
                    shares.setdefault(method, []).append((held & null).sum() / max(held.sum(), 1))
        cells = [f"{np.mean(shares[m]):14.3f}" if m in shares else f"{'–':>14s}" for m in ATTRIBUTION_METHODS]
        print(f"{name:16s} {items:5d} {level:6.1f} {working:5d} " + " ".join(cells), flush=True)


# The best condition: bias as seen and after selection, and coverage of the chosen one's own effect.
def best(studies: int) -> None:
    print(f"{'arms':>4s} {'items':>5s} {'world':14s} {'bias seen':>10s} {'adjusted':>9s} {'covers':>7s}")
    for arms, items, world in itertools.product((5, 20), (30, 100), ("nothing works", "spread 0.1")):
        rng = np.random.default_rng(arms + items)
        rows = []
        for _ in range(studies):
            effects = rng.normal(0, 0.1, arms) if world == "spread 0.1" else np.zeros(arms)
            ease = rng.uniform(0.3, 0.7, (items, 1))
            control = rng.random((items, 1)) < ease
            treated = rng.random((items, arms)) < np.clip(ease + effects, 0.02, 0.98)
            found = best_of(treated.astype(float) - control, rng=rng)
            truth = float(
                (np.clip(np.linspace(0.3, 0.7, 401) + effects[found.index], 0.02, 0.98)).mean() - 0.5
            )
            covers = found.adjusted.low <= truth <= found.adjusted.high
            rows.append((found.observed - truth, found.adjusted.value - truth, covers))
        seen, adjusted, covers = np.mean(rows, axis=0)
        print(f"{arms:4d} {items:5d} {world:14s} {seen:10.3f} {adjusted:9.3f} {covers:7.3f}", flush=True)


if __name__ == "__main__":
    main()
