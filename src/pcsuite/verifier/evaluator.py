"""The evaluator of ``buildingspec_json``: an answer is an extracted record, its score the field F1."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict

from pcsuite._util.hashing import sha256_hex
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, MetricValue, conclude, truth_of
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.verifier.compare import Comparison, compare_records
from pcsuite.verifier.mapping import FieldMapping, canonical_json, load_mapping
from pcsuite.verifier.scores import ratio
from pcsuite.verifier.tree import compared_record


class BuildingSpecOptions(BaseModel):
    """Options of the evaluator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mapping: str | None = None
    """Mapping file; by default the bundled one for BuildingSpec."""


class BuildingSpecEvaluator(Evaluator):
    """Scores an extracted record field by field; a record that cannot be read scores 0.

    ``truth`` is ``{"record": …}``. The corpus figure is macro-F1: the mean of ``task_score`` over items.
    """

    Options = BuildingSpecOptions

    def _mapping(self) -> FieldMapping:
        chosen = self.options.mapping if isinstance(self.options, BuildingSpecOptions) else None
        return load_mapping(Path(chosen) if chosen else None)

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Compare the answer's record with the truth.

        Of a truncated answer nothing is taken: whatever object could be read in it is a part, not the record.
        """
        parsed = parse_object(clean_text(answer.text), self.schema)
        mapping = self._mapping()
        readable = parsed.json_valid and bool(parsed.fields) and answer.finish_reason != "length"
        record = parsed.fields if readable else {}
        comparison = compare_records(truth_of(item, "record"), record, mapping)
        if readable:
            canonical = canonical_json(compared_record(record, mapping))
            parsed.answer = sha256_hex(canonical)[:16]
        counts = comparison.counts
        given = counts.matches + counts.false_positives
        return conclude(
            parsed,
            answer,
            score=counts.f1,
            exact_match=counts.f1 == 1.0,
            unsupported_rate=ratio(counts.hallucination, given),
            extra=_metrics(comparison),
        )

    def gold_answer(self, item: Item) -> str:
        """The truth as compact JSON."""
        return json.dumps(item.truth["record"], ensure_ascii=False, separators=(",", ":"))

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The truth with some values missing and some changed, never none."""
        record = copy.deepcopy(item.truth["record"])
        places = _scalar_places(record)
        chosen = rng.sample(range(len(places)), k=max(1, round(len(places) * rng.uniform(0.1, 0.6))))
        for index in chosen:
            holder, key = places[index]
            holder[key] = None if rng.random() < 0.4 else _altered(holder[key])
        return json.dumps(_without_nulls(record), ensure_ascii=False, separators=(",", ":"))


def _metrics(comparison: Comparison) -> dict[str, MetricValue]:
    counts = comparison.counts
    return {
        "field_precision": counts.precision,
        "field_recall": counts.recall,
        "tp": int(counts.matches),
        "fp": int(counts.false_positives),
        "fn": int(counts.false_negatives),
        "omissions": int(counts.omission),
        "hallucinations": int(counts.hallucination),
        "wrong_values": int(counts.wrong_value),
        "format_errors": int(counts.format_error),
    }


def _scalar_places(value: Any) -> list[tuple[Any, Any]]:
    """Holder and key of every scalar of a record, except the names items are known by."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    places: list[tuple[Any, Any]] = []
    for key, child in entries:
        if isinstance(child, dict | list):
            places += _scalar_places(child)
        elif key != "name":
            places.append((value, key))
    return places


def _altered(value: Any) -> Any:
    """Another value of the same type, outside every tolerance."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value - 1 if value > 1 else value + 1
    if isinstance(value, float):
        if 0 <= value <= 1:  # stay a fraction
            return round(value + 0.3 if value <= 0.6 else value - 0.3, 3)
        return round(value * 1.37 + 5.21, 3)
    return f"{value} (unclear)"


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value if child is not None]
    return value
