"""P1 to P4: what a publishable result needs, as a reviewer asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite._util.text import limits_text, signed
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, ItemValues, on_common_items
from pcsuite.analysis.twins import CONSTRAINT, LOOP, CellPair, constraints
from pcsuite.analysis.verdicts.evidence import (
    ALPHA,
    TOKENS,
    Deltas,
    Effect,
    Evidence,
    mean_by_item,
    pool_deltas,
)
from pcsuite.analysis.verdicts.findings import Finding, Verdict, combine, finding, judge, scope_words
from pcsuite.analysis.verdicts.scale import p_within
from pcsuite.analysis.verdicts.structure import OPERATORS
from pcsuite.errors import require
from pcsuite.prompts.compiled import COMPILED_OPERATOR
from pcsuite.stats.attribution import AttributionMethod, attribution_weights, varied_operators
from pcsuite.stats.equivalence import noninferior_paired
from pcsuite.stats.estimate import FloatArray

DOMAINS, SCALES = 3, 3
"""Domains and model sizes on which an effect must show to count as replicated."""
BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must carry."""
MOST_BLOCKS = 10
"""Operators (or blocks of them) whose sets are all tried as a basis."""
MULTIPLIERS = 999
"""Draws of the multiplier bootstrap: with the observed value a thousand, so that p is a whole number of thousandths."""
Gains = Mapping[str, FloatArray]
"""Gains by task, one per item."""


def replicated(evidence: Evidence, operators: Mapping[str, Sequence[CellPair]]) -> Finding:
    """P1: a structure block moves the score the same way in enough domains and at enough sizes.

    "In at least three of D" is a partial conjunction (Benjamini & Heller 2008): D - 2 times the third smallest
    one-sided p-value, at 5 % over blocks and directions. No effect found is no evidence of none: contradicted only
    where every block reliably goes both ways, in so many domains (or sizes) that neither direction can reach three.
    """
    statement = (
        f"P1: the effect of a structure block on the score replicates over at least {DOMAINS} domains and {SCALES}"
        " model sizes."
    )
    blocks = {name: operators[name] for name in OPERATORS if name in operators}
    domains = sorted({evidence.domain(task) for task in evidence.scores.tasks})
    tasks, models = len(evidence.scores.tasks), len(evidence.scores.models)
    if not blocks:
        return Finding(
            statement,
            "no structure block beside the condition that lacks only it.",
            tasks=tasks,
            models=models,
        )
    if len(domains) < DOMAINS or len(evidence.sizes.order) < SCALES:
        words = (
            f"domains in the run: {len(domains)} ({', '.join(domains)}); model sizes: {len(evidence.sizes.order)}"
            f" ({', '.join(evidence.sizes.order)})."
        )
        return Finding(statement, words, tasks=tasks, models=models)
    # Bonferroni over blocks and the two directions.
    level = ALPHA / (2 * len(blocks))
    shown, split, parts = [], [], []
    for name, pairs in blocks.items():
        by_domain = _pooled_by(evidence, pairs, lambda pair: evidence.domain(pair.treated.task), name)
        by_size = _pooled_by(evidence, pairs, lambda pair: evidence.sizes.of[pair.treated.model], name)
        for sign, verb in ((1, "raises"), (-1, "lowers")):
            reached = max(
                _partial_conjunction(by_domain, sign, DOMAINS), _partial_conjunction(by_size, sign, SCALES)
            )
            if reached <= level:
                shown.append(f"{name} {verb} it")
        split.append(
            any(
                max(_partial_conjunction(found, sign, len(found) - need + 1) for sign in (1, -1)) <= ALPHA / 2
                for found, need in ((by_domain, DOMAINS), (by_size, SCALES))
            )
        )
        up, down = (sum(effect.sign() == sign for effect in by_domain.values()) for sign in (1, -1))
        higher, lower = (sum(effect.sign() == sign for effect in by_size.values()) for sign in (1, -1))
        parts.append(
            f"{name}: up in {up} and down in {down} of {len(by_domain)} domains, up at {higher} and down at {lower} of"
            f" {len(by_size)} sizes"
        )
    verdict: Verdict = "supported" if shown else "contradicted" if all(split) else "inconclusive"
    whole = f"{'; '.join(shown)} after correction. " if shown else ""
    words = f"{whole}{'; '.join(parts)} (each by itself, at 5 %)."
    cells = sum(len(pairs) for pairs in blocks.values())
    return Finding(statement, words, verdict, cells=cells, tasks=tasks, models=models)


def _pooled_by(
    evidence: Evidence, pairs: Sequence[CellPair], level_of: Callable[[CellPair], str], name: str
) -> dict[str, Effect]:
    """The effect on the score in each domain, or at each size."""
    grouped: dict[str, list[CellPair]] = {}
    for pair in pairs:
        grouped.setdefault(level_of(pair), []).append(pair)
    return {
        level: pool_deltas(evidence.deltas(found, SCORE), "P1", name, level)
        for level, found in grouped.items()
    }


def _partial_conjunction(effects: Mapping[str, Effect], sign: int, needed: int) -> float:
    """P-value of "at least ``needed`` of these effects have this sign"; 1 where so many were not tested."""
    # Partial conjunction (Benjamini & Heller 2008): the one-sided p-values, the needed-th smallest after Bonferroni.
    tails = sorted(
        1.0 if effect.untested else effect.p_value / 2 if sign * effect.value > 0 else 1 - effect.p_value / 2
        for effect in effects.values()
    )
    if not 1 <= needed <= len(tails):
        return 1.0
    return min(1.0, (len(tails) - needed + 1) * tails[needed - 1])


def _judged(verdict: Verdict, effect: Effect) -> str:
    """A verdict with its figures; where there are none, the words of the effect say both."""
    return effect.words() if effect.untested else f"{verdict} ({effect.words()})"


def constraint_tradeoff(
    evidence: Evidence, pairs: Sequence[CellPair], steadier: Effect, readable: Effect
) -> Finding:
    """P2: entropy of readable answers falls *and* validity rises; the price in score and tokens beside it."""
    statement = (
        "P2: constraints lower entropy and raise validity, and the price in score and tokens is known."
    )
    if not pairs:
        return Finding(statement, "no constrained condition beside the same one free (C6 beside C4).")
    parts = [judge(steadier, -1), judge(readable, 1)]
    strict = [judge(steadier, -1, ALPHA / 2), judge(readable, 1, ALPHA / 2)]
    verdict: Verdict = "not tested" if "not tested" in parts else combine(parts, strict)
    # Either part alone contradicts the claim that both hold, so each is asked at half of the level.
    if "contradicted" in strict:
        verdict = "contradicted"
    score, tokens = (
        pool_deltas(evidence.deltas(pairs, measure), "P2", measure) for measure in (SCORE, TOKENS)
    )
    failures = [
        float(evidence.measured(pair.treated, "constraint_failed").values.mean())
        for pair in pairs
        if len(evidence.measured(pair.treated, "constraint_failed").values)
    ]
    failed = f"{np.mean(failures):.1%}" if failures else "unknown"
    spent = (
        tokens.words()
        if tokens.untested
        else signed(tokens.value, 1) + limits_text(tokens.low, tokens.high, 1)
    )
    words = (
        f"entropy {_judged(parts[0], steadier)}, validity {_judged(parts[1], readable)}. Price against the free"
        f" twin: score {score.words()}, tokens {spent}, constraint failures (truncation counted) {failed}."
    )
    return finding(statement, words, verdict, steadier)


def loop_tradeoff(evidence: Evidence, pairs: Sequence[CellPair], grounded: Effect) -> Finding:
    """P3: H3, and a score that is not lower by the margin or more (a test of non-inferiority, not of no difference)."""
    margin = evidence.analysis.loss_margin
    statement = (
        "P3: the closed loop beats the open loop on unsupported content without losing score (a loss below"
        f" {margin:g})."
    )
    if not pairs:
        return Finding(statement, "no REACT_LOOP condition beside its open-loop twin (C7 beside C3).")
    if grounded.untested:
        return Finding(statement, f"{grounded.untested}.", cells=len(pairs))
    deltas = evidence.deltas(pairs, SCORE)
    score = pool_deltas(deltas, LOOP, SCORE, reason="no item has a score on both sides")
    if score.untested:
        return Finding(statement, f"score: {score.untested}.", cells=len(pairs))
    # A 90 % interval above the margin is the one-sided test at 5 %.
    kept = score.limits(1 - 2 * ALPHA)[0] > -margin and not score.opposed
    if score.tasks == 1:
        (values,) = (measured.values for measured in deltas.by_task.values())
        kept = kept and noninferior_paired(values, margin=margin, alpha=ALPHA).verdict == "noninferior"
    lost = score.limits(1 - ALPHA)[1] < -margin
    first = judge(grounded, -1)
    verdict: Verdict = (
        "contradicted"
        if lost or judge(grounded, -1, ALPHA / 2) == "contradicted"
        else "supported"
        if kept and first == "supported"
        else "inconclusive"
    )
    state = "is kept" if kept else "is lost" if lost else "may be lost"
    words = f"unsupported rate {first}: {grounded.words()}. The score {state}: {score.words()}, {scope_words(score)}."
    return finding(statement, words, verdict, score)


@dataclass(frozen=True, slots=True)
class _Shares:
    """What each operator of the common conditions adds, item by item, as ``attribution.csv`` has it."""

    blocks: tuple[frozenset[str], ...]
    """Operators that only come together count as one block."""
    method: AttributionMethod
    by_task: Mapping[str, ItemValues]
    """By task: items by blocks."""
    by_level: Mapping[str, Mapping[str, ItemValues]]
    """The same at each model size."""

    @property
    def operators(self) -> frozenset[str]:
        return frozenset[str]().union(*self.blocks)


def small_basis(evidence: Evidence) -> Finding:
    """P4: some set of at most half of the operators carries ``BASIS_SHARE`` of the gain, alike at every model size.

    The shares are those of ``attribution.csv`` over the conditions that every task, model and regime has: the Shapley
    value where the conditions identify it, else least squares. Supported where the shares of a set less ``BASIS_SHARE``
    of all shares are reliably positive, at 5 % over all sets looked at, *and* what the set adds is equivalent at every
    pair of sizes (within the profile's ``analysis.scale_bound``). Contradicted where every set of so few falls short.
    """
    statement = (
        f"P4: a small set of operators (at most half) carries at least {BASIS_SHARE:.0%} of the gain and is invariant"
        " over model sizes."
    )
    shares = _operator_shares(evidence)
    if isinstance(shares, str):
        return Finding(statement, f"{shares}.")
    everything = tuple(range(len(shares.blocks)))
    total = _effect(_added(shares.by_task, everything), "gain")
    if total.sign() != 1:
        words = f"no gain to share out: all operators together add {total.words()} ({shares.method})."
        return finding(statement, words, "not tested", total)
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
        verdict, conclusion = (
            "contradicted",
            f"no set of up to {half} of {len(shares.operators)} operators carries it",
        )
    words = f"all operators together add {total.words()} ({shares.method}); {conclusion}."
    return finding(statement, words, verdict, total)


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
                named = frozenset(operators) - constraining | ({CONSTRAINT} if constraining else frozenset())
                bundles.setdefault(named, key)
        groups.append(bundles)
    common = sorted(
        frozenset.intersection(*(frozenset(group) for group in groups)) if groups else (),
        key=lambda bundle: (len(bundle), sorted(bundle)),
    )
    wanted = varied_operators([sorted(bundle) for bundle in common])
    if len(wanted) < 2:
        return "it needs conditions that all tasks and models have and that vary two operators at least"
    entries = attribution_weights([sorted(bundle) for bundle in common])
    for method in ("shapley", "least squares"):
        chosen = [entry for entry in entries if entry.method == method]
        blocks = tuple(frozenset(entry.operator.split("+")) for entry in chosen)
        if frozenset[str]().union(*blocks) == frozenset(wanted):
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
    by_task = _by_task(parts)
    if any(len(items) < 2 for items, _ in by_task.values()):
        return "some task has no two items that every condition answered"
    return _Shares(blocks, chosen[0].method, by_task, by_level)


def _by_task(parts: Sequence[tuple[CellKey, ItemValues]]) -> dict[str, ItemValues]:
    """Shares of each item, averaged over the models and regimes that answered it."""
    tasks: dict[str, list[ItemValues]] = {}
    for key, shares in parts:
        tasks.setdefault(key.task, []).append(shares)
    return {task: mean_by_item(found) for task, found in tasks.items()}


def _is_invariant(evidence: Evidence, shares: _Shares, chosen: Sequence[int]) -> tuple[bool, str]:
    """Whether what a set adds is equivalent at every pair of sizes, and that in words."""
    bound, levels = evidence.analysis.scale_bound, evidence.sizes.order
    if len(levels) < 2:
        return False, f"whether it does at every size was not tested: the run has one {evidence.sizes.factor}"
    widest, largest = Effect(), 0.0
    for first, second in combinations(levels, 2):
        gap = Deltas()
        for task, own in shares.by_level[first].items():
            if task in shares.by_level[second]:
                items, sides = on_common_items(own, shares.by_level[second][task])
                gap.add(_pair(task), items, *(table[:, list(chosen)].sum(axis=1) for table in sides))
        effect = pool_deltas(gap, "P4", first, second, reason=f"{first} and {second} share no items")
        if effect.untested:
            return False, f"whether it does at every size was not tested: {effect.untested}"
        largest = max(largest, p_within(effect, bound))
        widest = max(widest, effect, key=lambda one: abs(one.value) if np.isfinite(one.value) else -1.0)
    if largest <= ALPHA:
        return True, f"adds the same at every size within ±{bound:g} (largest difference {widest.words()})"
    return (
        False,
        f"is not shown to add the same at every size within ±{bound:g} (largest difference {widest.words()})",
    )


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
    # Gaussian multipliers keep the leads' correlation, so that it is their maximum that is judged (Chernozhukov et al.
    # 2013).
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
    return {
        task: table[:, list(chosen)].sum(axis=1) - BASIS_SHARE * table.sum(axis=1)
        for task, (_, table) in shares.items()
    }


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
