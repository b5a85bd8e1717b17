"""Named entities as JSON, scored by span and type (CoNLL-2003)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation.base import MetricValue, Parsed, fold, truth_of
from pcsuite.evaluation.claims import RETRACTION
from pcsuite.evaluation.lenient import lenient_text, loose_field, loose_lists
from pcsuite.evaluation.listed import Counts, ListEvaluator, confusion, counts_by_name
from pcsuite.evaluation.markdown_lists import table_records, typed_entries
from pcsuite.stats.f1 import f1_score, precision_recall_f1

_TEXT_NAMES = ("text", "entity", "name", "value", "mention", "word", "span", "named_entity", "entity_text")
_TYPE_NAMES = ("type", "label", "entity_type", "category", "tag", "class")
_LENIENT_TYPES = {
    "PERSON": "PER", "PEOPLE": "PER", "B-PER": "PER", "INDIVIDUAL": "PER",
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


class NerEvaluator(ListEvaluator):
    """Entity F1: an entity is right where its span and type are."""

    Options: ClassVar[type[BaseModel]] = NerOptions
    options: NerOptions
    noun: ClassVar[str] = "entities"
    entry_fields: ClassVar[tuple[str, ...]] = ("text", "type", "start", "end")
    separator: ClassVar[str] = ";"

    @property
    def list_field(self) -> str:
        return self.options.entities_field

    def gold_keys(self, item: Item) -> set[Any]:
        return {(entity["start"], entity["end"], entity["type"]) for entity in truth_of(item, "entities")}

    def read_entries(self, listed: Sequence[object], item: Item) -> list[Mention]:
        return self.place(listed, item)

    def entry_key(self, entry: Mention) -> tuple[int | None, int | None, str]:
        return entry.start, entry.end, entry.type

    def spelled(self, entry: Mention) -> str:
        if entry.start is None:
            return f"{entry.type}?{fold(entry.text)}"
        return f"{entry.type}@{entry.start}-{entry.end}"

    def unsupported_entries(self, entries: Sequence[Mention], item: Item) -> int:
        source = fold(item.input_text)
        unplaced = [fold(mention.text) for mention in entries if mention.start is None]
        return sum(not text or text not in source for text in unplaced)

    def count_metrics(self, strict: Counts, lenient: Counts) -> dict[str, MetricValue]:
        """The counts, and precision and recall of the strict ones."""
        shares = precision_recall_f1(*strict, empty=1.0)
        return {**counts_by_name(strict, lenient), "precision": shares.precision, "recall": shares.recall}

    def lenient_counts(
        self, text: str, listed: list[Any] | None, item: Item, strict: Counts, parsed: Parsed
    ) -> Counts | None:
        """Counts with other keys and type names, whatever the case of texts, and from broken JSON."""
        rule = "another spelling"
        if listed is None:
            loose = self._loose_entities(text)
            if loose is None:
                return None
            listed, rule = loose
        elif not any(self._is_unusual(entity, item) for entity in listed):
            return None
        entities = [self._tidied(entity) for entity in listed]
        mentions = self.place(entities, item, any_case=True)
        kinder = confusion(map(self.entry_key, mentions), len(entities), self.gold_keys(item))
        unread = not parsed.fields.get(self.options.entities_field)
        if f1_score(*kinder, empty=1.0) <= f1_score(*strict, empty=0.0 if unread else 1.0):
            return None
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
        for inner, record, way in loose_lists(text, names, _TEXT_NAMES, 2):
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
        if "{" in text or any(cue[1] for cue in RETRACTION.finditer(text)):
            return None
        visible = lenient_text(text)
        records = [record for record in table_records(visible) if loose_field(record, _TEXT_NAMES)]
        if records:
            return records, "a table"
        entries = typed_entries(visible, types)
        return None if entries is None else (entries, "a list of lines")

    def place(self, listed: Sequence[object], item: Item, *, any_case: bool = False) -> list[Mention]:
        """Find each listed entity in the input, in the order listed.

        By its offsets if they match its text, in characters or tokens, with exclusive or inclusive end; else at the
        first occurrence of its text that overlaps no other entity, whole tokens first. Longer texts choose first:
        "Santa Fe" must not land inside "Santa Fe Pacific". ``any_case`` finds texts whatever their case.
        """
        entities = [entity for entity in listed if isinstance(entity, dict)][:_MOST_ENTITIES]
        spans = [_by_offsets(entity, item) for entity in entities]
        source = item.input_text
        lowered = any_case and len(source.lower()) == len(source)
        if lowered:
            source = source.lower()
        taken = bytearray(len(source))
        for first, last in filter(None, spans):
            taken[first:last] = b"\x01" * (last - first)
        unplaced = [
            (index, entity["text"].lower() if lowered else entity["text"])
            for index, entity in enumerate(entities)
            if spans[index] is None and isinstance(entity.get("text"), str)
        ]
        for index, text in sorted(unplaced, key=lambda entry: -len(entities[entry[0]]["text"])):
            spans[index] = found = _first_unused(text, source, taken)
            if found is not None:
                taken[found[0] : found[1]] = b"\x01" * (found[1] - found[0])
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
            missing = [key for key in self.entry_fields if key not in entity]
            if missing:
                raise DataError(f"item '{item.item_id}': an entity of the truth has no '{missing[0]}'")
            text_there = item.input_text[entity["start"] : entity["end"]]
            if text_there != entity["text"]:
                raise DataError(
                    f"item '{item.item_id}': the truth's entity {entity['text']!r} should stand at {entity['start']} to"
                    f" {entity['end']}, and the input has {text_there!r} there",
                    hint="offsets count characters, and the end comes after the last one",
                )

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The gold entities with one dropped or retyped, at even odds.

        Where there are none, the first word of the input is called an entity.
        """
        entities = [dict(entity) for entity in truth_of(item, "entities")]
        if not entities:
            text = (item.input_text.split() or ["-"])[0]
            kind = rng.choice(self.options.types)
            return self.written([{"text": text, "type": kind, "start": 0, "end": len(text)}])
        index = rng.randrange(len(entities))
        chosen = entities.pop(index)
        if rng.random() >= 0.5:
            kind = rng.choice([name for name in self.options.types if name != chosen["type"]])
            entities.insert(index, {**chosen, "type": kind})
        return self.written(entities)


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


def _first_unused(text: str, source: str, taken: bytearray) -> tuple[int, int] | None:
    """First occurrence of ``text`` that overlaps nothing taken; one that fills whole tokens goes first.

    ``taken`` has a 1 for each character of the source that another entity has.
    """
    text = text.strip()
    if not text:
        return None
    within_token = None
    start = source.find(text)
    while start >= 0:
        end = start + len(text)
        if taken.find(1, start, end) < 0:
            # A border of a token is a blank or the end of the text.
            if not source[max(0, start - 1) : start].strip() and not source[end : end + 1].strip():
                return start, end
            within_token = within_token or (start, end)
        start = source.find(text, start + 1)
    return within_token
