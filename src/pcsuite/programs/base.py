"""The interface of a program: given a prompt and a way to call the model, produce the final answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import msgspec

from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Generation, Request
from pcsuite.evaluation.base import Answer, Evaluator, MetricValue, score_answer
from pcsuite.retrieval.base import Passage

Ask = Callable[[Request], Awaitable[Generation]]
"""Asks the model once, with cache, retries, limits and budget applied: a client's ``ask``."""


class Search(Protocol):
    """Looks something up in the task's corpus."""

    async def __call__(self, query: str, k: int) -> list[Passage]: ...


class Job(msgspec.Struct, frozen=True):
    """What a program works on."""

    task_id: str
    item: Item
    request: Request
    """The row's own question; what a program asks besides follows from it (:meth:`Request.then`)."""
    evaluator: Evaluator
    max_steps: int
    retrieve: Search | None = None
    """Search function of the task's retriever, for programs that need one."""


@dataclass(frozen=True, slots=True)
class Outcome(Answer):
    """What a program returns: the final answer and what it took."""

    calls: Sequence[Generation] = ()
    """Every answer of the model, in order."""
    react_steps: int = 0
    tool_calls: int = 0
    transcript: list[dict[str, Any]] | None = None
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    """What the program itself has to log, beside what the evaluator measures."""


@dataclass(frozen=True, slots=True)
class WorstCaseUsage:
    """The most a program can take for one row."""

    calls: int = 1
    completions: int = 1
    """How often the completion limit can be used up."""
    extra_prompt_tokens: int = 0
    """Prompt tokens of all calls beyond the condition's prompt, at about four characters a token."""


class Program(ABC):
    """Turns a job into an outcome."""

    needs_retrieval: bool = False
    """Whether the program needs the task's retriever."""
    for_grounded_tasks: ClassVar[bool] = False
    """Whether it only makes sense where answers can be held against a corpus (``retrieval: true`` in the task)."""
    version: ClassVar[int] = 1
    """Raised when the program would do something else with the same job; part of run ids."""

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCaseUsage:
        """What a row can take at most, for estimates before a run.

        ``max_steps`` is the condition's own limit; budgets and ``pcsuite plan`` count on these figures.
        """
        return WorstCaseUsage()

    @abstractmethod
    async def run(self, job: Job, ask: Ask) -> Outcome:
        """Make the calls.

        Every question goes through ``ask``. Raises :class:`EngineError` where a call failed for good.
        """


# Whether an answer can be read: by form alone, never by the truth.


_MAX_PROBLEMS = 3


def problems_of(evaluator: Evaluator, item: Item, text: str, finish_reason: str) -> list[str]:
    """What keeps an answer from being read, in words for the model; empty where nothing does.

    Only the evaluator's parse is looked at: the answer must conform to the task's schema, where it has one,
    and hold an answer of the task's kind. Whether that answer is right plays no part. A truncated answer is
    never whole.
    """
    parsed = score_answer(evaluator, item, Answer(text, finish_reason)).parsed
    if finish_reason != "length" and parsed.schema_valid is not False and parsed.answer is not None:
        return []
    return parsed.problems()[:_MAX_PROBLEMS] or ["it holds no answer to the task"]


def conforms(evaluator: Evaluator, item: Item, text: str) -> bool:
    """Whether a text is beyond doubt an answer: the task has a schema and the text conforms to it.

    Truth plays no part; without a schema any text might be an answer, so none is beyond doubt.
    """
    if evaluator.schema is None:
        return False
    parsed = score_answer(evaluator, item, Answer(text)).parsed
    return parsed.schema_valid is True and parsed.answer is not None


class SingleCall(Program):
    """The open loop: one call, its text is the answer."""

    async def run(self, job: Job, ask: Ask) -> Outcome:
        """Ask once."""
        answer = await ask(job.request)
        return Outcome(answer["text"], answer["finish_reason"], calls=[answer])
