"""A task on a model as a problem of optimisation: development items, the run's own engine, log and evaluators."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcsuite._util.hashing import digest
from pcsuite.config.load import Suite
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.data.clusters import text_key
from pcsuite.data.items import Item, closed_answers, task_items
from pcsuite.data.items import exemplars as choose_exemplars
from pcsuite.engines.adapters.base import PROPOSER_CONDITION, CallContext, Decoding, Request
from pcsuite.engines.limits import Budget, check_error_rate
from pcsuite.engines.session import LoopThread, ModelClient, check_model
from pcsuite.errors import DataError, EngineError, ErrorRateError, PromptError, UnansweredError
from pcsuite.logging.log import RunLog
from pcsuite.optimization.journal import CandidateRows, Journal
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.prompts.conditions.conditions import ConditionBundle, apply_condition
from pcsuite.prompts.context import Exemplar, TaskPrompting
from pcsuite.prompts.prompt import fit
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.executors import EXECUTORS, Executor, ExecutorChoice
from pcsuite.runners.executors.local import LocalExecutor
from pcsuite.runners.pipeline import Work, git_commit
from pcsuite.runners.plan import CLEAN, Cell, Plan, Scope, plan_cell, why_not_applicable
from pcsuite.runners.progress import Progress
from pcsuite.runners.run_suite import LOCAL, run_into
from pcsuite.runners.task_plan import MAX_EXEMPLARS, TaskPlan, exemplar_answer, plan_task
from pcsuite.stats.objective import Objective, Replicate, item_parts

TOP_P = 0.95
MAX_DEMONSTRATIONS = 64
"""Training items a method may choose demonstrations from."""


def dev_suite(suite: Suite, task_id: str, items: int | None) -> Suite:
    """The suite with a task's development split in place of its test split, at most ``items`` of it.

    Raises :class:`~pcsuite.errors.DataError` where the task names no development split, or one that is scored or shown.
    """
    spec = suite.tasks[task_id]
    if not spec.dev_split:
        hint = "name one in the tasks file; never the test split"
        raise DataError(f"task '{task_id}' has no dev_split to optimise on", hint=hint)
    if spec.dev_split in (spec.split, spec.train_split):
        why = f"dev_split '{spec.dev_split}' is also the split that is scored or shown as exemplars"
        raise DataError(f"task '{task_id}': {why}", hint="a prompt must be found on items that are neither")
    limits = suite.profile.limits.model_copy(update={"per_task_max_items": {task_id: items}})
    profile = suite.profile.model_copy(update={"limits": limits})
    tasks = {**suite.tasks, task_id: spec.model_copy(update={"split": spec.dev_split})}
    return replace(suite, profile=profile, tasks=tasks)


@dataclass(frozen=True, slots=True)
class DevTask:
    """A task's development items and demonstrations, with nothing of the test split in either."""

    suite: Suite
    plan: TaskPlan
    train: tuple[Exemplar, ...]
    train_items: tuple[Item, ...]
    regime: str
    seeds: tuple[int, ...]
    categories: int | None
    """Answers the task allows, for the normalised entropy; ``None`` for open ones."""


def plan_dev_task(suite: Suite, task_id: str, items: int | None) -> DevTask:
    """Load at most ``items`` development items, demonstrations, and the seeds that entropy is measured with.

    Whatever shares its text (case and spacing aside) or its cluster with a test item is left out. Raises
    :class:`~pcsuite.errors.DataError` where nothing is left, or where no sampled regime has two seeds.
    """
    inner = dev_suite(suite, task_id, items)
    spec, cache_dir = suite.tasks[task_id], Path(suite.profile.run.cache_dir)
    by = suite.clusters_of(task_id)
    test_items = task_items(spec, spec.split, cache_dir, cluster=by).items
    tested, clusters = (
        {text_key(item.input_text) for item in test_items},
        {item.cluster for item in test_items},
    )
    task = plan_task(inner, task_id)
    kept = tuple(
        item
        for item in task.items
        if text_key(item.input_text) not in tested and item.cluster not in clusters
    )
    if not kept:
        raise DataError(
            f"task '{task_id}': every development item is also a test item, or of a test item's cluster"
        )
    excluded = tested | {text_key(item.input_text) for item in kept}
    try:
        loaded = task_items(spec, spec.train_split, cache_dir).items
    except DataError:
        loaded = []
    usable = [item for item in loaded if text_key(item.input_text) not in excluded]
    count = min(MAX_DEMONSTRATIONS, len(usable))
    train_items = tuple(choose_exemplars(usable, count, suite.profile.repro.deterministic_hash_seed))
    answer = exemplar_answer(suite, task.evaluator)
    train = tuple(Exemplar(item.input_text, answer(item), item.item_id) for item in train_items)
    plan = replace(task, items=kept, prompting=replace(task.prompting, exemplars=train[:MAX_EXEMPLARS]))
    # The sampled regime and the seeds that entropy is measured with.
    selected = [*suite.profile.selection.decoding_regimes, *suite.regimes]
    regime = next((name for name in selected if not suite.regimes[name].greedy), None)
    seeds = () if regime is None else suite.seeds(regime, task_id)
    replicates = suite.profile.optimization.dspy.replicates
    if regime is not None and replicates is not None:
        seeds = suite.profile.repro.seeds.get(regime, ())[:replicates]
    if regime is None or len(seeds) < (needed := max(2, replicates or 2)):
        why = f"has {len(seeds)} seeds of a sampled regime, and the objective's entropy needs {needed}"
        raise DataError(
            f"task '{task_id}' {why}", hint="give repro.seeds and repro.seeds_per_task more of them"
        )
    return DevTask(inner, plan, train, train_items, regime, seeds, closed_answers(kept))


class DevProblem:
    """The :class:`~pcsuite.optimization.problem.Problem` that methods are given."""

    def __init__(
        self,
        dev: DevTask,
        client: ModelClient,
        proposer: ModelClient,
        log: RunLog,
        rows: CandidateRows,
        journal: Journal,
        thread: LoopThread,
        *,
        seed: int,
        progress: Progress,
        use_cache: bool = True,
        executor: ExecutorChoice = LOCAL,
    ) -> None:
        self.task_id = dev.plan.id
        self.model_id = client.model_id
        self.prompting: TaskPrompting = dev.plan.prompting
        self.evaluator = dev.plan.evaluator
        self.objective = Objective(*dev.suite.profile.optimization.dspy.objective.weights)
        self.dev: Sequence[Item] = dev.plan.items
        self.train: Sequence[Exemplar] = dev.train
        self.train_items: Sequence[Item] = dev.train_items
        self.operators: Mapping[str, OperatorSpec] = {
            name: dev.suite.operators[name] for name in dev.suite.searched_operators()
        }
        self.scores: dict[str, CandidateScore] = {}
        """Of every candidate the newest score on most items, in the order they were first tried."""
        self.on_score: Callable[[CandidateScore, float], None] = lambda score, seconds: None
        """Called with every score and the seconds it took."""
        self._dev, self._client, self._proposer = dev, client, proposer
        self._log, self._rows, self._journal, self._thread = log, rows, journal, thread
        self._seed, self._progress = seed, progress
        self._use_cache, self._choice = use_cache, executor
        self._commit = git_commit(dev.suite.path.resolve().parent)
        self._cluster: Executor | None = None
        self._cluster_guard = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._guard = threading.Lock()
        self._origins: dict[str, Candidate] = {}
        self.token_budget = float(dev.plan.band[1] + dev.plan.spec.max_tokens)
        bare = Candidate(CompiledPrompt(), "baseline", "instruction and input alone (C0)")
        self.baseline = self.evaluate(bare)
        # Where even the bare instruction fails it is the model or the server, and every candidate would fail alike.
        if self.baseline.crashed:
            why = f"does not answer the bare instruction of task '{self.task_id}'"
            raise ErrorRateError(f"model '{self.model_id}' {why}: {'; '.join(self.baseline.errors[:2])}")

    @property
    def engine(self) -> dict[str, str]:
        """What determined the answers besides the prompts: engine version, weights hash."""
        return self._client.identity

    @property
    def budget(self) -> Budget:
        """Tokens and cost spent; a problem always has one, limited or not."""
        budget = self._client.session.budget
        assert budget is not None
        return budget

    @property
    def tried(self) -> int:
        """Different candidates measured so far, the baseline not counted.

        A candidate counts once, however many items it was measured on.
        """
        return len(self.scores) - 1

    def evaluate(self, candidate: Candidate, items: Sequence[Item] | None = None) -> CandidateScore:
        """Measure a candidate; see :class:`~pcsuite.optimization.problem.Problem`.

        Rows that the log has are not asked again, whichever search made them. Threads that measure the same candidate
        on the same item wait for each other.
        """
        started = time.monotonic()
        chosen = tuple(self.dev if items is None else items)
        with self._guard:
            candidate = self._origins.setdefault(candidate.id, candidate)
        try:
            cell = self._cell(candidate)
        except PromptError as error:
            score = self._crashed(candidate, chosen, [str(error)])
        else:
            # No other thread runs the same rows; locks are taken in one order, so nobody waits in a ring.
            keys = sorted({(candidate.id, item.item_id) for item in chosen})
            with self._guard:
                locks = [self._locks.setdefault(key, threading.Lock()) for key in keys]
            with ExitStack() as stack:
                for lock in locks:
                    stack.enter_context(lock)
                failure = self._run(cell, chosen)
                score = self._score(candidate, cell, chosen, failure)
        with self._guard:
            before = self.scores.get(candidate.id)
            if before is None or len(score.item_parts) >= len(before.item_parts):
                self.scores[candidate.id] = score
        if len(chosen) > 1 or len(self.dev) == 1:  # single items are steps of a method's own evaluation
            self._journal.add_score(score, seed=self._seed)
        self.on_score(score, time.monotonic() - started)
        return score

    def render(self, candidate: Candidate, item: Item) -> str:
        """The exact text that is sent for an item.

        Raises :class:`~pcsuite.errors.PromptError` for a candidate that cannot be rendered.
        """
        condition = apply_condition(self._condition(candidate), self.prompting.context(item.input_text))
        control = self._dev.suite.profile.length_control
        return fit(condition.tree, self._dev.plan.band, control, self._client.adapter.count_tokens).text

    def answer(self, candidate: Candidate, item: Item) -> str:
        """The model's answer of the first replicate; asked once, then read back from the journal.

        A search that was killed finds its answers there. Raises what the client raises: a spent budget, a model that
        is gone.
        """
        cell = self._cell(candidate)
        seed = cell.seeds[0]
        key = digest(["answer", cell.fingerprint, item.item_id, item.input_text, seed])

        def request() -> Request:
            context = cell.context(item, CLEAN.kind)
            return Request(self.render(candidate, item), cell.decoding, seed, context=context)

        facts = {"role": "answer", "model": self.model_id, "seed": seed, "candidate": candidate.id}
        return self._asked_once(key, self._client, request, {**facts, "item": item.item_id})

    def ask(
        self,
        prompt: str,
        *,
        seed: int,
        role: str = "proposer",
        temperature: float = 0.9,
        max_tokens: int = 300,
    ) -> str:
        """A text from the proposing model; asked once, then read back from the journal.

        ``temperature`` and ``max_tokens`` (of the answer) are part of what is remembered: another value is another
        question. Raises :class:`~pcsuite.errors.UnansweredError` where the call failed: there is nothing to try then.
        """
        model = self._proposer.model_id
        key = digest([model, self._proposer.identity, prompt, seed, role, temperature, max_tokens])
        decoding = Decoding(role, temperature, TOP_P, max_tokens)
        context = CallContext(
            task_id=self.task_id,
            item_id=f"{role}-{seed}",
            condition_id=PROPOSER_CONDITION,
            operators=(),
            perturbation="none",
            gold=lambda: "",
            wrong=lambda rng: "",
        )
        request = Request(prompt, decoding, seed, context=context)
        facts = {"role": role, "model": model, "seed": seed, "temperature": temperature}
        try:
            return self._asked_once(key, self._proposer, lambda: request, facts)
        except EngineError as error:
            raise UnansweredError(
                f"model '{model}' made no proposal: {error.message}",
                hint="candidates and answers are kept; the same command goes on",
            ) from error

    def _asked_once(
        self, key: str, client: ModelClient, request: Callable[[], Request], facts: dict[str, Any]
    ) -> str:
        text = self._journal.answer(key)
        if text is None:
            text = str(self._thread.call(client.ask_counted(request()))["text"])
            self._journal.add_answer(key, text, facts)
        return text

    def _condition(self, candidate: Candidate) -> ConditionBundle:
        target = self._dev.suite.profile.optimization.dspy.conditions_target[0]
        condition_id = f"{target}:{candidate.id}"
        bundle = ConditionBundle(condition_id, candidate.origin, (), known=self._dev.suite.operators)
        return bundle.with_prompt(candidate.prompt)

    def _cell(self, candidate: Candidate) -> Cell:
        dev = self._dev
        condition = self._condition(candidate)
        adapter, options = check_model(self.model_id, dev.suite.models[self.model_id])
        reason = why_not_applicable(dev.suite, dev.plan, adapter, options, condition)
        if reason is not None:
            raise PromptError(reason)
        apply_condition(condition, dev.plan.prompting.context(self.dev[0].input_text))
        cell = plan_cell(dev.suite, dev.plan, self.model_id, condition, dev.regime)
        return replace(cell, seeds=dev.seeds)

    def _run(self, cell: Cell, items: Sequence[Item]) -> str | None:
        """Run what the log does not have; what stopped it, or ``None``."""
        plan = self._plan(cell, items)
        if all(unit.run_id in self._log.index for unit in plan.units(self.model_id)):
            return None
        work = Work(plan, None, registered_perturbation, self._use_cache, self._commit)
        try:
            if self._choice.name == LOCAL.name:
                local = LocalExecutor(work, LOCAL, quiet=True, session=self._client.session)

                async def carry_out() -> None:
                    async with local:
                        await run_into(self._log, plan, local, quiet=True, progress=self._progress)

                self._thread.call(carry_out())
            else:
                with self._cluster_guard:  # one plan after the other, on workers that stay open between them
                    if self._cluster is None:
                        executor = EXECUTORS.get(self._choice.name)(work, self._choice, quiet=True)
                        self._cluster = self._thread.call(executor.__aenter__())
                    running = run_into(self._log, plan, self._cluster, quiet=True, progress=self._progress)
                    self._thread.call(running)
        except ErrorRateError as error:
            self._check_server(error.message)
            return str(error)
        self._check_server("see the log of candidates")
        return None

    def _check_server(self, error: str) -> None:
        """End the search where too many of all its rows failed by the server: no prompt is to blame for those.

        A prompt that fails by itself, one that is too long say, is a candidate that crashed, and the search goes on.
        """
        tally = self._progress.tally
        check_error_rate(tally.done, tally.lost, self._dev.suite.profile.limits.stop_on_error_rate, error)

    def close(self) -> None:
        """Give back the workers, where there are any."""
        if self._cluster is not None:
            self._thread.call(self._cluster.aclose())
            self._cluster = None

    def _plan(self, cell: Cell, items: Sequence[Item]) -> Plan:
        task = replace(cell.task, items=items)
        scope = Scope((task.id,), (self.model_id,), (cell.condition.id,), (cell.decoding.id,))
        return Plan(self._dev.suite, {task.id: task}, (replace(cell, task=task),), (), scope)

    def _score(
        self, candidate: Candidate, cell: Cell, items: Sequence[Item], failure: str | None
    ) -> CandidateScore:
        replicates: dict[str, list[Replicate]] = {item.item_id: [] for item in items}
        errors: dict[str, None] = {} if failure is None else {failure: None}
        for unit in self._plan(cell, items).units(self.model_id):
            replicate = self._rows.replicates.get(unit.run_id)
            if replicate is not None:
                replicates[unit.item.item_id].append(replicate)
            elif (error := self._rows.errors.get(unit.run_id)) is not None:
                errors[error] = None
        if failure is not None or not any(replicates.values()):
            return self._crashed(candidate, items, list(errors))
        seeds, categories = len(self._dev.seeds), self._dev.categories
        parts = item_parts(replicates, token_budget=self.token_budget, categories=categories)
        totals, complete = parts.parts(), len(items) == len(self.dev)
        value = self.objective.value(totals)
        return CandidateScore(candidate, self.objective, value, totals, parts, seeds, complete, tuple(errors))

    def _crashed(self, candidate: Candidate, items: Sequence[Item], errors: Sequence[str]) -> CandidateScore:
        parts = item_parts({item.item_id: [] for item in items}, token_budget=self.token_budget)
        seeds, complete = len(self._dev.seeds), len(items) == len(self.dev)
        value, totals, why = self.objective.worst, parts.parts(), tuple(errors) or ("no answer",)
        return CandidateScore(
            candidate, self.objective, value, totals, parts, seeds, complete, why, crashed=True
        )
