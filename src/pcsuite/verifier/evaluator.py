"""The evaluator of ``buildingspec_json``: an answer is an extracted record, its score the field F1."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict

from pcsuite._util.hashing import digest
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, clean_text, conclude, truth_of
from pcsuite.evaluation.lenient import lenient_text, loose_object
from pcsuite.evaluation.parsing import parse_object
from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.mapping import load_mapping
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

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Compare the answer's record with the truth.

        Of a truncated answer nothing is taken: whatever object could be read in it is a part, not the record.
        """
        chosen = self.options.mapping if isinstance(self.options, BuildingSpecOptions) else None
        mapping = load_mapping(Path(chosen) if chosen else None)
        parsed = parse_object(clean_text(answer.text), self.schema)
        readable = parsed.json_valid and bool(parsed.fields) and answer.finish_reason != "length"
        record = parsed.fields if readable else {}
        truth = truth_of(item, "record")
        counts = compare_records(truth, record, mapping).counts
        lenient = None
        if not any(name in record for name in truth) and answer.finish_reason != "length":
            # Mended JSON, or a record inside another object: right in substance, wrong in form.
            loose = loose_object(lenient_text(answer.text), tuple(truth))
            if loose is not None:
                lenient = compare_records(truth, loose[0], mapping).counts.f1
                parsed.note_lenient("record", loose[1])
        if readable:
            parsed.answer = digest(compared_record(record, mapping))[:16]
        given_fields = counts.matches + counts.false_positives
        return conclude(
            parsed,
            answer,
            score=counts.f1,
            lenient=lenient,
            exact_match=counts.f1 == 1.0,
            unsupported_rate=counts.invented / given_fields if given_fields else 0.0,
            extra={
                "field_precision": counts.precision,
                "field_recall": counts.recall,
                **dict(zip(("tp", "fp", "fn"), map(int, counts.triple), strict=True)),
                **{ERROR_TYPES[name].metric: count for name, count in counts.errors_by_type().items()},
            },
        )

    def gold_answer(self, item: Item) -> str:
        return json.dumps(item.truth["record"], ensure_ascii=False, separators=(",", ":"))

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The truth with a tenth to six tenths of its values gone or changed, at least one.

        Of those about 40 % are missing and the others outside every tolerance; names stay, so that items still pair.
        """
        record = copy.deepcopy(item.truth["record"])
        scalars = _scalars(record)
        count = max(1, round(len(scalars) * rng.uniform(0.1, 0.6)))
        for index in rng.sample(range(len(scalars)), k=count):
            holder, key = scalars[index]
            holder[key] = None if rng.random() < 0.4 else _altered(holder[key])
        return json.dumps(_without_nulls(record), ensure_ascii=False, separators=(",", ":"))


def _scalars(value: Any) -> list[tuple[Any, Any]]:
    """Holder and key of every scalar of a record, except the names items are known by."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    scalars: list[tuple[Any, Any]] = []
    for key, child in entries:
        if isinstance(child, dict | list):
            scalars += _scalars(child)
        elif key != "name":
            scalars.append((value, key))
    return scalars


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
