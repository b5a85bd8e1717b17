"""Running a plan: every unit asked, scored and logged, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite._util.loops import run_blocking, run_in_thread
from pcsuite.analysis.asked_items import ids_digest
from pcsuite.analysis.metrics import declared_by
from pcsuite.config.bundled import operator_title, operator_type, operator_work
from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.model_names import provider_presets
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.config.prices import price_of, price_words
from pcsuite.data.clusters import count_clusters
from pcsuite.data.items import closed_answers, majority_class
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.batches import BatchStore
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import BudgetExceededError, ConfigError, EngineError, LogError
from pcsuite.evaluation.judged import judge_fingerprint
from pcsuite.logging.ledger import counting, read_spent
from pcsuite.logging.log import RunLog, RunPaths
from pcsuite.logging.looks import Look
from pcsuite.logging.manifest import (
    ConditionNote,
    JudgeNote,
    ModelNote,
    NotApplicableNote,
    RegisteredPlan,
    RunManifest,
    TaskNote,
    read_manifest,
    write_manifest,
)
from pcsuite.logging.scored_rows import LoggedScores
from pcsuite.logging.segments import Beside
from pcsuite.prompts.compiled import compiled_path, read_compiled_file
from pcsuite.runners.edits import Perturber, registered_perturbation
from pcsuite.runners.executors import EXECUTORS, Executor, ExecutorChoice, phases
from pcsuite.runners.pipeline import Work, git_commit
from pcsuite.runners.plan import Cell, NotApplicable, Plan, build_plan, refuse_judges
from pcsuite.runners.progress import Progress, RowSink, Tally, halting_on_request
from pcsuite.runners.registration import register
from pcsuite.runners.until import UntilDecided


def plan_manifest(plan: Plan) -> RunManifest:
    """What a plan is made of, as the manifest beside its log says it; the block of a plan is its own affair.

    Tasks, models, conditions, regimes, metrics, compiled prompts and what is not applicable, with reasons.
    """
    suite = plan.suite
    majority = {task.id: majority_class(task.items) or ("", None) for task in plan.tasks.values()}
    return RunManifest(
        run=suite.profile.run.name,
        profile=suite.path.stem,
        config_hash=suite.config_hash,
        pcsuite_version=__version__,
        length_control=suite.profile.length_control,
        wordings=dict(suite.wordings),
        tasks={
            task.id: TaskNote(
                title=task.spec.title,
                kind=task.spec.kind,
                domain=task.spec.domain,
                primary_metric=task.spec.primary_metric,
                pooling=task.evaluator.pooling,
                items=len(task.items),
                item_ids=ids_digest([item.item_id for item in task.items]),
                clusters=count_clusters(task.items),
                clustered_by=list(suite.clusters_of(task.id)),
                source=task.source.describe(),
                max_tokens=task.spec.max_tokens,
                length_band=list(task.band),
                answers=closed_answers(task.items),
                judge=None
                if (judge := task.spec.judge) is None
                else JudgeNote(
                    judge.model, judge.scale, judge_fingerprint(judge, task.spec.instruction), judge.rubric
                ),
                majority_label=majority[task.id][0],
                majority_share=majority[task.id][1],
                scorer=scorer.stamp if (scorer := suite.scorer(task.id)) is not None else "",
            )
            for task in plan.tasks.values()
        },
        models={model_id: _model_note(suite.models[model_id]) for model_id in plan.scope.models},
        conditions={
            cell.condition.id: ConditionNote(cell.condition.title, list(cell.operators))
            for cell in plan.cells
        },
        operator_types=_of_operators(plan, operator_type),
        operator_work=_of_operators(plan, operator_work),
        operator_titles=_of_operators(plan, operator_title),
        regimes={name: suite.regimes[name].model_dump(mode="json") for name in plan.scope.regimes},
        metrics=declared_by(suite.metrics),
        objective=suite.profile.optimization.dspy.objective.model_dump(mode="json"),
        analysis=suite.profile.analysis.model_dump(mode="json"),
        missing=suite.profile.missing,
        compiled=_compiled(plan),
        planned_rows=plan.calls,
        not_applicable=[
            NotApplicableNote(e.task_id, e.model_id, e.condition_id, e.reason) for e in plan.not_applicable
        ],
        enforced_in_part=[
            NotApplicableNote(e.task_id, e.model_id, e.condition_id, e.reason) for e in plan.enforced_in_part
        ],
    )


def _of_operators(
    plan: Plan, look_up: Callable[[str, Mapping[str, OperatorSpec]], str | None]
) -> dict[str, str]:
    """What is known of the operators of the plan's conditions, by name."""
    names = sorted({name for cell in plan.cells for name in cell.operators})
    return {name: trait for name in names if (trait := look_up(name, plan.suite.operators)) is not None}


def _model_note(spec: ModelSpec) -> ModelNote:
    price = price_of(spec)
    return ModelNote(
        provider=spec.provider,
        family=spec.family,
        size=spec.size,
        params_b=spec.params_b,
        price_in=price.price_in if price is not None else None,
        price_out=price.price_out if price is not None else None,
        price=price_words(spec),
    )


def record_plan(plan: Plan, log: Path, registered: RegisteredPlan | None, logged: int = 0) -> None:
    """Write the plan's manifest; a further block of the same log is added to the one that is there.

    ``registered`` is what was written down before the first row. ``logged`` rows of the plan are in the log already:
    where a block begins they are those of other blocks, and not its own. Raises :class:`LogError` where the manifest
    cannot be written.
    """
    manifest = plan_manifest(plan)
    manifest.preregistration = registered
    if plan.scope.block:
        main = _readable_manifest(log) or RunManifest()
        main.fill_from(manifest)
        known = main.not_applicable
        main.not_applicable = known + [note for note in manifest.not_applicable if note not in known]
        parts = main.enforced_in_part
        main.enforced_in_part = parts + [note for note in manifest.enforced_in_part if note not in parts]
        earlier = main.blocks or {}
        begun = earlier.get(plan.scope.block)
        shared = int(begun.get("shared_rows") or 0) if begun is not None else logged
        block = {"planned_rows": manifest.planned_rows - shared} | ({"shared_rows": shared} if shared else {})
        main.blocks = {**earlier, plan.scope.block: block}
        manifest = main
    elif (earlier_plan := _readable_manifest(log)) is not None:
        manifest.configurations = earlier_plan.configurations
        for task_id, note in manifest.tasks.items():
            before = earlier_plan.tasks.get(task_id)
            if before is not None and (before.labels or before.clustered_by != note.clustered_by):
                # Rows that are there keep the label they were written with: what counts now is said here.
                note.labels = {item.item_id: item.cluster for item in plan.tasks[task_id].items}
    manifest.configurations = {**manifest.configurations, plan.suite.config_hash: plan.suite.settings}
    write_manifest(log, manifest)


def _readable_manifest(log: Path) -> RunManifest | None:
    """The manifest of a log as far as it can be read: one that cannot is replaced."""
    try:
        return read_manifest(log)
    except LogError:
        return None


def _check_scorers(plan: Plan, log: RunLog) -> None:
    """Refuse to add rows of an edited scorer to rows of the earlier one: their scores mean different things."""
    manifest = read_manifest(log.paths.log) if len(log.index) else None
    for task_id, note in (manifest.tasks if manifest is not None else {}).items():
        scorer = plan.suite.scorer(task_id) if task_id in plan.tasks else None
        if scorer is not None and note.scorer and note.scorer != scorer.stamp:
            raise ConfigError(
                f"{scorer.name} has changed since rows of task '{task_id}' were scored with it"
                f" ({note.scorer}, now {scorer.stamp})",
                hint="pcsuite rescore --config PROFILE scores them anew; --name starts another run",
            )


def _compiled(plan: Plan) -> list[dict[str, Any]]:
    """What the frozen files say of the compiled prompts of a plan."""
    compiled: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in plan.cells:
        key = (cell.task.id, cell.model_id)
        if cell.condition.prompt is None or key in compiled:
            continue
        path = compiled_path(plan.suite.profile.run.output_dir, *key)
        content = read_compiled_file(path) if path.is_file() else {}
        if content.get("hash") == cell.condition.prompt.hash:
            keys = ("task", "model", "method", "hash", "makeup", "makeup_by", "candidates", "dev", "ledger")
            compiled[key] = {"condition": cell.condition.id, **{name: content.get(name) for name in keys}}
    return list(compiled.values())


LOCAL = ExecutorChoice()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    paths: RunPaths
    tally: Tally
    skipped: int
    """Rows that were done already."""
    not_applicable: tuple[NotApplicable, ...]
    seconds: float
    looks: tuple[Look, ...] = ()
    """The last look at each arm of a run that may stop early."""


def run_suite(
    suite: Suite | str | Path,
    *,
    quiet: bool = False,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    deviation: str | None = None,
    batch: bool = False,
) -> RunSummary:
    """Run a profile, or go on with it; returns when every row is logged or its stopping rule has decided.

    ``suite`` may also be the path of a profile, or the name of a bundled one. ``policy`` replaces the profile's
    ``limits.retry``; ``deviation`` is the reason why what was registered changed after the first row; ``batch`` sends
    the calls through the providers' batch APIs. Raises what :func:`build_plan`, :func:`register` and :func:`run_into`
    raise.

        run_suite(load_suite("quickstart"), quiet=True).tally.done
    """
    return run_plan(
        build_plan(suite if isinstance(suite, Suite) else load_suite(str(suite))),
        quiet=quiet,
        policy=policy,
        use_cache=use_cache,
        executor=executor,
        deviation=deviation,
        batch=batch,
    )


def run_plan(
    plan: Plan,
    *,
    quiet: bool = False,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    perturber: Perturber = registered_perturbation,
    executor: ExecutorChoice = LOCAL,
    deviation: str | None = None,
    batch: bool = False,
) -> RunSummary:
    """Run a plan into its profile's log, or go on with it.

    ``perturber`` finds the edits of perturbed units, by default those of the registered kinds. What the profile
    registers is written down before anything is called; a further block of a run registers nothing.
    """
    return run_blocking(_run(plan, quiet, policy, use_cache, perturber, executor, deviation, batch))


async def run_suite_async(
    suite: Suite,
    *,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    deviation: str | None = None,
    batch: bool = False,
) -> RunSummary:
    """:func:`run_suite` for a caller with a loop of its own, which stays free; cancelling it ends the run in order.

    Rows that were finished are in the log, as after Ctrl-C.
    """
    plan = await asyncio.to_thread(build_plan, suite)
    return await run_in_thread(
        _run(plan, quiet, None, use_cache, registered_perturbation, executor, deviation, batch)
    )


async def _run(
    plan: Plan,
    quiet: bool,
    policy: RetryPolicy | None,
    use_cache: bool,
    perturber: Perturber,
    executor: ExecutorChoice,
    deviation: str | None,
    batch: bool,
) -> RunSummary:
    run, started = plan.suite.profile.run, time.monotonic()
    if batch:
        check_batches(plan, executor)
    commit = git_commit(plan.suite.path.resolve().parent)
    work = Work(plan, policy, perturber, use_cache, commit, batch)
    async with EXECUTORS.get(executor.name)(work, executor, quiet=quiet) as opened:
        section = None if plan.scope.block else plan.suite.profile.preregistration
        scores = LoggedScores(section.metric) if section is not None and section.stops_early else None
        # A further block adds to the log that is there: setting it aside would take the run it belongs to away.
        with (
            RunLog.of(run, overwrite=run.overwrite and not plan.scope.block, scores=scores) as log,
            counting(log.paths.log, opened.budget, plan.suite.profile.limits),
        ):
            registered = None
            _check_scorers(plan, log)
            if not plan.scope.block:
                # On the disk before the first call: a plan that is written down later proves nothing.
                registered = register(plan, log, deviation)
                record_plan(plan, log.paths.log, registered)
            summary = await run_into(log, plan, opened, quiet=quiet, registered=registered)
            return replace(summary, seconds=time.monotonic() - started)


async def run_into(
    log: RunLog,
    plan: Plan,
    executor: Executor,
    *,
    quiet: bool,
    registered: RegisteredPlan | None = None,
    progress: Progress | None = None,
) -> RunSummary:
    """Run everything of a plan that an open log does not have, with an open executor.

    A plan that is ``registered`` with a stopping rule is run only until its contrasts are decided. ``progress`` is one
    that goes on over several plans; without it the plan gets its own, which ``quiet`` hides.

    Constraints are proved and retrievers opened first; the plan's manifest is written beside the log. Raises what
    ended the run early: :class:`BudgetExceededError`, :class:`ErrorRateError` or :class:`RunStoppedError`.
    """
    started = time.monotonic()
    if executor.work.plan is not plan:
        executor.use(plan)
    executor.remember_refusals(Beside.REFUSED.of(log.paths.log))
    plan = await _without_unenforced(plan, executor)
    searching = [cell.task.id for cell in plan.cells if cell.program.needs_retrieval]
    await executor.open_retrievers(dict.fromkeys(searching))
    pending = dict.fromkeys(plan.scope.models, 0)
    # Looking units up takes a hash of each; a fresh log needs none of it.
    if len(log.index) or log.index.failed:
        for name in pending:
            pending[name] = sum(unit.run_id not in log.index for unit in plan.units(name))
    else:
        for cell in plan.cells:
            pending[cell.model_id] += cell.calls
    total = sum(pending.values())
    if total and not executor.work.batch:
        _refuse_open_batches(log.paths.log)
    record_plan(plan, log.paths.log, registered, plan.calls - total)
    section = plan.suite.profile.preregistration
    until = None
    if registered is not None and section is not None and section.stops_early:
        until = UntilDecided(plan, log, section)
    with nullcontext(progress) if progress is not None else Progress(total, quiet=quiet) as progress:
        sink = RowSink(log, progress, plan.suite.profile.limits.stop_on_error_rate)
        waiting = {model_id: count for model_id, count in pending.items() if count}
        with (
            _halting_after_hours(plan.suite.profile.limits.run_hours, log.paths.log, sink, total),
            halting_on_request(log.paths.log, sink),
        ):
            if until is not None and sink.stop is None:
                await until.run(executor, sink)
            for together in phases(plan, waiting) if until is None else ():
                if sink.stop is None:
                    await executor.run(
                        {name: waiting[name] for name in together},
                        lambda name: (unit for unit in plan.units(name) if unit.run_id not in log.index),
                        sink,
                    )
    if sink.stop is not None:
        raise sink.stop
    seconds = time.monotonic() - started
    looks = until.last_looks() if until is not None else ()
    return RunSummary(log.paths, progress.tally, plan.calls - total, plan.not_applicable, seconds, looks)


@contextmanager
def _halting_after_hours(hours: float | None, log: Path, sink: RowSink, pending: int) -> Iterator[None]:
    """Ask the sink for the end of the run when all its starts together have taken so many ``hours``.

    Rows that are under way are finished. Where nothing is ``pending``, no time is needed.
    """
    if hours is None or not pending:
        yield
        return
    earlier = read_spent(log).seconds
    reason = BudgetExceededError(
        f"the run's time is used up: {hours:g} hours (limits.run_hours),"
        f" {earlier / 3600:.2f} of them before this stretch",
        hint="finished rows are kept; raise the limit and run again to go on",
    )
    left = hours * 3600 - earlier
    if left <= 0:
        sink.halt(reason)
    alarm = asyncio.get_running_loop().call_later(max(0.0, left), sink.halt, reason)
    try:
        yield
    finally:
        alarm.cancel()


def check_batches(plan: Plan, executor: ExecutorChoice) -> None:
    """Refuse batches where nobody could send them; raises :class:`ConfigError` before anything is opened.

    That is by another executor than the local one, for judged tasks, and for providers without a batch API.
    """
    if executor.name != LOCAL.name:
        raise ConfigError(f"--batch sends from this process, not by --executor {executor.name}")
    refuse_judges(plan, "--batch")
    for model_id in plan.scope.models:
        spec = plan.suite.models[model_id]
        preset = provider_presets().get(spec.provider)
        declared = preset is not None and spec.provider_options().get("base_url") == preset.base_url
        if declared and preset is not None and "batches" not in preset.knows:
            able = [name for name, entry in provider_presets().items() if "batches" in entry.knows]
            raise ConfigError(
                f"model '{model_id}': {spec.provider} has no batch API that is spoken here",
                hint=f"those of {', '.join(able)} are; --batch-export is for engines that work offline",
            )


def _refuse_open_batches(log: Path) -> None:
    """Calls that are under way in batches must not be made a second time one by one."""
    folder = Beside.BATCHES.of(log)
    under_way = BatchStore(folder).open_batches() if folder.is_dir() else []
    if under_way:
        requests = sum(len(batch.ids) for batch in under_way)
        raise ConfigError(
            f"{requests} requests of this run are in batches at the provider, which are not collected yet",
            hint="add --batch to collect them, or --overwrite to start anew",
        )


async def _without_unenforced(plan: Plan, executor: Executor) -> Plan:
    """Prove that every constraint really restricts decoding; what does not is "not applicable".

    Where the model cannot even be asked, nothing is known: the rows of such cells fail with the reason, as they
    would have without the proof, and are tried again on resume.
    """
    dropped: list[NotApplicable] = []
    enforced: list[Cell] = []
    unproven: dict[tuple[str, Constraint], str] = {}
    for cell in plan.cells:
        reason = None
        if cell.constraint is not None and (cell.model_id, cell.constraint) not in unproven:
            try:
                reason = await executor.why_unenforced(cell.model_id, cell.constraint)
            except EngineError as error:
                unproven[cell.model_id, cell.constraint] = f"constraint not proved: {error}"
        if reason is None:
            enforced.append(cell)
        else:
            dropped.append(NotApplicable(cell.task.id, cell.model_id, cell.condition.id, reason))
    if unproven:
        executor.work = replace(executor.work, unproven=unproven)
        executor.use(executor.work.plan)
    if not dropped:
        return plan
    unique = tuple(dict.fromkeys(dropped))
    return replace(plan, cells=tuple(enforced), not_applicable=plan.not_applicable + unique)
