"""The models of one process at work: a unit's prompt made, the model asked, the answer scored, the row built."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.retry import RetryPolicy
from pcsuite.errors import EngineError
from pcsuite.logging.row import encode_row
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Call, Job, Program
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.length import fit
from pcsuite.runners.client import ModelClient
from pcsuite.runners.constraint_proofs import constraint_of
from pcsuite.runners.perturbed import Perturber
from pcsuite.runners.plan import Plan, Unit
from pcsuite.runners.retrieval import TaskRetrievers
from pcsuite.runners.rows import PreparedPrompt, RowBuilder, answer_of, prepare

METRIC_CACHE = "metric_cache.sqlite"
_PROMPTS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Work:
    """What an executor is to do, as a value that can travel to another process."""

    plan: Plan
    policy: RetryPolicy
    perturber: Perturber
    use_cache: bool
    commit: str | None
    """Commit of the checkout the profile lies in; found once, where the files are."""


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """A row as the log takes it, and what the progress display wants to know of it."""

    run_id: str
    line: bytes
    prompt_hash: str
    prompt: str
    error: str | None
    tokens: int
    """Tokens that were paid for now; none for a stored answer."""
    cost_usd: float
    cache_hit: bool


class Workbench:
    """Answers units with the clients it is given."""

    def __init__(self, work: Work, clients: Mapping[str, ModelClient]) -> None:
        self.clients = clients
        self._suite = work.plan.suite
        self._perturber = work.perturber
        self._rows = RowBuilder(work.plan.suite, work.commit)
        self._programs: dict[str, Program] = {}
        self._retrievers = TaskRetrievers(work.plan.suite, work.policy)
        self._prompts: OrderedDict[tuple[str, str, str, str], PreparedPrompt] = OrderedDict()

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is."""
        return await self.clients[model_id].why_unenforced(constraint)

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in, so that what is missing is told before the first model call."""
        for task_id in task_ids:
            await self._retrievers.open(task_id)

    async def answer(self, client: ModelClient, unit: Unit) -> FinishedRow:
        """The row of a unit, answered or failed; only a used-up budget is raised."""
        prepared = self._prepare(client, unit)
        try:
            program = self._program(prepared)
            outcome = await program.run(self._job(unit, prepared, program), _caller(client, unit, prepared))
        except EngineError as error:
            row = self._rows.failed(unit, prepared, str(error), client.identity)
            prompt = prepared.measured.text
            return FinishedRow(
                row.run_id, encode_row(row), row.prompt.prompt_hash, prompt, str(error), 0, 0.0, False
            )
        evaluation = unit.cell.task.evaluator.evaluate(unit.item, answer_of(outcome))
        row = self._rows.finished(unit, prepared, outcome, evaluation, client.identity)
        assert row.generation is not None
        assert row.generation.usage is not None
        hit = row.generation.cache_hit
        return FinishedRow(
            run_id=row.run_id,
            line=encode_row(row),
            prompt_hash=row.prompt.prompt_hash,
            prompt=prepared.measured.text,
            error=None,
            tokens=0 if hit else row.generation.usage.total_tokens,
            cost_usd=0.0 if hit else row.metrics["cost_usd"],
            cache_hit=hit,
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
            control = self._suite.profile.length_control
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


def _caller(client: ModelClient, unit: Unit, prepared: PreparedPrompt) -> Call:
    """The function a program calls: the unit's decoding and seed, with the step mixed in."""
    context = unit.cell.context(unit.item, unit.perturbation.type)
    return client.caller(unit.cell.decoding, unit.seed, context, prepared.measured)
