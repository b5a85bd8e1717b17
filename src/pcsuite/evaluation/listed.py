"""Answers that list things (entities, relations): F1 of what is listed, strictly and leniently read."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pcsuite.data.items import Item
from pcsuite.evaluation import base
from pcsuite.evaluation.parsing import parse_object
from pcsuite.stats.f1 import f1_score

Counts = tuple[int, int, int]
"""True positives, false positives and false negatives."""


class ListEvaluator(base.Evaluator):
    """F1 of the entries a JSON answer lists; the corpus figure is micro-F1 from the pooled ``tp``, ``fp`` and ``fn``.

    Subclasses say what an entry is: how it is read, compared and spelled.
    """

    pooling: ClassVar[base.Pooling] = "micro_f1"
    noun: ClassVar[str]
    """What is listed, and the key of the truth that lists it."""
    entry_fields: ClassVar[tuple[str, ...]]
    """Fields of a complete entry."""
    most_entries: ClassVar[int | None] = None
    """Entries of which the fields are counted, at most."""
    separator: ClassVar[str] = "; "
    """What parts the entries of a canonical answer."""

    @property
    @abstractmethod
    def list_field(self) -> str:
        """Field of the answer that holds the list."""

    @abstractmethod
    def gold_keys(self, item: Item) -> set[Any]:
        """The truth's entries as they are compared."""

    @abstractmethod
    def read_entries(self, listed: Sequence[object], item: Item) -> list[Any]:
        """The entries of a list, those that are none left out."""

    @abstractmethod
    def entry_key(self, entry: Any) -> Any:
        """An entry as it is compared with the truth's."""

    @abstractmethod
    def spelled(self, entry: Any) -> str:
        """An entry in one spelling, for the canonical answer."""

    @abstractmethod
    def unsupported_entries(self, entries: Sequence[Any], item: Item) -> int:
        """How many entries name what does not occur in the input."""

    @abstractmethod
    def lenient_counts(
        self, text: str, listed: list[Any] | None, item: Item, strict: Counts, parsed: base.Parsed
    ) -> Counts | None:
        """Counts under the lenient rules where they are kinder than the strict ones, else ``None``.

        ``listed`` is ``None`` where no list was read. Notes the rule that was needed.
        """

    def count_metrics(self, strict: Counts, lenient: Counts) -> dict[str, base.MetricValue]:
        """The counts as they are logged; a corpus figure pools them."""
        return counts_by_name(strict, lenient)

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer; without a readable list every gold entry is missed.

        An entry listed twice is once a false positive. ``unsupported_rate`` is the share of listed entries that name
        what does not occur in the input, whatever its case.
        """
        parsed = parse_object(base.clean_text(answer.text), self.schema, (self.list_field,))
        gold = self.gold_keys(item)
        listed = parsed.fields.get(self.list_field)
        truncated = answer.finish_reason == "length"
        if not isinstance(listed, list) or truncated:
            if parsed.json_valid and not isinstance(listed, list):
                parsed.parse_errors.append(f"no list '{self.list_field}'")
            counts = (0, 0, len(gold))
            kinder = None
            if not truncated and parsed.reading != "ambiguous":
                kinder = self.lenient_counts(answer.text, None, item, counts, parsed)
            extra = self.count_metrics(counts, kinder or counts) | {"field_completeness": 0.0}
            # Nothing read where nothing was to be found is no right answer, strictly or leniently.
            lenient = f1_score(*kinder, empty=1.0) if kinder is not None else 0.0
            return base.conclude(parsed, answer, score=0.0, lenient=lenient, exact_match=False, extra=extra)
        entries = self.read_entries(listed, item)
        counts = confusion(map(self.entry_key, entries), len(listed), gold)
        kinder = None
        if counts[1] or counts[2]:
            kinder = self.lenient_counts(answer.text, listed, item, counts, parsed)
        parsed.answer = self.separator.join(sorted(set(map(self.spelled, entries)))) or f"no {self.noun}"
        unsupported = self.unsupported_entries(entries, item)
        records = [entry for entry in listed if isinstance(entry, dict)][: self.most_entries]
        filled = sum(base.is_present(record.get(name)) for record in records for name in self.entry_fields)
        completeness = filled / (len(listed) * len(self.entry_fields)) if listed else 1.0
        return base.conclude(
            parsed,
            answer,
            score=f1_score(*counts, empty=1.0),
            lenient=f1_score(*(kinder or counts), empty=1.0),
            exact_match=counts[1] == counts[2] == 0,
            unsupported_rate=unsupported / len(listed) if listed else 0.0,
            extra=self.count_metrics(counts, kinder or counts)
            | {"unsupported": unsupported, "field_completeness": completeness},
        )

    def gold_answer(self, item: Item) -> str:
        """The item's entries."""
        return self.written(base.truth_of(item, self.noun))

    def written(self, entries: Iterable[Mapping[str, Any]]) -> str:
        """A JSON answer that lists these entries."""
        rows = [{name: entry[name] for name in self.entry_fields} for entry in entries]
        return json.dumps({self.list_field: rows}, ensure_ascii=False)


def confusion(keys: Iterable[Any], listed: int, gold: Collection[Any]) -> Counts:
    """The counts of a list; whatever was ``listed`` and is not right is a false positive.

    >>> confusion(["Rex", "Rex", "Ada"], 3, {"Rex", "Bo"})
    (1, 2, 1)
    """
    tp = len(set(keys) & set(gold))
    return tp, listed - tp, len(gold) - tp


def counts_by_name(strict: Counts, lenient: Counts) -> dict[str, base.MetricValue]:
    """Both sets of counts under the names that rows log: a corpus figure pools them.

    >>> counts_by_name((1, 0, 2), (2, 0, 1))["lenient_fn"]
    1
    """
    names = ("tp", "fp", "fn", "lenient_tp", "lenient_fp", "lenient_fn")
    return dict(zip(names, (*strict, *lenient), strict=True))
