"""``hypotheses.csv``: H1 to H4 and the criteria of a publishable result, each with a verdict and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pcsuite._util.text import signed
from pcsuite.analysis.load.item_scores import CellKey
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.replicates import EqualTokenArms
from pcsuite.analysis.twins import CONSTRAINT, LOOP, LOOP_ALONE, CellPair, condition_pairs, operator_pairs
from pcsuite.analysis.verdicts import criteria, scale, structure
from pcsuite.analysis.verdicts.evidence import (
    DISAGREEMENT,
    INVENTED,
    READABLE,
    UNSUPPORTED,
    Deltas,
    Effect,
    Evidence,
    pool_deltas,
)
from pcsuite.analysis.verdicts.findings import HYPOTHESES, Finding, finding, judge, scope_words
from pcsuite.stats.equal_tokens import EqualTokens, affordable_share
from pcsuite.stats.estimate import FloatArray


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The tables of the verdicts."""

    hypotheses: Table
    structure: Table
    scale: Table


def verdicts(evidence: Evidence, retries: Sequence[EqualTokenArms] = ()) -> Verdicts:
    """Judge every hypothesis, then what a publishable result would need, as a reviewer asks.

    ``retries`` are the constrained cells at equal tokens, of ``equal_token_arms``.
    """
    operators, conditions = operator_pairs(evidence.scores), condition_pairs(evidence.scores)
    blocks = structure.structure_blocks(evidence, operators)
    rows = scale.scale_rows(evidence, conditions, operators)
    *restricted, tradeoff = restriction_findings(evidence, operators.get(CONSTRAINT, []), retries)
    *grounded, kept = loop_findings(evidence, operators.get(LOOP, []), operators.get(LOOP_ALONE, []))
    found = [
        *structure.structure_findings(blocks),
        *restricted,
        *grounded,
        *scale.scale_findings(rows, evidence.sizes, evidence.analysis.scale_bound),
        criteria.replicated(evidence, operators),
        tradeoff,
        kept,
        criteria.small_basis(evidence),
    ]
    return Verdicts(
        Table.of(HYPOTHESES, [{"id": finding.id, **asdict(finding)} for finding in found]),
        structure.structure_table(blocks),
        scale.scale_table(rows, evidence.sizes),
    )


def restriction_findings(
    evidence: Evidence, pairs: Sequence[CellPair], retries: Sequence[EqualTokenArms]
) -> list[Finding]:
    """H2, H2E, H2U, H2R and P2: what constraints of decoding do; ``pairs`` are constrained cells beside free twins."""
    steadier, readable = (
        pool_deltas(evidence.deltas(pairs, measure), CONSTRAINT, measure, reason=reason)
        for measure, reason in (
            (DISAGREEMENT, "no item has two readable answers on both sides"),
            (READABLE, "the log does not say which answers could be read"),
        )
    )
    return [
        _restriction_grounds_more_than_retry(retries),
        _restriction_steadies(evidence, pairs, steadier, readable),
        _restriction_grounds(evidence, pairs),
        _restriction_beats_retry(retries),
        criteria.constraint_tradeoff(evidence, pairs, steadier, readable),
    ]


def loop_findings(
    evidence: Evidence, pairs: Sequence[CellPair], alone: Sequence[CellPair] = ()
) -> list[Finding]:
    """H3, H3L and P3: what loops do; ``pairs`` are cells with REACT_LOOP beside their open-loop twins.

    ``alone`` are those with REVISE_LOOP, which searches nothing.
    """
    reason = "no item where both sides make a claim to check"
    grounded, revised = (
        pool_deltas(evidence.deltas(chosen, UNSUPPORTED), name, UNSUPPORTED, reason=reason)
        for chosen, name in ((pairs, LOOP), (alone, LOOP_ALONE))
    )
    statement = (
        "H3: a closed loop (REACT_LOOP) lowers unsupported content more than the open loop on grounded tasks."
    )
    missing = "no REACT_LOOP condition beside its open-loop twin (C7 beside C3)."
    alone_statement = (
        "H3L: the loop alone, without search (REVISE_LOOP), lowers unsupported content on grounded tasks."
    )
    absent = "no REVISE_LOOP condition beside its open-loop twin (C7L beside C3)."
    return [
        _loop_grounds(statement, missing, evidence, pairs, grounded),
        _loop_grounds(alone_statement, absent, evidence, alone, revised),
        criteria.loop_tradeoff(evidence, pairs, grounded),
    ]


NEEDS_RETRY = (
    "it needs a constrained condition, the same one free, and the same one with RETRY_ON_FAIL (C6, C4, C4R)"
)
NO_CONSTRAINT = "no constrained condition beside the same one free (C6 beside C4)"


def _restriction_steadies(
    evidence: Evidence, pairs: Sequence[CellPair], steadier: Effect, readable: Effect
) -> Finding:
    """Disagreement of readable replicates, constrained less free, item by item; validity told beside it."""
    statement = (
        "H2E: restricting the outputs at decoding lowers the entropy of readable answers over replicates."
    )
    if not pairs:
        return Finding(statement, f"{NO_CONSTRAINT}.")
    readable_sides = [[evidence.measured(key, READABLE).values for key in pair] for pair in pairs]
    readable_sides = [sides for sides in readable_sides if all(len(values) for values in sides)]
    shares = "the log does not say which answers could be read"
    if readable_sides:
        constrained, free = (
            float(np.mean([sides[index].mean() for sides in readable_sides])) for index in (0, 1)
        )
        shares = f"{free:.0%} of the free answers and {constrained:.0%} of the constrained ones can be read"
    if steadier.untested:
        return Finding(statement, f"{steadier.untested}; {shares}.", cells=len(pairs))
    words = (
        f"disagreement of readable replicates, constrained less free: {steadier.words()}, {scope_words(steadier)}. Told"
        f" apart from validity: {shares} ({readable.words()})."
    )
    return finding(statement, words, judge(steadier, -1), steadier)


def _restriction_grounds(evidence: Evidence, pairs: Sequence[CellPair]) -> Finding:
    """The same of unsupported content: answers without any count as one and the same."""
    statement = (
        "H2U: restricting the outputs at decoding lowers the entropy of unsupported content over replicates."
    )
    if not pairs:
        return Finding(statement, f"{NO_CONSTRAINT}.")
    effect = pool_deltas(
        evidence.deltas(pairs, INVENTED), CONSTRAINT, INVENTED,
        reason="no item has two readable answers on both sides whose support was checked",
    )  # fmt: skip
    if effect.untested:
        return finding(statement, f"{effect.untested}.", "not tested", effect)
    words = (
        "disagreement of readable replicates, all without unsupported content counting as one, constrained less free:"
        f" {effect.words()}, {scope_words(effect)}."
    )
    return finding(statement, words, judge(effect, -1), effect)


def _restriction_grounds_more_than_retry(retries: Sequence[EqualTokenArms]) -> Finding:
    """Entropy of unsupported content against retries that may spend the tokens the constraint spent."""
    statement = (
        "H2: hard constraints lower the entropy of unsupported content more than validation and retry at a comparable"
        " token budget."
    )
    if not any(entry.found is not None for entry in retries):
        return Finding(statement, f"{NEEDS_RETRY}, with replicates.")
    checked = [(entry, entry.grounded) for entry in retries if entry.grounded is not None]
    effect, tokens = _less_retry(
        checked,
        INVENTED,
        reason="no item has two answers in all three arms whose support was checked",
        constant="no item's unsupported content varies more in one arm than in the other",
    )
    if effect.untested:
        return finding(statement, f"{effect.untested}.", "not tested", effect)
    words = (
        "disagreement on unsupported content (answers without any counting as one), constrained less retry at equal"
        f" tokens: {effect.words()}, {scope_words(effect)}; {_afforded(tokens):.0%} of the retries could be paid for."
    )
    return finding(statement, words, judge(effect, -1), effect)


def _restriction_beats_retry(retries: Sequence[EqualTokenArms]) -> Finding:
    """The same against retries that may spend the tokens the constraint spent; the evidence names their prices."""
    statement = (
        "H2R: restricting the outputs lowers the entropy of readable answers more than equally dear retries."
    )
    compared = [(entry, entry.found) for entry in retries if entry.found is not None]
    if not compared:
        return Finding(statement, f"{NEEDS_RETRY}, with replicates.")
    effect, tokens = _less_retry(
        compared,
        DISAGREEMENT,
        reason="no item has two readable answers in all three arms",
        constant="no item's readable answers vary more in one arm than in the other",
    )
    valid = Deltas()
    for entry, found in compared:
        valid.add(
            CellPair(entry.arms.constrained, entry.arms.retry),
            entry.items[found.valid_rows],
            found.valid_values,
            np.zeros(len(found.valid_rows)),
        )
    validity = pool_deltas(valid, "retry", READABLE)
    unrestricted = [found.unrestricted.value for _, found in compared if found.unrestricted.defined]
    words = (
        f"disagreement of readable replicates, constrained less retry at equal tokens: {effect.words()}"
        f"{'' if effect.untested else ', ' + scope_words(effect)}; validity {validity.words()}. An answer took"
        f" {tokens[2]:.0f} tokens constrained, {tokens[1]:.0f} with every retry and {tokens[0]:.0f} free, so"
        f" {_afforded(tokens):.0%} of the retries could be paid for."
    )
    if unrestricted:
        words += (
            " Against every retry that fits in the same completion limit, whatever it cost:"
            f" {signed(float(np.mean(unrestricted)), 3)}."
        )
    return finding(statement, words, judge(effect, -1), effect)


def _less_retry(
    compared: Sequence[tuple[EqualTokenArms, EqualTokens]], measure: str, *, reason: str, constant: str
) -> tuple[Effect, FloatArray]:
    """Constrained less retry at equal tokens, pooled, and the mean tokens of the free, retry and constrained arms.

    Untested for ``reason`` where nothing can be compared, and for ``constant`` where no item differs at all.
    """
    differences = Deltas()
    for entry, found in compared:
        pair = CellPair(entry.arms.constrained, entry.arms.retry)
        differences.add(pair, entry.items[found.rows], found.values, np.zeros(len(found.rows)))
    effect = pool_deltas(differences, "retry", measure, reason=reason)
    if differences.pairs and not any(values.any() for _, _, values in differences.pairs):
        effect = Effect(untested=constant)
    spent = [(found.free_tokens, found.retry_tokens, found.constrained_tokens) for _, found in compared]
    return effect, np.mean(spent, axis=0) if spent else np.full(3, np.nan)


def _afforded(tokens: FloatArray) -> float:
    return float(affordable_share(*tokens[:, None])[0])


def _searches(evidence: Evidence, key: CellKey) -> bool:
    return bool((evidence.measured(key, "tool_calls").values > 0).any())


def _loop_grounds(
    statement: str, missing: str, evidence: Evidence, pairs: Sequence[CellPair], grounded: Effect
) -> Finding:
    """Unsupported rate of conditions with a loop less that of their twins, where both make a claim."""
    if not pairs:
        return Finding(statement, missing)
    if grounded.untested:
        return Finding(statement, f"{grounded.untested}.", cells=len(pairs))
    words = f"unsupported rate: {grounded.words()}, {scope_words(grounded)}"
    used = sum(len(items) for _, items, _ in evidence.deltas(pairs, UNSUPPORTED).pairs)
    cells = evidence.scores.cells
    shared = sum(len(np.intersect1d(cells[pair.treated].items, cells[pair.control].items)) for pair in pairs)
    if used < shared:
        words += f", on the {used} of {shared} pairs of answers where both make a claim to check"
    if any(_searches(evidence, pair.treated) != _searches(evidence, pair.control) for pair in pairs):
        words += (
            "; only the loop searches, so this is the loop and its search together: H3L has the loop alone"
        )
    return finding(statement, f"{words}.", judge(grounded, -1), grounded)
