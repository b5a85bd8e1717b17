"""P4: whether a few operators carry most of the gain, alike at every model size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, ItemValues, on_common_items
from pcsuite.analysis.twins import CONSTRAINT, CellPair, constraints
from pcsuite.analysis.verdicts.evidence import Deltas, Effect, Evidence, mean_by_item, pool_deltas
from pcsuite.analysis.verdicts.findings import Finding, Hypothesis, Verdict
from pcsuite.analysis.verdicts.scale import p_within
from pcsuite.contrasts import ALPHA
from pcsuite.errors import require
from pcsuite.prompts.compiled import COMPILED_OPERATOR
from pcsuite.stats.attribution import AttributionMethod, attribution_weights, varied_operators
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.related_rows import cluster_rows

BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must carry."""
MOST_BLOCKS = 10
"""Operators (or blocks of them) whose sets are all tried as a basis."""
MULTIPLIERS = 999
"""Draws of the multiplier bootstrap: with the observed value a thousand, so that p is a whole number of thousandths."""
_NEEDS = "it needs conditions that all tasks and models have and that vary two operators at least"
Gains = Mapping[str, FloatArray]
"""Gains by task, one per item, or per cluster where items are related."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """What each operator of the common conditions adds, item by item, as ``attribution.csv`` has it."""

    blocks: tuple[frozenset[str], ...]
    """Operators that only come together count as one block."""
    method: AttributionMethod
    by_task: Mapping[str, ItemValues]
    """By task: items by blocks, or clusters of items where items are related."""
    items: int
    by_level: Mapping[str, Mapping[str, ItemValues]]
    """The same at each model size."""

    @property
    def operators(self) -> frozenset[str]:
        return frozenset[str]().union(*self.blocks)


def small_basis(evidence: Evidence) -> Finding:
    """Some set of at most half of the operators carries ``BASIS_SHARE`` of the gain, alike at every model size.

    The shares are those of ``attribution.csv`` over the conditions that every task, model and regime has: the Shapley
    value where the conditions identify it, else least squares. Supported where the shares of a set less ``BASIS_SHARE``
    of all shares are reliably positive, at 5 % over all sets looked at, *and* what the set adds is equivalent at every
    pair of sizes (within the profile's ``analysis.scale_bound``). Contradicted where every set of so few falls short.
    """
    shares = _operator_shares(evidence)
    if isinstance(shares, str):
        return Finding(f"{shares}.")
    everything = tuple(range(len(shares.blocks)))
    total = replace(_effect(_added(shares.by_task, everything), "gain"), items=shares.items)
    if total.sign() != 1:
        words = f"no gain to share out: all operators together add {total.words()} ({shares.method})."
        return Finding(words, "not tested", total)
    half = len(shares.operators) // 2
    sets = [chosen for count in everything for chosen in combinations(everything, count + 1)]
    leads = {chosen: _lead(shares.by_task, chosen) for chosen in sets}
    small = [chosen for chosen in sets if sum(len(shares.blocks[index]) for index in chosen) <= half]
    # The set that looks best is tested against the largest of as many noises as there were sets to look at.
    basis = max(small, key=lambda chosen: _mean(leads[chosen]), default=None)
    carried = (
        basis is not None
        and _effect(leads[basis], "lead").sign() == 1
        and _chosen_p([leads[chosen] for chosen in small], small.index(basis), shares.method) <= ALPHA / 2
    )
    verdict: Verdict = "inconclusive"
    conclusion = f"whether {half} of {len(shares.operators)} operators carry it, these conditions and items cannot tell"
    if basis is not None and carried:
        invariant, words = _is_invariant(evidence, shares, basis)
        verdict = "supported" if invariant else "inconclusive"
        names = frozenset[str]().union(*(shares.blocks[index] for index in basis))
        part = _mean(_added(shares.by_task, basis)) / total.value
        conclusion = (
            f"{' + '.join(sorted(names))} ({len(names)} of {len(shares.operators)} operators) carries {part:.0%} of it"
            f" and {words}"
        )
    elif _all_fall_short(
        [leads[chosen] for chosen in sets if len(chosen) <= half], len(shares.blocks) > half
    ):
        verdict = "contradicted"
        conclusion = f"no set of up to {half} of {len(shares.operators)} operators carries it"
    words = f"all operators together add {total.words()} ({shares.method}); {conclusion}."
    return Finding(words, verdict, total)


def _operator_shares(evidence: Evidence) -> _Shares | str:
    """Each operator's share by the best method that the common conditions identify, or why there is none."""
    scores = evidence.scores
    groups: list[dict[frozenset[str], CellKey]] = []
    for keys in scores.groups().values():
        bundles: dict[frozenset[str], CellKey] = {}
        for key in keys:
            operators = scores.operators_in(key)
            if COMPILED_OPERATOR not in operators:
                constraining = constraints(operators, scores.operator_types)
                # Which constraint a task has is the task's; that it has one is the condition's.
                bundle = frozenset(operators) - constraining | ({CONSTRAINT} if constraining else frozenset())
                bundles.setdefault(bundle, key)
        groups.append(bundles)
    common = sorted(
        frozenset.intersection(*(frozenset(group) for group in groups)) if groups else (),
        key=lambda bundle: (len(bundle), sorted(bundle)),
    )
    varied = varied_operators([sorted(bundle) for bundle in common])
    if len(varied) < 2:
        return _NEEDS
    entries = attribution_weights([sorted(bundle) for bundle in common])
    for method in ("shapley", "least squares"):
        chosen = [entry for entry in entries if entry.method == method]
        blocks = tuple(frozenset(entry.operator.split("+")) for entry in chosen)
        if frozenset[str]().union(*blocks) == frozenset(varied):
            break
    else:
        return "the conditions that all tasks and models have do not tell the operators' effects apart"
    if len(blocks) > MOST_BLOCKS:
        return f"{len(blocks)} operators are varied, and sets of more than {MOST_BLOCKS} are not gone through"
    weights = np.column_stack([entry.weights for entry in chosen])
    parts: list[tuple[CellKey, ItemValues]] = []
    for group in groups:
        items, columns = on_common_items(*(evidence.measured(group[bundle], SCORE) for bundle in common))
        parts.append((group[common[0]], ItemValues(items, np.column_stack(columns) @ weights)))
    by_level = {
        level: _by_task([part for part in parts if evidence.sizes.of[part[0].model] == level])
        for level in evidence.sizes.order
    }
    by_task, items_of = {}, _by_task(parts)
    if any(len(items) < 2 for items, _ in items_of.values()):
        return "some task has no two items that every condition answered"
    for task, (items, table) in items_of.items():
        clusters = scores.clusters_of(task, items)
        rows = cluster_rows(table, clusters)
        if clusters is not None and (reason := too_few_clusters(len(rows))):
            return f"{task}: {reason}"
        by_task[task] = ItemValues(np.arange(len(rows)), rows)
    total = sum(len(items) for items, _ in items_of.values())
    return _Shares(blocks, chosen[0].method, by_task, total, by_level)


def _by_task(parts: Sequence[tuple[CellKey, ItemValues]]) -> dict[str, ItemValues]:
    """Shares of each item, averaged over the models and regimes that answered it."""
    tasks: dict[str, list[ItemValues]] = {}
    for key, shares in parts:
        tasks.setdefault(key.task, []).append(shares)
    return {task: mean_by_item(several) for task, several in tasks.items()}


def _is_invariant(evidence: Evidence, shares: _Shares, chosen: Sequence[int]) -> tuple[bool, str]:
    """Whether what a set adds is equivalent at every pair of sizes, and that in words."""
    bound, levels = evidence.analysis.scale_bound, evidence.sizes.order
    if len(levels) < 2:
        return False, f"whether it does at every size was not tested: the run has one {evidence.sizes.factor}"
    widest, largest = Effect(), 0.0
    for first, second in combinations(levels, 2):
        gap = Deltas(clusters=evidence.scores.clusters)
        for task, at_first in shares.by_level[first].items():
            if task in shares.by_level[second]:
                items, sides = on_common_items(at_first, shares.by_level[second][task])
                gap.add(_pair(task), items, *(table[:, list(chosen)].sum(axis=1) for table in sides))
        effect = pool_deltas(gap, "P4", first, second, reason=f"{first} and {second} share no items")
        if effect.untested:
            return False, f"whether it does at every size was not tested: {effect.untested}"
        largest = max(largest, p_within(effect, bound))
        widest = max(widest, effect, key=lambda gap: abs(gap.value) if np.isfinite(gap.value) else -1.0)
    same = largest <= ALPHA
    claim = "adds" if same else "is not shown to add"
    return same, f"{claim} the same at every size within ±{bound:g} (largest difference {widest.words()})"


def _all_fall_short(leads: Sequence[Gains], enough_blocks: bool) -> bool:
    """Whether every set reliably carries less; with too few blocks each may owe its share to one operator."""
    if not enough_blocks:
        return False
    quantile = require("scipy.special", "stats").stdtrit
    for lead in leads:  # each by a one-sided t test of its mean over tasks, at half of the level
        size = sum(len(values) for values in lead.values()) - len(lead)
        error = float(np.sqrt(sum(values.var(ddof=1) / len(values) for values in lead.values()))) / len(lead)
        if _mean(lead) + float(quantile(size, 1 - ALPHA / 2)) * error >= 0:
            return False
    return _effect(max(leads, key=_mean), "falls short").sign() == -1


def _chosen_p(leads: Sequence[Gains], chosen: int, name: str) -> float:
    """One-sided p-value of the mean of one lead, chosen among several for being the largest.

    The largest t statistic of all is simulated by giving items random weights (the multiplier bootstrap of
    Chernozhukov, Chetverikov & Kato 2013), which knows how alike the sets are.
    """
    rng = named_rng("P4", "choice", name)
    draws, variance = np.zeros((MULTIPLIERS, len(leads))), np.zeros(len(leads))
    for task in leads[0]:
        table = np.column_stack([lead[task] for lead in leads]) / len(leads[0])
        table = (table - table.mean(axis=0)) / np.sqrt(len(table) * max(1, len(table) - 1))
        draws += rng.standard_normal((MULTIPLIERS, len(table))) @ table
        variance += (table**2).sum(axis=0)
    errors = np.sqrt(np.maximum(variance, 1e-24))
    reached = _mean(leads[chosen]) / errors[chosen]
    return float((1 + ((draws / errors).max(axis=1) >= reached).sum()) / (1 + MULTIPLIERS))


def _added(shares: Mapping[str, ItemValues], chosen: Sequence[int]) -> Gains:
    """What a set of blocks adds, item by item."""
    return {task: table[:, list(chosen)].sum(axis=1) for task, (_, table) in shares.items()}


def _lead(shares: Mapping[str, ItemValues], chosen: Sequence[int]) -> Gains:
    """What a set of blocks adds less ``BASIS_SHARE`` of what all add, item by item."""
    added = _added(shares, chosen)
    return {task: added[task] - BASIS_SHARE * table.sum(axis=1) for task, (_, table) in shares.items()}


def _mean(gains: Gains) -> float:
    return float(np.mean([values.mean() for values in gains.values()]))


def _effect(gains: Gains, *names: object) -> Effect:
    """Per-item gains pooled over tasks."""
    deltas = Deltas()
    for task, values in gains.items():
        deltas.add(_pair(task), np.arange(len(values)), values, np.zeros(len(values)))
    return pool_deltas(deltas, "P4", *names)


def _pair(task: str) -> CellPair:
    """Stands for the cells of a task, of which the gains are."""
    return CellPair(*(CellKey(task, "", "", CLEAN, side) for side in ("treated", "control")))


P4 = Hypothesis(
    "P4",
    f"a small set of operators (at most half) carries at least {BASIS_SHARE:.0%} of the gain and is invariant over"
    " model sizes.",
    "the shares of `attribution.csv` (Shapley values, else least squares) over the conditions that all tasks and models"
    " have: a set of at most half of the operators has 80 % of them, and what it adds is equivalent at every pair of"
    " sizes",
    _NEEDS,
    small_basis,
)
