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
from pcsuite.errors import DataError
from pcsuite.evaluation.base import (
    Answer,
    Evaluation,
    Evaluator,
    MetricValue,
    Parsed,
    Pooling,
    clean_text,
    conclude,
    fold,
    is_present,
    truth_of,
)
from pcsuite.evaluation.lenient import loose_field, loose_lists
from pcsuite.evaluation.parsing import parse_object
from pcsuite.stats.f1 import f1_score, precision_recall_f1

_FIELDS = ("text", "type", "start", "end")
_TEXT_NAMES = ("text", "entity", "name", "value", "mention", "word", "span")
_TYPE_NAMES = ("type", "label", "entity_type", "category", "tag", "class")
_LENIENT_TYPES = {
    "PERSON": "PER", "PEOPLE": "PER", "B-PER": "PER",
    "ORGANIZATION": "ORG", "ORGANISATION": "ORG", "COMPANY": "ORG", "B-ORG": "ORG",
    "LOCATION": "LOC", "GPE": "LOC", "PLACE": "LOC", "CITY": "LOC", "COUNTRY": "LOC", "B-LOC": "LOC",
    "MISCELLANEOUS": "MISC", "OTHER": "MISC", "NORP": "MISC", "EVENT": "MISC", "B-MISC": "MISC",
}  # fmt: skip
_MOST_ENTITIES = 1_000


class NerOptions(Definition):
    """Options of the ``ner`` evaluator."""

    entities_field: str = "entities"
    """Field of the JSON answer that lists the entities."""
    types: tuple[str, ...] = ("PER", "ORG", "LOC", "MISC")
    """The entity types, used for wrong answers."""
    type_aliases: dict[str, str] = Field(default_factory=dict)
    """Other spellings of a type, such as ``PERSON: PER``."""
    lenient_types: dict[str, str] = Field(default_factory=lambda: dict(_LENIENT_TYPES))
    """Further names of a type that only ``lenient_score`` accepts; by default those of other tag sets."""


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
        parsed = parse_object(clean_text(answer.text), self.schema, (self.options.entities_field,))
        gold = {(entity["start"], entity["end"], entity["type"]) for entity in truth_of(item, "entities")}
        listed = parsed.fields.get(self.options.entities_field)
        truncated = answer.finish_reason == "length"
        if not isinstance(listed, list) or truncated:
            if parsed.json_valid and not isinstance(listed, list):
                parsed.parse_errors.append(f"no list '{self.options.entities_field}'")
            counts = (0, 0, len(gold))
            kinder = (
                counts if truncated else self._lenient_counts(answer.text, None, item, gold, counts, parsed)
            )
            extra: dict[str, MetricValue] = _named_counts(counts, kinder) | {"field_completeness": 0.0}
            # Nothing read where nothing was to be found is no right answer, strictly or leniently.
            lenient = f1_score(*kinder, empty=1.0) if kinder is not counts else 0.0
            return conclude(parsed, answer, score=0.0, lenient=lenient, exact_match=False, extra=extra)
        mentions = self.place(listed, item)
        counts = _counts(mentions, len(listed), gold)
        kinder = counts
        if counts[1] or counts[2]:
            kinder = self._lenient_counts(answer.text, listed, item, gold, counts, parsed)
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
        return conclude(
            parsed,
            answer,
            score=f1_score(*counts, empty=1.0),
            lenient=f1_score(*kinder, empty=1.0),
            exact_match=counts[1] == counts[2] == 0,
            unsupported_rate=unsupported / len(listed) if listed else 0.0,
            extra=_named_counts(counts, kinder)
            | {"unsupported": unsupported, "field_completeness": completeness},
        )

    def _lenient_counts(
        self,
        text: str,
        listed: list[Any] | None,
        item: Item,
        gold: set[tuple[int, int, str]],
        strict: tuple[int, int, int],
        parsed: Parsed,
    ) -> tuple[int, int, int]:
        """Counts under the lenient rules, where they are kinder than the strict ones; the very same ones elsewhere."""
        rule = "another spelling"
        if listed is None:
            found = self._loose_entities(text)
            if found is None:
                return strict
            listed, rule = found
        elif not any(self._is_unusual(entity, item) for entity in listed):
            return strict
        entities = [self._tidied(entity) for entity in listed]
        kinder = _counts(self.place(entities, item, any_case=True), len(entities), gold)
        unread = parsed.answer is None and not parsed.fields.get(self.options.entities_field)
        if f1_score(*kinder, empty=1.0) <= f1_score(*strict, empty=0.0 if unread else 1.0):
            return strict
        parsed.note_lenient("entities", rule)
        return kinder

    def _is_unusual(self, entity: object, item: Item) -> bool:
        """Whether a listed entity is one that the lenient rules may read otherwise."""
        if not isinstance(entity, dict):
            return True
        kind, text = entity.get("type"), entity.get("text")
        known = isinstance(kind, str) and kind.strip().upper() in self.options.types
        return not (known and isinstance(text, str) and text.strip() in item.input_text)

    def _tidied(self, entity: object) -> object:
        """A listed entity under its proper keys and type names; ``["Rex", "PER"]`` and ``{"PER": "Rex"}`` are some."""
        if isinstance(entity, list) and len(entity) == 2:
            entity = dict(zip(("text", "type"), entity, strict=True))
        if not isinstance(entity, dict):
            return entity
        if len(entity) == 1:
            (key, value), types = (
                next(iter(entity.items())),
                {*self.options.types, *self.options.lenient_types},
            )
            if str(key).strip().upper() in types:
                entity = {"text": value, "type": key}
        kind = loose_field(entity, _TYPE_NAMES)
        name = kind.strip().upper() if isinstance(kind, str) else ""
        return {
            "text": loose_field(entity, _TEXT_NAMES),
            "type": self.options.lenient_types.get(name, name),
            "start": loose_field(entity, ("start", "start_offset", "begin")),
            "end": loose_field(entity, ("end", "end_offset", "stop")),
        }

    def _loose_entities(self, text: str) -> tuple[list[Any], str] | None:
        """A list of entities in broken JSON, in a bare list, or by type (``{"PER": ["Rex"]}``), and the rule."""
        types = {*self.options.types, *self.options.lenient_types}
        names = (self.options.entities_field, "named_entities", "ner")
        for inner, record, way in loose_lists(text, names, _TEXT_NAMES):
            if isinstance(inner, list):
                return inner, way
            by_type = inner if isinstance(inner, dict) else record
            if by_type and all(str(key).strip().upper() in types for key in by_type):
                pairs = [
                    {"text": entry, "type": key}
                    for key, entries in by_type.items()
                    for entry in (entries if isinstance(entries, list) else [entries])
                    if isinstance(entry, str)
                ]
                return pairs, "entities by type"
        return None

    def place(self, listed: Sequence[object], item: Item, *, any_case: bool = False) -> list[Mention]:
        """Find each listed entity in the input, in the order listed.

        By its offsets if they match its text, in characters or tokens, with exclusive or inclusive end; else at the
        first occurrence of its text that overlaps no other entity, whole tokens first. Longer texts choose first:
        "Santa Fe" must not land inside "Santa Fe Pacific". ``any_case`` finds texts whatever their case.
        """
        entities = [entity for entity in listed if isinstance(entity, dict)][:_MOST_ENTITIES]
        spans = [_by_offsets(entity, item) for entity in entities]
        source = item.input_text
        if any_case and len(source.lower()) == len(source):
            source = source.lower()
        if None in spans:
            taken = [span for span in spans if span is not None]
            texts = [
                str(entity.get("text")) if span is None else ""
                for entity, span in zip(entities, spans, strict=True)
            ]
            for index in sorted(range(len(texts)), key=lambda at: -len(texts[at])):
                if spans[index] is None and isinstance(entities[index].get("text"), str):
                    wanted = texts[index].lower() if source is not item.input_text else texts[index]
                    found = _first_unused(wanted, source, taken)
                    if found is not None:
                        spans[index] = found
                        taken.append(found)
        mentions = []
        for entity, span in zip(entities, spans, strict=True):
            text, kind = entity.get("text"), entity.get("type")
            start, end = span or (None, None)
            name = kind.strip().upper()[:40] if isinstance(kind, str) else ""
            mentions.append(Mention(str(text)[:500], self.options.type_aliases.get(name, name), start, end))
        return mentions

    def check(self, item: Item) -> None:
        """See that every gold entity stands at its offsets: at other ones no answer could find it."""
        for entity in truth_of(item, "entities"):
            missing = [key for key in _FIELDS if key not in entity]
            if missing:
                raise DataError(f"item '{item.item_id}': an entity of the truth has no '{missing[0]}'")
            found = item.input_text[entity["start"] : entity["end"]]
            if found != entity["text"]:
                raise DataError(
                    f"item '{item.item_id}': the truth's entity {entity['text']!r} should stand at {entity['start']} to"
                    f" {entity['end']}, and the input has {found!r} there",
                    hint="offsets count characters, and the end comes after the last one",
                )

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


def _counts(
    mentions: Sequence[Mention], listed: int, gold: set[tuple[int, int, str]]
) -> tuple[int, int, int]:
    """True positives, false positives and false negatives; whatever was listed and is not right is a false positive."""
    tp = len({(mention.start, mention.end, mention.type) for mention in mentions} & gold)
    return tp, listed - tp, len(gold) - tp


def _named_counts(strict: tuple[int, int, int], lenient: tuple[int, int, int]) -> dict[str, MetricValue]:
    """Both sets of counts as they are logged: a corpus figure pools them."""
    names = ("tp", "fp", "fn", "lenient_tp", "lenient_fp", "lenient_fn")
    shares = precision_recall_f1(*strict, empty=1.0)
    counts = dict(zip(names, (*strict, *lenient), strict=True))
    return {**counts, "precision": shares.precision, "recall": shares.recall}


def _by_offsets(entity: Mapping[str, Any], item: Item) -> tuple[int, int] | None:
    text, start, end = entity.get("text"), _whole(entity.get("start")), _whole(entity.get("end"))
    if not isinstance(text, str) or not text or start is None or end is None or start < 0 or end < start:
        return None
    source, bare, width = item.input_text, text.strip(), end - start
    if bare == text:
        if source.startswith(text, start) and width in (len(text), len(text) - 1):
            return start, start + len(text)
    elif bare:
        # Blanks around a text are no part of it, and its offsets may count them or not.
        for at in (start, start + len(text) - len(text.lstrip())):
            if source.startswith(bare, at) and width in (len(text), len(text) - 1, len(bare), len(bare) - 1):
                return at, at + len(bare)
    else:
        return None
    text = bare
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


def _first_unused(text: str, source: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """First occurrence of ``text`` that overlaps nothing taken; one that fills whole tokens goes first."""
    text = text.strip()
    if not text:
        return None
    within_token = None
    start = source.find(text)
    while start >= 0:
        end = start + len(text)
        if all(end <= other[0] or start >= other[1] for other in taken):
            # A border of a token is a blank or the end of the text.
            if not source[max(0, start - 1) : start].strip() and not source[end : end + 1].strip():
                return start, end
            within_token = within_token or (start, end)
        start = source.find(text, start + 1)
    return within_token
