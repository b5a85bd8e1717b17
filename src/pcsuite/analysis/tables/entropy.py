"""``entropy_per_item.csv`` and ``entropy_by_condition.csv``: how much answers vary over replicates.

Only regimes with at least two replicates of an item have anything to say. Conditions are compared on the
unbiased disagreement, never on plug-in entropy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.embeddings import NO_EMBEDDER, Embedder, NoEmbedder
from pcsuite.analysis.load.item_scores import CLEAN, CellKey, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table, estimate_columns, number
from pcsuite.analysis.tables.embeddings import Meanings, semantic_meanings
from pcsuite.stats.answer_variation import disagreement, entropy, fact_disagreement, normalised_entropy
from pcsuite.stats.bootstrap import bootstrap_means, paired_bootstrap
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.permutation import adjust_within_families, sign_flip_test

CLOSED_UP_TO = 12
"""A task with at most this many distinct answers is taken for a choice among them."""
FACT_ITEMS = 300
"""Items of a cell whose free texts are compared fact by fact."""
FREE_TEXT_WORDS = 4
"""Answers of at least this many words on average are taken for free text."""
_KEY = "task_id, model_id, decoding_id, condition_id"


@dataclass(slots=True)
class AnswerCounts:
    """How often each answer was given, item by item, in one cell."""

    key: CellKey
    items: npt.NDArray[np.int64]
    counts: FloatArray
    categories: int | None
    """Number of answers the task allows, ``None`` for open answers."""
    facts: dict[str, float]
    """Disagreement on key facts of free texts, by item id."""


def answer_counts_by_cell(tables: RunTables, scores: ItemScores) -> list[AnswerCounts]:
    """Counts of distinct answers of clean rows; a missing answer is an answer of its own."""
    sizes = _answer_sizes(tables)
    facts = _fact_disagreements(tables, _free_text_tasks(sizes))
    keys = tables.query(f"SELECT DISTINCT {_KEY} FROM cell_rows WHERE {_usable()} ORDER BY {_KEY}")
    fetched = tables.columns(
        f"SELECT cell, item, n FROM (SELECT dense_rank() OVER (ORDER BY {_KEY}) AS cell, item_id, task_id,"
        " dense_rank() OVER (PARTITION BY task_id ORDER BY item_id) - 1 AS item, n FROM ("
        f" SELECT {_KEY}, item_id, answer, count(*) AS n FROM cell_rows WHERE {_usable()} GROUP BY ALL))"
        " ORDER BY cell, item, n DESC"
    )
    codes = _scored_item_codes(tables, scores)
    starts = np.searchsorted(fetched["cell"], np.arange(1, len(keys) + 2))
    found = []
    for place, (task, model, decoding, condition) in enumerate(keys):
        rows = slice(int(starts[place]), int(starts[place + 1]))
        items, counts = _matrix(fetched["item"][rows], fetched["n"][rows])
        repeated = counts.sum(axis=1) >= 2
        if not repeated.any():
            continue
        key = CellKey(task, model, decoding, CLEAN, condition)
        size = sizes[task][0]
        found.append(
            AnswerCounts(
                key,
                codes[task][items[repeated]],
                counts[repeated],
                size if 2 <= size <= CLOSED_UP_TO else None,
                facts.get(key, {}),
            )
        )
    order = {key: place for place, key in enumerate(scores.cells)}
    return sorted(found, key=lambda cell: order[cell.key])


def entropy_tables(
    tables: RunTables,
    scores: ItemScores,
    embedder: Embedder | NoEmbedder = NO_EMBEDDER,
    cells: Sequence[AnswerCounts] | None = None,
) -> tuple[Table, Table]:
    """The two tables; an ``embedder`` adds clusters of meaning for free text, ``cells`` saves counting again."""
    if cells is None:
        cells = answer_counts_by_cell(tables, scores)
    meanings = semantic_meanings(tables, scores, _free_text_tasks(_answer_sizes(tables)), embedder)
    per_item: list[tuple[Any, ...]] = []
    records = []
    values: dict[CellKey, tuple[npt.NDArray[np.int64], FloatArray]] = {}
    for cell in cells:
        nats = entropy(cell.counts)
        share = normalised_entropy(cell.counts, categories=cell.categories)
        differing = disagreement(cell.counts)
        values[cell.key] = (cell.items, differing)
        per_item += _item_rows(scores, cell, nats, share, differing, meanings)
        records.append(_cell_record(cell, nats, share, differing) | _meaning_columns(cell.key, meanings))
    _compare_with_baseline(scores, records, values)
    columns = (
        "task", "model", "decoding", "condition", "item_id", "replicates", "distinct_answers", "entropy_nats",
        "entropy_normalised", "disagreement", "fact_disagreement", "semantic_clusters", "semantic_entropy",
    )  # fmt: skip
    return (
        Table("entropy_per_item", columns, per_item),
        Table.of("entropy_by_condition", records, _BY_CONDITION),
    )


_BY_CONDITION = (
    "task", "model", "decoding", "condition", "n_items", "replicates", "answers", "entropy_nats",
    "entropy_nats_low", "entropy_nats_high", "entropy_normalised", "entropy_normalised_low",
    "entropy_normalised_high", "disagreement", "disagreement_low", "disagreement_high", "fact_disagreement",
    "semantic_entropy", "semantic_entropy_low", "semantic_entropy_high", "semantic_items", "semantic_note",
    "baseline", "delta", "delta_low", "delta_high", "p_value", "p_bh",
)  # fmt: skip


def _usable() -> str:
    return "kind = 'main' AND n_errors = 0 AND perturbation_type = 'none'"


def _answer_sizes(tables: RunTables) -> dict[str, tuple[int, float]]:
    """Of each task, how many distinct answers were given and how many words they have on average."""
    rows = tables.query(
        "SELECT task_id, count(DISTINCT answer) + max(CASE WHEN answer IS NULL THEN 1 ELSE 0 END),"
        " coalesce(avg(1 + len(answer) - len(replace(answer, ' ', ''))), 0)"
        f" FROM cell_rows WHERE {_usable()} GROUP BY task_id"
    )
    return {task: (int(distinct), float(words)) for task, distinct, words in rows}


def _free_text_tasks(sizes: dict[str, tuple[int, float]]) -> set[str]:
    return {task for task, (_, words) in sizes.items() if words >= FREE_TEXT_WORDS}


def _scored_item_codes(tables: RunTables, scores: ItemScores) -> dict[str, npt.NDArray[np.int64]]:
    """Translate item ranks among usable rows into the codes of :class:`ItemScores`."""
    codes = {}
    for task, ids in tables.query(
        f"SELECT task_id, list(DISTINCT item_id ORDER BY item_id) FROM cell_rows WHERE {_usable()} GROUP BY task_id"
    ):
        place = {name: code for code, name in enumerate(scores.item_names[task])}
        codes[task] = np.array([place[name] for name in ids], dtype=np.int64)
    return codes


def _matrix(items: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Rows of counts from a flat list sorted by item, padded with zeros."""
    distinct, first, sizes = np.unique(items, return_index=True, return_counts=True)
    counts = np.zeros((len(distinct), int(sizes.max())))
    column = np.arange(len(items)) - np.repeat(first, sizes)
    counts[np.repeat(np.arange(len(distinct)), sizes), column] = numbers
    return distinct.astype(np.int64), counts


def _fact_disagreements(tables: RunTables, tasks: set[str]) -> dict[CellKey, dict[str, float]]:
    found: dict[CellKey, dict[str, float]] = {}
    for task in sorted(tasks):
        rows = tables.query(
            f"SELECT {_KEY}, item_id, list(coalesce(answer, '') ORDER BY seed) FROM (SELECT *,"
            " dense_rank() OVER (ORDER BY md5(item_id)) AS place FROM cell_rows"
            f" WHERE {_usable()} AND task_id = ?) WHERE place <= {FACT_ITEMS} GROUP BY ALL HAVING count(*) > 1",
            [task],
        )
        for task_id, model, decoding, condition, item, answers in rows:
            cell = found.setdefault(CellKey(task_id, model, decoding, CLEAN, condition), {})
            cell[item] = fact_disagreement(answers)
    return found


def _item_rows(
    scores: ItemScores,
    cell: AnswerCounts,
    nats: FloatArray,
    share: FloatArray,
    differing: FloatArray,
    meanings: Meanings,
) -> Iterator[tuple[Any, ...]]:
    names = scores.item_names[cell.key.task]
    key = cell.key
    meant = meanings.cells.get(key, {})
    totals, distinct = cell.counts.sum(axis=1).astype(int), (cell.counts > 0).sum(axis=1)
    for place, item in enumerate(names[code] for code in cell.items.tolist()):
        meaning = meant.get(item)
        yield (
            key.task, key.model, key.decoding, key.condition, item, int(totals[place]),
            int(distinct[place]), number(nats[place]), number(share[place]), number(differing[place]),
            number(cell.facts.get(item)), meaning and meaning.clusters, meaning and number(meaning.entropy),
        )  # fmt: skip


def _cell_record(
    cell: AnswerCounts, nats: FloatArray, share: FloatArray, differing: FloatArray
) -> dict[str, Any]:
    key = cell.key
    table = np.column_stack([nats, share, differing])
    estimates = bootstrap_means(table, rng=named_rng("entropy", *key), resamples=LEVEL_RESAMPLES)
    record: dict[str, Any] = {
        "task": key.task,
        "model": key.model,
        "decoding": key.decoding,
        "condition": key.condition,
        "n_items": len(table),
        "replicates": float(cell.counts.sum(axis=1).mean()),
        "answers": "open" if cell.categories is None else f"{cell.categories} choices",
    }
    for name, estimate in zip(("entropy_nats", "entropy_normalised", "disagreement"), estimates, strict=True):
        record |= estimate_columns(name, estimate)
    record["fact_disagreement"] = number(np.mean(list(cell.facts.values()))) if cell.facts else None
    return record


def _meaning_columns(key: CellKey, meanings: Meanings) -> dict[str, Any]:
    columns: dict[str, Any] = {"semantic_note": meanings.note(key)}
    values = [meaning.entropy for meaning in meanings.cells.get(key, {}).values()]
    if values:
        rng = named_rng("semantic entropy", *key)
        estimate = bootstrap_means(np.array(values)[:, None], rng=rng, resamples=LEVEL_RESAMPLES)[0]
        columns |= estimate_columns("semantic_entropy", estimate) | {"semantic_items": len(values)}
    return columns


def _compare_with_baseline(
    scores: ItemScores,
    records: list[dict[str, Any]],
    values: dict[CellKey, tuple[npt.NDArray[np.int64], FloatArray]],
) -> None:
    """Paired difference in disagreement against the control of the group."""
    groups: dict[tuple[str, str, str], list[CellKey]] = {}
    for key in values:
        groups.setdefault((key.task, key.model, key.decoding), []).append(key)
    for record, key in zip(records, values, strict=True):
        control = scores.baseline(groups[(key.task, key.model, key.decoding)])
        if control is None or control == key:
            continue
        first, second = values[key], values[control]
        _, left, right = np.intersect1d(first[0], second[0], assume_unique=True, return_indices=True)
        deltas = first[1][left] - second[1][right]
        if len(deltas) < 2:
            continue
        rng = named_rng("entropy difference", *key)
        record["baseline"] = control.condition
        record |= estimate_columns("delta", paired_bootstrap(deltas, rng=rng))
        record["p_value"] = number(sign_flip_test(deltas, rng=rng).p_value)
    p_values = [np.nan if record.get("p_value") is None else record["p_value"] for record in records]
    adjusted = adjust_within_families(np.array(p_values), [record["task"] for record in records])
    for record, value in zip(records, adjusted, strict=True):
        record["p_bh"] = number(value)
