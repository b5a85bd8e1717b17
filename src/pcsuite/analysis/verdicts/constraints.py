"""H2 and P2: what constraints of decoding do, beside the same condition free and beside retries at equal tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pcsuite._util.text import signed
from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.tables.replicates import EqualTokenArms
from pcsuite.analysis.twins import CONSTRAINT, CellPair
from pcsuite.analysis.verdicts.evidence import (
    DISAGREEMENT,
    INVENTED,
    READABLE,
    TOKENS,
    Deltas,
    Effect,
    Evidence,
    pool_deltas,
)
from pcsuite.analysis.verdicts.findings import (
    Finding,
    Hypothesis,
    Verdict,
    combine,
    judge,
    scope_words,
)
from pcsuite.contrasts import ALPHA
from pcsuite.stats.equal_tokens import EqualTokens, affordable_share
from pcsuite.stats.estimate import FloatArray


def _pairs(evidence: Evidence) -> Sequence[CellPair]:
    """Constrained cells beside their free twins."""
    return evidence.operators.get(CONSTRAINT, ())


_UNTESTED = {
    DISAGREEMENT: "no item has two readable answers on both sides",
    READABLE: "the log does not say which answers could be read",
    INVENTED: "no item has two readable answers on both sides whose support was checked",
}


def _effect(evidence: Evidence, measure: str) -> Effect:
    """What constraints do to a measure, beside the free twins."""
    return pool_deltas(
        evidence.deltas(_pairs(evidence), measure), CONSTRAINT, measure, reason=_UNTESTED[measure]
    )


def steady(evidence: Evidence) -> Finding | None:
    """Disagreement of readable replicates, constrained less free, item by item; validity told beside it."""
    pairs = _pairs(evidence)
    if not pairs:
        return None
    steadier, readable = (evidence.once(_effect, measure) for measure in (DISAGREEMENT, READABLE))
    readable_sides = [[evidence.measured(key, READABLE).values for key in pair] for pair in pairs]
    readable_sides = [sides for sides in readable_sides if all(len(values) for values in sides)]
    shares = _UNTESTED[READABLE]
    if readable_sides:
        constrained, free = (
            float(np.mean([sides[index].mean() for sides in readable_sides])) for index in (0, 1)
        )
        shares = f"{free:.0%} of the free answers and {constrained:.0%} of the constrained ones can be read"
    if steadier.untested:
        return Finding(f"{steadier.untested}; {shares}.", effect=Effect(cells=len(pairs)))
    words = (
        f"disagreement of readable replicates, constrained less free: {steadier.words()}, {scope_words(steadier)}. Told"
        f" apart from validity: {shares} ({readable.words()})."
    )
    return Finding(words, judge(steadier, -1), steadier)


def steady_unsupported(evidence: Evidence) -> Finding | None:
    """The same of unsupported content: answers without any count as one and the same."""
    if not _pairs(evidence):
        return None
    effect = _effect(evidence, INVENTED)
    if effect.untested:
        return Finding(f"{effect.untested}.", "not tested", effect)
    words = (
        "disagreement of readable replicates, all without unsupported content counting as one, constrained less free:"
        f" {effect.words()}, {scope_words(effect)}."
    )
    return Finding(words, judge(effect, -1), effect)


def beat_retries_on_unsupported(evidence: Evidence) -> Finding | None:
    """Entropy of unsupported content against retries that may spend the tokens the constraint spent."""
    if not any(entry.at_equal_tokens is not None for entry in evidence.retries):
        return None
    checked = [(entry, entry.grounded) for entry in evidence.retries if entry.grounded is not None]
    effect, tokens = _less_retry(
        evidence,
        checked,
        INVENTED,
        reason="no item has two answers in all three arms whose support was checked",
        constant="no item's unsupported content varies more in one arm than in the other",
    )
    if effect.untested:
        return Finding(f"{effect.untested}.", "not tested", effect)
    words = (
        "disagreement on unsupported content (answers without any counting as one), constrained less retry at equal"
        f" tokens: {effect.words()}, {scope_words(effect)}; {_afforded(tokens):.0%} of the retries could be paid for."
    )
    return Finding(words, judge(effect, -1), effect)


def beat_retries(evidence: Evidence) -> Finding | None:
    """Entropy of readable answers against such retries; the finding's words name their prices."""
    compared = [
        (entry, entry.at_equal_tokens) for entry in evidence.retries if entry.at_equal_tokens is not None
    ]
    if not compared:
        return None
    effect, tokens = _less_retry(
        evidence,
        compared,
        DISAGREEMENT,
        reason="no item has two readable answers in all three arms",
        constant="no item's readable answers vary more in one arm than in the other",
    )
    validity = pool_deltas(_differences(evidence, compared, "valid_"), "retry", READABLE)
    unrestricted = [contest.unrestricted.value for _, contest in compared if contest.unrestricted.defined]
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
    return Finding(words, judge(effect, -1), effect)


def _less_retry(
    evidence: Evidence,
    compared: Sequence[tuple[EqualTokenArms, EqualTokens]],
    measure: str,
    *,
    reason: str,
    constant: str,
) -> tuple[Effect, FloatArray]:
    """Constrained less retry at equal tokens, pooled, and the mean tokens of the free, retry and constrained arms.

    Untested for ``reason`` where nothing can be compared, and for ``constant`` where no item differs at all.
    """
    differences = _differences(evidence, compared)
    effect = pool_deltas(differences, "retry", measure, reason=reason)
    if differences.pairs and not any(values.any() for _, _, values in differences.pairs):
        effect = Effect(untested=constant)
    spent = [
        (contest.free_tokens, contest.retry_tokens, contest.constrained_tokens) for _, contest in compared
    ]
    return effect, np.mean(spent, axis=0) if spent else np.full(3, np.nan)


def _differences(
    evidence: Evidence, compared: Sequence[tuple[EqualTokenArms, EqualTokens]], measure: str = ""
) -> Deltas:
    """Constrained less retry at equal tokens item by item: of disagreement, or of what prefixes the fields' names."""
    differences = Deltas(clusters=evidence.scores.clusters)
    for entry, contest in compared:
        rows, values = getattr(contest, f"{measure}rows"), getattr(contest, f"{measure}values")
        pair = CellPair(entry.arms.constrained, entry.arms.retry)
        differences.add(pair, entry.items[rows], values, np.zeros(len(rows)))
    return differences


def _afforded(tokens: FloatArray) -> float:
    return float(affordable_share(*tokens[:, None])[0])


def _judged(verdict: Verdict, effect: Effect) -> str:
    """A verdict with its figures; where there are none, the words of the effect say both."""
    return effect.words() if effect.untested else f"{verdict} ({effect.words()})"


def trade_off(evidence: Evidence) -> Finding | None:
    """Entropy of readable answers falls *and* validity rises; the price in score and tokens beside it."""
    pairs = _pairs(evidence)
    if not pairs:
        return None
    steadier, readable = (evidence.once(_effect, measure) for measure in (DISAGREEMENT, READABLE))
    parts = [judge(steadier, -1), judge(readable, 1)]
    strict = [judge(steadier, -1, ALPHA / 2), judge(readable, 1, ALPHA / 2)]
    verdict: Verdict = "not tested" if "not tested" in parts else combine(parts, strict)
    # Either part alone contradicts the claim that both hold, so each is asked at half of the level.
    if "contradicted" in strict:
        verdict = "contradicted"
    score, tokens = (
        pool_deltas(evidence.deltas(pairs, measure), "P2", measure) for measure in (SCORE, TOKENS)
    )
    constrained = [evidence.measured(pair.treated, "constraint_failed").values for pair in pairs]
    failures = [float(values.mean()) for values in constrained if len(values)]
    failed = f"{np.mean(failures):.1%}" if failures else "unknown"
    broken = [evidence.measured(pair.treated, "constraint_broken").values for pair in pairs]
    breaches = [float(values.mean()) for values in broken if len(values)]
    if breaches:
        failed += f", broken {np.mean(breaches):.1%}"
    words = (
        f"entropy {_judged(parts[0], steadier)}, validity {_judged(parts[1], readable)}. Price against the free"
        f" twin: score {score.words()}, tokens {tokens.words(1)}, constraint failures (truncation counted) {failed}."
    )
    return Finding(words, verdict, steadier)


_NO_CONSTRAINT = "no constrained condition beside the same one free (C6 beside C4)"
_NO_RETRY = (
    "it needs a constrained condition, the same one free, and the same one with RETRY_ON_FAIL (C6, C4, C4R), with"
    " replicates"
)
H2 = Hypothesis(
    "H2",
    "hard constraints lower the entropy of unsupported content more than validation and retry at a comparable token"
    " budget.",
    "disagreement of replicates, answers without unsupported content counting as one, against"
    " [retries](../explanation/statistics.md#a-constraint-against-retries-at-equal-tokens) that spend the same tokens",
    _NO_RETRY,
    beat_retries_on_unsupported,
)
H2E = Hypothesis(
    "H2E",
    "restricting the outputs at decoding lowers the entropy of readable answers over replicates.",
    "disagreement of **readable** replicates, constrained less free; validity is told beside it",
    _NO_CONSTRAINT,
    steady,
)
H2U = Hypothesis(
    "H2U",
    "restricting the outputs at decoding lowers the entropy of unsupported content over replicates.",
    "the same, answers without unsupported content counting as one",
    _NO_CONSTRAINT,
    steady_unsupported,
)
H2R = Hypothesis(
    "H2R",
    "restricting the outputs lowers the entropy of readable answers more than equally dear retries.",
    "disagreement of readable replicates against retries that spend the same tokens",
    _NO_RETRY,
    beat_retries,
)
P2 = Hypothesis(
    "P2",
    "constraints lower entropy and raise validity, and the price in score and tokens is known.",
    "both, with the price in score and tokens",
    _NO_CONSTRAINT,
    trade_off,
)
