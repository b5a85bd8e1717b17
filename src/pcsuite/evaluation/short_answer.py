"""Short answers in the model's own words: right where they equal one of several references after normalisation."""

from __future__ import annotations

import re
from random import Random
from typing import ClassVar

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import base
from pcsuite.evaluation.abstention import ABSTENTION
from pcsuite.evaluation.harness import helm_f1_score, helm_quasi_prefix_exact_match, lm_eval_exact_match
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator

_LONGEST_ANSWER = 2_000
_MOST_WORDS = 20
_WRONG = ("none of these", "the opposite", "something else entirely", "nobody in particular")


class ShortAnswerEvaluator(SingleAnswerEvaluator):
    """Exact match after SQuAD normalisation against any reference; token F1 beside it.

    ``exact_match`` is the stricter comparison of the texts as they are, ``quasi_exact_match`` that of the normalised
    ones, as HELM and the literature use the names. ``unsupported_rate`` is 1 for a wrong answer that was asserted, with
    retrieval and without alike; ``answer_in_passages`` says of a row with retrieval whether a passage that was shown
    has the answer in it.
    """

    gold_key: ClassVar[str] = "answers"
    closed: bool = False
    reread: ClassVar[re.Pattern[str] | None] = re.compile("")

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer, and say whether it asserts what no reference supports."""
        evaluation = super().evaluate(item, answer)
        canonical, metrics = evaluation.parsed.answer, evaluation.metrics
        if canonical is not None:
            metrics["unsupported_rate"] = float(canonical != ABSTENTION and not metrics["task_score"])
        if canonical not in (None, ABSTENTION) and answer.retrieved is not None:
            shown = (f" {_normalised(text)} " for _, _, text in answer.retrieved)
            metrics["answer_in_passages"] = any(f" {canonical} " in text for text in shown)
        return evaluation

    def canonical(self, value: object, item: Item) -> str | None:
        """The normalised text; where normalisation leaves nothing ("The"), the folded text."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return _normalised(str(value)) or None

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether the answer equals one of the item's."""
        return any(answer == _normalised(reference) for reference in self._references(item))

    def is_leniently_correct(self, value: str, item: Item) -> bool:
        """Whether a short text (up to 20 words) holds one of the item's answers as whole words and denies nothing."""
        words = f" {value} "
        if len(value.split()) > _MOST_WORDS or " not " in words:
            return False
        return any(f" {_normalised(reference)} " in words for reference in self._references(item))

    def gold_value(self, item: Item) -> str:
        """The item's first answer."""
        return self._references(item)[0]

    def wrong_value(self, item: Item, rng: Random) -> str:
        """A short text that is none of the item's answers."""
        references = {_normalised(str(reference)) for reference in item.truth.get("answers", ())}
        return rng.choice([text for text in _WRONG if _normalised(text) not in references])

    def answer_metrics(self, item: Item, parsed: base.Parsed, value: object) -> dict[str, base.MetricValue]:
        """Best token F1 over the references, and other tools' verdicts on the text as it was read.

        ``exact_match`` and ``quasi_exact_match`` follow HELM's definitions; they are left out where the model abstains.
        """
        references = self._references(item) if "answers" in item.truth else []
        metrics: dict[str, base.MetricValue] = {"token_f1": 0.0}
        if parsed.answer is not None and references:
            text = parsed.answer[:_LONGEST_ANSWER]
            metrics["token_f1"] = max(base.token_f1(text, reference) for reference in references)
        if parsed.answer != ABSTENTION:
            text = "" if value is None or parsed.answer is None else str(value)[:_LONGEST_ANSWER]
            metrics["exact_match"] = any(base.exact_match(text, reference) for reference in references)
            metrics["quasi_exact_match"] = any(
                base.quasi_exact_match(text, reference) for reference in references
            )
            metrics["helm_quasi_prefix_exact_match"] = helm_quasi_prefix_exact_match(text, references)
            metrics["helm_f1_score"] = helm_f1_score(text, references)
            metrics["lm_eval_exact_match"] = lm_eval_exact_match(text, references)
        return metrics

    def _references(self, item: Item) -> list[str]:
        references = [str(reference) for reference in base.truth_of(item, "answers")]
        if not references:
            raise DataError(f"item '{item.item_id}': truth 'answers' is empty")
        return references


def _normalised(text: str) -> str:
    return base.squad_normalise(text) or base.fold(text)
