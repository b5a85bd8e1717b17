"""The answers behind an effect: some items that a block fixed and some that it broke, both answers and the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite.analysis.load.runs import RunTables
from pcsuite.errors import LogError
from pcsuite.logging.log import read_prompts
from pcsuite.logging.segments import Beside
from pcsuite.pages.words import marked_lines
from pcsuite.prompts.verbatim import readable
from pcsuite.reporting.answer import AnswerRow, BlockEffect
from pcsuite.reporting.samples import Items, expected_text

EACH = 3
"""Items shown of those that a block fixed, and of those that it broke."""
MOST_TEXT = 1_200
"""Characters of an answer, a truth or a block's text that are shown."""


class Flip(NamedTuple):
    """An item whose score a block changed, and both answers to it."""

    item: str
    truth: str | None
    """``None`` where the task's items are not at hand."""
    score_with: float
    answer_with: str
    score_without: float
    answer_without: str


@dataclass(slots=True)
class BlockFlips:
    """The items behind the effect of a block on one task with one model."""

    label: str
    task: str
    model: str
    condition: str
    """The condition that has the block, and the one that lacks it."""
    baseline: str
    prompt_part: str = ""
    """The lines that the block adds to a prompt; empty where the prompts are not at hand."""
    n_fixed: int = 0
    n_broken: int = 0
    fixed: list[Flip] = field(default_factory=list)
    broken: list[Flip] = field(default_factory=list)


def block_flips(
    tables: RunTables, rows: Iterable[AnswerRow], logs: Sequence[Path], items: Items | None = None
) -> list[BlockFlips]:
    """Items that each block fixed and broke, at most :data:`EACH` of either, those with the largest change first.

    Of a block that was measured on several tasks and models, those on the pair with the largest effect. Blocks whose
    effect is no difference of two conditions (main effects of a factorial) have none. Of several answers to an item the
    ones are shown that tell the two sides apart best.
    """
    listed = []
    for row in rows:
        effects = [effect for effect in row.effects if effect.condition]
        if effects:
            largest = max(effects, key=lambda effect: abs(effect.value))
            listed.append(_flips_of(tables, row.label, largest, logs, items or {}))
    return listed


def _flips_of(
    tables: RunTables, label: str, effect: BlockEffect, logs: Sequence[Path], items: Items
) -> BlockFlips:
    flips = BlockFlips(label, effect.task, effect.model, effect.condition, effect.baseline)
    score = tables.metric_column("task_score")
    if score is None:
        return flips
    where = (
        f"kind = 'main' AND n_errors = 0 AND perturbation_type = 'none' AND {score} IS NOT NULL"
        " AND task_id = ? AND model_id = ? AND decoding_id = ?"
    )
    group = [effect.task, effect.model, effect.decoding]
    changed = tables.query(
        f"SELECT item_id, avg({score}) FILTER (condition_id = ?) - avg({score}) FILTER (condition_id = ?) AS change"
        f" FROM runs WHERE {where} GROUP BY item_id HAVING change <> 0 ORDER BY abs(change) DESC, md5(item_id)",
        [effect.condition, effect.baseline, *group],
    )
    fixed, broken = ([item for item, change in changed if sign * change > 0] for sign in (1, -1))
    flips.n_fixed, flips.n_broken = len(fixed), len(broken)
    chosen = [*fixed[:EACH], *broken[:EACH]]
    if not chosen:
        return flips
    answers = _answers(tables, score, where, [*group, chosen, [effect.condition, effect.baseline]])
    prompts = _prompts({row[2] for rows in answers.values() for row in rows}, logs)
    truths = {}
    for name, item in ((name, items.get(effect.task, {}).get(name)) for name in chosen):
        # The items may have been exported anew since: an id alone does not say that it is the same item.
        prompt = prompts.get(answers[name, effect.condition][0][2])
        if item is not None and prompt is not None and item.input_text in prompt:
            truths[name] = expected_text(item)
    for listed, names, best in ((flips.fixed, fixed, 1), (flips.broken, broken, -1)):
        for name in names[:EACH]:
            # The answers that make the difference: the best of one side and the worst of the other.
            treated, control = (
                max(answers[name, condition], key=lambda row: side * best * row[0])
                for condition, side in ((effect.condition, 1), (effect.baseline, -1))
            )
            truth = truths.get(name)
            listed.append(Flip(name, None if truth is None else cut_text(truth), *treated[:2], *control[:2]))
    sides = [prompts.get(answers[chosen[0], name][0][2]) for name in (effect.condition, effect.baseline)]
    if None not in sides:
        treated_prompt, control_prompt = (readable(str(text)) for text in sides)
        parts = marked_lines(treated_prompt, control_prompt)
        flips.prompt_part = cut_text("".join(text for is_alone, text in parts if is_alone).strip("\n"))
    return flips


def _answers(
    tables: RunTables, score: str, where: str, parameters: list[Any]
) -> Mapping[tuple[str, str], list[tuple[float, str, str]]]:
    """Score, text and prompt hash of the answers to some items under some conditions."""
    rows = tables.query(
        f"SELECT item_id, condition_id, {score}, coalesce(text, ''), coalesce(prompt_hash, '') FROM runs"
        f" WHERE {where} AND item_id IN (SELECT unnest(?)) AND condition_id IN (SELECT unnest(?)) ORDER BY seed",
        parameters,
    )
    answers: dict[tuple[str, str], list[tuple[float, str, str]]] = {}
    for item, condition, value, text, prompt in rows:
        answers.setdefault((item, condition), []).append((float(value), cut_text(text), prompt))
    return answers


def _prompts(hashes: set[str], logs: Sequence[Path]) -> dict[str, str]:
    prompts: dict[str, str] = {}
    for store in map(Beside.PROMPTS.of, logs):
        with suppress(LogError):  # a damaged file costs the page its prompts, not the report
            prompts |= read_prompts(store, hashes - prompts.keys()) if store.is_file() else {}
    return prompts


def cut_text(text: str) -> str:
    """A text as far as it is shown."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} …"
