"""Short free-text answers, right when they equal any of the item's answers (NQ-open)."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from pydantic import BaseModel

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import Answer, Evaluation, MetricValue, Parsed
from pcsuite.evaluation.parsing import clean_text
from pcsuite.evaluation.scoring import (
    exact_match,
    fold,
    quasi_exact_match,
    squad_normalise,
    token_f1,
    truth_of,
)
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator, SingleAnswerOptions

_LONGEST_ANSWER = 2_000
_WRONG = ("none of these", "the opposite", "something else entirely", "nobody in particular")


class ShortAnswerOptions(SingleAnswerOptions):
    """Options of the ``short_answer`` evaluator."""


class ShortAnswerEvaluator(SingleAnswerEvaluator):
    """Exact match after SQuAD normalisation against any reference; token F1 beside it.

    ``exact_match`` is the stricter comparison of the texts as they are, ``quasi_exact_match`` that of the normalised
    ones, as HELM and the literature use the names.
    """

    Options: ClassVar[type[BaseModel]] = ShortAnswerOptions

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer."""
        evaluation = super().evaluate(item, answer)
        if evaluation.metrics["abstained"]:
            return evaluation
        _, value = self._read(clean_text(answer.text), item)
        text = str(value) if evaluation.metrics["answered"] else ""
        references = self._references(item) if "answers" in item.truth else []
        evaluation.metrics["exact_match"] = any(exact_match(text, reference) for reference in references)
        evaluation.metrics["quasi_exact_match"] = any(
            quasi_exact_match(text, reference) for reference in references
        )
        return evaluation

    def canonical(self, value: object, item: Item) -> str | None:
        """The normalised text; where normalisation leaves nothing ("The"), the folded text."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return _normalised(str(value)) or None

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether the answer equals one of the item's."""
        return any(answer == _normalised(reference) for reference in self._references(item))

    def recognises(self, answer: str, item: Item) -> bool:
        """Any text has a canonical form, so only a right one is surely an answer."""
        return "answers" in item.truth and self.is_correct(answer, item)

    def gold_value(self, item: Item) -> str:
        """The item's first answer."""
        return self._references(item)[0]

    def wrong_value(self, item: Item, rng: Random) -> str:
        """A short text that is none of the item's answers."""
        taken = {_normalised(str(reference)) for reference in item.truth.get("answers", ())}
        return rng.choice([text for text in _WRONG if _normalised(text) not in taken])

    def answer_metrics(self, item: Item, parsed: Parsed) -> dict[str, MetricValue]:
        """Best token F1 over the references."""
        if parsed.answer is None or "answers" not in item.truth:
            return {"token_f1": 0.0}
        text = parsed.answer[:_LONGEST_ANSWER]
        return {"token_f1": max(token_f1(text, reference) for reference in self._references(item))}

    def _references(self, item: Item) -> list[str]:
        references = [str(reference) for reference in truth_of(item, "answers")]
        if not references:
            raise DataError(f"item '{item.item_id}': truth 'answers' is empty")
        return references


def _normalised(text: str) -> str:
    return squad_normalise(text) or fold(text)
