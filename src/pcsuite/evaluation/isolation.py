"""Scoring that may never end, done where it can be ended.

Built-in scorers run in this process. A user's function runs in a worker (:mod:`pcsuite._util.workers`), and so does any
scorer for the one answer on which a user's pattern could run away. The rows of an event loop are scored in batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from pcsuite import errors
from pcsuite._util.user_patterns import PATTERN_SECONDS, NeedsWorkerError, deferring
from pcsuite._util.workers import (
    CODE,
    Batcher,
    Handler,
    Job,
    Jobs,
    Kind,
    Limits,
    Raised,
    Result,
    Shared,
    Stopped,
    Value,
    pool,
)
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, OutOfMemoryError, OutOfTimeError
from pcsuite.evaluation.base import (
    Answer,
    Evaluation,
    Evaluator,
    NamedScore,
    Parsed,
    as_logged,
    score_answer,
    stopped_evaluation,
)

EVALUATOR = Handler("pcsuite.evaluation.isolation:prepared_evaluator", CODE)
SCORER = Handler("pcsuite.evaluation.isolation:prepared_scorer", CODE)
PATTERN_LIMITS = Limits(PATTERN_SECONDS, 4 << 30)
_shared: WeakKeyDictionary[Evaluator, Shared] = WeakKeyDictionary()
_kinds: WeakKeyDictionary[Evaluator, Kind] = WeakKeyDictionary()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Parsed, dict[str, Any], dict[str, NamedScore]]).decode


def prepared_evaluator(shared: bytes) -> Callable[[tuple[str, tuple[Any, ...]]], Any]:
    """What a worker does: each job is a method of the evaluator and its arguments."""
    evaluator = pickle.loads(shared)
    return lambda job: getattr(evaluator, job[0])(*job[1])


def prepared_scorer(shared: bytes) -> Callable[[tuple[Any, ...], Item], Any]:
    """What a worker does that scores answers: each job is an answer as :func:`_sent` has it, with its item."""
    evaluator = pickle.loads(shared)

    def score(answer: tuple[Any, ...], item: Item) -> Any:
        return _returned_evaluation(score_answer(evaluator, item, Answer(*answer)))

    return score


def _sent(answer: Answer) -> tuple[Any, ...]:
    """What of an answer is scored, as it travels: a loop's calls need not, nor what only a call in a folder has."""
    sent = (answer.text, answer.finish_reason, answer.retrieved, answer.verdicts)
    if answer.folder is None and answer.changed is None and not answer.checks:
        return sent
    return (*sent, answer.folder, answer.changed, answer.checks)


def _returned_evaluation(evaluation: Evaluation) -> Any:
    """An evaluation as it travels back: packed, but for the fields, which may hold anything."""
    parsed = evaluation.parsed
    fields, parsed.fields = parsed.fields, {}
    try:
        return _encode((parsed, evaluation.metrics, evaluation.scores)), fields
    # Half a surrogate pair, an integer of more than 64 bits, a number of numpy.
    except (TypeError, ValueError, OverflowError):
        parsed.fields = fields
        return evaluation


def _evaluation(result: Result, answer: Answer, limits: Limits) -> Evaluation:
    """The evaluation that a worker came to; raises what the evaluator raised there."""
    try:
        returned = result.value if type(result) is Value else _returned(result, limits)
    except (OutOfTimeError, OutOfMemoryError) as error:
        return as_logged(stopped_evaluation(answer, error), answer)
    if type(returned) is Evaluation:
        return returned
    packed, fields = returned
    evaluation = Evaluation(*_decode(packed))
    evaluation.parsed.fields = fields
    return evaluation


def shared_evaluator(evaluator: Evaluator) -> Shared:
    """An evaluator as it travels to workers, made once; raises what ``pickle`` raises where it cannot."""
    known = _shared.get(evaluator)
    if known is None:
        known = _shared[evaluator] = Shared.of(evaluator)
    return known


def _scoring_by(evaluator: Evaluator) -> Kind:
    """The jobs of scoring by an evaluator."""
    limits = evaluator.limits or PATTERN_LIMITS
    kind = _kinds.get(evaluator)
    if kind is None or kind.limits is not limits:
        kind = _kinds[evaluator] = Kind(SCORER, shared_evaluator(evaluator), limits)
    return kind


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
    return Answer(*_sent(answer))


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
        kind = _scoring_by(evaluator)
        return _evaluation(await self._batches.run(kind, _sent(answer), item), answer, kind.limits)


class ScoringAhead:
    """Scores answers that are handed in before their evaluations are called for, those of a user's code in workers."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def begin(self, evaluator: Evaluator, item: Item, answer: Answer) -> Callable[[], Evaluation]:
        """What returns the answer's evaluation, or raises what the evaluator raises, once it is called."""
        if evaluator.limits is None:
            return partial(score_answer, evaluator, item, answer)
        kind = _scoring_by(evaluator)
        return partial(self._result, self._jobs.add(kind, _sent(answer), item), answer, kind.limits)

    def _result(self, job: Job, answer: Answer, limits: Limits) -> Evaluation:
        return _evaluation(self._jobs.result(job), answer, limits)


@contextmanager
def scoring_ahead() -> Iterator[ScoringAhead]:
    """A :class:`ScoringAhead` for the block."""
    with Jobs(pool()) as jobs:
        yield ScoringAhead(jobs)
