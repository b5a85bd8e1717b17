"""Tasks whose answer is a number (GSM8K, SVAMP)."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel

from pcsuite._util.text import fraction_text
from pcsuite._util.user_patterns import user_pattern
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.abstention import ABSTENTION, text_abstains
from pcsuite.evaluation.base import Answer, Evaluation, truth_of
from pcsuite.evaluation.claims import AMBIGUOUS, Conclusion
from pcsuite.evaluation.harness import (
    helm_final_number_exact_match,
    lm_eval_flexible_extract,
    lm_eval_strict_match,
)
from pcsuite.evaluation.loose_numbers import UNIT_SUFFIX, loose_numbers
from pcsuite.evaluation.marks import marked_answer
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator, SingleAnswerOptions
from pcsuite.evaluation.stated_numbers import last_line, number_of, read_number


def _one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    if groups > 1 or re.fullmatch(r"\w+", pattern):
        raise ValueError("give 'final_number' or a regular expression with one group, such as '#### (\\S+)'")
    return pattern


class NumberOptions(SingleAnswerOptions):
    """Options of the ``number`` evaluator."""

    answer_prefix: str = "#### "
    """What stands before the number in a gold answer."""
    answer_extractor: Annotated[str, AfterValidator(_one_group)] | None = None
    """A regular expression whose last match in the answer (its group, where it has one) holds the number; by default
    ``####``, else a stated answer, else the last number."""


class NumberEvaluator(SingleAnswerEvaluator):
    """Exact match of the final number after normalisation; ``####`` wins over the last number."""

    Options: ClassVar[type[BaseModel]] = NumberOptions
    options: NumberOptions
    reread: ClassVar[re.Pattern[str] | None] = UNIT_SUFFIX

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer; lm-evaluation-harness' and HELM's verdicts on its text stand beside ours."""
        evaluation = super().evaluate(item, answer)
        if not item.unanswerable:
            gold, metrics = str(truth_of(item, "answer")), evaluation.metrics
            metrics["lm_eval_strict_match"] = lm_eval_strict_match(answer.text, gold)
            metrics["lm_eval_flexible_extract"] = lm_eval_flexible_extract(answer.text, gold)
            metrics["helm_final_number_exact_match"] = helm_final_number_exact_match(answer.text, gold)
        return evaluation

    def plain_value(self, text: str, item: Item) -> object:
        """What is marked or said last where that abstains, else the marked number, else the last one.

        ``None`` where the text has no number and does not abstain.
        """
        if self.options.answer_extractor is not None:
            matches = user_pattern(self.options.answer_extractor).finditer(text)
            return matches[-1][-1] if matches else last_line(text) if text_abstains(last_line(text)) else None
        reading = read_number(text)
        if not reading.quick:
            conclusion = marked_answer(text) or ("" if reading.marked else last_line(text))
            if text_abstains(conclusion) and number_of(conclusion) is None:
                return conclusion
        return AMBIGUOUS if reading.ambiguous else reading.number

    def canonical(self, value: object, item: Item) -> str | None:
        """One spelling of the number."""
        return number_of(value)

    def lenient_value(self, value: object, item: Item) -> Conclusion:
        """The gold number where a lenient reader may take the text for it, else the strict one.

        See :func:`~pcsuite.evaluation.loose_numbers.loose_numbers`.
        """
        gold = self.gold_value(item)
        if isinstance(value, str) and gold in loose_numbers(value):
            return gold
        return number_of(value)

    def lenient_prose(self, text: str, item: Item) -> Conclusion:
        """The gold number where the text states it in other units or in words, else the strict reading."""
        gold = self.gold_value(item)
        if gold in loose_numbers(text):
            return gold
        reading = read_number(text)
        return AMBIGUOUS if reading.ambiguous else reading.number

    def gold_value(self, item: Item) -> str:
        """The item's number in its canonical spelling.

        :class:`~pcsuite.errors.DataError` where the truth's ``answer`` is no number.
        """
        gold = number_of(truth_of(item, "answer"))
        if gold is None:
            raise DataError(
                f"item '{item.item_id}': truth 'answer' is not a number: {item.truth['answer']!r}"
            )
        return gold

    def wrong_value(self, item: Item, rng: Random) -> str:
        """A number near the right one: 1 to 9 above or below.

        Where abstaining is right, any number from 1 to 99.
        """
        if item.unanswerable:
            return str(rng.randint(1, 99))
        offset = rng.choice((-1, 1)) * rng.randint(1, 9)
        return fraction_text(Fraction(self.gold_value(item)) + offset)

    def plain_answer(self, item: Item, value: str) -> str:
        """The number behind its mark, after the worked solution where the item has one."""
        answer = super().plain_answer(item, value)
        solution = item.truth.get("solution")
        return f"{str(solution).strip()}\n{answer}" if solution and value != ABSTENTION else answer

    def exemplar_answer(self, item: Item) -> str:
        """A perfect answer with each sentence of its solution on a line: the rules ask for a line a calculation."""
        return _BETWEEN_SENTENCES.sub("\n", super().exemplar_answer(item))


_BETWEEN_SENTENCES = re.compile(r"(?<=[\w)]\.)(?<!\bM[rs]\.)(?<!\bMrs\.)(?<!\b[DS][rt]\.) (?=[A-Z])")
