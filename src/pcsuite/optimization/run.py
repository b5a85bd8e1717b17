"""Compiling C8: a search on development items with the run's own engine, and the frozen winner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.config.load import Suite
from pcsuite.config.prices import price_of
from pcsuite.engines.limits import Budget
from pcsuite.engines.session import LoopThread, open_models
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.evaluation.metric_cache import close_shared_caches, configure_metric_cache
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunLog
from pcsuite.optimization import METHODS
from pcsuite.optimization.blocks import as_condition
from pcsuite.optimization.development import DevProblem, DevTask, plan_dev_task
from pcsuite.optimization.journal import CandidateRows, Journal, candidate_paths
from pcsuite.optimization.problem import CandidateScore
from pcsuite.optimization.winner import Winner, freeze, frozen_document, judge_winner, operator_effects
from pcsuite.prompts.compiled import compiled_path
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.pipeline import METRIC_CACHE
from pcsuite.runners.progress import Progress
from pcsuite.runners.run_suite import LOCAL

DEFAULT_DEV_ITEMS = {"conll03_ner_json": 500, "agnews_json": 500, "gsm8k": 300, "fever_json": 300}
"""Development items of a task where the profile names no number."""
OTHER_DEV_ITEMS = 300

OnScore = Callable[[DevProblem, CandidateScore, float], None]


@dataclass(frozen=True, slots=True)
class OptimizeSettings:
    """Settings of a search."""

    task_id: str
    model_id: str
    method: str
    candidates: int = 40
    items: int | None = None
    """Development items; by default the profile's number for the task."""
    seed: int | None = None
    """By default the profile's ``global_seed``."""
    use_cache: bool = True
    executor: ExecutorChoice = LOCAL


@dataclass(frozen=True, slots=True)
class OptimizeEstimate:
    """Upper bounds of a search's size and cost, before anything is called."""

    dev_items: int
    replicates: int
    calls: int
    tokens: int
    cost_usd: float | None
    """``None`` where the model's price is not known."""


@dataclass(frozen=True, slots=True)
class OptimizeOutcome:
    """Result of a search."""

    path: Path
    document: dict[str, Any]
    winner: Winner
    replaced: Path | None
    scores: dict[str, CandidateScore]
    log: Path
    spent_tokens: int
    spent_cost_usd: float


def check_settings(suite: Suite, settings: OptimizeSettings) -> None:
    """Raise for a task, model, proposer, operator or method that is not defined, naming the nearest one that is.

    A method whose optional dependency is missing raises :class:`~pcsuite.errors.MissingExtraError`.
    """
    proposer = suite.profile.optimization.dspy.proposer
    operators = suite.searched_operators()
    for name, defined, what in (
        (settings.task_id, suite.tasks, "--task: unknown task"),
        (settings.model_id, suite.models, "--model: unknown model"),
        (proposer or settings.model_id, suite.models, "optimization.dspy.proposer: unknown model"),
        *((name, suite.operators, "optimization.dspy.operators: unknown operator") for name in operators),
    ):
        if name not in defined:
            raise ConfigError(f"{what} '{name}'", hint=did_you_mean(name, defined))
    if suite.tasks[settings.task_id].judge is not None:
        raise ConfigError(
            f"task '{settings.task_id}' is judged, and a search scores by rules alone",
            hint="compile on a task with a scorer; compare the prompts on the judged one",
        )
    METHODS.get(settings.method).require()


def estimate_optimization(suite: Suite, settings: OptimizeSettings) -> OptimizeEstimate:
    """The most that a search can take: every candidate on every item, prompts and answers as long as allowed.

    Loads the development items, asks nothing. Cost is in US dollars by the model's listed prices.
    """
    check_settings(suite, settings)
    dev = _planned(suite, settings)
    calls = (settings.candidates + 1) * len(dev.plan.items) * len(dev.seeds)
    prompt, completion = dev.plan.band[1], dev.plan.spec.max_tokens
    price = price_of(suite.models[settings.model_id])
    cost = calls * price.cost(prompt, completion) if price is not None else None
    return OptimizeEstimate(len(dev.plan.items), len(dev.seeds), calls, calls * (prompt + completion), cost)


def optimize(
    suite: Suite,
    settings: OptimizeSettings,
    *,
    on_score: OnScore = lambda problem, score, seconds: None,
    quiet: bool = True,
) -> OptimizeOutcome:
    """Search, or go on with a search, and freeze its winner where condition C8 finds it.

    ``on_score`` is called with the problem, each score and the seconds it took; unless ``quiet`` the rows are shown as
    those of a run are. Raises a :class:`~pcsuite.errors.PcsuiteError` for unknown names, a spent budget, a model that
    does not answer, and where the server failed more of the search's rows than ``stop_on_error_rate`` allows.

        outcome = optimize(load_suite("quickstart"), OptimizeSettings("agnews_json", "smollm2-135m", "blocks"))
    """
    check_settings(suite, settings)
    task_id, model_id = settings.task_id, settings.model_id
    seed = suite.profile.repro.global_seed if settings.seed is None else settings.seed
    dev = _planned(suite, settings)
    opened = open_problem(suite, settings, dev, seed=seed, on_score=on_score, quiet=quiet)
    with opened as problem:
        METHODS.get(settings.method).search(problem, seed=seed, candidates=settings.candidates)
        rng: np.random.Generator = named_rng("optimize", task_id, model_id, str(seed))
        scores = dict(problem.scores)
        winner = judge_winner(list(scores.values()), problem.baseline, rng)
        prompt = winner.score.candidate.prompt
        document = frozen_document(
            problem,
            winner,
            scores,
            operators=suite.operators,
            seed=seed,
            split=dev.plan.spec.split,
            method=settings.method,
            ledger=operator_effects(list(scores.values()), rng),
            condition_yaml="" if prompt.is_text else as_condition(prompt, suite.operators),
            length_control=suite.profile.length_control,
            regime=dev.regime,
            engine=problem.engine,
        )
        path = compiled_path(suite.profile.run.output_dir, task_id, model_id)
        replaced = freeze(path, document)
        log = candidate_paths(suite.profile.run.output_dir, task_id, model_id).log
        spent = problem.budget.spent_tokens, problem.budget.spent_cost_usd
        return OptimizeOutcome(path, document, winner, replaced, scores, log, *spent)


def _planned(suite: Suite, settings: OptimizeSettings) -> DevTask:
    usual = DEFAULT_DEV_ITEMS | suite.profile.optimization.dspy.dev_items
    items = usual.get(settings.task_id, OTHER_DEV_ITEMS) if settings.items is None else settings.items
    return plan_dev_task(suite, settings.task_id, items)


@contextmanager
def open_problem(
    suite: Suite,
    settings: OptimizeSettings,
    dev: DevTask,
    *,
    seed: int,
    on_score: OnScore = lambda problem, score, seconds: None,
    quiet: bool = True,
) -> Iterator[DevProblem]:
    """A problem with its model, log, journal and caches open; everything is closed when the block ends.

    The bare instruction is measured first; a model that does not answer it raises :class:`ErrorRateError`.
    """
    run, limits = suite.profile.run, suite.profile.limits
    configure_metric_cache(Path(run.cache_dir) / METRIC_CACHE)
    paths = candidate_paths(run.output_dir, settings.task_id, settings.model_id)
    rows = CandidateRows()
    model_ids = (settings.model_id, suite.profile.optimization.dspy.proposer or settings.model_id)
    budget = Budget(limits.max_tokens_overall, limits.max_cost_usd)
    with ExitStack() as stack:
        stack.callback(close_shared_caches)
        thread = stack.enter_context(LoopThread())
        log = stack.enter_context(RunLog(paths, scores=rows))
        journal = stack.enter_context(closing(Journal(paths.log.with_suffix(".candidates.jsonl"))))
        opened = open_models(suite, model_ids, use_cache=settings.use_cache, budget=budget)
        session = stack.enter_context(thread.entered(opened))
        stack.enter_context(counting(paths.log, budget, limits))
        progress = stack.enter_context(Progress(None, quiet=quiet))
        problem = DevProblem(
            dev,
            session.clients[model_ids[0]],
            session.clients[model_ids[1]],
            log,
            rows,
            journal,
            thread,
            seed=seed,
            progress=progress,
            use_cache=settings.use_cache,
            executor=settings.executor,
        )
        stack.callback(problem.close)
        # Set after the baseline was measured: it is not reported.
        problem.on_score = lambda score, seconds: on_score(problem, score, seconds)
        yield problem
