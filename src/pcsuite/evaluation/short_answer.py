"""Short answers in the model's own words: right where they equal one of several references after normalisation."""

from __future__ import annotations

import re
from random import Random
from typing import ClassVar

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import base
from pcsuite.evaluation.abstention import ABSTENTION
from pcsuite.evaluation.claims import AMBIGUOUS, Conclusion
from pcsuite.evaluation.harness import helm_f1_score, helm_quasi_prefix_exact_match, lm_eval_exact_match
from pcsuite.evaluation.mentions import claims_reference
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator

_LONGEST_ANSWER = 2_000
_LATEX = re.compile(r"\\[A-Za-z]+\s*\{|[{}$]")
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

    def lenient_value(self, value: object, item: Item) -> Conclusion:
        """One of the item's answers where the text claims it, whatever stands around; else the text's canonical form.

        A list of one answer is that answer.
        """
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str) and "\\" in value:
            canonical = self.canonical(_LATEX.sub(" ", value), item)
        else:
            canonical = self.canonical(value, item)
        if canonical is None:
            return None
        words = f" {canonical} "
        references = self._references(item)
        inside = [reference for reference in references if f" {_normalised(reference)} " in words]
        if not inside:
            return canonical
        claims = claims_reference(str(value), inside, self.field_names)
        return AMBIGUOUS if claims is None else _normalised(inside[0]) if claims else canonical

    def lenient_prose(self, text: str, item: Item) -> Conclusion:
        return self.lenient_value(text, item)

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
