"""H1, P1 and ``structure.csv``: what SCHEMA, rules, the checklist and decoding constraints do, each by itself.

Each is set against its twin, the condition that lacks it and nothing else; a bundle against the bare prompt would
credit one operator with what another did. Success has to rise among answers that can be read, since an answer that
becomes readable is a gain in validity, not in success: a guess that parses scores more than a guess that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, on_common_items
from pcsuite.analysis.table import N_CLUSTERS, Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.twins import CONSTRAINT, CellPair, doing
from pcsuite.analysis.verdicts.evidence import (
    PROMPT_VARIANCE,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
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
    judge_all,
    scope_words,
    weakest,
)
from pcsuite.config.operator_definitions import StructureKind
from pcsuite.contrasts import ALPHA
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.information import InformationGain, information_gain

INFORMATION = "information"
DOMAINS, SCALES = 3, 3
"""Domains and model sizes on which an effect must show to count as replicated."""
EXPECTED: Mapping[str, Literal[1, -1]] = {
    SCORE: 1, READABLE_SCORE: 1, READABLE: 1, SEED_VARIANCE: -1, PROMPT_VARIANCE: -1, INFORMATION: 1,
}  # fmt: skip
_UNTESTED = {
    SCORE: "no item has a score on both sides",
    READABLE_SCORE: "no item has a readable answer on both sides",
    READABLE: "the log does not say which are",
    SEED_VARIANCE: "no item has two readable answers on both sides",
    PROMPT_VARIANCE: "no perturbed prompts on both sides",
}
"""Measures of an item, each with why it may not be tested."""
STRUCTURE = TableSpec(
    "structure",
    "What each structure block does by itself",
    "structure block whose twin the run has, and measure",
    (
        Column("operator", "the block: SCHEMA, CONSTRAINTS, VERIFIER, or any constraint of decoding"),
        Column(
            "measure",
            "score; score of readable answers; share of readable answers; variance over seeds (of readable answers) and"
            " over prompts; information about the truth (of readable answers, in nats)",
        ),
        *interval("effect", "with the block less without it, on the same items"),
        Column("p_value", "two-sided exact sign-flip test; of information, the largest of its three tests", form="p"),
        Column("verdict", "whether H1 holds for this block and measure"),
        Column("items", "items it rests on"),
        Column("cells", "pairs of cells", shown=False),
        Column("tasks", "tasks among them", shown=False),
        Column("note", "why it was not tested, or where it goes the other way"),
        N_CLUSTERS,
    ),
    note="Each block against the condition that lacks it alone. Readability, score and information are told apart.",
    folded=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlockEffects:
    """A structure block with its effects by measure."""

    operator: str
    effects: Mapping[str, Effect]

    def success(self, alpha: float = ALPHA) -> Verdict:
        """Whether the block raises the score, and that of readable answers too.

        Contradicted where the score falls, unless the score of readable answers rises; not tested where the score
        rises but too few answers are readable on both sides to tell why.
        """
        readable = self.effects[READABLE_SCORE]
        verdict = judge(self.effects[SCORE], 1, alpha)
        if verdict == "supported":
            return judge(readable, 1, alpha) if readable.sign(alpha) != -1 else "inconclusive"
        if verdict == "contradicted" and readable.sign(alpha) == 1:
            return "inconclusive"
        return verdict


def _block_pairs(evidence: Evidence) -> dict[str, Sequence[CellPair]]:
    """Structure blocks that have a twin: schema, rules, checklist, and constraints of decoding as one."""
    kinds = get_args(StructureKind)
    names = [name for kind in kinds for name in doing(evidence.scores, evidence.operators, kind)]
    return {name: evidence.operators[name] for name in (*names, CONSTRAINT) if name in evidence.operators}


def structure_blocks(evidence: Evidence) -> list[BlockEffects]:
    """The effects of every structure block that has a twin."""
    blocks = []
    for operator, pairs in _block_pairs(evidence).items():
        effects: dict[str, Effect] = {}
        for measure, untested in _UNTESTED.items():
            if measure == READABLE_SCORE and evidence.all_readable(pairs):
                effects[measure] = effects[SCORE]
            else:
                effects[measure] = pool_deltas(
                    evidence.deltas(pairs, measure), operator, measure, reason=untested
                )
        blocks.append(
            BlockEffects(operator, effects | {INFORMATION: _information(evidence, pairs, operator)})
        )
    return blocks


def _information(evidence: Evidence, pairs: Sequence[CellPair], operator: str) -> Effect:
    """The gain in information on items with readable answers on both sides.

    Its p-value is the largest of three: of the signs of the jackknifed items, of answers exchanged between the sides,
    and of truths shuffled under the better side's answers. Answers that are the same to every item are no test.
    """
    deltas, gains, constant = Deltas(clusters=evidence.scores.clusters), [], False
    for pair in pairs:
        task = pair.treated.task
        first, second = (evidence.labels.get(key) for key in pair)
        if task not in evidence.truths or first is None or second is None:
            continue
        items, (treated, control) = on_common_items(first, second)
        true = np.array([evidence.truths[task][item] for item in items.tolist()], dtype=np.int64)
        if len(items) < 2 or len(np.unique(true)) < 2:
            continue
        if any(((side > 0).sum(axis=0) > 0).sum() < 2 for side in (treated, control)):
            constant = True
            continue
        rng = named_rng("information gain", *pair.treated, pair.control.condition)
        gain = information_gain(treated, control, true, rng=rng)
        gains.append((task, gain))
        deltas.add(pair, items, gain.values, np.zeros(len(items)))
    why = "it needs tasks with a closed set of labels and readable answers on both sides"
    if not evidence.truths_given:
        why = "it needs the items' true labels (report with --config) and readable answers on both sides"
    pooled = pool_deltas(
        deltas, operator, INFORMATION, reason="one side answers the same to every item" if constant else why
    )
    if pooled.untested:
        return pooled
    weights = np.array([1 / sum(task == other for other, _ in gains) for task, _ in gains])
    observed, swapped = weights @ [gain.difference for _, gain in gains], _weighted(weights, gains, "swapped")
    better, shuffled = weights @ [gain.better for _, gain in gains], _weighted(weights, gains, "shuffled")
    exchanged = (np.abs(swapped) >= abs(observed) - 1e-12).sum()
    by_chance = (shuffled >= better - 1e-12).sum()
    # The gain must beat both the exchange of sides and shuffled truths: the larger p-value counts.
    reached = (1 + max(exchanged, by_chance)) / (1 + len(swapped))
    return replace(pooled, p_value=max(pooled.p_value, float(reached)))


def _weighted(weights: FloatArray, gains: Sequence[tuple[str, InformationGain]], name: str) -> FloatArray:
    return np.asarray(weights @ np.stack([getattr(gain, name) for _, gain in gains]))


def structure_table(blocks: Sequence[BlockEffects]) -> Table:
    """``structure.csv``: a record for each block and measure."""
    records = []
    for block in blocks:
        for measure, effect in block.effects.items():
            record: dict[str, Any] = {
                "operator": block.operator,
                "measure": measure,
                **estimate_columns("effect", effect),
                "p_value": number(effect.p_value),
                "verdict": block.success() if measure == SCORE else judge(effect, EXPECTED[measure]),
                **{name: getattr(effect, name) for name in ("items", "cells", "tasks")},
                "n_clusters": effect.n_clusters,
                "note": effect.untested
                or (f"the other way on {', '.join(effect.opposed)}" if effect.opposed else ""),
            }
            records.append(record)
    return Table.of(STRUCTURE, records)


def raise_success(blocks: Sequence[BlockEffects]) -> Finding:
    """The verdict on success: all blocks that were tested, each by its own rule."""
    verdicts = {block.operator: block.success() for block in blocks}
    tested = [block for block in blocks if verdicts[block.operator] != "not tested"]
    strict = [block.success(ALPHA / len(tested)) for block in tested]
    verdict = combine([verdicts[block.operator] for block in tested], strict)
    parts = []
    for block in blocks:
        words = f"{block.operator} {verdicts[block.operator]}: score {block.effects[SCORE].words()}"
        if block.effects[READABLE_SCORE] is not block.effects[SCORE]:
            words += (
                f", score of readable answers {block.effects[READABLE_SCORE].words()}, readable answers"
                f" {block.effects[READABLE].words()}"
            )
        parts.append(words)
    least = weakest({block.operator: block.effects[SCORE] for block in tested}, 1)
    return Finding(f"{'; '.join(parts)}. {_about(least)}".strip(), verdict, least)


def move_measures(blocks: Sequence[BlockEffects], *measures: str) -> Finding:
    """The verdict on measures that every block should move the expected way, the same for all of them."""
    effects = {
        f"{block.operator}, {measure}" if len(measures) > 1 else block.operator: block.effects[measure]
        for block in blocks
        for measure in measures
    }
    expected = EXPECTED[measures[0]]
    verdict, least = judge_all(effects.values(), expected), weakest(effects, expected)
    words = "; ".join(f"{name}: {effect.words()}" for name, effect in effects.items())
    return Finding(f"{words}. {_about(least)}".strip(), verdict, least)


def _about(effect: Effect) -> str:
    return "" if effect.untested else f"The weakest {scope_words(effect)}."


def replicate(evidence: Evidence) -> Finding:
    """A structure block moves the score the same way in enough domains and at enough sizes.

    "In at least three of D" is a partial conjunction (Benjamini & Heller 2008): D - 2 times the third smallest
    one-sided p-value, at 5 % over blocks and directions. No effect found is no evidence of none: contradicted only
    where every block reliably goes both ways, in so many domains (or sizes) that neither direction can reach three.
    """
    blocks = _block_pairs(evidence)
    domains = sorted({evidence.domain(task) for task in evidence.scores.tasks})
    scope = Effect(tasks=len(evidence.scores.tasks), models=len(evidence.scores.models))
    if not blocks:
        return Finding(f"{_NO_BLOCK_TO_REPLICATE}.", effect=scope)
    if len(domains) < DOMAINS or len(evidence.sizes.order) < SCALES:
        words = (
            f"domains in the run: {len(domains)} ({', '.join(domains)}); model sizes: {len(evidence.sizes.order)}"
            f" ({', '.join(evidence.sizes.order)})."
        )
        return Finding(words, effect=scope)
    # Bonferroni over blocks and the two directions.
    level = ALPHA / (2 * len(blocks))
    replicated, split, parts = [], [], []
    for name, pairs in blocks.items():
        by_domain = _pooled_by(evidence, pairs, lambda pair: evidence.domain(pair.treated.task), name)
        by_size = _pooled_by(evidence, pairs, lambda pair: evidence.sizes.of[pair.treated.model], name)
        for sign, verb in ((1, "raises"), (-1, "lowers")):
            reached = max(
                _partial_conjunction(by_domain, sign, DOMAINS), _partial_conjunction(by_size, sign, SCALES)
            )
            if reached <= level:
                replicated.append(f"{name} {verb} it")
        split.append(
            any(
                max(_partial_conjunction(effects, sign, len(effects) - need + 1) for sign in (1, -1))
                <= ALPHA / 2
                for effects, need in ((by_domain, DOMAINS), (by_size, SCALES))
            )
        )
        up, down = (sum(effect.sign() == sign for effect in by_domain.values()) for sign in (1, -1))
        higher, lower = (sum(effect.sign() == sign for effect in by_size.values()) for sign in (1, -1))
        parts.append(
            f"{name}: up in {up} and down in {down} of {len(by_domain)} domains, up at {higher} and down at {lower} of"
            f" {len(by_size)} sizes"
        )
    verdict: Verdict = "supported" if replicated else "contradicted" if all(split) else "inconclusive"
    conclusion = f"{'; '.join(replicated)} after correction. " if replicated else ""
    words = f"{conclusion}{'; '.join(parts)} (each by itself, at 5 %)."
    return Finding(words, verdict, replace(scope, cells=sum(len(pairs) for pairs in blocks.values())))


def _pooled_by(
    evidence: Evidence, pairs: Sequence[CellPair], level_of: Callable[[CellPair], str], name: str
) -> dict[str, Effect]:
    """The effect on the score in each domain, or at each size."""
    grouped: dict[str, list[CellPair]] = {}
    for pair in pairs:
        grouped.setdefault(level_of(pair), []).append(pair)
    return {
        level: pool_deltas(evidence.deltas(members, SCORE), "P1", name, level)
        for level, members in grouped.items()
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


_NO_BLOCK = (
    "no condition with SCHEMA, CONSTRAINTS, VERIFIER or a decoding constraint beside the one that lacks only it (C3"
    " beside C2, C4 beside C3, C6 beside C4)"
)
_NO_BLOCK_TO_REPLICATE = "no structure block beside the condition that lacks only it"


def _on_blocks(judge: Callable[[Sequence[BlockEffects]], Finding]) -> Callable[[Evidence], Finding | None]:
    """A claim on every structure block that the run sets against its twin."""
    return lambda evidence: judge(blocks) if (blocks := evidence.once(structure_blocks)) else None


H1 = Hypothesis(
    "H1",
    "structure blocks (schema, rules, checklist, decoding constraint) raise task success.",
    "score of SCHEMA, CONSTRAINTS, VERIFIER and any decoding constraint, each against its **twin** (the same condition"
    " without it), and the score of readable answers too: answers that merely become readable are a gain in validity",
    _NO_BLOCK,
    _on_blocks(raise_success),
)
H1V = Hypothesis(
    "H1V",
    "structure blocks lower the variance of the score over seeds and prompts.",
    "variance of an item's score over seeds (readable answers) and over perturbed prompts",
    _NO_BLOCK,
    _on_blocks(lambda blocks: move_measures(blocks, SEED_VARIANCE, PROMPT_VARIANCE)),
)
H1I = Hypothesis(
    "H1I",
    "structure blocks raise the information that readable answers carry about the truth.",
    "I(answer; truth) of readable answers on the same items",
    _NO_BLOCK,
    _on_blocks(lambda blocks: move_measures(blocks, INFORMATION)),
)
P1 = Hypothesis(
    "P1",
    f"the effect of a structure block on the score replicates over at least {DOMAINS} domains and {SCALES} model"
    " sizes.",
    "the same sign in at least 3 domains (the tasks' `domain`) and 3 sizes; no effect found is *inconclusive*",
    _NO_BLOCK_TO_REPLICATE,
    replicate,
)
