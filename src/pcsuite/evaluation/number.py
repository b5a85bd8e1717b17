"""Tasks whose answer is a number (GSM8K, SVAMP)."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import ClassVar

from pydantic import BaseModel

from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import is_unanswerable, truth_of
from pcsuite.evaluation.parsing import (
    ABSTENTION,
    final_number,
    last_line,
    marked_answer,
    number_of,
    number_text,
    text_abstains,
)
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator, SingleAnswerOptions


class NumberOptions(SingleAnswerOptions):
    """Options of the ``number`` evaluator."""

    answer_prefix: str = "#### "
    """What stands before the number in a gold answer."""


class NumberEvaluator(SingleAnswerEvaluator):
    """Exact match of the final number after normalisation; ``####`` wins over the last number."""

    Options: ClassVar[type[BaseModel]] = NumberOptions

    def plain_value(self, text: str, item: Item) -> object:
        """What is marked or said last where that abstains, else the marked number, else the last one.

        ``None`` where the text has no number and does not abstain.
        """
        number, marked = final_number(text)
        conclusion = marked_answer(text) or ("" if marked else last_line(text))
        if text_abstains(conclusion) and (number_of(conclusion) is None or not marked):
            return conclusion
        return number

    def canonical(self, value: object, item: Item) -> str | None:
        """One spelling of the number."""
        return number_of(value)

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
        if is_unanswerable(item):
            return str(rng.randint(1, 99))
        offset = rng.choice((-1, 1)) * rng.randint(1, 9)
        return number_text(Fraction(self.gold_value(item)) + offset)

    def plain_answer(self, item: Item, value: str) -> str:
        """The number behind its mark, after the worked solution where the item has one."""
        answer = super().plain_answer(item, value)
        solution = item.truth.get("solution")
        return f"{str(solution).strip()}\n{answer}" if solution and value != ABSTENTION else answer
