"""``key_fields.csv``: how much each field of a structured answer varies over replicates.

A record may agree on its label and differ in every rationale; one figure for the whole answer cannot tell. Fields are
the top level of the answer as it was read. A list is compared as a set: the order in which a model names entities is no
variation.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, USABLE_CLEAN
from pcsuite.analysis.table import CELL, Column, Table, TableSpec, interval, mean_columns, number
from pcsuite.stats.answer_variation import answer_counts, disagreement

FIELD_ITEMS = 300
"""Items of a cell whose fields are compared, chosen by hash where there are more."""
_KINDS: dict[type, str] = {bool: "truth value", int: "number", float: "number", list: "list", dict: "record"}
MOST_FIELDS = 30
"""Fields of a task that are told apart, the most frequent first: a model may invent any number of them."""
KEY_FIELDS = TableSpec(
    "key_fields",
    "Variation over replicates, field by field",
    "field of the answers of a cell with replicates",
    (
        *CELL,
        Column("field", "name of the field, at the top level of the answer"),
        Column("kind", "what it mostly holds: number, truth value, text, list or record"),
        Column("n_items", "items of which at least two replicates fill it", late=True),
        Column("filled", "share of the answers without error that fill it"),
        *interval("disagreement", "chance that two replicates that fill it differ in it (lists compared as sets)"),
        Column("variance", "of numbers: mean variance over replicates within an item"),
    ),
    note="A field that is filled in some replicates only is compared among those.",
    folded=True,
)  # fmt: skip


def key_fields(tables: RunTables, scores: ItemScores) -> Table:
    """One record for each field and clean cell with replicates, on up to ``FIELD_ITEMS`` items of the cell."""
    repeated = [key for key in scores.cell_keys() if scores.cells[key].replicates > 1]
    cells: dict[CellKey, dict[str, list[Mapping[str, Any]]]] = {
        key: defaultdict(list) for key in repeated
    }  # in the order of the scores
    names: dict[str, Counter[str]] = defaultdict(Counter)
    rows = tables.query(
        f"SELECT {CELL_KEY}, item_id, fields FROM (SELECT {CELL_KEY}, item_id, fields, dense_rank() OVER (PARTITION BY"
        f" task_id ORDER BY md5(item_id)) AS item_rank FROM runs WHERE {USABLE_CLEAN}) WHERE item_rank <= {FIELD_ITEMS}"
    )
    for *cell, item, text in rows:
        key, answer = CellKey(*cell), msgspec.json.decode(text) if text else {}
        fields = answer if isinstance(answer, dict) else {}
        if key in cells:
            cells[key][item].append(fields)
            names[key.task].update(fields.keys())
    records = []
    for key, items in cells.items():
        for field, _ in names[key.task].most_common(MOST_FIELDS):
            record = _varied(key, field, items)
            if record is not None:
                records.append({**key.names(), "field": field, **record})
    return Table.of(KEY_FIELDS, records)


def _varied(key: CellKey, field: str, items: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, Any] | None:
    """How one field varies over the replicates of each item; ``None`` where no answer of the cell fills it."""
    by_item = {
        item: [answer[field] for answer in answers if answer.get(field) not in (None, "")]
        for item, answers in items.items()
    }
    values = [value for replicates in by_item.values() for value in replicates]
    if not values:
        return None
    record: dict[str, Any] = {
        "kind": Counter(map(_kind, values)).most_common(1)[0][0],
        "filled": len(values) / sum(len(answers) for answers in items.values()),
    }
    several = [replicates for replicates in by_item.values() if len(replicates) > 1]
    record["n_items"] = len(several)
    if len(several) > 1:
        varied = disagreement(answer_counts([list(map(_canonical, replicates)) for replicates in several]))
        record |= mean_columns("disagreement", varied, named_rng("key fields", *key, field))
        # A variance over numbers and words would be of neither.
        numbers = [replicates for replicates in several if set(map(_kind, replicates)) == {"number"}]
        if record["kind"] == "number" and numbers:
            record["variance"] = number(np.mean([np.var(replicates, ddof=1) for replicates in numbers]))
    return record


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "text")


def _canonical(value: object) -> str:
    """A value as text that is equal where the values are: blanks and case of texts aside, lists as sets."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if type(value) is float and math.isfinite(value):
        return repr(value)  # as json.dumps writes it, in a quarter of the time
    if isinstance(value, list):
        return json.dumps(sorted(_canonical(entry) for entry in value))
    if isinstance(value, dict):
        return json.dumps({name: _canonical(entry) for name, entry in value.items()}, sort_keys=True)
    return json.dumps(float(value) if _kind(value) == "number" else value)  # type: ignore[arg-type]
