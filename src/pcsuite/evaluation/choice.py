"""Multiple choice: the answer is a letter, or the exact text of an option."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar, cast

from pydantic import BaseModel

from pcsuite.data.items import Item
from pcsuite.evaluation.scoring import fold, truth_of
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator, SingleAnswerOptions

_LETTER_FIRST = re.compile(r"[(\[*\"'`]{0,3}([A-Za-z])[)\]*\"'`]{0,3}(?:[.:)\-–—]|\s*$)")
_OPTION_WORD = re.compile(r"(?:option|choice|answer)\s{1,3}", re.IGNORECASE)
_WRAPPING = " \t\r\n.\"'“”‘’*`"


class ChoiceOptions(SingleAnswerOptions):
    """Options of the ``choice`` evaluator."""

    answer_field: str = "choice"
    """Field of the JSON answer that holds the letter."""
    confidence_field: str | None = "confidence"
    """Field with the stated confidence (0..1)."""
    justification_field: str = "justification"
    """Field with the reason, written into gold answers where the schema has it."""


class ChoiceEvaluator(SingleAnswerEvaluator):
    """Accuracy of a choice among lettered options (``truth``: ``choice`` and ``choices``)."""

    Options: ClassVar[type[BaseModel]] = ChoiceOptions

    @property
    def settings(self) -> ChoiceOptions:
        """The options, typed."""
        return cast(ChoiceOptions, self.options)

    def canonical(self, value: object, item: Item) -> str | None:
        """The letter of the chosen option."""
        if not isinstance(value, str):
            return None
        choices: Mapping[str, str] = truth_of(item, "choices")
        return match_choice(value, choices)

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether the letter is the item's."""
        return answer == str(truth_of(item, "choice"))

    def gold_value(self, item: Item) -> str:
        """The right letter."""
        return str(truth_of(item, "choice"))

    def wrong_value(self, item: Item, rng: Random) -> str:
        """Another letter, drawn at random."""
        gold = str(item.truth.get("choice", ""))
        letters: list[str] = sorted(truth_of(item, "choices"))
        return rng.choice([letter for letter in letters if letter != gold])

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """A short reason, where the schema asks for one."""
        field = self.settings.justification_field
        if field not in (self.schema or {}).get("properties", {}):
            return {}
        chosen = " ".join(str(truth_of(item, "choices").get(value, "Nothing")).split()[:12])
        return {field: f"{chosen} fits the question best."}


def match_choice(value: str, choices: Mapping[str, str]) -> str | None:
    """The letter meant by ``"B"``, ``"(b)"``, ``"B. bank"``, ``"option B"``, or by an option's exact text."""
    text = value.strip()
    letters = {letter.upper(): letter for letter in choices}
    bare = text.strip(_WRAPPING + "()[]").upper()
    if bare in letters:
        return letters[bare]
    wanted = (fold(text), fold(text.strip(_WRAPPING)))
    for letter, option in choices.items():
        if fold(option) in wanted or fold(option.strip(_WRAPPING)) == wanted[1]:
            return letter
    word = _OPTION_WORD.match(text)
    match = _LETTER_FIRST.match(text, word.end() if word else 0)
    return letters.get(match[1].upper()) if match else None
