"""Relations between entities as JSON, scored as triples of head, type and tail (CoNLL04, SciERC).

A relation is right where the texts of both ends and its type are; which occurrence of a text is meant plays no part,
since answers name texts and no offsets. The published scores of span models compare spans: on sentences that name no
entity twice the two are the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Parsed, fold, truth_of
from pcsuite.evaluation.claims import RETRACTION
from pcsuite.evaluation.lenient import lenient_text, loose_field, loose_lists
from pcsuite.evaluation.listed import Counts, ListEvaluator, confusion
from pcsuite.evaluation.markdown_lists import table_records, triples
from pcsuite.stats.f1 import f1_score

_HEAD_NAMES = ("head", "subject", "source", "from", "entity1", "arg1")
_TAIL_NAMES = ("tail", "object", "target", "to", "entity2", "arg2")
_TYPE_NAMES = ("type", "relation", "predicate", "label", "relation_type")
_MOST_RELATIONS = 500
_LONGEST = 300


class RelationOptions(Definition):
    """Options of the ``relations`` evaluator."""

    relations_field: str = "relations"
    """Field of the JSON answer that lists the relations."""
    types: tuple[str, ...] = ("Work_For", "Live_In", "OrgBased_In", "Located_In", "Kill")
    """The relation types, spelled as they must be."""
    symmetric: tuple[str, ...] = ()
    """Types whose two ends may change places."""
    lenient_types: dict[str, str] = Field(default_factory=dict)
    """Further names of a type that only ``lenient_score`` accepts; case, blanks and underscores never count there."""


class Triple(NamedTuple):
    """A relation as it is compared."""

    head: str
    type: str
    tail: str


class RelationEvaluator(ListEvaluator):
    """Relation F1: a relation is right where both ends and its type are."""

    Options: ClassVar[type[BaseModel]] = RelationOptions
    options: RelationOptions
    noun: ClassVar[str] = "relations"
    entry_fields: ClassVar[tuple[str, ...]] = ("head", "type", "tail")
    most_entries: ClassVar[int | None] = _MOST_RELATIONS

    @property
    def list_field(self) -> str:
        return self.options.relations_field

    def gold_keys(self, item: Item) -> set[Any]:
        return {self._triple(row) for row in truth_of(item, "relations")}

    def read_entries(self, listed: Sequence[object], item: Item) -> list[Triple]:
        rows = [row for row in listed if isinstance(row, dict)][:_MOST_RELATIONS]
        return [self._triple(row) for row in rows]

    def entry_key(self, entry: Triple) -> Triple:
        return entry

    def spelled(self, entry: Triple) -> str:
        return " | ".join(entry)

    def unsupported_entries(self, entries: Sequence[Triple], item: Item) -> int:
        """How many have an end that does not occur in the input."""
        source = f" {fold(item.input_text)} "
        ends = ((fold(triple.head), fold(triple.tail)) for triple in entries)
        return sum(not all(end and end in source for end in pair) for pair in ends)

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The gold relations with one dropped, turned round or retyped; an invented one where there are none."""
        rows = [dict(row) for row in truth_of(item, "relations")]
        if not rows:
            words = item.input_text.split() or ["-"]
            kind = rng.choice(self.options.types)
            return self.written([{"head": words[0], "type": kind, "tail": words[-1]}])
        chosen = rows.pop(rng.randrange(len(rows)))
        others = [name for name in self.options.types if name != chosen["type"]]
        if rng.random() >= 0.5 and others:
            rows.append({**chosen, "type": rng.choice(others)})
        return self.written(rows)

    def _triple(self, row: dict[str, Any], *, any_case: bool = False) -> Triple:
        """A listed relation as it is compared: blanks squeezed, the ends of a symmetric type in one order."""
        head, kind, tail = (
            " ".join(str(row.get(name) or "").split())[:_LONGEST] for name in self.entry_fields
        )
        if any_case:
            head, tail = fold(head), fold(tail)
        if kind in self.options.symmetric and tail < head:
            head, tail = tail, head
        return Triple(head, kind, tail)

    def lenient_counts(
        self, text: str, listed: list[Any] | None, item: Item, strict: Counts, parsed: Parsed
    ) -> Counts | None:
        """Counts with other keys and type names, whatever the case of the ends, and from broken JSON."""
        rule = "another spelling"
        if listed is None:
            # A list of relations in broken JSON, or a bare one.
            names = (self.options.relations_field, "triples", "relation_list")
            candidates = loose_lists(text, names, _HEAD_NAMES, 3)
            listed, rule = next(
                ((inner, way) for inner, _, way in candidates if isinstance(inner, list)), (None, "")
            )
            if listed is None and "{" not in text and not any(cue[1] for cue in RETRACTION.finditer(text)):
                visible = lenient_text(text)
                records = [record for record in table_records(visible) if loose_field(record, _HEAD_NAMES)]
                listed, rule = (records, "a table") if records else (triples(visible), "a list of lines")
            if listed is None:
                return None
        gold = self.gold_keys(item)
        folded_gold = {self._triple(triple._asdict(), any_case=True) for triple in gold}
        rows = [self._tidied(row) for row in listed[:_MOST_RELATIONS]]
        kinder = confusion((self._triple(row, any_case=True) for row in rows), len(listed), folded_gold)
        before = 0.0
        if parsed.fields.get(self.options.relations_field) is not None:
            as_written = (self._triple(row) for row in listed if isinstance(row, dict))
            before = f1_score(*confusion(as_written, len(listed), gold), empty=1.0)
        if f1_score(*kinder, empty=1.0) <= before:
            return None
        parsed.note_lenient("relations", rule)
        return kinder

    def _tidied(self, row: object) -> dict[str, Any]:
        """A listed relation under its proper keys and type; ``["Rex", "Work_For", "Acme"]`` is one too."""
        if isinstance(row, list) and len(row) == 3:
            row = dict(zip(self.entry_fields, row, strict=True))
        if not isinstance(row, dict):
            return {}
        kind = loose_field(row, _TYPE_NAMES)
        known = {_bare(name): name for name in self.options.types}
        known |= {_bare(name): canonical for name, canonical in self.options.lenient_types.items()}
        return {
            "head": _text(loose_field(row, _HEAD_NAMES)),
            "type": known.get(_bare(str(kind)), str(kind)),
            "tail": _text(loose_field(row, _TAIL_NAMES)),
        }


def _text(value: object) -> str:
    """An end of a relation as text; ``{"text": "Rex", "type": "PER"}`` is one too."""
    if isinstance(value, dict):
        value = loose_field(value, ("text", "name", "entity"))
    return value if isinstance(value, str) else ""


def _bare(name: str) -> str:
    """``OrgBased_In``, ``org based in`` and ``ORG-BASED-IN`` as one."""
    return re.sub(r"[\W_]+", "", name).casefold()
