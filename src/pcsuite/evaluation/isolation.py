"""Scoring that may never end, done where it can be ended.

Built-in scorers run in this process. A user's function runs in a worker (:mod:`pcsuite._util.workers`), and so does any
scorer for the one answer on which a user's pattern could run away. The rows of an event loop are scored in batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from pcsuite import errors
from pcsuite._util.user_patterns import PATTERN_SECONDS, NeedsWorkerError, deferring
from pcsuite._util.workers import CODE, Batcher, Handler, Limits, Raised, Result, Shared, Stopped, pool
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, OutOfMemoryError, OutOfTimeError
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, score_answer

EVALUATOR = Handler("pcsuite.evaluation.isolation:prepared_evaluator", CODE)
PATTERN_LIMITS = Limits(PATTERN_SECONDS, 4 << 30)
_shared: WeakKeyDictionary[Evaluator, Shared] = WeakKeyDictionary()


def prepared_evaluator(shared: bytes) -> Callable[[tuple[str, tuple[Any, ...]]], Any]:
    """What a worker does: each job is a method of the evaluator and its arguments."""
    evaluator = pickle.loads(shared)
    return lambda job: getattr(evaluator, job[0])(*job[1])


def shared_evaluator(evaluator: Evaluator) -> Shared:
    """An evaluator as it travels to workers, made once; raises what ``pickle`` raises where it cannot."""
    known = _shared.get(evaluator)
    if known is None:
        known = _shared[evaluator] = Shared.of(evaluator)
    return known


def ask_worker(evaluator: Evaluator, method: str, *arguments: Any) -> Any:
    """What a method of an evaluator returns in a worker, or raises there; blocks.

    Raises :class:`OutOfTimeError` and :class:`OutOfMemoryError` where it was over the evaluator's limits.
    """
    limits = evaluator.limits or PATTERN_LIMITS
    (result,) = pool().run(EVALUATOR, shared_evaluator(evaluator), [(method, arguments)], limits)
    return _returned(result, limits)


def _returned(result: Result, limits: Limits) -> Any:
    """The value of a result; raises what stands for anything else."""
    if isinstance(result, Stopped):
        if result.reason == "time":
            raise OutOfTimeError(f"more than {limits.seconds:g} s")
        if result.reason == "memory":
            raise OutOfMemoryError(f"more than {limits.memory >> 20} MB")
        raise ConfigError(f"the scorer ended its process (status {result.status})")
    if isinstance(result, Raised):
        kind = getattr(errors, result.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.PcsuiteError):
            error: errors.PcsuiteError = kind.__new__(kind)
            errors.PcsuiteError.__init__(error, result.message, hint=result.hint)
            raise error
        raise ConfigError(f"{result.kind}: {result.message}", hint=result.hint)
    return result.value


def plain_answer(answer: Answer) -> Answer:
    """What of an answer is scored: a loop's calls need not travel."""
    return Answer(**{name: getattr(answer, name) for name in Answer.__dataclass_fields__})


class _Known(Evaluator):
    """Stands for an evaluator whose evaluation is there already."""

    def __init__(self, result: Result, limits: Limits) -> None:
        self._result, self._limits = result, limits

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        evaluation: Evaluation = _returned(self._result, self._limits)
        return evaluation

    def gold_answer(self, item: Item) -> str:
        raise NotImplementedError

    def wrong_answer(self, item: Item, rng: Any) -> str:
        raise NotImplementedError


class Scoring:
    """Scores the answers of one event loop: here, or in batches in workers."""

    def __init__(self) -> None:
        self._batches = Batcher(pool())

    async def score(self, evaluator: Evaluator, item: Item, answer: Answer) -> Evaluation:
        """An answer's evaluation as :func:`score_answer` gives it; the loop goes on where a worker does it."""
        if evaluator.limits is None:
            try:
                with deferring():
                    return score_answer(evaluator, item, answer)
            except NeedsWorkerError:
                pass
        limits = evaluator.limits or PATTERN_LIMITS
        job = ("evaluate", (item, plain_answer(answer)))
        result = await self._batches.run(EVALUATOR, shared_evaluator(evaluator), job, limits)
        return score_answer(_Known(result, limits), item, answer)


def score_answers(
    evaluator: Evaluator, pairs: Sequence[tuple[Item, Answer]]
) -> list[Callable[[], Evaluation]]:
    """The evaluations of many answers, those of a user's code in batches; each is to be called for, since it may
    raise.
    """
    limits = evaluator.limits
    if limits is None:
        return [partial(score_answer, evaluator, item, answer) for item, answer in pairs]
    jobs = [("evaluate", (item, plain_answer(answer))) for item, answer in pairs]
    results = pool().run(EVALUATOR, shared_evaluator(evaluator), jobs, limits)
    return [
        partial(score_answer, _Known(result, limits), item, answer)
        for (item, answer), result in zip(pairs, results, strict=True)
    ]
