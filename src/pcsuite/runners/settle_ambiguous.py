"""Sending answers that can be read in two ways to a person, by a table to fill in, or to a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.loops import gather_or_cancel, run_blocking
from pcsuite.analysis.ambiguous import RUBRIC, SCALE, ambiguous_sample, unsure_answers
from pcsuite.config.definitions import JudgeSpec
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, task_items
from pcsuite.engines.session import open_models
from pcsuite.errors import ConfigError, DataError, EngineError, LogError
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.judged import JudgedEvaluator, JudgedOptions
from pcsuite.logging.labels import JudgeSample, Labels, LabelUnit, read_sheet, sheet_csv
from pcsuite.logging.log import RunPaths
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.segments import Beside
from pcsuite.programs.judging import Judge
from pcsuite.runners.progress import Progress
from pcsuite.runners.row_judges import judge_context
from pcsuite.runners.task_plan import task_evaluator


class Unsettled(NamedTuple):
    """The answers of a run that can be read in two ways, and what was done about them."""

    log: Path
    sample: JudgeSample
    table: Path | None
    """The table to fill in; ``None`` where there is nothing to label."""
    labelled: int
    """Answers that have a label now."""
    new: int
    """Labels that this call added."""
    unanswered: int = 0
    """Questions to the judge that failed or whose reply could not be read; the same command asks them again."""


def settle_ambiguous(
    suite: Suite,
    *,
    table: Path | None = None,
    labels: Path | None = None,
    judge: str | None = None,
    use_cache: bool = True,
    quiet: bool = True,
) -> Unsettled:
    """Write the ambiguous answers of a run to a table to label, take over a filled-in one, or have a judge label them.

    ``labels`` is a filled-in table; ``judge`` the id of a model, which is shown the item, what is true and the answer,
    and asked whether the answer gives it; it labels what nobody has. A label is the score of that answer from the next
    ``rescore`` on. Raises :class:`LogError` where there is no run, :class:`~pcsuite.errors.DataError` for a wrong
    table, :class:`~pcsuite.errors.ConfigError` for an unknown judge.
    """
    run = suite.profile.run
    log = RunPaths.of(run.output_dir, run.name).log
    manifest = read_manifest(log)
    if manifest is None:
        raise LogError(f"{log}: no run to look at", hint="pcsuite run --config PROFILE")
    if judge is not None and judge not in suite.models:
        raise ConfigError(f"--judge: unknown model '{judge}'", hint=suite.models.hint(judge))
    sample = ambiguous_sample(unsure_answers(log), manifest.tasks)
    if not sample.units:
        return Unsettled(log, sample, None, 0, 0)
    stored, new, failed = Labels(log), 0, 0
    known = stored.read()
    if labels is not None:
        units = {unit.id: unit for unit in sample.units}
        for name, label in read_sheet(labels, sample).items():
            if name not in known or known[name].label != label:
                stored.add(units[name], SCALE, label)
                new += 1
    items = _items(suite, sample)
    if judge is not None:
        asked = [
            unit for unit in sample.units if unit.id not in stored.read() and (unit.task, unit.item) in items
        ]
        with Progress(len(asked), unit="calls", quiet=quiet) as progress:
            verdicts = run_blocking(_ask(suite, judge, asked, items, log, progress, use_cache=use_cache))
        for unit, verdict in zip(asked, verdicts, strict=True):
            if verdict is None:
                failed += 1
            else:
                stored.add(unit, SCALE, verdict, source=f"judge {judge}")
                new += 1
    known = stored.read()
    path = table or Beside.AMBIGUOUS.of(log)
    inputs = {key: _shown(suite, key[0], item) for key, item in items.items()}
    with write_errors(LogError, path):
        replace_atomically(path, sheet_csv(sample, inputs, known).encode("utf-8"))
    labelled = sum(unit.id in known for unit in sample.units)
    return Unsettled(log, sample, path, labelled, new, failed)


def _items(suite: Suite, sample: JudgeSample) -> dict[tuple[str, str], Item]:
    """The items of the answers, by task and id, as far as the profile has them."""
    items: dict[tuple[str, str], Item] = {}
    for task in sample.items:
        if task in suite.tasks:
            spec = suite.tasks[task]
            loaded = task_items(spec, spec.split, Path(suite.profile.run.cache_dir)).items
            items |= {(task, item.item_id): item for item in loaded}
    return items


def _shown(suite: Suite, task: str, item: Item) -> str:
    """An input with what is true below it: who decides whether an answer is right must know."""
    return f"{item.input_text}\n\nTruth: {task_evaluator(suite, task).gold_answer(item)}"


async def _ask(
    suite: Suite,
    model: str,
    units: list[LabelUnit],
    items: Mapping[tuple[str, str], Item],
    log: Path,
    progress: Progress,
    *,
    use_cache: bool,
) -> list[str | None]:
    """The judge's word on each answer; ``None`` where its call failed or its reply could not be read."""
    spec = JudgeSpec(model=model, rubric=RUBRIC, scale=SCALE, show_reference=True)
    async with open_models(suite, [model], use_cache=use_cache) as session:
        session.remember_refusals(Beside.REFUSED.of(log))
        session.watch = progress.count_call
        judge = Judge(spec, session.clients[model], counted=True)

        async def verdict(unit: LabelUnit) -> str | None:
            item = items[unit.task, unit.item]
            gold = task_evaluator(suite, unit.task).gold_answer(item)
            options = JudgedOptions(judge=spec, instruction=suite.tasks[unit.task].instruction)
            evaluator, known = JudgedEvaluator(options), replace(item, truth={"reference": gold})
            answer = Answer(unit.answer)
            context = judge_context(evaluator, unit.task, "ambiguous", known, "none", answer, None, 0)
            try:
                (call,) = await judge.verdicts(evaluator, known, answer, None, context)
            except (EngineError, DataError):
                return None
            return call.verdict

        return await gather_or_cancel(verdict(unit) for unit in units)
