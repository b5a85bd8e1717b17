"""The interface between an answer and its score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from pcsuite.data.items import Item

JsonMode = Literal["strict", "embedded", "none", "not_json"]
Pooling = Literal["mean", "micro_f1"]
MetricValue = float | int | bool | str | None


@dataclass(slots=True)
class Parsed:
    """What could be read from an answer.

    ``json_mode`` says how: the whole text was JSON (``strict``), an object was found in it (``embedded``),
    none was found (``none``), or the task does not answer in JSON (``not_json``).
    ``answer`` is the canonical answer used for voting and entropy, ``None`` where there is none.
    """

    json_valid: bool | None = None
    schema_valid: bool | None = None
    json_mode: JsonMode = "not_json"
    fields: dict[str, Any] = field(default_factory=dict)
    answer: str | None = None
    parse_errors: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Evaluation:
    """A scored answer. ``metrics`` always has ``task_score`` (0..1, 0 for a missing answer)."""

    parsed: Parsed
    metrics: dict[str, MetricValue]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is scored: the final text, why generation ended, and what a closed loop retrieved.

    ``retrieved`` holds ``(page, sentence_id, sentence_text)`` of every passage shown to the model, or is
    ``None`` where no retrieval took place.
    """

    text: str
    finish_reason: str = "stop"
    retrieved: Sequence[tuple[str, int, str]] | None = None


class NoOptions(BaseModel):
    """Options of an evaluator that takes none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Evaluator(ABC):
    """Scores answers of one kind of task; knows nothing of models, conditions or the run."""

    Options: ClassVar[type[BaseModel]] = NoOptions
    pooling: ClassVar[Pooling] = "mean"
    """How items make a corpus figure: mean of ``task_score``, or micro-F1 from pooled ``tp/fp/fn``."""

    def __init__(self, options: BaseModel | None = None, schema: Mapping[str, Any] | None = None) -> None:
        self.options = options if options is not None else self.Options()
        self.schema = schema

    def know_pages(self, titles: Iterable[str]) -> None:
        """Take the titles of all pages that can be cited; evaluators that score no citations ignore them."""

    @abstractmethod
    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer against the item's truth. Never raises on any answer text."""

    @abstractmethod
    def gold_answer(self, item: Item) -> str:
        """The text of a perfect answer: what an exemplar shows. Scores 1.0 by :meth:`evaluate`."""

    @abstractmethod
    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The text of a well-formed answer that scores below 1.0, for simulation."""
