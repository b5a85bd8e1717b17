"""The way common to tasks whose answer is one value: read, recognise abstention, canonicalise, compare."""

from __future__ import annotations

import json
from abc import abstractmethod
from random import Random
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field

from pcsuite.config.base import Definition
from pcsuite.data.items import Item
from pcsuite.evaluation.abstention import ABSTENTION, field_abstains, last_line, text_abstains, value_abstains
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, MetricValue, Parsed
from pcsuite.evaluation.numerals import marked_answer
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.evaluation.schema_check import fill_required
from pcsuite.evaluation.scoring import (
    conclude,
    confidence_of,
    field_completeness,
    is_unanswerable,
    required_fields,
    word_limit_metrics,
)


class SingleAnswerOptions(Definition):
    """Options of every evaluator with one answer value."""

    answer_field: str = "answer"
    """Field of the JSON answer that holds the value."""
    abstain_field: str = "abstained"
    """Field that says whether the model abstains, where the schema has one."""
    confidence_field: str | None = None
    """Field with the stated confidence (0..1); logged with the row for calibration."""
    word_limits: dict[str, int] = Field(default_factory=dict)
    """Most words a field may have; excess is logged, not punished."""
    plain_text: bool | None = None
    """Whether an answer outside JSON is read too; by default only where the task has no schema."""
    answer_prefix: str = "Answer: "
    """What stands before the answer in a gold answer written as text."""


class SingleAnswerEvaluator(Evaluator):
    """Scores 1 for the right value and 0 for any other, for a missing one, and for a truncated answer."""

    Options: ClassVar[type[BaseModel]] = SingleAnswerOptions

    @property
    def settings(self) -> SingleAnswerOptions:
        """The options, typed."""
        return cast(SingleAnswerOptions, self.options)

    @abstractmethod
    def canonical(self, value: object, item: Item) -> str | None:
        """One spelling of an answer value, or ``None`` where it is no answer of this kind."""

    @abstractmethod
    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether a canonical answer is right."""

    def recognises(self, answer: str, item: Item) -> bool:
        """Whether a canonical answer is surely one, even if it reads like an abstention (an option may)."""
        return True

    @abstractmethod
    def gold_value(self, item: Item) -> str:
        """The right answer as a model should write it."""

    @abstractmethod
    def wrong_value(self, item: Item, rng: Random) -> str:
        """A well-formed wrong answer."""

    def plain_value(self, text: str, item: Item) -> object:
        """The answer value in a text that is not JSON: what is marked as the answer, else the whole text."""
        marked = marked_answer(text)
        return text if marked is None else marked

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """Other fields a complete JSON answer has beside the value."""
        return {}

    def answer_metrics(self, item: Item, parsed: Parsed) -> dict[str, MetricValue]:
        """Further metrics of one row."""
        return {}

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer."""
        text = clean_text(answer.text)
        parsed, value = self._read(text, item)
        parsed.answer = None if value is None else self.canonical(value, item)
        abstained = self._abstains(parsed, value, text, item)
        if abstained:
            parsed.answer = ABSTENTION
        elif value is not None and parsed.answer is None:
            parsed.parse_errors.append(f"not an answer of this task: {str(value)[:80]!r}")
        unanswerable = is_unanswerable(item)
        if unanswerable or abstained:
            correct = unanswerable and abstained
        else:
            correct = parsed.answer is not None and self.is_correct(parsed.answer, item)
        extra = {**self._common_extra(parsed), **self.answer_metrics(item, parsed)}
        evaluation = conclude(
            parsed,
            answer,
            score=float(correct),
            exact_match=correct,
            abstained=abstained,
            unanswerable=unanswerable,
            extra=extra,
        )
        confidence = evaluation.metrics.get("confidence")
        if isinstance(confidence, float):
            score = evaluation.metrics["task_score"]
            evaluation.metrics["brier"] = (confidence - float(score or 0.0)) ** 2
        return evaluation

    def gold_answer(self, item: Item) -> str:
        """A perfect answer: in JSON where the task has a schema, else as marked text."""
        value = ABSTENTION if is_unanswerable(item) else self.gold_value(item)
        return self._write(item, value, confidence=0.95)

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A well-formed answer with a wrong value."""
        value = self.wrong_value(item, rng)
        return self._write(item, value, confidence=round(0.4 + 0.5 * rng.random(), 2))

    def _write(self, item: Item, value: str, confidence: float) -> str:
        if self.schema is None:
            return f"{self.settings.answer_prefix}{value}"
        fields: dict[str, Any] = {self.settings.answer_field: value, **self.companions(item, value)}
        properties = self.schema.get("properties", {})
        if self.settings.confidence_field in properties:
            fields[str(self.settings.confidence_field)] = confidence
        if self.settings.abstain_field in properties:
            fields[self.settings.abstain_field] = value == ABSTENTION
        return json.dumps(fill_required(fields, self.schema), ensure_ascii=False)

    def _read(self, text: str, item: Item) -> tuple[Parsed, object]:
        """The answer value, from JSON where there is or must be some, else from the text."""
        plain = self.settings.plain_text
        if plain is None:
            plain = self.schema is None
        parsed = parse_object(text, self.schema)
        value = parsed.fields.get(self.settings.answer_field)
        if self.schema is None and parsed.json_mode == "embedded" and marked_answer(text) is not None:
            value = None  # a text task's marked answer wins over an object that happens to stand in the text
        if value is not None or not plain or field_abstains(parsed.fields.get(self.settings.abstain_field)):
            if parsed.json_valid and value is None:
                parsed.parse_errors.append(f"no field '{self.settings.answer_field}'")
            return parsed, value
        if self.schema is None:
            parsed = Parsed()
        return parsed, (self.plain_value(text, item) if text.strip() else None)

    def _abstains(self, parsed: Parsed, value: object, text: str, item: Item) -> bool:
        if field_abstains(parsed.fields.get(self.settings.abstain_field)):
            return True
        if parsed.answer is not None and self.recognises(parsed.answer, item):
            return False
        if value_abstains(value):
            return True
        return (
            parsed.json_mode == "not_json" and marked_answer(text) is None and text_abstains(last_line(text))
        )

    def _common_extra(self, parsed: Parsed) -> dict[str, MetricValue]:
        settings = self.settings
        metrics = word_limit_metrics(parsed.fields, settings.word_limits)
        if parsed.json_mode != "not_json":
            expected = required_fields(self.schema, (settings.answer_field,))
            metrics["field_completeness"] = field_completeness(parsed.fields, expected)
        if settings.confidence_field is not None:
            metrics["confidence"] = confidence_of(parsed.fields.get(settings.confidence_field))
        return metrics
