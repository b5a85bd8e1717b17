"""Relations between entities as JSON, scored as triples of head, type and tail (CoNLL04, SciERC).

A relation is right where the texts of both ends and its type are; which occurrence of a text is meant plays no part,
since answers name texts and no offsets. The published scores of span models compare spans: on sentences that name no
entity twice the two are the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
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
from pcsuite.stats.f1 import f1_score

_FIELDS = ("head", "type", "tail")
_HEAD_NAMES = ("head", "subject", "source", "from", "entity1", "arg1")
_TAIL_NAMES = ("tail", "object", "target", "to", "entity2", "arg2")
_TYPE_NAMES = ("type", "relation", "predicate", "label", "relation_type")
_MOST_RELATIONS = 500
_LONGEST = 300
Counts = tuple[int, int, int]


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


class RelationEvaluator(Evaluator):
    """Relation F1 of the row; the corpus figure is micro-F1 from the pooled ``tp``, ``fp`` and ``fn``."""

    Options: ClassVar[type[BaseModel]] = RelationOptions
    pooling: ClassVar[Pooling] = "micro_f1"
    options: RelationOptions

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score one answer; without a readable list every gold relation is missed.

        A relation listed twice is once a false positive. ``unsupported_rate`` is the share of listed relations one of
        whose ends does not occur in the input, whatever its case.
        """
        parsed = parse_object(clean_text(answer.text), self.schema, (self.options.relations_field,))
        gold = {self._triple(row) for row in truth_of(item, "relations")}
        listed = parsed.fields.get(self.options.relations_field)
        truncated = answer.finish_reason == "length"
        if not isinstance(listed, list) or truncated:
            if parsed.json_valid and not isinstance(listed, list):
                parsed.parse_errors.append(f"no list '{self.options.relations_field}'")
            counts = (0, 0, len(gold))
            kinder = None if truncated else self._lenient_counts(answer.text, None, gold, parsed)
            extra = _named(counts, kinder or counts) | {"field_completeness": 0.0}
            # Nothing read where nothing was to be found is no right answer, strictly or leniently.
            lenient = f1_score(*kinder, empty=1.0) if kinder is not None else 0.0
            return conclude(parsed, answer, score=0.0, lenient=lenient, exact_match=False, extra=extra)
        rows = [row for row in listed if isinstance(row, dict)][:_MOST_RELATIONS]
        triples = [self._triple(row) for row in rows]
        counts = _counts(triples, len(listed), gold)
        kinder = self._lenient_counts(answer.text, listed, gold, parsed) if counts[1] or counts[2] else None
        parsed.answer = "; ".join(sorted(" | ".join(triple) for triple in set(triples))) or "no relations"
        source = f" {fold(item.input_text)} "
        unsupported = sum(
            not all(fold(end) and fold(end) in source for end in (triple.head, triple.tail))
            for triple in triples
        )
        filled = sum(is_present(row.get(name)) for row in rows for name in _FIELDS)
        score = f1_score(*counts, empty=1.0)
        return conclude(
            parsed,
            answer,
            score=score,
            lenient=max(score, f1_score(*kinder, empty=1.0)) if kinder is not None else score,
            exact_match=counts[1] == counts[2] == 0,
            unsupported_rate=unsupported / len(listed) if listed else 0.0,
            extra=_named(counts, kinder or counts)
            | {
                "unsupported": unsupported,
                "field_completeness": filled / (len(listed) * len(_FIELDS)) if listed else 1.0,
            },
        )

    def gold_answer(self, item: Item) -> str:
        """The item's relations."""
        return self._write([dict(row) for row in truth_of(item, "relations")])

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """The gold relations with one dropped, turned round or retyped; an invented one where there are none."""
        rows = [dict(row) for row in truth_of(item, "relations")]
        if not rows:
            words = item.input_text.split() or ["-"]
            kind = rng.choice(self.options.types)
            return self._write([{"head": words[0], "type": kind, "tail": words[-1]}])
        chosen = rows.pop(rng.randrange(len(rows)))
        others = [name for name in self.options.types if name != chosen["type"]]
        if rng.random() >= 0.5 and others:
            rows.append({**chosen, "type": rng.choice(others)})
        return self._write(rows)

    def _triple(self, row: dict[str, Any], *, any_case: bool = False) -> Triple:
        """A listed relation as it is compared: blanks squeezed, the ends of a symmetric type in one order."""
        head, kind, tail = (" ".join(str(row.get(name) or "").split())[:_LONGEST] for name in _FIELDS)
        if any_case:
            head, tail = fold(head), fold(tail)
        if kind in self.options.symmetric and tail < head:
            head, tail = tail, head
        return Triple(head, kind, tail)

    def _lenient_counts(
        self, text: str, listed: list[Any] | None, gold: set[Triple], parsed: Parsed
    ) -> Counts | None:
        """Counts under the lenient rules, where they are kinder than the strict ones; else ``None``."""
        rule = "another spelling"
        if listed is None:
            # A list of relations in broken JSON, or a bare one.
            names = (self.options.relations_field, "triples", "relation_list")
            found = loose_lists(text, names, _HEAD_NAMES)
            listed, rule = next(
                ((inner, way) for inner, _, way in found if isinstance(inner, list)), (None, "")
            )
            if listed is None:
                return None
        rows = [self._tidied(row) for row in listed][:_MOST_RELATIONS]
        wanted = {self._triple(triple._asdict(), any_case=True) for triple in gold}
        kinder = _counts([self._triple(row, any_case=True) for row in rows], len(listed), wanted)
        strict = [self._triple(row) for row in listed if isinstance(row, dict)]
        unread = parsed.fields.get(self.options.relations_field) is None
        before = 0.0 if unread else f1_score(*_counts(strict, len(listed), gold), empty=1.0)
        if f1_score(*kinder, empty=1.0) <= before:
            return None
        parsed.note_lenient("relations", rule)
        return kinder

    def _tidied(self, row: object) -> dict[str, Any]:
        """A listed relation under its proper keys and type; ``["Rex", "Work_For", "Acme"]`` is one too."""
        if isinstance(row, list) and len(row) == 3:
            row = dict(zip(_FIELDS, row, strict=True))
        if not isinstance(row, dict):
            return {}
        kind = loose_field(row, _TYPE_NAMES)
        known = {_bare(name): name for name in self.options.types}
        known |= {_bare(name): meant for name, meant in self.options.lenient_types.items()}
        return {
            "head": _text(loose_field(row, _HEAD_NAMES)),
            "type": known.get(_bare(str(kind)), str(kind)),
            "tail": _text(loose_field(row, _TAIL_NAMES)),
        }

    def _write(self, rows: Sequence[dict[str, Any]]) -> str:
        kept = [{name: row[name] for name in _FIELDS} for row in rows]
        return json.dumps({self.options.relations_field: kept}, ensure_ascii=False)


def _counts(triples: Sequence[Triple], listed: int, gold: set[Triple]) -> Counts:
    """True positives, false positives and false negatives; whatever was listed and is not right is a false positive."""
    tp = sum(1 for triple in Counter(triples) if triple in gold)
    return tp, listed - tp, len(gold) - tp


def _named(strict: Counts, lenient: Counts) -> dict[str, MetricValue]:
    names = ("tp", "fp", "fn", "lenient_tp", "lenient_fp", "lenient_fn")
    return dict(zip(names, (*strict, *lenient), strict=True))


def _text(value: object) -> str:
    """An end of a relation as text; ``{"text": "Rex", "type": "PER"}`` is one too."""
    if isinstance(value, dict):
        value = loose_field(value, ("text", "name", "entity"))
    return value if isinstance(value, str) else ""


def _bare(name: str) -> str:
    """``OrgBased_In``, ``org based in`` and ``ORG-BASED-IN`` as one."""
    return re.sub(r"[\W_]+", "", name).casefold()
