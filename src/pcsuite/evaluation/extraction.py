"""Generic extraction: the user's own JSON fields against the truth's fields, value by value."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from pcsuite._util.mappings import flatten
from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import base
from pcsuite.evaluation.abstention import ABSTENTION, stated_abstention, text_abstains
from pcsuite.evaluation.lenient import lenient_text, loose_field, loose_object
from pcsuite.evaluation.listed import Counts, counts_by_name
from pcsuite.evaluation.markdown_lists import named_values
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.schema_check import written_answer
from pcsuite.evaluation.stated_numbers import number_of
from pcsuite.stats.f1 import f1_score

FieldMatch = Literal["exact", "number", "text"]
_SPECIAL = frozenset({"unanswerable"})


class ExtractionOptions(Definition):
    """Options of the ``extraction`` evaluator."""

    fields: dict[str, FieldMatch] = Field(default_factory=dict)
    """Fields that are scored and how they match (dotted names reach into objects): ``exact`` (same JSON
    value), ``number`` (same number, however written), ``text`` (same words, whatever case, punctuation and
    articles). By default every truth field; numbers match as numbers, texts as texts, all else exactly."""
    abstain_field: str = "abstained"
    """Field that says whether the model abstains."""
    word_limits: dict[str, int] = Field(default_factory=dict)
    """Most words a field may have; excess is logged, not punished."""


class ExtractionEvaluator(base.Evaluator):
    """Field F1. A field is right, wrong (both a false positive and a false negative), omitted or invented.

    A null or blank truth value says that the input does not give the field: filling it is unsupported.
    """

    Options: ClassVar[type[BaseModel]] = ExtractionOptions
    pooling: ClassVar[base.Pooling] = "micro_f1"
    options: ExtractionOptions

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer field by field; an answer that cannot be read omits every field.

        Further metrics are the counts (``wrong``, ``invented``, ``omitted``; ``tp``, ``fp``, ``fn``), and as
        ``unsupported_rate`` the share of filled fields that were invented.
        """
        text = base.clean_text(answer.text)
        truth = self._truth(item)
        parsed = parse_object(text, self.schema, () if self.schema else self._top_names(truth))
        readable = parsed.json_valid and bool(parsed.fields or not any(map(base.is_present, truth.values())))
        stated = stated_abstention(parsed.fields.get(self.options.abstain_field))
        abstained = text_abstains(text) if stated is None else stated
        complete = answer.finish_reason != "length"
        values = dict(flatten(parsed.fields)) if readable and complete else {}
        tp, wrong, invented, omitted = counts = self._counts(truth, values)
        kinder = counts
        if complete and not abstained and (wrong or omitted) and parsed.reading != "ambiguous":
            kinder = self._lenient_counts(answer.text, truth, parsed, counts)
        if abstained:
            parsed.answer = ABSTENTION
        elif readable:
            canonical = {name: self._canonical(name, truth[name], values.get(name)) for name in sorted(truth)}
            parsed.answer = json.dumps(canonical, ensure_ascii=False, sort_keys=True)
        filled = tp + wrong + invented
        present = [name for name in truth if base.is_present(truth[name])]
        lenient = _confusion(kinder)
        extra: dict[str, base.MetricValue] = {
            **counts_by_name(_confusion(counts), lenient),
            **{"wrong": wrong, "invented": invented, "omitted": omitted},
            **base.field_metrics(values, expected=present),
            **base.field_metrics(parsed.fields, word_limits=self.options.word_limits),
        }
        return base.conclude(
            parsed,
            answer,
            score=float(abstained) if item.unanswerable else f1_score(*_confusion(counts), empty=1.0),
            lenient=None if item.unanswerable or kinder is counts else f1_score(*lenient, empty=1.0),
            exact_match=not (wrong or invented or omitted),
            abstained=abstained,
            unanswerable=item.unanswerable,
            unsupported_rate=invented / filled if filled else 0.0,
            extra=extra,
        )

    def _counts(self, truth: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[int, int, int, int]:
        """Fields that are right, wrong, invented and omitted."""
        verdicts = Counter(self._verdict(name, truth[name], values.get(name)) for name in truth)
        return verdicts["right"], verdicts["wrong"], verdicts["invented"], verdicts["omitted"]

    def _lenient_counts(
        self, text: str, truth: Mapping[str, Any], parsed: base.Parsed, strict: tuple[int, int, int, int]
    ) -> tuple[int, int, int, int]:
        """Counts where broken JSON is mended and keys match whatever their case; the strict ones unless kinder."""
        fields, rule = parsed.fields, "another spelling"
        names = self._top_names(truth)
        if loose_field(fields, names) is None:
            visible = lenient_text(text)
            loose = loose_object(visible, names)
            if loose is None and "{" not in visible:
                listed = named_values(visible, tuple(truth))
                loose = (listed, "lines or a table") if listed else None
            if loose is None:
                return strict
            fields, rule = loose
        values = dict(flatten(fields))
        spelled = {name: _as_truth(loose_field(values, (name,)), truth[name]) for name in truth}
        if rule == "another spelling" and all(
            name in values and spelled[name] is values[name] for name in truth
        ):
            return strict
        kinder = self._counts(truth, spelled)
        if kinder[0] <= strict[0]:
            return strict
        parsed.note_lenient("fields", rule)
        return kinder

    def _top_names(self, truth: Mapping[str, Any]) -> tuple[str, ...]:
        """The outermost keys of the scored fields."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name in truth))

    def gold_answer(self, item: Item) -> str:
        """The truth's fields as one JSON object."""
        if item.unanswerable:
            return json.dumps({self.options.abstain_field: True})
        return written_answer(_unflatten(self._truth(item)), self.schema)

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The truth's fields with one value changed, or one invented where all are null.

        A number moves by 1 to 9, a truth value flips, anything else becomes "not" itself.
        """
        truth = self._truth(item)
        filled = [name for name in truth if base.is_present(truth[name])]
        name = rng.choice(filled or sorted(truth))
        changed: Any = f"not {truth[name]}"
        if isinstance(truth[name], bool):
            changed = not truth[name]
        elif isinstance(truth[name], (int, float)):
            changed = truth[name] + rng.randint(1, 9)
        return written_answer(_unflatten({**truth, name: changed}), self.schema)

    def _truth(self, item: Item) -> dict[str, Any]:
        truth = {name: value for name, value in flatten(item.truth) if name not in _SPECIAL}
        if self.options.fields:
            truth = {name: truth.get(name) for name in self.options.fields}
        if not truth:
            raise DataError(f"item '{item.item_id}': truth has no fields to score")
        return truth

    def _verdict(self, name: str, truth: object, value: object) -> str:
        if not base.is_present(truth):
            return "invented" if base.is_present(value) else "absent"
        if not base.is_present(value):
            return "omitted"
        right = self._canonical(name, truth, value) == self._canonical(name, truth, truth)
        return "right" if right else "wrong"

    def _canonical(self, name: str, truth: object, value: object) -> str | None:
        """One spelling of a value under the field's way of matching."""
        if not base.is_present(value):
            return None
        match = self.options.fields.get(name)
        if match is None and isinstance(truth, (int, float)) and not isinstance(truth, bool):
            match = "number"
        elif match is None:
            match = "text" if isinstance(truth, str) else "exact"
        if match == "number":
            number = number_of(value)
            return number if number is not None else f"?{_exact(value)}"
        if match == "text" and isinstance(value, (str, int, float)):
            return base.squad_normalise(str(value)) or _exact(value)
        return _exact(value)


_TRUTH_VALUES = {"true": True, "yes": True, "false": False, "no": False}


def _as_truth(value: Any, truth: object) -> Any:
    """A word for a truth value as one, where the truth is one; any other value as it is."""
    if isinstance(truth, bool) and isinstance(value, str):
        return _TRUTH_VALUES.get(value.strip().casefold(), value)
    return value


def _confusion(counts: tuple[int, int, int, int]) -> Counts:
    """True positives, false positives and false negatives: a wrong field is both of the latter."""
    right, wrong, invented, omitted = counts
    return right, wrong + invented, wrong + omitted


def _unflatten(fields: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        target = nested
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = value
    return nested


def _exact(value: Any) -> str:
    """JSON in one spelling; a list of values matches in any order."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(sorted(_exact(child) for child in value)) + "]"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
