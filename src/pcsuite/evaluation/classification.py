"""Tasks whose answer is one label of a fixed set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from random import Random
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field

from pcsuite.data.items import Item
from pcsuite.evaluation.abstention import ABSTENTION
from pcsuite.evaluation.scoring import fold, truth_of
from pcsuite.evaluation.single_answer import SingleAnswerEvaluator, SingleAnswerOptions

_YES_NO_ALIASES = {"true": "yes", "false": "no", "y": "yes", "n": "no", "1": "yes", "0": "no"}
_WRAPPING = " \t\r\n.!,;:\"'“”‘’*`()[]"


class ClassificationOptions(SingleAnswerOptions):
    """Options of the ``classification`` evaluator."""

    answer_field: str = "label"
    """Field of the JSON answer that holds the label."""
    labels: tuple[str, ...] = ()
    """The labels; by default those the schema's ``enum`` lists."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Other spellings of a label; yes/no tasks know true/false by themselves."""
    confidence_field: str | None = "confidence"
    """Field with the stated confidence (0..1)."""
    rationale_field: str = "rationale"
    """Field with the reason, written into gold answers where the schema has it."""


class ClassificationEvaluator(SingleAnswerEvaluator):
    """Accuracy of a label; labels match exactly after trimming and case-folding."""

    Options: ClassVar[type[BaseModel]] = ClassificationOptions

    @property
    def settings(self) -> ClassificationOptions:
        """The options, typed."""
        return cast(ClassificationOptions, self.options)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label set: the options', else the schema's (less the abstention literal), else empty."""
        if self.settings.labels:
            return self.settings.labels
        properties: Mapping[str, Any] = (self.schema or {}).get("properties", {})
        listed = properties.get(self.settings.answer_field, {}).get("enum", ())
        return tuple(label for label in listed if isinstance(label, str) and label != ABSTENTION)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        spellings = {fold(label): label for label in self.labels}
        if set(spellings) == {"yes", "no"}:
            spellings |= {alias: spellings[label] for alias, label in _YES_NO_ALIASES.items()}
        return spellings | {fold(alias): label for alias, label in self.settings.aliases.items()}

    def canonical(self, value: object, item: Item) -> str | None:
        """The label as the label set spells it."""
        text = str(value).lower() if isinstance(value, (bool, int)) else value
        if not isinstance(text, str):
            return None
        for form in (fold(text), fold(text.strip(_WRAPPING))):
            if form in self._spellings:
                return self._spellings[form]
            if not self.labels and form:
                gold = str(truth_of(item, "label"))
                return gold if form == fold(gold) else form
        return None

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether the label is the item's."""
        return fold(answer) == fold(str(truth_of(item, "label")))

    def recognises(self, answer: str, item: Item) -> bool:
        """Without a label set any text has a canonical form, so only a right one is surely an answer."""
        return bool(self.labels) or ("label" in item.truth and self.is_correct(answer, item))

    def gold_value(self, item: Item) -> str:
        """The item's label."""
        return str(truth_of(item, "label"))

    def wrong_value(self, item: Item, rng: Random) -> str:
        """Another label, drawn at random."""
        gold = fold(str(item.truth.get("label", "")))
        others = [label for label in self.labels if fold(label) != gold]
        return rng.choice(others) if others else f"not {gold}"

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """A short reason, where the schema asks for one: the item's own beside its label, where it has one."""
        field = self.settings.rationale_field
        if field not in (self.schema or {}).get("properties", {}):
            return {}
        own = item.truth.get("rationale")
        is_gold = fold(value) == fold(str(item.truth.get("label", "")))
        return {field: str(own) if own and is_gold else f"The text fits {value} best."}
