"""P1 to P4: what a publishable result needs, as a reviewer asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise, permutations

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey
from pcsuite.analysis.twins import LOOP, Pair
from pcsuite.analysis.verdicts.evidence import ALPHA, TOKENS, Deltas, Effect, Evidence, pool
from pcsuite.analysis.verdicts.findings import Finding, Verdict, combine, finding, judge, scope_words
from pcsuite.analysis.verdicts.scale import ScaleRow
from pcsuite.analysis.verdicts.structure import OPERATORS
from pcsuite.errors import require
from pcsuite.stats.equivalence import noninferior_paired
from pcsuite.stats.estimate import FloatArray

DOMAINS, SCALES = 3, 3
"""Domains and model sizes on which an effect must show to count as replicated."""
BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must carry."""
MOST_STEPS = 8
"""Steps of a ladder whose sets are all tried as a basis."""
MULTIPLIERS = 999
Gains = Mapping[str, FloatArray]
"""Gains over the control by task, one per item."""


def replicated(evidence: Evidence, operators: Mapping[str, Sequence[Pair]]) -> Finding:
    """P1: a structure block moves the score the same way in enough domains and at enough sizes.

    "In at least three of D" is a partial conjunction (Benjamini & Heller 2008): D - 2 times the third smallest
    one-sided p-value, at 5 % over blocks and directions. No effect found is no evidence of none: contradicted only
    where every block reliably goes both ways, in so many domains (or sizes) that neither direction can reach three.
    """
    statement = (
        f"P1: the effect of a structure block on the score replicates over at least {DOMAINS} domains and {SCALES}"
        " model sizes."
    )
    held = {name: operators[name] for name in OPERATORS if name in operators}
    domains = sorted({evidence.domain(task) for task in evidence.scores.tasks})
    tasks, models = len(evidence.scores.tasks), len(evidence.scores.models)
    if not held:
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
    level = ALPHA / (2 * len(held))
    shown, split, parts = [], [], []
    for name, pairs in held.items():
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
    cells = sum(len(pairs) for pairs in held.values())
    return Finding(statement, words, verdict, cells=cells, tasks=tasks, models=models)


def _pooled_by(
    evidence: Evidence, pairs: Sequence[Pair], level_of: Callable[[Pair], str], name: str
) -> dict[str, Effect]:
    """The effect on the score in each domain, or at each size."""
    grouped: dict[str, list[Pair]] = {}
    for pair in pairs:
        grouped.setdefault(level_of(pair), []).append(pair)
    return {level: pool(evidence.deltas(found, SCORE), "P1", name, level) for level, found in grouped.items()}


def _partial_conjunction(effects: Mapping[str, Effect], sign: int, needed: int) -> float:
    """P-value of "at least ``needed`` of these effects have this sign"; 1 where so many were not tested."""
    tails = sorted(
        1.0 if effect.untested else effect.p_value / 2 if sign * effect.value > 0 else 1 - effect.p_value / 2
        for effect in effects.values()
    )
    if not 1 <= needed <= len(tails):
        return 1.0
    return min(1.0, (len(tails) - needed + 1) * tails[needed - 1])


def constraint_tradeoff(
    evidence: Evidence, pairs: Sequence[Pair], steadier: Effect, readable: Effect
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
    if "contradicted" in strict:
        verdict = "contradicted"
    score, tokens = (pool(evidence.deltas(pairs, measure), "P2", measure) for measure in (SCORE, TOKENS))
    failures = [
        float(evidence.measured(pair.treated, "constraint_failure").values.mean())
        for pair in pairs
        if len(evidence.measured(pair.treated, "constraint_failure").values)
    ]
    failed = f"{np.mean(failures):.1%}" if failures else "unknown"
    spent = (
        tokens.words() if tokens.untested else f"{tokens.value:+.1f} [{tokens.low:.1f}, {tokens.high:.1f}]"
    )
    words = (
        f"entropy {parts[0]} ({steadier.words()}), validity {parts[1]} ({readable.words()}). Price against the free"
        f" twin: score {score.words()}, tokens {spent}, constraint failures (truncation counted) {failed}."
    )
    return finding(statement, words, verdict, steadier)


def loop_tradeoff(evidence: Evidence, pairs: Sequence[Pair], grounded: Effect) -> Finding:
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
    score = pool(deltas, LOOP, SCORE, reason="no item has a score on both sides")
    if score.untested:
        return Finding(statement, f"score: {score.untested}.", cells=len(pairs))
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
class _Carrier:
    """A set of operators and the gain that it carries, item by item and task by task."""

    operators: frozenset[str]
    steps: int
    """How many operators carry it at least: a step that adds several of them may owe all to one."""
    gains: Gains


def small_basis(
    evidence: Evidence, conditions: Mapping[str, Sequence[Pair]], rows: Sequence[ScaleRow]
) -> Finding:
    """P4: some set of at most half of the operators carries at least ``BASIS_SHARE`` of every condition's gain.

    A set's gain is that of the condition made of it, or what it adds on the way from one condition to another that
    holds it. Supported where the gain of a set less ``BASIS_SHARE`` of each condition's is reliably positive, at 5 %
    over all sets looked at; contradicted where a condition's ladder of steps shows, for every choice of so few steps,
    that it is reliably negative.
    """
    statement = (
        f"P4: a small basis of operators (at most half) carries at least {BASIS_SHARE:.0%} of the gain."
    )
    gains, bundles = _gains(evidence, conditions)
    operators = frozenset[str]().union(*bundles.values())
    if len(operators) < 2:
        why = (
            "it needs two operators at least, in conditions that all add to their control, on the same items."
        )
        return Finding(statement, why)
    totals = {name: _effect(gain, name) for name, gain in gains.items() if bundles[name]}
    best = max(totals, key=lambda name: totals[name].value)
    helped = [name for name, effect in totals.items() if effect.sign(ALPHA / len(totals)) == 1]
    if not helped:
        words = (
            f"no condition's gain holds after correction; the largest is {best}'s, {totals[best].words()}."
        )
        return finding(statement, words, "not tested", totals[best])
    half = len(operators) // 2
    carriers = _carriers(gains, bundles)
    small = [carrier for carrier in carriers if len(carrier.operators) <= half]
    # The set that looks best is tested against the largest of as many noises as there were sets to look at.
    basis = max(
        small, key=lambda carrier: min(_mean(_lead(carrier, gains[name])) for name in helped), default=None
    )
    carried = basis is not None and all(
        _effect(_lead(basis, gains[name]), name).sign() == 1
        and _chosen_p([_lead(carrier, gains[name]) for carrier in small], small.index(basis), name)
        <= ALPHA / 2
        for name in helped
    )
    told = f"whether {half} of {len(operators)} operators carry it, these conditions and items cannot tell"
    verdict: Verdict = "inconclusive"
    if basis is not None and carried:
        dependent = {
            row.name for row in rows if row.kind == "operator" and row.sizes.call == "scale-dependent"
        }
        names = " + ".join(sorted(basis.operators))
        told = f"{names} ({len(basis.operators)} of {len(operators)} operators) carries it"
        verdict = "supported"
        if basis.operators & dependent:
            verdict = "inconclusive"
            told += f", but {', '.join(sorted(basis.operators & dependent))} depends on model size"
    elif any(_none_carries(name, gains, bundles, small, half, ALPHA / len(helped)) for name in helped):
        verdict, told = "contradicted", f"no set of up to {half} of {len(operators)} operators carries it"
    words = f"the best gain is {best}'s, {totals[best].words()}; {told}."
    return finding(statement, words, verdict, totals[best])


def _gains(
    evidence: Evidence, conditions: Mapping[str, Sequence[Pair]]
) -> tuple[dict[str, Gains], dict[str, frozenset[str]]]:
    """The gain of each condition over the control on the items that all of them answered, and what it adds to it.

    The control stands among them under an empty name, with no gain. Conditions that some task lacks are left out, so
    that every gain is over the same items; nothing is returned where the control is no part of every condition.
    """
    found = {name: evidence.deltas(pairs, SCORE) for name, pairs in conditions.items()}
    tasks = sorted({task for deltas in found.values() for task in deltas.by_task})
    found = {name: deltas for name, deltas in found.items() if sorted(deltas.by_task) == tasks}
    operators = evidence.scores.operators_in
    bundles = {name: frozenset(operators(conditions[name][0].treated)) for name in found}
    bare = {frozenset(operators(pair.control)) for name in found for pair in conditions[name]}
    if len(bare) != 1 or not all(next(iter(bare)) <= bundle for bundle in bundles.values()):
        return {}, {}
    gains: dict[str, dict[str, FloatArray]] = {name: {} for name in ("", *found)}
    for task in tasks:
        measured = {name: deltas.by_task[task] for name, deltas in found.items()}
        shared = reduce(np.intersect1d, (one.items for one in measured.values()))
        gains[""][task] = np.zeros(len(shared))
        for name, one in measured.items():
            gains[name][task] = one.values[np.isin(one.items, shared)]
    return dict(gains), {"": frozenset()} | {
        name: bundle - next(iter(bare)) for name, bundle in bundles.items()
    }


def _carriers(gains: Mapping[str, Gains], bundles: Mapping[str, frozenset[str]]) -> list[_Carrier]:
    """What is added on the way from any condition to one that holds it, and by the steps of each ladder together."""
    found: dict[tuple[frozenset[str], float], _Carrier] = {}
    for lower, upper in permutations(bundles, 2):
        if bundles[lower] < bundles[upper]:
            added, gained = bundles[upper] - bundles[lower], _minus(gains[upper], gains[lower])
            found[added, round(_mean(gained), 9)] = _Carrier(added, 1, gained)
    for top in bundles:
        for carrier in _step_sets(top, gains, bundles):
            # Steps that follow each other were met above, as the way from one condition to another.
            found.setdefault((carrier.operators, round(_mean(carrier.gains), 9)), carrier)
    return list(found.values())


def _ladder(top: str, bundles: Mapping[str, frozenset[str]]) -> list[str]:
    """Conditions from the control to ``top``, each holding the one before."""
    rungs: list[str] = []
    for name in sorted(
        (name for name in bundles if bundles[name] <= bundles[top]), key=lambda name: len(bundles[name])
    ):
        if not rungs or bundles[rungs[-1]] < bundles[name]:
            rungs.append(name)
    return rungs


def _step_sets(
    top: str, gains: Mapping[str, Gains], bundles: Mapping[str, frozenset[str]]
) -> Iterator[_Carrier]:
    """Every set of two steps or more of the ladder to ``top``, up to ``MOST_STEPS`` steps long."""
    rungs = _ladder(top, bundles)[: MOST_STEPS + 1]
    steps = [
        (bundles[upper] - bundles[lower], _minus(gains[upper], gains[lower]))
        for lower, upper in pairwise(rungs)
    ]
    for count in range(2, len(steps) + 1):
        for chosen in combinations(steps, count):
            gained = {task: np.sum([gain[task] for _, gain in chosen], axis=0) for task in chosen[0][1]}
            yield _Carrier(frozenset[str]().union(*(added for added, _ in chosen)), count, gained)


def _none_carries(
    top: str,
    gains: Mapping[str, Gains],
    bundles: Mapping[str, frozenset[str]],
    small: Sequence[_Carrier],
    half: int,
    alpha: float,
) -> bool:
    """Whether no choice of up to ``half`` steps of the ladder to ``top``, and no other small set, carries its gain."""
    rungs = _ladder(top, bundles)
    if len(rungs) - 1 <= half or len(rungs) - 1 > MOST_STEPS:
        return (
            False  # with so few steps each may owe its gain to one operator, so that few enough carry it all
        )
    single = [
        _Carrier(bundles[upper] - bundles[lower], 1, _minus(gains[upper], gains[lower]))
        for lower, upper in pairwise(rungs)
    ]
    tried = [*single, *_step_sets(top, gains, bundles)]
    leads = [_lead(carrier, gains[top]) for carrier in (*tried, *small) if carrier.steps <= half]
    # The interval of the most promising choice, and a plain t test of every other.
    if not all(_falls_short(lead, alpha) for lead in leads):
        return False
    return _effect(max(leads, key=_mean), "falls short", top).sign(alpha) == -1


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


def _falls_short(lead: Gains, alpha: float) -> bool:
    """Whether a mean over tasks is below 0 by a one-sided t test at half of ``alpha``."""
    size = sum(len(values) for values in lead.values()) - len(lead)
    error = float(np.sqrt(sum(values.var(ddof=1) / len(values) for values in lead.values()))) / len(lead)
    reach = float(require("scipy.special", "stats").stdtrit(size, 1 - alpha / 2))
    return _mean(lead) + reach * error < 0


def _lead(carrier: _Carrier, gain: Gains) -> Gains:
    """What the carrier gains less ``BASIS_SHARE`` of a condition's gain, item by item."""
    return {task: carrier.gains[task] - BASIS_SHARE * values for task, values in gain.items()}


def _minus(first: Gains, second: Gains) -> Gains:
    return {task: values - second[task] for task, values in first.items()}


def _mean(gains: Gains) -> float:
    return float(np.mean([values.mean() for values in gains.values()]))


def _effect(gains: Gains, *names: object) -> Effect:
    """Per-item gains pooled over tasks."""
    deltas = Deltas()
    for task, values in gains.items():
        pair = Pair(*(CellKey(task, "", "", CLEAN, side) for side in ("treated", "control")))
        deltas.add(pair, np.arange(len(values)), values, np.zeros(len(values)))
    return pool(deltas, "P4", *names)
