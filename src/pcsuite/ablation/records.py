"""The blocks of an ablation as records: one a block, as ``blocks.csv`` and ``ablation.json`` have it."""

from __future__ import annotations

from typing import Any

from pcsuite.ablation.arm_measures import MEASURES
from pcsuite.ablation.arms import FULL
from pcsuite.ablation.result import AblationResult
from pcsuite.analysis.probabilities import PROBABILITIES, probability_columns
from pcsuite.analysis.table import Column, Table, TableSpec, estimate_columns, interval
from pcsuite.contrasts import CLAUSE, FORM
from pcsuite.stats.estimate import Estimate, undefined
from pcsuite.stats.posterior import shared_correlations, shrunken_effects

BLOCKS = TableSpec(
    "blocks",
    "What each block of an ablated prompt is worth",
    "block that could be left out (`outputs/ablations/<run>/blocks.csv`)",
    (
        Column("block", "name of the block"),
        Column(
            "verdict",
            "helps, hurts, no worse without it, helps only as filler, undecided, not tested, or only in a group",
        ),
        Column("note", "what the verdict does not say"),
        Column("clause", "what the verdict assumes of the shape of graded scores; empty where nothing"),
        Column(
            "tentative",
            f"verdict on graded scores that holds {CLAUSE}, where the verdict itself claims less",
        ),
        *interval(
            "effect",
            "score of the full prompt less that of the prompt without the block; limits hold for all blocks at once",
        ),
        Column("alone_low", "lower limit of the effect that holds for this block alone"),
        Column("alone_high", "upper limit of the effect that holds for this block alone"),
        Column("p_holm", "p-value after Holm's correction over the blocks"),
        *interval("against_sham", "score of the full prompt less that with a sham in the block's place"),
        Column("no_worse", "whether the prompt without it is non-inferior at the margin"),
        Column(
            "most_lost",
            "what `no_worse` rests on: the upper 95 % limit, one-sided and for this block alone, of what is lost"
            " without it; empty where no loss is ruled out",
        ),
        Column("margin", "the loss of score from which on a block is missed"),
        Column(
            "missing",
            "items of which an answer is missing with or without the block: its calls failed or timed out",
        ),
        Column(
            "effect_least",
            "the effect with every missing answer against the block; empty where none is missing",
        ),
        Column("effect_most", "the effect with every missing answer in its favour"),
        Column("ambiguous", "items of which an answer with or without the block can be read in two ways"),
        Column("on_answered", "the verdict on the answered items alone, where missing answers could undo it"),
        Column("more_items", "further items that would decide an undecided block, were it as seen"),
        Column("tokens", "tokens of the block"),
        Column("dropped", "whether the trimmed prompt is without it"),
        *interval("adjusted", "the effect with --covariate taken off; limits hold for this block alone"),
        *interval("answered", "what the block changes in the share of readable answers"),
        *interval("prompt_tokens", "what it changes in prompt tokens"),
        *interval("completion_tokens", "what it changes in answer tokens"),
        *interval(
            "latency_ms",
            "what it changes in latency, in milliseconds; calls of an arm wait together, so limits are too narrow",
        ),
        *interval("cost_usd", "what it changes in cost, in USD per 1,000 calls"),
        *interval("total_tokens", "what it changes in tokens, prompts and answers together"),
        *interval("steps", "what it changes in the steps that a target says it took"),
        *interval("tool_calls", "what it changes in the calls of tools that a target says it made"),
        *interval("lenient_effect", "the effect on the score under the lenient rules"),
        Column("lenient_verdict", "the verdict under the lenient rules; empty where there are none"),
        Column(
            "form",
            f"“{FORM}” where the two effects have opposite signs (and not both are no worse without it), or the block"
            " helps or hurts under one reading alone and the two effects are apart",
        ),
    ),
)


def blocks_table(result: AblationResult) -> Table:
    """``blocks.csv``: one row a block, with probabilities where they were asked for."""
    records = verdict_records(result)
    return Table.of(BLOCKS.extended(PROBABILITIES) if result.study.request.posterior else BLOCKS, records)


def verdict_records(result: AblationResult) -> list[dict[str, Any]]:
    """One record a block, as ``blocks.csv`` and ``ablation.json`` have it.

    Their keys are the columns of :data:`BLOCKS`; figures that could not be estimated are ``None``.
    """
    records = []
    probabilities = block_probabilities(result) if result.study.request.posterior else {}
    for entry in result.verdicts:
        record: dict[str, Any] = {
            "block": entry.block,
            "verdict": entry.verdict,
            "note": entry.note,
            "clause": entry.clause,
            "tentative": entry.tentative,
            **limits_record("effect", entry.effect),
            "alone_low": limits_record("alone", entry.alone)["alone_low"],
            "alone_high": limits_record("alone", entry.alone)["alone_high"],
            "p_holm": entry.p_value,
            **limits_record("against_sham", entry.against_sham),
            "no_worse": entry.no_worse,
            "most_lost": entry.most_lost,
            "margin": result.study.request.margin,
            "missing": entry.missing,
            "effect_least": entry.least,
            "effect_most": entry.most,
            "ambiguous": entry.ambiguous,
            "on_answered": entry.on_answered,
            "more_items": entry.more_items,
            "tokens": result.block_tokens[entry.block],
            "dropped": result.trim is not None and entry.block in result.trim.dropped,
        }
        adjusted = result.adjusted.get(entry.block)
        record |= limits_record("adjusted", None if adjusted is None else adjusted.estimate)
        for name in MEASURES:
            record |= limits_record(name, result.measures[entry.block][name])
        record |= {**limits_record("lenient_effect", entry.lenient), "lenient_verdict": entry.lenient_verdict}
        record["form"] = entry.form or None
        records.append(record | probabilities.get(entry.block, {}))
    return records


def block_probabilities(result: AblationResult) -> dict[str, dict[str, float | None]]:
    """By block: the probability that it helps, and that it matters less than the margin; shrunk over all blocks."""
    margin = result.study.request.margin
    effects = [entry.alone or entry.effect for entry in result.verdicts]
    # Every block is held against the one full prompt.
    related = shared_correlations([{FULL: 1.0, entry.block: -1.0} for entry in result.verdicts])
    posteriors = shrunken_effects(effects, margin=margin, correlations=related)
    pairs = zip(result.verdicts, posteriors, strict=True)
    return {entry.block: probability_columns(posterior, margin) for entry, posterior in pairs}


def limits_record(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """An estimate under a name, its limits under that with ``_low`` and ``_high``.

    ``None`` for all three where there is no estimate, and for each of them that is no finite number.

    >>> limits_record("effect", Estimate(0.1, 0.02, float("inf")))
    {'effect': 0.1, 'effect_low': 0.02, 'effect_high': None}
    """
    return estimate_columns(name, estimate or undefined("no estimate", 0))
