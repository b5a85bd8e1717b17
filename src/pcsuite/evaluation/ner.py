"""Named entities as JSON, scored by span and type (CoNLL-2003)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.evaluation.base import (
    Answer,
    Evaluation,
    Evaluator,
    MetricValue,
    Pooling,
    conclude,
    fold,
    is_present,
    truth_of,
)
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.stats.f1 import f1_score

_FIELDS = ("text", "type", "start", "end")
_MOST_ENTITIES = 1_000


class NerOptions(Definition):
    """Options of the ``ner`` evaluator."""

    entities_field: str = "entities"
    """Field of the JSON answer that lists the entities."""
    types: tuple[str, ...] = ("PER", "ORG", "LOC", "MISC")
    """The entity types, used for wrong answers."""
    type_aliases: dict[str, str] = Field(default_factory=dict)
    """Other spellings of a type, such as ``PERSON: PER``."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A predicted entity; ``start`` is ``None`` where its text could not be placed in the input."""

    text: str
    type: str
    start: int | None
    end: int | None


class NerEvaluator(Evaluator):
    """Entity F1 of the row; the corpus figure is micro-F1 from the pooled ``tp``, ``fp`` and ``fn``."""

    Options: ClassVar[type[BaseModel]] = NerOptions
    pooling: ClassVar[Pooling] = "micro_f1"
    options: NerOptions

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer; without a readable entity list every gold entity is missed.

        An entity is right where its span and type are; listed twice, it is once a false positive. ``unsupported_rate``
        is the share of listed entities whose text does not occur in the input, whatever its case.
        """
        parsed = parse_object(clean_text(answer.text), self.schema)
        gold = {(entity["start"], entity["end"], entity["type"]) for entity in truth_of(item, "entities")}
        listed = parsed.fields.get(self.options.entities_field)
        if not isinstance(listed, list) or answer.finish_reason == "length":
            if parsed.json_valid and not isinstance(listed, list):
                parsed.parse_errors.append(f"no list '{self.options.entities_field}'")
            counts: dict[str, MetricValue] = {"tp": 0, "fp": 0, "fn": len(gold), "field_completeness": 0.0}
            return conclude(parsed, answer, score=0.0, exact_match=False, extra=counts)
        mentions = self.place(listed, item)
        spans = {(mention.start, mention.end, mention.type) for mention in mentions}
        tp = len(spans & gold)
        fp, fn = len(listed) - tp, len(gold) - tp
        # The set of entities in one spelling, for voting and entropy.
        parts = {
            f"{mention.type}@{mention.start}-{mention.end}"
            if mention.start is not None
            else f"{mention.type}?{fold(mention.text)}"
            for mention in mentions
        }
        parsed.answer = ";".join(sorted(parts)) or "no entities"
        source = fold(item.input_text)
        unplaced = [fold(mention.text) for mention in mentions if mention.start is None]
        unsupported = sum(not text or text not in source for text in unplaced)
        filled = sum(
            is_present(entity.get(name)) for entity in listed if isinstance(entity, dict) for name in _FIELDS
        )
        completeness = filled / (len(listed) * len(_FIELDS)) if listed else 1.0
        extra = {"tp": tp, "fp": fp, "fn": fn, "unsupported": unsupported, "field_completeness": completeness}
        return conclude(
            parsed,
            answer,
            score=f1_score(tp, fp, fn, empty=1.0),
            exact_match=fp == fn == 0,
            unsupported_rate=unsupported / len(listed) if listed else 0.0,
            extra=extra,
        )

    def place(self, listed: Sequence[object], item: Item) -> list[Mention]:
        """Find each listed entity in the input.

        By its offsets if they match its text, in characters or tokens, with exclusive or inclusive end;
        else at the first occurrence of its text that no other entity has taken, whole tokens first.
        """
        entities = [entity for entity in listed if isinstance(entity, dict)][:_MOST_ENTITIES]
        stated_spans = [_by_offsets(entity, item) for entity in entities]
        taken = {span for span in stated_spans if span is not None}
        mentions = []
        for entity, stated in zip(entities, stated_spans, strict=True):
            text, kind, span = entity.get("text"), entity.get("type"), stated
            if span is None and isinstance(text, str):
                span = _first_unused(text, item.input_text, taken)
                taken |= {span} if span else set()
            start, end = span or (None, None)
            name = kind.strip().upper()[:40] if isinstance(kind, str) else ""
            mentions.append(Mention(str(text)[:500], self.options.type_aliases.get(name, name), start, end))
        return mentions

    def gold_answer(self, item: Item) -> str:
        """The item's entities with their offsets."""
        return self._write([dict(entity) for entity in truth_of(item, "entities")])

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The gold entities with one dropped or retyped, at even odds.

        Where there are none, the first word of the input is called an entity.
        """
        entities = [dict(entity) for entity in truth_of(item, "entities")]
        if not entities:
            text = (item.input_text.split() or ["-"])[0]
            kind = rng.choice(self.options.types)
            return self._write([{"text": text, "type": kind, "start": 0, "end": len(text)}])
        index = rng.randrange(len(entities))
        chosen = entities.pop(index)
        if rng.random() >= 0.5:
            kind = rng.choice([name for name in self.options.types if name != chosen["type"]])
            entities.insert(index, {**chosen, "type": kind})
        return self._write(entities)

    def _write(self, entities: list[dict[str, Any]]) -> str:
        rows = [{name: entity[name] for name in _FIELDS} for entity in entities]
        return json.dumps({self.options.entities_field: rows}, ensure_ascii=False)


def _by_offsets(entity: Mapping[str, Any], item: Item) -> tuple[int, int] | None:
    text, start, end = entity.get("text"), _whole(entity.get("start")), _whole(entity.get("end"))
    if not isinstance(text, str) or not text or start is None or end is None or start < 0 or end < start:
        return None
    source = item.input_text
    if source.startswith(text, start) and end - start in (len(text), len(text) - 1):
        return start, start + len(text)
    tokens = item.truth.get("tokens") or source.split(" ")
    for stop in (end, end + 1):
        if stop <= len(tokens) and " ".join(tokens[start:stop]) == text:
            offset = sum(len(token) + 1 for token in tokens[:start])
            if source.startswith(text, offset):
                return offset, offset + len(text)
    return None


def _whole(value: object) -> int | None:
    """An offset as an integer; models also write it as a float or a text."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e9 else None
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first_unused(text: str, source: str, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
    """First occurrence of ``text`` not taken yet; one that starts and ends on token borders goes first."""
    text = text.strip()
    if not text:
        return None
    within_token = None
    start = source.find(text)
    while start >= 0:
        end = start + len(text)
        if (start, end) not in taken:
            # A border of a token is a blank or the end of the text.
            if not source[max(0, start - 1) : start].strip() and not source[end : end + 1].strip():
                return start, end
            within_token = within_token or (start, end)
        start = source.find(text, start + 1)
    return within_token
