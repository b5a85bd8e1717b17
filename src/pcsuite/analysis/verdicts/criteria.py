"""P1 to P4: what a publishable result needs, as a reviewer asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.table import number
from pcsuite.analysis.twins import LOOP, Pair
from pcsuite.analysis.verdicts.evidence import ALPHA, TOKENS, Deltas, Evidence, Pooled, pool
from pcsuite.analysis.verdicts.findings import Finding, Verdict, combine, finding, judge, scope_words
from pcsuite.analysis.verdicts.scale import ScaleRow
from pcsuite.analysis.verdicts.structure import OPERATORS
from pcsuite.stats.equivalence import noninferior_paired

DOMAINS, SCALES = 3, 3
"""Domains and model sizes on which an effect must show to count as replicated."""
BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must carry."""
MOST_CARRIERS = 64
"""Sets of operators that are tried as a basis, the smallest first."""


def replicated(evidence: Evidence, operators: Mapping[str, Sequence[Pair]]) -> Finding:
    """P1: a structure block moves the score the same way in enough domains and at enough sizes.

    "In at least three of D" is a partial conjunction (Benjamini & Heller 2008): D - 2 times the third smallest one-sided
    p-value, at 5 % over blocks and directions. No effect found is no evidence of none: contradicted only where every
    block reliably goes both ways, in so many domains (or sizes) that neither direction can reach three.
    """
    statement = (
        f"P1: the effect of a structure block on the score replicates over at least {DOMAINS} domains and {SCALES} model"
        " sizes."
    )
    held = {name: operators[name] for name in OPERATORS if name in operators}
    domains = sorted({evidence.domain(task) for task in evidence.scores.tasks})
    counts = {"tasks": len(evidence.scores.tasks), "models": len(evidence.scores.models)}
    if not held:
        return Finding(statement, "no structure block beside the condition that lacks only it.", **counts)
    if len(domains) < DOMAINS or len(evidence.sizes.order) < SCALES:
        words = (
            f"domains in the run: {len(domains)} ({', '.join(domains)}); model sizes: {len(evidence.sizes.order)}"
            f" ({', '.join(evidence.sizes.order)})."
        )
        return Finding(statement, words, **counts)
    level = ALPHA / (2 * len(held))
    shown, split, words = [], [], []
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
        words.append(
            f"{name}: up in {up} and down in {down} of {len(by_domain)} domains, up at {higher} and down at {lower} of"
            f" {len(by_size)} sizes"
        )
    verdict: Verdict = "supported" if shown else "contradicted" if all(split) else "inconclusive"
    whole = f"{'; '.join(shown)} after correction. " if shown else ""
    return Finding(statement, f"{whole}{'; '.join(words)} (each by itself, at 5 %).", verdict, **counts)


def _pooled_by(evidence: Evidence, pairs: Sequence[Pair], level_of: object, name: str) -> dict[str, Pooled]:
    """The effect on the score in each domain, or at each size."""
    assert callable(level_of)
    grouped: dict[str, list[Pair]] = {}
    for pair in pairs:
        grouped.setdefault(level_of(pair), []).append(pair)
    return {
        level: pool(evidence.deltas(found, SCORE), "P1", name, level) for level, found in grouped.items()
    }


def _partial_conjunction(effects: Mapping[str, Pooled], sign: Literal[1, -1] | int, needed: int) -> float:
    """P-value of "at least ``needed`` of these effects have this sign"; 1 where so many were not tested."""
    tails = sorted(
        1.0
        if effect.untested
        else effect.p_value / 2
        if sign * effect.value > 0
        else 1 - effect.p_value / 2
        for effect in effects.values()
    )
    if not 1 <= needed <= len(tails):
        return 1.0
    return min(1.0, (len(tails) - needed + 1) * tails[needed - 1])


def constraint_tradeoff(
    evidence: Evidence, pairs: Sequence[Pair], steadier: Pooled, readable: Pooled
) -> Finding:
    """P2: entropy of readable answers falls *and* validity rises; the price in score and tokens beside it."""
    statement = "P2: constraints lower entropy and raise validity, and the price in score and tokens is known."
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
    spent = tokens.words() if tokens.untested else f"{tokens.value:+.1f} [{tokens.low:.1f}, {tokens.high:.1f}]"
    words = (
        f"entropy {parts[0]} ({steadier.words()}), validity {parts[1]} ({readable.words()}). Price against the free twin:"
        f" score {score.words()}, tokens {spent}, constraint failures (truncation counted) {failed}."
    )
    return finding(statement, words, verdict, steadier)


def loop_tradeoff(evidence: Evidence, pairs: Sequence[Pair], grounded: Pooled) -> Finding:
    """P3: H3, and a score that is not lower by the margin or more (a test of non-inferiority, not of no difference)."""
    margin = evidence.settings.loss_margin
    statement = (
        "P3: the closed loop beats the open loop on unsupported content without losing score (a loss below"
        f" {margin:g})."
    )
    if not pairs or grounded.untested:
        return Finding(statement, f"{grounded.untested or 'no REACT_LOOP condition beside its open-loop twin'}.")
    deltas = evidence.deltas(pairs, SCORE)
    score = pool(deltas, LOOP, SCORE, reason="no item has a score on both sides")
    if score.untested:
        return Finding(statement, f"score: {score.untested}.")
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
    words = (
        f"unsupported rate {first}: {grounded.words()}. The score {state}: {score.words()}, {scope_words(score)}."
    )
    return finding(statement, words, verdict, score)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """A set of operators and the gain that it carries, item by item and task by task."""

    operators: frozenset[str]
    least: int
    """How many operators carry it at least: a step of the ladder that adds several may owe all to one of them."""
    gains: Mapping[str, np.ndarray]


def small_basis(
    evidence: Evidence, conditions: Mapping[str, Sequence[Pair]], rows: Sequence[ScaleRow]
) -> Finding:
    """P4: some set of at most half of the operators carries at least ``BASIS_SHARE`` of every condition's gain.

    A set's gain is that of the condition made of it, or of the steps of a ladder that add it. Supported where a set's gain
    less ``BASIS_SHARE`` of each condition's is reliably positive (5 % over the sets); contradicted where, for every set that
    might be so small, it is reliably negative for some condition.
    """
    statement = f"P4: a small basis of operators (at most half) carries at least {BASIS_SHARE:.0%} of the gain."
    gains, bundles = _gains(evidence, conditions)
    operators = frozenset().union(*bundles.values()) if bundles else frozenset()
    if len(operators) < 2 or not gains:
        return Finding(statement, "it needs two operators at least, in conditions beside a control on the same items.")
    totals = {name: _pooled(gain, "P4", name) for name, gain in gains.items()}
    best = max(totals, key=lambda name: totals[name].value)
    helped = [name for name, effect in totals.items() if effect.sign(ALPHA / len(totals)) == 1]
    if not helped:
        words = f"no condition's gain holds after correction; the largest is {best}'s, {totals[best].words()}."
        return Finding(statement, words)
    half = len(operators) // 2
    carriers = _carriers(gains, bundles, half)
    small = [carrier for carrier in carriers if len(carrier.operators) <= half]
    level = ALPHA / max(1, len(small))
    basis = None
    for carrier in small:
        against = [_lead(carrier, gains[name], name) for name in helped]
        if all(effect.sign(level) == 1 for effect in against) and _pooled(carrier.gains, "own").sign(level) == 1:
            basis = carrier
            break
    beaten = [
        any(_lead(carrier, gains[name], name).sign(ALPHA / len(helped)) == -1 for name in helped)
        for carrier in carriers
        if carrier.least <= half
    ]
    dependent = {row.name for row in rows if row.kind == "operator" and row.sizes.call == "scale-dependent"}
    verdict: Verdict = "inconclusive"
    if basis is not None:
        verdict = "inconclusive" if basis.operators & dependent else "supported"
        told = f"{' + '.join(sorted(basis.operators))} ({len(basis.operators)} of {len(operators)} operators) carries it"
        if basis.operators & dependent:
            told += f", but {', '.join(sorted(basis.operators & dependent))} depends on model size"
    elif beaten and all(beaten):
        verdict, told = "contradicted", f"no set of up to {half} of {len(operators)} operators carries it"
    else:
        told = f"whether {half} of {len(operators)} operators carry it, these conditions and items cannot tell"
    words = f"the best gain is {best}'s, {totals[best].words()}; {told}."
    effect = totals[best]
    return Finding(
        statement, words, verdict, number(effect.value), number(effect.low), number(effect.high), number(effect.p_value),
        effect.items, effect.cells, effect.tasks, effect.models,
    )  # fmt: skip


def _gains(
    evidence: Evidence, conditions: Mapping[str, Sequence[Pair]]
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, frozenset[str]]]:
    """The gain of each condition over the control, on the items that all of them answered, and its operators.

    Conditions that some task lacks are left out, so that every gain is over the same items.
    """
    found = {name: evidence.deltas(pairs, SCORE) for name, pairs in conditions.items()}
    tasks = {task for deltas in found.values() for task in deltas.by_task}
    found = {name: deltas for name, deltas in found.items() if set(deltas.by_task) == tasks}
    gains: dict[str, dict[str, np.ndarray]] = {name: {} for name in found}
    for task in sorted(tasks):
        shared = None
        for deltas in found.values():
            items = deltas.by_task[task].items
            shared = items if shared is None else np.intersect1d(shared, items)
        for name, deltas in found.items():
            measured = deltas.by_task[task]
            gains[name][task] = measured.values[np.isin(measured.items, shared)]
    scores = evidence.scores
    bundles = {
        name: frozenset(scores.operators_in(conditions[name][0].treated))
        - frozenset(scores.operators_in(conditions[name][0].control))
        for name in found
    }
    return gains, bundles


def _carriers(
    gains: Mapping[str, Mapping[str, np.ndarray]], bundles: Mapping[str, frozenset[str]], half: int
) -> list[_Carrier]:
    """Sets of operators whose gain the conditions show: those of conditions, and of steps between nested ones."""
    found: dict[tuple[frozenset[str], tuple[str, ...]], _Carrier] = {}
    for name, bundle in bundles.items():
        if bundle:
            found[bundle, (name,)] = _Carrier(bundle, 1 if len(bundle) > 1 else len(bundle), gains[name])
    for top in bundles:
        chain = sorted((name for name in bundles if bundles[name] <= bundles[top]), key=lambda name: len(bundles[name]))
        # The longest chain of nested bundles that ends here, by size.
        ladder: list[str] = []
        for name in chain:
            if not ladder or bundles[ladder[-1]] < bundles[name]:
                ladder.append(name)
        steps = []
        for lower, upper in zip([None, *ladder], ladder, strict=False):
            added = bundles[upper] - (bundles[lower] if lower is not None else frozenset())
            gained = {
                task: values - (gains[lower][task] if lower is not None else 0.0)
                for task, values in gains[upper].items()
            }
            if added:
                steps.append((added, gained))
        for count in range(1, len(steps) + 1):
            for chosen in combinations(range(len(steps)), count):
                if len(chosen) > half or len(found) >= MOST_CARRIERS:
                    break
                held = frozenset().union(*(steps[index][0] for index in chosen))
                gained = {
                    task: np.sum([steps[index][1][task] for index in chosen], axis=0) for task in steps[0][1]
                }
                found.setdefault((held, tuple(ladder)), _Carrier(held, len(chosen), gained))
    return list(found.values())


def _lead(carrier: _Carrier, gain: Mapping[str, np.ndarray], name: str) -> Pooled:
    """What the carrier gains less ``BASIS_SHARE`` of a condition's gain, item by item."""
    lead = {task: carrier.gains[task] - BASIS_SHARE * values for task, values in gain.items()}
    return _pooled(lead, "P4", name, *sorted(carrier.operators))


def _pooled(gains: Mapping[str, np.ndarray], *names: object) -> Pooled:
    deltas = Deltas()
    for task, values in gains.items():
        pair = Pair(*(_cell(task, side) for side in ("treated", "control")))
        deltas.add(pair, np.arange(len(values)), values, np.zeros(len(values)))
    return pool(deltas, *names)
