"""Requests as a file and answers from one, for engines that work offline (vLLM's ``run-batch``).

The pipeline is the run's own; only who answers differs. A row whose program asks more than once takes as many rounds of
export and import as it has calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import Generation, Request
from pcsuite.engines.batches import AnswerFile, export_line, read_answer_file, request_id
from pcsuite.engines.session import ModelClient, Session, open_models
from pcsuite.errors import ConfigError, EngineError, LogError
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunLog
from pcsuite.logging.segments import Beside
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.pipeline import Pipeline, Unanswered, Work, git_commit
from pcsuite.runners.plan import NotApplicable, Plan, Unit, refuse_judges
from pcsuite.runners.progress import Progress, RowSink, Tally
from pcsuite.runners.registration import register
from pcsuite.runners.run_suite import record_plan

UNPROVED = "an offline engine cannot be asked to prove that it enforces the constraint"


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What an export or import came to."""

    path: Path
    requests: int
    """Requests written, or answers that were of use."""
    log: Path
    tally: Tally
    """Rows made of answers; empty for an export."""
    waiting: int
    """Rows that wait for answers."""
    unused: int
    """Answers of the file that no waiting row asks for."""
    not_applicable: tuple[NotApplicable, ...]


def export_requests(plan: Plan, path: Path) -> FileSummary:
    """Write the questions that a run's missing rows ask next to a file, one a line; nothing is called.

    Rows under a constraint are left out: nobody could prove that it bites. Raises :class:`ConfigError` for a model of
    another wire and :class:`LogError` where the file cannot be written.
    """
    refuse_judges(plan, "--batch-export")
    return asyncio.run(_export(plan, path))


def import_answers(plan: Plan, path: Path, *, quiet: bool = False) -> FileSummary:
    """Make rows of a file of answers, as a run makes them; those whose program asks on wait for the next export.

    An answer that the engine failed on makes a failed row, whose question the next export has again. Raises
    :class:`ConfigError` where no answer of the file belongs to a missing row.
    """
    refuse_judges(plan, "--batch-import")
    return asyncio.run(_import(plan, path, quiet=quiet))


async def _export(plan: Plan, path: Path) -> FileSummary:
    plan = _without_constraints(plan)
    async with open_models(plan.suite, plan.scope.models, use_cache=False) as session:
        with RunLog.of(plan.suite.profile.run) as log:
            offline = _Offline(plan, session, log)
            lines = []
            for unit in offline.pending():
                question = await offline.next_question(unit)
                if question is not None:
                    lines.append(export_line(session.clients[unit.cell.model_id].adapter, question))
            with write_errors(LogError, path):
                replace_atomically(path, b"".join(lines))
            return FileSummary(path, len(lines), log.paths.log, Tally(0), len(lines), 0, plan.not_applicable)


async def _import(plan: Plan, path: Path, *, quiet: bool) -> FileSummary:
    plan = _without_constraints(plan)
    lines = read_answer_file(path)
    async with open_models(plan.suite, plan.scope.models, use_cache=False) as session:
        with RunLog.of(plan.suite.profile.run) as log:
            record_plan(plan, log.paths.log, register(plan, log, None))
            offline = _Offline(plan, session, log)
            ready: dict[str, list[Unit]] = {}
            of_use: dict[str, set[str]] = {}
            for unit in offline.pending():
                question = await offline.next_question(unit)
                if question is None or request_id(question) in lines:
                    ready.setdefault(unit.cell.model_id, []).append(unit)
                    if question is not None:
                        of_use.setdefault(unit.cell.model_id, set()).add(request_id(question))
            if not ready:
                raise ConfigError(
                    f"{path}: none of its {len(lines)} answers belongs to a missing row of this run",
                    hint="import with the profile, models and name that the requests were exported with",
                )
            for model_id, ids in of_use.items():
                offline.answers[model_id].keep(lines[name] for name in ids)
            waiting = 0
            with (
                counting(log.paths.log, session.budget, plan.suite.profile.limits),
                Progress(sum(map(len, ready.values())), quiet=quiet) as progress,
            ):
                # A file is judged as a whole: rows that failed are asked for by the next export.
                sink = RowSink(log, progress, stop_on_error_rate=1.0)
                for unit in (unit for units in ready.values() for unit in units):
                    try:
                        sink.accept(await offline.pipeline.answer(unit))
                    except Unanswered:
                        waiting += 1
            used = sum(map(len, of_use.values()))
            unused = len(lines.keys() - set().union(*of_use.values()))
            return FileSummary(
                path, used, log.paths.log, progress.tally, waiting, unused, plan.not_applicable
            )


class _Offline:
    """A plan's rows, answered from what files have brought so far."""

    def __init__(self, plan: Plan, session: Session, log: RunLog) -> None:
        folder = Beside.BATCHES.of(log.paths.log)
        self.answers = {name: AnswerFile(folder, name) for name in plan.scope.models}
        commit = git_commit(plan.suite.path.resolve().parent)
        work = Work(plan, None, registered_perturbation, use_cache=False, commit=commit)
        self.pipeline = Pipeline(work, session, self._ask, counts_tokens=False)
        self._plan, self._log = plan, log
        self._anew = False
        """Whether what an engine failed on counts as not asked yet."""
        for client in session.clients.values():
            if not isinstance(client.adapter, HttpAdapter):
                raise ConfigError(
                    f"model '{client.model_id}' has no requests to export: it is no server's",
                    hint="name the models of the file by --models, for example vllm/NAME",
                )

    def pending(self) -> Iterator[Unit]:
        """Rows that the log does not have, those with prompts that begin alike one after the other."""
        for model_id in self._plan.scope.models:
            yield from (unit for unit in self._plan.units(model_id) if unit.run_id not in self._log.index)

    async def next_question(self, unit: Unit) -> Request | None:
        """What a row asks next; ``None`` where all its questions are answered, or it fails before asking."""
        self._anew = True
        try:
            await self.pipeline.answer(unit)
        except Unanswered as question:
            return question.request
        finally:
            self._anew = False
        return None

    async def _ask(self, client: ModelClient, request: Request) -> Generation:
        adapter = client.adapter
        assert isinstance(adapter, HttpAdapter), "checked when the models were opened"
        try:
            answer = self.answers[client.model_id].answer(adapter, request)
        except EngineError:
            if not self._anew:
                raise
            answer = None
        if answer is None:
            raise Unanswered(request)
        return answer


def _without_constraints(plan: Plan) -> Plan:
    unconstrained = tuple(cell for cell in plan.cells if cell.constraint is None)
    dropped = tuple(
        NotApplicable(cell.task.id, cell.model_id, cell.condition.id, UNPROVED)
        for cell in plan.cells
        if cell.constraint is not None
    )
    return replace(
        plan, cells=unconstrained, not_applicable=plan.not_applicable + tuple(dict.fromkeys(dropped))
    )
