"""Checking a judge: its logged verdicts against gold labels, and against itself when asked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from pcsuite._util.loops import gather_or_cancel, run_blocking
from pcsuite.analysis.judging import EVERY_CONDITION, agreements, judges_of, read_gold, sample_words
from pcsuite.analysis.table import estimate_columns
from pcsuite.analysis.tables.judges import CheckedJudge, JudgeCheck, write_check
from pcsuite.config.load import Suite
from pcsuite.data.items import load_items
from pcsuite.engines.session import open_models
from pcsuite.errors import AnalysisError, EngineError, LogError
from pcsuite.evaluation.base import Answer, JudgeCall, JudgeQuestion
from pcsuite.logging.labels import JudgeSample, Labels, read_sample, read_sheet
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunPaths, iter_newest_rows
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.row import RunRow
from pcsuite.logging.segments import Beside
from pcsuite.programs.judging import Judge
from pcsuite.runners.progress import Progress
from pcsuite.runners.row_judges import judge_context
from pcsuite.runners.task_plan import task_evaluator
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.proportions import wilson

AGAIN_SEED = 1
"""Of the second question; its own, so that the cache does not repeat the first reply."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found and where it was saved."""

    path: Path
    check: JudgeCheck
    imported: int
    """Labels that were read from the table."""
    unanswered: int = 0
    """Questions that were asked again and failed; the same check asks for them once more."""
    samples: Mapping[str, str] = field(default_factory=dict)
    """By task: whether the labelled items resemble the rest, in a sentence."""


def check_judge(
    suite: Suite,
    *,
    labels: Path | None = None,
    again: int = 30,
    use_cache: bool = True,
    quiet: bool = True,
) -> CheckResult:
    """Hold the judges of a run against its gold labels, and save what is found beside the run.

    ``labels`` is a filled-in table of ``pcsuite judge sample``, whose labels are taken over into the run's own file;
    without it those of the labelling page count. ``again`` verdicts of each task are asked for anew, at the judge's
    price, for self-consistency. Raises :class:`LogError` where there is no run, :class:`AnalysisError` where nothing
    was drawn or labelled, :class:`~pcsuite.errors.DataError` for a wrong table, and what ends a run: a used-up budget,
    too many errors. Single questions that fail are left out of self-consistency.
    """
    run = suite.profile.run
    log = RunPaths.of(run.output_dir, run.name).log
    manifest = read_manifest(log)
    if manifest is None:
        raise LogError(f"{log}: no run to check", hint="pcsuite run --config PROFILE")
    judges = judges_of(manifest)
    if not judges:
        raise AnalysisError(
            f"{log.stem}: the run has no judged task", hint="a judge is checked on tasks of kind: judged"
        )
    sample = read_sample(log)
    if sample is None:
        raise AnalysisError(f"{log.stem}: no sample was drawn to be labelled", hint="pcsuite judge sample")
    imported = {} if labels is None else read_sheet(labels, sample)
    if imported:
        stored = Labels(log)
        labelled, units = stored.read(), {unit.id: unit for unit in sample.units}
        for name, label in imported.items():
            if name not in labelled or labelled[name].label != label:
                stored.add(units[name], sample.scales[units[name].task], label)
    records = agreements(log, judges)
    gold = read_gold([log], manifest)
    samples = {task: beside for task in judges if (beside := gold.sample(task)) is not None}
    if not records:
        raise AnalysisError(
            f"{log.stem}: none of the {len(sample.units)} drawn answers is labelled",
            hint="label them in pcsuite view, or fill in the table and give it with --labels",
        )
    repeated: Mapping[tuple[str, str], tuple[Estimate, int]] = {}
    unanswered = 0
    if again:
        with Progress(None, unit="calls", quiet=quiet) as progress:
            repeated = run_blocking(_ask_again(suite, log, sample, again, progress, use_cache=use_cache))
        unanswered = progress.tally.failed
    for record in records:
        consistency, asked = repeated.get((record["task"], record["condition"]), (None, 0))
        if consistency is not None:
            record |= {**estimate_columns("self_consistency", consistency), "n_again": asked}
        if record["condition"] == EVERY_CONDITION and record["task"] in samples:
            beside = samples[record["task"]]
            record |= {
                "labelled_rate": beside.labelled,
                "others_rate": beside.others,
                **estimate_columns("sample_difference", beside.difference),
                "sample_p": beside.p_value,
            }
    counts = {one["task"]: one["n_labels"] for one in records if one["condition"] == EVERY_CONDITION}
    check = JudgeCheck(
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        {task: CheckedJudge(judges[task].model, judges[task].prompt_hash, counts[task]) for task in counts},
        records,
    )
    words = {task: sample_words(beside, always=True) for task, beside in samples.items()}
    return CheckResult(write_check(log, check), check, len(imported), unanswered, words)


async def _ask_again(
    suite: Suite, log: Path, sample: JudgeSample, most: int, progress: Progress, *, use_cache: bool
) -> Mapping[tuple[str, str], tuple[Estimate, int]]:
    """The share of verdicts that stay when asked for again, by task and condition (and all together)."""
    task_of_run: dict[str, str] = {}
    for task in sample.items:
        units = [unit for unit in sample.units if unit.task == task][:most]
        task_of_run |= {unit.run_ids[0]: task for unit in units if unit.run_ids}
    rows = [row for row in iter_newest_rows(log) if row.run_id in task_of_run and row.task.id in suite.tasks]
    tasks = {row.task.id for row in rows if suite.tasks[row.task.id].judge is not None}
    same: dict[tuple[str, str], list[bool]] = {}
    async with open_models(suite, suite.judges(tasks), use_cache=use_cache) as session:
        session.remember_refusals(Beside.REFUSED.of(log))
        session.watch = progress.count_call
        with counting(log, session.budget, suite.profile.limits):
            for task in sorted(tasks):
                spec = suite.tasks[task].judge
                assert spec is not None
                judge = Judge(spec, session.clients[spec.model], counted=True)
                task_rows = [row for row in rows if row.task.id == task]
                answered = await gather_or_cancel(_verdicts_again(suite, judge, row) for row in task_rows)
                for row, repeats in zip(task_rows, answered, strict=True):
                    for condition in (EVERY_CONDITION, row.condition.id):
                        same.setdefault((task, condition), []).extend(repeats)
    return {
        key: (wilson(sum(repeats), len(repeats)), len(repeats)) for key, repeats in same.items() if repeats
    }


async def _verdicts_again(suite: Suite, judge: Judge, row: RunRow) -> list[bool]:
    assert row.generation is not None
    evaluator = task_evaluator(suite, row.task.id)
    loaded = load_items(suite.tasks[row.task.id].dataset, row.task.split, Path(suite.profile.run.cache_dir))
    item = next((item for item in loaded.items if item.item_id == row.task.item_id), None)
    if item is None:
        raise LogError(
            f"item '{row.task.item_id}' of task '{row.task.id}' is not in its dataset",
            hint="the log and run.cache_dir do not belong together",
        )
    first: dict[str, JudgeCall] = {call.order: call for call in row.judge or () if not call.rule}
    other = next((call.other for call in first.values()), "")
    answer, control = (
        Answer(row.generation.text, row.generation.finish_reason),
        Answer(other) if other else None,
    )
    repeats = []
    for question in evaluator.questions(item, answer, control):
        if isinstance(question, JudgeQuestion) and question.order in first:
            context = judge_context(
                evaluator,
                row.task.id,
                row.condition.id,
                item,
                row.perturbation.variant,
                answer,
                control,
                AGAIN_SEED,
            )
            try:
                call = await judge.ask(question, context(question), AGAIN_SEED)
            except EngineError:
                continue
            repeats.append(call.verdict == first[question.order].verdict)
    return repeats
