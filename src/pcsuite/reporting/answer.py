"""The answer of a report in words: what each block of the prompt did, what was planned, and which prompt is best.

It reads ``effects.csv`` and ``registration.csv`` and computes nothing. A block is what one condition has and another
lacks, by the titles of its operators; "helps" and "hurts" are said where the effect holds after correction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, NamedTuple

from pcsuite._util.text import counted, figure_text
from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import SCORE, least_random
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.pairings import CONTROL, PAIRS
from pcsuite.analysis.tables.judges import NOT_VALIDATED
from pcsuite.analysis.tables.summary import RunHealth
from pcsuite.config.bundled import operator_title
from pcsuite.contrasts import is_reliable
from pcsuite.logging.manifest import MergedManifest
from pcsuite.pages.words import decimal_text
from pcsuite.prompts.compiled import COMPILED_OPERATOR
from pcsuite.reporting.wording import join_words

Record = Mapping[str, Any]
Standing = Literal[
    "helps", "hurts", "the form, not the answer", "nothing shown", "not tested", "judge not validated"
]
Bundle = frozenset[str]
TONES: Mapping[Standing, str] = {"helps": "good", "hurts": "bad"}
_MAIN_EFFECT = "main effect"
_MOST_NAMED = 3
"""Operators up to which a prompt is told by what it has; a longer one is told by what it lacks, where that is less."""


class BlockEffect(NamedTuple):
    """What a block did to the score of one task with one model."""

    task: str
    model: str
    value: float
    low: float | None
    high: float | None
    items: int
    standing: Standing
    reason: str = ""
    """Why it was not tested."""
    decoding: str = ""
    condition: str = ""
    """The condition that has the block, where the effect is the difference of two; else empty."""
    baseline: str = ""
    """The one that lacks it."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A line of the first figure: a block in words, and its effect wherever it was measured."""

    label: str
    contrast: str
    """The comparison by the ids of its conditions, for those who look it up in a table."""
    effects: list[BlockEffect] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The effect, in the median over tasks and models."""
        return median(effect.value for effect in self.effects)

    def count(self, standing: Standing) -> int:
        """Pairs of task and model in which it stands so."""
        return sum(effect.standing == standing for effect in self.effects)

    @property
    def holds(self) -> bool:
        """Whether it helps or hurts anywhere."""
        return self.count("helps") + self.count("hurts") > 0

    @property
    def verdict(self) -> str:
        """``helps``, ``nothing shown``; over several pairs ``helps on 3 of 4``."""
        if len(self.effects) == 1:
            return self.effects[0].standing
        words = [f"{name} on {count}" for name in ("helps", "hurts") if (count := self.count(name))]
        if words:
            return f"{', '.join(words)} of {len(self.effects)}"
        standings = {effect.standing for effect in self.effects}
        return standings.pop() if len(standings) == 1 else "nothing shown"

    @property
    def tone(self) -> str:
        """Its colour: none where it helps here and hurts there, or nothing is shown."""
        helps, hurts = self.count("helps"), self.count("hurts")
        return "" if bool(helps) == bool(hurts) else "good" if helps else "bad"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the first screen of a report says."""

    sentence: str
    planned: list[AnswerRow]
    """The registered contrasts, where there are any: they come first."""
    blocks: list[AnswerRow]
    note: str
    """What the numbers are: of which score, under which regime, on how many items."""
    exploring: str = ""
    """Of a registered run: what else it says, which nobody planned to ask."""

    @property
    def reach(self) -> float:
        """How far the figure's axis goes to either side of zero."""
        ends = [
            abs(end)
            for row in (*self.planned, *self.blocks)
            for effect in row.effects
            for end in (effect.value, effect.low, effect.high)
            if end is not None
        ]
        return min(1.0, max(ends, default=0.0)) or 1.0


def answer_of(analysis: Analysis) -> Answer:
    """The answer of an analysis, each task and model under its least random regime.

    Where contrasts were registered before the first call, the sentence is about them, and what is said of blocks comes
    after it, marked as exploratory.
    """
    names = _Names(analysis)
    records = [row for row in analysis.tables["effects"].records() if row["metric"] == SCORE]
    groups = _least_random_groups(records, analysis.scores.temperature)
    blocks = _block_rows(groups, names, analysis.metrics)
    planned = _planned_rows(analysis, names)
    parts = _parts(blocks) or [_nothing_compared(records, analysis.health)]
    if best := _best_prompt(groups, names, analysis.metrics):
        parts.append(best)
    sentence = f"{'; '.join(parts)}."
    note = _note(groups, analysis)
    if not planned:
        # A name with signs or figures in it is written as it is called.
        if sentence.split(" ", 1)[0].rstrip(":,").isalpha():
            sentence = f"{sentence[:1].upper()}{sentence[1:]}"
        return Answer(sentence, planned, blocks, note)
    registered = f"Registered: {'; '.join(_parts(planned, of_plan=True))}."
    return Answer(registered, planned, blocks, note, f"Exploratory, not registered: {sentence}")


def regime_words(regime: str, temperature: Mapping[str, float]) -> str:
    """A decoding regime as a reader knows it.

    >>> regime_words("D0", {"D0": 0.0}), regime_words("D1", {"D1": 0.7}), regime_words("x", {})
    ('greedy decoding (D0)', 'sampling at temperature 0.7 (D1)', 'x')
    """
    degree = temperature.get(regime)
    if degree is None or degree != degree:
        return regime
    return f"greedy decoding ({regime})" if degree == 0 else f"sampling at temperature {degree:g} ({regime})"


class _Names:
    """Operators and conditions of a run in words."""

    def __init__(self, analysis: Analysis) -> None:
        self._bundles = analysis.scores.operators
        self._manifest: MergedManifest = analysis.manifest

    def bundle(self, task: str, condition: str) -> tuple[str, ...] | None:
        """The operators of a condition in order; ``None`` for a compiled prompt, whose words do more than they say."""
        operators = self._bundles.get((task, condition))
        return None if operators is None or COMPILED_OPERATOR in operators else operators

    def title(self, operator: str) -> str:
        return self._manifest.operator_titles.get(operator) or operator_title(operator)

    def block(self, operators: Iterable[str]) -> str:
        """``rules + leave to abstain``."""
        return " + ".join(dict.fromkeys(self.title(name) for name in operators))

    def pair(self, record: Record) -> str:
        """``v2 against v1``."""
        return f"{record['condition']} against {record['baseline']}"

    def prompt(self, task: str, condition: str) -> str:
        """A condition by what it has, or by what it lacks of all blocks that the task's conditions have."""
        bundle = self.bundle(task, condition)
        if bundle is None:
            note = self._manifest.conditions.get(condition)
            return note.title if note is not None and note.title else "a compiled prompt"
        every = dict.fromkeys(
            name
            for (of_task, other) in self._bundles
            if of_task == task
            for name in self.bundle(task, other) or ()
        )
        missing = [self.title(name) for name in every if name not in bundle]
        if not bundle:
            return "the bare instruction" if every else condition
        if not missing:
            return "all blocks"
        if len(bundle) > _MOST_NAMED and len(missing) < len(bundle):
            return f"all blocks but {join_words(list(dict.fromkeys(missing)))}"
        return join_words(list(dict.fromkeys(self.title(name) for name in bundle)))


Groups = Mapping[tuple[str, str], Sequence[Record]]


def _least_random_groups(records: Iterable[Record], temperature: Mapping[str, float]) -> Groups:
    """Records by task and model, those of the least random regime alone."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["task"], record["model"]), []).append(record)
    least = {}
    for key, rows in sorted(groups.items()):
        regime = least_random({row["decoding"] for row in rows}, temperature)
        least[key] = [row for row in rows if row["decoding"] == regime]
    return least


def _standing(record: Record, value: float, metrics: Metrics) -> Standing:
    if record["p_value"] is None:
        return "not tested"
    if record.get("judge") == NOT_VALIDATED:
        return "judge not validated"
    improved = metrics.improved(record["metric"], value)
    if improved is None or not is_reliable(record["p_bh"]):
        return "nothing shown"
    if record.get("form"):
        return "the form, not the answer"
    return "helps" if improved else "hurts"


def _effect(record: Record, metrics: Metrics, sign: int = 1) -> BlockEffect:
    """A record as the effect of what its condition adds, or with ``sign`` −1 of what it lacks."""
    low, high = record["delta_low"], record["delta_high"]
    if sign < 0:
        low, high = (None if high is None else -high), (None if low is None else -low)
    value = sign * record["delta"]
    reason = str(record.get("caution") or "") if record["p_value"] is None else ""
    standing = _standing(record, value, metrics)
    pair = [record["condition"], record["baseline"]][::sign] if record["kind"] in PAIRS else ["", ""]
    return BlockEffect(
        record["task"],
        record["model"],
        value,
        low,
        high,
        record["n_items"],
        standing,
        reason,
        record["decoding"],
        *pair,
    )


class _Candidate(NamedTuple):
    """A contrast that measures a block: what it adds, from which record, and how much stands beside the block.

    No operators stand for a prompt that is compared as a whole.
    """

    block: tuple[str, ...]
    record: Record
    sign: int
    beside: float


def _block_rows(groups: Groups, names: _Names, metrics: Metrics) -> list[AnswerRow]:
    """What each block did, one row a block over all groups: what helps first, then what hurts, then the rest."""
    rows: dict[str, AnswerRow] = {}
    for records in groups.values():
        candidates = list(_candidates(records, names))
        whole = [one for one in candidates if not one.block]
        for candidate in (*_smallest_blocks(one for one in candidates if one.block), *whole):
            label = names.block(candidate.block) or names.pair(candidate.record)
            row = rows.setdefault(label, AnswerRow(label, candidate.record["contrast"]))
            row.effects.append(_effect(candidate.record, metrics, candidate.sign))

    def place(row: AnswerRow) -> tuple[bool, float]:
        return not row.holds, -row.value

    return sorted(rows.values(), key=place)


def _candidates(records: Iterable[Record], names: _Names) -> Iterable[_Candidate]:
    for record in records:
        if record["delta"] is None:
            continue
        if record["kind"] == _MAIN_EFFECT:
            # A mean over all other blocks, with and without: no single pair says as much.
            yield _Candidate((record["operator"],), record, 1, float("inf"))
        if record["kind"] not in PAIRS:
            continue
        added, lacked = (names.bundle(record["task"], record[side]) for side in ("condition", "baseline"))
        if added is None or lacked is None or not (set(added) > set(lacked) or set(added) < set(lacked)):
            # Prompts that differ in more than blocks: each is told as a whole, against the control alone.
            if record["kind"] == CONTROL:
                yield _Candidate((), record, 1, 0.0)
        elif set(added) > set(lacked):
            yield _Candidate(tuple(n for n in added if n not in lacked), record, 1, len(lacked))
        else:
            yield _Candidate(tuple(n for n in lacked if n not in added), record, -1, len(added))


def _smallest_blocks(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Contrasts that together say of every operator what can be said, each of as few operators as possible.

    Of several that measure the same block the one counts in which most stands beside it: what the fullest prompt would
    lose. A larger block is told only for an operator that no smaller one has.
    """
    best: dict[Bundle, _Candidate] = {}
    for candidate in candidates:
        block = frozenset(candidate.block)
        if block not in best or candidate.beside > best[block].beside:
            best[block] = candidate
    chosen: list[Bundle] = []
    by_size = sorted(best, key=len)
    for block in by_size:
        if not any(other < block for other in chosen):
            chosen.append(block)
    for operator in frozenset().union(*best) - frozenset().union(*chosen):
        larger = next(block for block in by_size if operator in block)
        chosen += [larger] if larger not in chosen else []
    return [best[block] for block in chosen]


def _planned_rows(analysis: Analysis, names: _Names) -> list[AnswerRow]:
    """The registered contrasts as rows, those of several tasks and models in one; empty without a registration."""
    measured = {
        tuple(row[name] for name in ("task", "model", "decoding", "condition", "baseline", "metric")): row
        for row in analysis.tables["effects"].records()
        if row["planned"] == "yes"
    }
    rows: dict[tuple[str, ...], AnswerRow] = {}
    for plan in analysis.tables["registration"].records():
        if plan["delta"] is None:
            continue
        key = tuple(plan[name] for name in ("task", "model", "decoding", "condition", "baseline", "metric"))
        label = _planned_label(plan, names, analysis)
        row = rows.setdefault(
            (label, plan["decoding"]), AnswerRow(label, f"{plan['condition']} − {plan['baseline']}")
        )
        row.effects.append(_planned_effect(plan, measured.get(key), analysis.metrics))
    return list(rows.values())


def _planned_effect(plan: Record, record: Record | None, metrics: Metrics) -> BlockEffect:
    """A registered contrast with the outcome that its own correction, or its last look, gives it."""
    improved = metrics.improved(plan["metric"], plan["delta"])
    judged = record is not None and record.get("judge") == NOT_VALIDATED
    shown = plan["outcome"] in ("holds", "better", "worse")
    standing: Standing = "nothing shown"
    if judged:
        standing = "judge not validated"
    elif plan["p_value"] is None:
        standing = "not tested"
    elif shown and record is not None and record.get("form"):
        standing = "the form, not the answer"
    elif shown and improved is not None:
        standing = "helps" if improved else "hurts"
    return BlockEffect(
        plan["task"], plan["model"], plan["delta"], plan["delta_low"], plan["delta_high"], plan["n_items"],
        standing, "" if shown or plan["outcome"] == "not shown" else str(plan["outcome"]),
        plan["decoding"], plan["condition"], plan["baseline"],
    )  # fmt: skip


def _planned_label(plan: Record, names: _Names, analysis: Analysis) -> str:
    added, lacked = (names.bundle(plan["task"], plan[side]) for side in ("condition", "baseline"))
    pair = f"{plan['condition']} against {plan['baseline']}"
    if added is not None and lacked is not None and set(added) > set(lacked):
        pair = f"{names.block(name for name in added if name not in lacked)} ({pair})"
    elif added is not None and lacked is not None and set(added) < set(lacked):
        pair = f"without {names.block(name for name in lacked if name not in added)} ({pair})"
    return pair if plan["metric"] == SCORE else f"{pair}, {analysis.metrics.label(plan['metric'])}"


def _parts(rows: Sequence[AnswerRow], *, of_plan: bool = False) -> list[str]:
    """The clauses of a sentence: what holds with its amount, then what is not shown, then what was not tested."""
    parts = []
    held = [row for row in rows if row.holds]
    if held:
        pairs = max(len(row.effects) for row in rows)
        words = [f"{row.label} {decimal_text(row.value, sign='+')}" for row in held]
        within = "within the plan" if of_plan else "after correction"
        if pairs == 1:
            each = "holds" if len(held) == 1 else "each holds"
            parts.append(f"{', '.join(words)} ({each} {within})")
        else:
            verdicts = [row.verdict.removesuffix(f" of {pairs}") for row in held]
            amounts = [f"{amount} ({verdict})" for amount, verdict in zip(words, verdicts, strict=True)]
            parts.append(f"on {pairs} pairs of task and model: {', '.join(amounts)} {within}")
    for verdict in ("the form, not the answer", "nothing shown", "not tested", "judge not validated"):
        labels = [row.label for row in rows if not row.holds and row.verdict == verdict]
        parts += [f"{join_words(labels)}: {verdict}"] if labels else []
    return parts


def _best_prompt(groups: Groups, names: _Names, metrics: Metrics) -> str:
    """Which prompt is best, where one is shown to beat the control; over several groups, on how many."""
    wins: dict[str, list[tuple[float, str]]] = {}
    pairs, bare = 0, ""
    for (task, _), records in groups.items():
        against = [row for row in records if row["kind"] == CONTROL and row["delta"] is not None]
        if not against:
            continue
        pairs += 1
        bare = f"{names.prompt(task, against[0]['baseline'])}, {figure_text(against[0]['control'])}"
        better = [row for row in against if _standing(row, row["delta"], metrics) == "helps"]
        if better:
            best = max(better, key=lambda row: abs(row["delta"]))
            words = names.prompt(task, best["condition"])
            words += f" ({best['condition']})" if words != best["condition"] else ""
            wins.setdefault(words, []).append((best["treated"], figure_text(best["treated"])))
    if not pairs:
        return ""
    if not wins:
        beaten = bare if pairs == 1 else "the control"
        return f"best prompt: none is shown to beat {beaten}"
    words, scores = max(wins.items(), key=lambda entry: (len(entry[1]), max(entry[1])))
    if pairs == 1:
        return f"best prompt: {words}, {scores[0][1]}"
    return f"best prompt on {len(scores)} of {pairs}: {words}"


def _nothing_compared(records: Sequence[Record], health: RunHealth) -> str:
    if health.rows and health.error_rows >= health.rows:
        return "nothing was compared: every call failed"
    reasons = sorted({str(row["caution"]) for row in records if row.get("caution")})
    if reasons:
        return f"no block could be told apart: {reasons[0]}"
    return "nothing was compared: there is no condition that others could be set against"


def _note(groups: Groups, analysis: Analysis) -> str:
    """``Change of the score, agnews_json with m1, greedy decoding (D0), 200 items; lines are 95 % intervals.``"""
    if not groups:
        return ""
    label = analysis.metrics.label(SCORE)
    regimes = sorted({records[0]["decoding"] for records in groups.values()})
    regime = join_words([regime_words(name, analysis.scores.temperature) for name in regimes])
    if len(groups) == 1:
        ((task, model), records), *_ = groups.items()
        items = max(records, key=lambda row: row["n_items"])
        related = f" in {counted(items['n_clusters'], 'cluster')}" if items.get("n_clusters") else ""
        where = f"{task} with {model}, {regime}, {counted(items['n_items'], 'item')}{related}"
        return f"Change of the {label} by each block: {where}; lines are 95 % intervals."
    tasks, models = (list(dict.fromkeys(key[index] for key in groups)) for index in (0, 1))
    shown = [
        join_words(names) if len(names) <= _MOST_NAMED else counted(len(names), noun)
        for names, noun in ((tasks, "task"), (models, "model"))
    ]
    return (
        f"Change of the {label} by each block: {shown[0]} with {shown[1]}, {regime}; a dot is"
        " a pair of task and model, filled where it holds, and the number their median."
    )
