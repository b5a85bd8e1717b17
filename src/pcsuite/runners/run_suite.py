"""Running a plan: every unit asked, scored and logged, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pcsuite.config.load import Suite
from pcsuite.engines.retry import RetryPolicy
from pcsuite.logging.writer import RunLog, RunPaths
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.runners.constraint_proofs import constraint_of
from pcsuite.runners.executors import EXECUTORS, Executor, ExecutorChoice
from pcsuite.runners.ledger import Ledger
from pcsuite.runners.manifest import write_manifest
from pcsuite.runners.perturbed import Perturber, registered_perturbation
from pcsuite.runners.plan import Cell, NotApplicable, Plan, Unit, build_plan, cell_program
from pcsuite.runners.progress import Progress, Tally
from pcsuite.runners.rows import git_commit
from pcsuite.runners.workbench import Work

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


def run_suite(
    suite: Suite,
    *,
    quiet: bool = False,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
) -> RunSummary:
    """Run a profile, or go on with it; returns when every row is logged."""
    return run_plan(build_plan(suite), quiet=quiet, policy=policy, use_cache=use_cache, executor=executor)


def run_plan(
    plan: Plan,
    *,
    quiet: bool = False,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    perturber: Perturber = registered_perturbation,
    executor: ExecutorChoice = LOCAL,
) -> RunSummary:
    """Run a plan into its profile's log, or go on with it."""
    commit = git_commit(plan.suite.path.resolve().parent)
    work = Work(plan, policy or RetryPolicy(), perturber, use_cache, commit)
    chosen = EXECUTORS.get(executor.name)(work, executor, quiet=quiet)
    return asyncio.run(_run(plan, chosen, quiet=quiet))


async def _run(plan: Plan, executor: Executor, *, quiet: bool) -> RunSummary:
    run = plan.suite.profile.run
    started = time.monotonic()
    async with executor:
        with RunLog.of(run, overwrite=run.overwrite) as log:
            summary = await run_into(log, plan, executor, quiet=quiet)
            return replace(summary, seconds=time.monotonic() - started)


async def run_into(log: RunLog, plan: Plan, executor: Executor, *, quiet: bool) -> RunSummary:
    """Run everything of a plan that an open log does not have, with an open executor."""
    started = time.monotonic()
    if executor.work.plan is not plan:
        executor.use(plan)
    plan = await _without_unenforced(plan, executor)
    searching = [cell.task.id for cell in plan.cells if cell_program(cell).needs_retrieval]
    await executor.open_retrievers(dict.fromkeys(searching))
    pending = {model_id: _pending(plan, log, model_id) for model_id in plan.scope.models}
    total = sum(pending.values())
    write_manifest(plan, log.paths)
    with Progress(total, quiet=quiet) as progress:
        ledger = Ledger(log, progress, plan.suite.profile.limits.stop_on_error_rate)
        waiting = {model_id: count for model_id, count in pending.items() if count}
        await executor.run(waiting, lambda model_id: _todo(plan, log, model_id), ledger)
    if ledger.stop is not None:
        raise ledger.stop
    seconds = time.monotonic() - started
    return RunSummary(log.paths, progress.tally, plan.calls - total, plan.not_applicable, seconds)


def _pending(plan: Plan, log: RunLog, model_id: str) -> int:
    if not len(log.index) and not log.index.failed:
        return sum(cell.calls for cell in plan.cells if cell.model_id == model_id)
    return sum(unit.run_id not in log.index for unit in plan.units(model_id))


def _todo(plan: Plan, log: RunLog, model_id: str) -> Iterator[Unit]:
    for unit in plan.units(model_id):
        if unit.run_id not in log.index:
            yield unit


async def _without_unenforced(plan: Plan, executor: Executor) -> Plan:
    """Prove that every constraint really restricts decoding; what does not is "not applicable"."""
    dropped: list[NotApplicable] = []
    kept: list[Cell] = []
    for cell in plan.cells:
        condition = apply_condition(cell.condition, cell.task.prompting.context(""))
        constraint = constraint_of(condition)
        reason = None
        if constraint is not None:
            reason = await executor.why_unenforced(cell.model_id, constraint)
        if reason is None:
            kept.append(cell)
        else:
            dropped.append(NotApplicable(cell.task.id, cell.model_id, cell.condition.id, reason))
    if not dropped:
        return plan
    unique = tuple(dict.fromkeys(dropped))
    return replace(plan, cells=tuple(kept), not_applicable=plan.not_applicable + unique)
