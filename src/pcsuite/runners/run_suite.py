"""Running a plan: every unit asked, scored and logged, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import CallContext, ModelAdapter
from pcsuite.engines.budget import Budget
from pcsuite.engines.response_cache import ResponseCache
from pcsuite.engines.retry import RetryPolicy
from pcsuite.errors import BudgetExceededError, EngineError, ErrorRateError, PcsuiteError
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.logging.writer import RunLog, RunPaths
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Call, Job, Program
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.length import fit
from pcsuite.runners.client import ModelClient
from pcsuite.runners.components import build_model
from pcsuite.runners.constraint_proofs import constraint_of
from pcsuite.runners.manifest import write_manifest
from pcsuite.runners.perturbed import Perturber, registered_perturbation
from pcsuite.runners.plan import Cell, NotApplicable, Plan, Unit, build_plan, cell_program
from pcsuite.runners.progress import Progress, Tally
from pcsuite.runners.retrieval import TaskRetrievers
from pcsuite.runners.rows import PreparedPrompt, RowBuilder, answer_of, prepare

METRIC_CACHE = "metric_cache.sqlite"
_MIN_CALLS_JUDGED = 50
_PROMPTS_KEPT = 512


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
    suite: Suite, *, quiet: bool = False, policy: RetryPolicy | None = None, use_cache: bool = True
) -> RunSummary:
    """Run a profile, or go on with it; returns when every row is logged."""
    return run_plan(build_plan(suite), quiet=quiet, policy=policy, use_cache=use_cache)


def run_plan(
    plan: Plan,
    *,
    quiet: bool = False,
    policy: RetryPolicy | None = None,
    use_cache: bool = True,
    perturber: Perturber = registered_perturbation,
) -> RunSummary:
    """Run a plan into its profile's log, or go on with it."""
    return asyncio.run(
        _run(plan, quiet=quiet, policy=policy or RetryPolicy(), use_cache=use_cache, perturber=perturber)
    )


async def _run(
    plan: Plan, *, quiet: bool, policy: RetryPolicy, use_cache: bool, perturber: Perturber
) -> RunSummary:
    suite = plan.suite
    run = suite.profile.run
    started = time.monotonic()
    configure_metric_cache(Path(run.cache_dir) / METRIC_CACHE)
    adapters = {model_id: build_model(suite, model_id) for model_id in plan.scope.models}
    try:
        with RunLog(RunPaths.of(run.output_dir, run.name), overwrite=run.overwrite) as log:
            cache = ResponseCache(Path(run.cache_dir) / "responses.sqlite") if use_cache else None
            try:
                runner = SuiteRunner(plan, log, adapters, cache=cache, policy=policy, perturber=perturber)
                return await runner.run(quiet=quiet, started=started)
            finally:
                if cache is not None:
                    cache.close()
    finally:
        for adapter in adapters.values():
            await adapter.aclose()
        close_shared_caches()


class SuiteRunner:
    """Runs the pending units of a plan into a log."""

    def __init__(
        self,
        plan: Plan,
        log: RunLog,
        adapters: Mapping[str, ModelAdapter],
        *,
        cache: ResponseCache | None,
        policy: RetryPolicy,
        perturber: Perturber = registered_perturbation,
        clients: Mapping[str, ModelClient] | None = None,
    ) -> None:
        self.plan = plan
        self._perturber = perturber
        self._log = log
        self._rows = RowBuilder(plan.suite)
        limits = plan.suite.profile.limits
        inflight = plan.suite.profile.repro.max_inflight
        self._budget = Budget(limits.max_tokens_overall, limits.max_cost_usd)
        gate = asyncio.Semaphore(inflight)
        self._clients = clients or {
            model_id: ModelClient(
                model_id,
                plan.suite.models[model_id],
                adapter,
                gate=gate,
                max_inflight=inflight,
                budget=self._budget,
                cache=cache,
                policy=policy,
            )
            for model_id, adapter in adapters.items()
        }
        self._programs: dict[str, Program] = {}
        self._retrievers = TaskRetrievers(plan.suite, policy)
        self._prompts: OrderedDict[tuple[str, str, str, str], PreparedPrompt] = OrderedDict()
        self._stop: PcsuiteError | None = None

    async def run(self, *, quiet: bool, started: float) -> RunSummary:
        """Run everything that is not done; local models one after the other, remote ones side by side."""
        await self._drop_unenforced()
        await self._open_retrievers()
        pending = {model_id: self._pending(model_id) for model_id in self._clients}
        total = sum(pending.values())
        write_manifest(self.plan, self._log.paths)
        with Progress(total, quiet=quiet) as progress:
            local = [c for c in self._clients.values() if c.adapter.exclusive and pending[c.model_id]]
            remote = [c for c in self._clients.values() if not c.adapter.exclusive and pending[c.model_id]]
            await self._run_models(remote, progress)
            for client in local:
                await self._run_models([client], progress)
        if self._stop is not None:
            raise self._stop
        return RunSummary(
            self._log.paths,
            progress.tally,
            self.plan.calls - total,
            self.plan.not_applicable,
            time.monotonic() - started,
        )

    def _pending(self, model_id: str) -> int:
        if not len(self._log.index) and not self._log.index.failed:
            return sum(cell.calls for cell in self.plan.cells if cell.model_id == model_id)
        return sum(unit.run_id not in self._log.index for unit in self.plan.units(model_id))

    async def _drop_unenforced(self) -> None:
        """Prove that every constraint really restricts decoding; what does not is "not applicable"."""
        dropped: list[NotApplicable] = []
        kept: list[Cell] = []
        for cell in self.plan.cells:
            condition = apply_condition(cell.condition, cell.task.prompting.context(""))
            constraint = constraint_of(condition)
            reason = None
            if constraint is not None:
                reason = await self._clients[cell.model_id].why_unenforced(constraint)
            if reason is None:
                kept.append(cell)
            else:
                dropped.append(NotApplicable(cell.task.id, cell.model_id, cell.condition.id, reason))
        if dropped:
            unique = tuple(dict.fromkeys(dropped))
            self.plan = replace(
                self.plan, cells=tuple(kept), not_applicable=self.plan.not_applicable + unique
            )

    async def _open_retrievers(self) -> None:
        for cell in self.plan.cells:
            if cell_program(cell).needs_retrieval:
                await self._retrievers.open(cell.task.id)

    async def _run_models(self, clients: list[ModelClient], progress: Progress) -> None:
        tasks = []
        for client in clients:
            if self._stop is not None:
                return
            units = self._todo(client.model_id)
            for _ in range(client.concurrency):
                tasks.append(asyncio.create_task(self._work(client, units, progress)))
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def _todo(self, model_id: str) -> Iterator[Unit]:
        for unit in self.plan.units(model_id):
            if unit.run_id not in self._log.index:
                yield unit

    async def _work(self, client: ModelClient, units: Iterator[Unit], progress: Progress) -> None:
        """Take units until there are none; the iterator is shared, so each is taken once."""
        for unit in units:
            if self._stop is not None:
                return
            try:
                await self._process(client, unit, progress)
            except BudgetExceededError as error:
                self._stop = self._stop or error
                return

    async def _process(self, client: ModelClient, unit: Unit, progress: Progress) -> None:
        prepared = self._prepare(client, unit)
        try:
            program = self._program(prepared)
            outcome = await program.run(self._job(unit, prepared, program), _caller(client, unit, prepared))
        except EngineError as error:
            self._log.append(
                self._rows.failed(unit, prepared, str(error), client.identity), prepared.measured.text
            )
            progress.advance(tokens=0, cost_usd=0.0, failed=True, cache_hit=False)
            self._judge_error_rate(progress.tally, error)
            return
        evaluation = unit.cell.task.evaluator.evaluate(unit.item, answer_of(outcome))
        row = self._rows.finished(unit, prepared, outcome, evaluation, client.identity)
        self._log.append(row, prepared.measured.text)
        assert row.generation is not None
        progress.advance(
            tokens=0 if row.generation.cache_hit else row.generation.usage.total_tokens,
            cost_usd=0.0 if row.generation.cache_hit else row.metrics["cost_usd"],
            failed=False,
            cache_hit=row.generation.cache_hit,
        )

    def _prepare(self, client: ModelClient, unit: Unit) -> PreparedPrompt:
        """The prompt of a unit; replicates of an item share it."""
        cell = unit.cell
        key = (
            client.model_id,
            cell.condition.id,
            f"{cell.task.id}|{unit.item.item_id}",
            unit.perturbation.id,
        )
        prepared = self._prompts.get(key)
        if prepared is None:
            ctx = cell.task.prompting.context(unit.item.input_text)
            condition = apply_condition(cell.condition, ctx, perturb=self._perturber(unit))
            control = self.plan.suite.profile.length_control
            measured = fit(condition.tree, cell.task.band, control, client.adapter.count_tokens)
            prepared = self._prompts[key] = prepare(condition, measured)
            if len(self._prompts) > _PROMPTS_KEPT:
                self._prompts.popitem(last=False)
        return prepared

    def _program(self, prepared: PreparedPrompt) -> Program:
        operator = prepared.condition.program
        name = "single" if operator is None else operator.spec.engine or operator.name
        if name not in self._programs:
            self._programs[name] = PROGRAMS.get(name)()
        return self._programs[name]

    def _job(self, unit: Unit, prepared: PreparedPrompt, program: Program) -> Job:
        operator = prepared.condition.program
        return Job(
            task_id=unit.cell.task.id,
            item=unit.item,
            prompt=prepared.measured.text,
            decoding=unit.cell.decoding,
            constraint=constraint_of(prepared.condition),
            evaluator=unit.cell.task.evaluator,
            max_steps=1 if operator is None else operator.spec.max_steps or 1,
            retrieve=self._retrievers.search_of(unit.cell.task.id) if program.needs_retrieval else None,
        )

    def _judge_error_rate(self, tally: Tally, error: EngineError) -> None:
        limit = self.plan.suite.profile.limits.stop_on_error_rate
        if tally.done >= _MIN_CALLS_JUDGED and tally.failed > limit * tally.done and self._stop is None:
            self._stop = ErrorRateError(
                f"stopped: {tally.failed} of {tally.done} calls failed (limits.stop_on_error_rate is {limit}); "
                f"the last error was: {error}",
                hint="finished rows are kept; failed ones are tried again when you run the same command",
            )


def _caller(client: ModelClient, unit: Unit, prepared: PreparedPrompt) -> Call:
    """The function a program calls: the unit's decoding and seed, with the step mixed in."""
    evaluator, item, cell = unit.cell.task.evaluator, unit.item, unit.cell
    context = CallContext(
        task_id=cell.task.id,
        item_id=item.item_id,
        condition_id=cell.condition.id,
        operators=cell.operators,
        perturbation=unit.perturbation.type,
        gold=lambda: evaluator.gold_answer(item),
        wrong=lambda rng: evaluator.wrong_answer(item, rng),
    )

    return client.caller(cell.decoding, unit.seed, context, prepared.measured)
