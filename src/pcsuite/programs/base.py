"""The interface of a program: given a prompt and a way to call the model, produce the final answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Constraint, Decoding, Tool, Usage
from pcsuite.evaluation.base import Answer, Evaluator, MetricValue
from pcsuite.retrieval.base import Passage


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished call."""

    text: str
    finish_reason: str
    latency_ms: float
    usage: Usage
    attempts: int = 1
    cache_hit: bool = False
    seed_honoured: bool = True
    constraint_backend: str | None = None


class Call(Protocol):
    """Asks the model once, with retries, limits, budget and cache applied.

    ``step`` names the call within the program; its seed is derived from the row's seed and the step, so
    that no two calls of any two replicates share a stream. Step ``""`` uses the row's seed as it is.
    ``max_tokens`` lowers the completion limit of this call, for programs that share one between calls.
    ``tools`` are what the prompt offers, for adapters that can offer them natively too.
    """

    async def __call__(
        self,
        prompt: str,
        *,
        step: str = "",
        constraint: Constraint | None = None,
        max_tokens: int | None = None,
        tools: tuple[Tool, ...] = (),
    ) -> Reply: ...


class Search(Protocol):
    """Looks something up in the task's corpus."""

    async def __call__(self, query: str, k: int) -> list[Passage]: ...


@dataclass(frozen=True, slots=True)
class Job:
    """What a program works on."""

    task_id: str
    item: Item
    prompt: str
    decoding: Decoding
    constraint: Constraint | None
    evaluator: Evaluator
    max_steps: int
    retrieve: Search | None = None
    """Search function of the task's retriever, for programs that need one."""


@dataclass(slots=True)
class Outcome:
    """What a program returns: the final answer and what it took."""

    text: str
    finish_reason: str
    replies: list[Reply] = field(default_factory=list)
    react_steps: int = 0
    tool_calls: int = 0
    retrieved: Sequence[tuple[str, int, str]] | None = None
    transcript: list[dict[str, Any]] | None = None
    metrics: dict[str, MetricValue] = field(default_factory=dict)
    """What the program itself has to log, beside what the evaluator measures."""


@dataclass(frozen=True, slots=True)
class WorstCase:
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
    version: ClassVar[int] = 1
    """Raised when the program would do something else with the same job; part of run ids."""

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCase:
        """What a row can take at most, for estimates before a run."""
        return WorstCase()

    @abstractmethod
    async def run(self, job: Job, call: Call) -> Outcome:
        """Make the calls."""


# Whether an answer can be read: by form alone, never by the truth.


_MOST_PROBLEMS = 3


def problems_of(evaluator: Evaluator, item: Item, text: str, finish_reason: str) -> list[str]:
    """What keeps an answer from being read, in words for the model; empty where nothing does.

    Only the evaluator's parse is looked at: the answer must conform to the task's schema, where it has one,
    and hold an answer of the task's kind. Whether that answer is right plays no part. A truncated answer is
    never whole.
    """
    parsed = evaluator.evaluate(item, Answer(text, finish_reason)).parsed
    if finish_reason != "length" and parsed.schema_valid is not False and parsed.answer is not None:
        return []
    named = list(dict.fromkeys(parsed.parse_errors))[:_MOST_PROBLEMS]
    return named or ["it holds no answer to the task"]


def conforms(evaluator: Evaluator, item: Item, text: str) -> bool:
    """Whether a text is beyond doubt an answer: the task has a schema and the text conforms to it."""
    if evaluator.schema is None:
        return False
    parsed = evaluator.evaluate(item, Answer(text)).parsed
    return parsed.schema_valid is True and parsed.answer is not None


# One call, its text is the answer.


class SingleCall(Program):
    """The open loop."""

    async def run(self, job: Job, call: Call) -> Outcome:
        """Ask once."""
        reply = await call(job.prompt, constraint=job.constraint)
        return Outcome(reply.text, reply.finish_reason, [reply])
