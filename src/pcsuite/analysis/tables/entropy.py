"""``entropy_per_item.csv`` and ``entropy_by_condition.csv``: how much answers vary over replicates.

Only regimes with at least two replicates of an item have anything to say. Conditions are compared on the
unbiased disagreement of readable answers, never on plug-in entropy. The objective takes its entropy from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.embeddings import NO_EMBEDDER, Embedder, NoEmbedder
from pcsuite.analysis.load.item_scores import CellKey, ItemScores, ItemValues, fetch_by_cell
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, USABLE_CLEAN
from pcsuite.analysis.table import (
    CELL,
    DOTTED_CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    mean_columns,
    number,
)
from pcsuite.analysis.tables.effects import add_corrected_p
from pcsuite.analysis.tables.embeddings import semantic_meanings
from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.data.items import CLOSED_UP_TO
from pcsuite.logging.manifest import RunManifest
from pcsuite.stats.answer_variation import disagreement, entropy, fact_disagreement, normalised_entropy
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, bootstrap_means
from pcsuite.stats.estimate import FloatArray, IntArray
from pcsuite.stats.related_rows import count_clusters, mean_over_items

FACT_ITEMS = 300
"""Items of a cell whose free texts are compared fact by fact."""
FREE_TEXT_WORDS = 4
"""Answers of at least this many words on average are taken for free text."""

PER_ITEM = TableSpec(
    "entropy_per_item",
    "Variation over replicates, item by item",
    "item with at least two replicates in a cell",
    (
        *CELL,
        Column("item_id", "id of the item"),
        Column("replicates", "answers given"),
        Column("distinct_answers", "different answers among them, a missing one counting as one"),
        Column("entropy_nats", "entropy in nats, bias-corrected after Chao & Shen"),
        Column("entropy_normalised", "the same as a share of its maximum"),
        Column("disagreement", "chance that two replicates disagree"),
        Column("readable", "answers that could be read"),
        Column("readable_disagreement", "chance that two of them disagree; empty below two"),
        Column("fact_disagreement", "of free texts: how far their names and numbers disagree"),
        Column("semantic_clusters", "of free texts: meanings among the answers"),
        Column("semantic_entropy", "entropy over those meanings in nats"),
        Column(
            "entropy_cat",
            "plain entropy of the answers in nats: not corrected, so it grows with the replicates",
        ),
    ),
    dotted=(*DOTTED_CELL, ("task.item_id", "item_id"), ("metrics.entropy_cat", "entropy_cat")),
)
BY_CONDITION = TableSpec(
    "entropy_by_condition",
    "Variation over replicates",
    "condition of a regime with replicates",
    (
        *CELL,
        Column("n_items", "items with at least two replicates", shown=False),
        Column("replicates", "answers per item, on average"),
        Column("answers", "how many answers the task allows (as the run's manifest says), or open"),
        *interval("entropy_nats", "mean entropy over items in nats", form="number"),
        *interval("entropy_normalised", "mean share of the maximal entropy", form="number"),
        Column(
            "entropy_cat",
            "mean plain entropy in nats: not corrected, so it grows with the replicates",
            shown=False,
        ),
        *interval("disagreement", "mean chance that two replicates disagree"),
        Column("readable", "share of answers that could be read"),
        *interval("readable_disagreement", "mean chance that two readable replicates disagree"),
        Column("readable_items", "items with two of them", shown=False),
        Column("fact_disagreement", "mean disagreement of free texts on names and numbers"),
        *interval("semantic_entropy", "mean entropy over meanings of free texts in nats", form="number"),
        Column("semantic_items", "items it rests on", shown=False),
        Column("semantic_note", "how meanings were told apart, or why not"),
        Column("baseline", "control it is compared with", shown=False),
        *interval("delta", "disagreement of readable replicates less the control's, on the same items"),
        Column("p_value", "two-sided permutation p-value of delta", shown=False),
        Column("p_bh", "the same adjusted over the task (Benjamini–Hochberg)"),
        N_CLUSTERS,
    ),
    note=(
        "Entropy is bias-corrected (Chao–Shen), an answer that could not be read counting as one of its own. Conditions"
        " are compared on the disagreement of readable answers, which is unbiased and does not move with validity."
    ),
    folded=True,
    dotted=(*DOTTED_CELL, ("metrics.entropy_cat", "entropy_cat")),
)


@dataclass(slots=True)
class AnswerCounts:
    """How often each answer was given, item by item, in one cell."""

    key: CellKey
    items: IntArray
    counts: FloatArray
    """Items by answers, what could not be read counting as an answer of its own."""
    readable: FloatArray
    """The same without what could not be read."""
    categories: int | None
    """Number of answers the task allows, ``None`` for open answers."""
    facts: dict[str, float]
    """Disagreement on key facts of free texts, by item id."""

    def nats(self) -> FloatArray:
        """Each item's entropy in nats, bias-corrected; the one computation behind every table that shows it."""
        return entropy(self.counts, categories=self.categories)

    def plain(self) -> FloatArray:
        """Each item's entropy in nats as the answers have it, without a correction."""
        return entropy(self.counts, estimator="plug_in")

    def normalised(self) -> FloatArray:
        """Each item's entropy as a share of its maximum, 0..1.

        The one computation that both the entropy tables and the objective use.
        """
        return normalised_entropy(self.counts, categories=self.categories)


def answer_counts_by_cell(
    tables: RunTables, scores: ItemScores, manifest: RunManifest | None = None
) -> list[AnswerCounts]:
    """Counts of distinct answers of clean rows, item by item; a missing answer is an answer of its own.

    How many answers a task allows is what the run's ``manifest`` says. Of a task that it does not name (an imported
    log, say) up to ``CLOSED_UP_TO`` distinct answers are taken for a choice among them.
    """
    described = _answers_given(tables)
    facts = _fact_disagreements(tables, _free_text_tasks(tables))
    # Ranks of items among usable rows, translated into the codes of the item scores.
    codes = {}
    for task, ids in tables.query(
        f"SELECT task_id, list(DISTINCT item_id ORDER BY item_id) FROM cell_rows WHERE {USABLE_CLEAN} GROUP BY task_id"
    ):
        code_of = scores.codes(task)
        codes[task] = np.array([code_of[name] for name in ids], dtype=np.int64)
    cells = []
    usable = f"cell_rows WHERE {USABLE_CLEAN}"
    counted = f"(SELECT {CELL_KEY}, item_id, answer, count(*) AS n FROM {usable} GROUP BY ALL)"
    columns = ("n", "answer IS NULL AS missing")
    for key, rows in fetch_by_cell(tables, counted, columns, rows_in=usable, then=", n DESC"):
        # Rows of counts from a flat list sorted by item, padded with zeros.
        items, first, sizes = np.unique(rows["item"], return_index=True, return_counts=True)
        counts = np.zeros((len(items), int(sizes.max())))
        column = np.arange(int(sizes.sum())) - np.repeat(first, sizes)
        position = np.repeat(np.arange(len(items)), sizes), column
        counts[position] = rows["n"]
        readable = np.zeros_like(counts)
        readable[position] = np.where(rows["missing"], 0, rows["n"])
        # A single answer can neither agree nor disagree.
        repeated = counts.sum(axis=1) >= 2
        if not repeated.any():
            continue
        task = key.task
        distinct, _ = described[task]
        categories = distinct if 2 <= distinct <= CLOSED_UP_TO else None
        # What the run declared counts; how many answers occur depends on how good the models are.
        if manifest is not None and task in manifest.tasks:
            categories = manifest.tasks[task].answers
        items = codes[task][items[repeated]]
        cells.append(
            AnswerCounts(key, items, counts[repeated], readable[repeated], categories, facts.get(key, {}))
        )
    order = {key: index for index, key in enumerate(scores.cells)}
    return sorted(cells, key=lambda cell: order[cell.key])


def _answers_given(tables: RunTables) -> dict[str, tuple[int, float]]:
    """Of each task, how many distinct answers were given and how many words they have on average."""
    rows = tables.query(
        "SELECT task_id, count(DISTINCT answer) + max(CASE WHEN answer IS NULL THEN 1 ELSE 0 END),"
        " coalesce(avg(1 + len(answer) - len(replace(answer, ' ', ''))), 0)"
        f" FROM cell_rows WHERE {USABLE_CLEAN} GROUP BY task_id"
    )
    return {task: (int(distinct), float(words)) for task, distinct, words in rows}


def _free_text_tasks(tables: RunTables) -> set[str]:
    """Tasks with long answers, whose replicates are compared by meanings and facts, not by letters."""
    return {task for task, (_, words) in _answers_given(tables).items() if words >= FREE_TEXT_WORDS}


def _fact_disagreements(tables: RunTables, tasks: Iterable[str]) -> dict[CellKey, dict[str, float]]:
    by_cell: dict[CellKey, dict[str, float]] = {}
    for task in sorted(tasks):
        rows = tables.query(
            f"SELECT {CELL_KEY}, item_id, list(coalesce(answer, '') ORDER BY seed) FROM (SELECT *,"
            " dense_rank() OVER (ORDER BY md5(item_id)) AS item_rank FROM cell_rows"
            f" WHERE {USABLE_CLEAN} AND task_id = ?) WHERE item_rank <= {FACT_ITEMS} GROUP BY ALL HAVING count(*) > 1",
            [task],
        )
        for *key, item, answers in rows:
            by_cell.setdefault(CellKey(*key), {})[item] = fact_disagreement(answers)
    return by_cell


def entropy_tables(
    tables: RunTables,
    scores: ItemScores,
    cells: Iterable[AnswerCounts],
    embedder: Embedder | NoEmbedder = NO_EMBEDDER,
) -> tuple[Table, Table]:
    """``entropy_per_item.csv`` and ``entropy_by_condition.csv`` from the counts of :func:`answer_counts_by_cell`.

    An ``embedder`` adds clusters of meaning for free text.
    """
    meanings = semantic_meanings(tables, scores, _free_text_tasks(tables), embedder)
    per_item: list[tuple[Any, ...]] = []
    records = []
    values: dict[CellKey, ItemValues] = {}
    for cell in cells:
        key, names = cell.key, cell.key.names()
        nats, plain = cell.nats(), cell.plain()
        share, differing = cell.normalised(), disagreement(cell.counts)
        readable = disagreement(cell.readable)
        compared = np.isfinite(readable)
        values[key] = ItemValues(cell.items[compared], readable[compared])
        legible = cell.readable.sum(axis=1)
        by_item, note = meanings.get(key, ({}, None))
        totals, distinct = cell.counts.sum(axis=1).astype(int), (cell.counts > 0).sum(axis=1)
        item_names = scores.item_names[key.task]
        figures = zip(
            cell.items.tolist(), totals.tolist(), distinct.tolist(), _numbers(nats), _numbers(share),
            _numbers(differing), legible.astype(int).tolist(), _numbers(readable), _numbers(plain), strict=True,
        )  # fmt: skip
        cell_names = tuple(names.values())
        for code, *counted, plain_of_item in figures:
            item = item_names[code]
            meaning = by_item.get(item)
            per_item.append(
                (
                    *cell_names, item, *counted, number(cell.facts.get(item)),
                    meaning and meaning.clusters, meaning and number(meaning.entropy), plain_of_item,
                )
            )  # fmt: skip
        columns = np.column_stack([nats, share, differing])
        # No more than of as many answers as there can be, each as often; of an open set, as were given.
        most = math.log(max(2, cell.categories or int(totals.max()), *distinct.tolist()))
        bounds = [(0.0, most), (0.0, 1.0), (0.0, 1.0)]
        clusters = scores.clusters_of(key.task, cell.items)
        rng = named_rng("entropy", *key)
        if clusters is None:
            estimates = bootstrap_means(
                columns, rng=rng, resamples=LEVEL_RESAMPLES, bounds=bounds, single=False
            )
        else:
            estimates = [
                mean_over_items(column, clusters, rng=rng, bounds=ends)
                for column, ends in zip(columns.T, bounds, strict=True)
            ]
        record: dict[str, Any] = {
            **names,
            "n_items": len(columns),
            "replicates": float(cell.counts.sum(axis=1).mean()),
            "answers": "open" if cell.categories is None else f"{cell.categories} choices",
            **estimate_columns("entropy_nats", estimates[0]),
            **estimate_columns("entropy_normalised", estimates[1]),
            "entropy_cat": float(plain.mean()),
            **estimate_columns("disagreement", estimates[2]),
            "readable": float(legible.sum() / totals.sum()),
            "readable_items": int(compared.sum()),
            "fact_disagreement": number(np.mean(list(cell.facts.values()))) if cell.facts else None,
            "semantic_note": note,
            "n_clusters": count_clusters(clusters),
        }
        if compared.sum() > 1:
            related = scores.clusters_of(key.task, cell.items[compared])
            rng = named_rng("readable", *key)
            record |= mean_columns("readable_disagreement", readable[compared], rng, clusters=related)
        if by_item:
            entropies = np.array([meaning.entropy for meaning in by_item.values()])
            bounds_of_meanings = (0.0, math.log(max(2, int(totals.max()))))
            rng = named_rng("semantic entropy", *key)
            codes = scores.codes(key.task)
            related = scores.clusters_of(
                key.task, np.array([codes[item] for item in by_item], dtype=np.int64)
            )
            record |= mean_columns("semantic_entropy", entropies, rng, bounds_of_meanings, related)
            record["semantic_items"] = len(by_item)
        records.append(record)
    _compare_with_control(scores, records, values)
    return Table(PER_ITEM, per_item), Table.of(BY_CONDITION, records)


def _numbers(values: FloatArray) -> list[float | None]:
    """Finite floats, ``None`` for the others; :func:`number` for a whole column."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _compare_with_control(
    scores: ItemScores, records: list[dict[str, Any]], values: dict[CellKey, ItemValues]
) -> None:
    """Add the paired difference in disagreement of readable answers against the control of the group."""
    for record, key in zip(records, values, strict=True):
        control = scores.control_of(key, values)
        if control is None:
            continue
        arms = {
            name.condition: ArmScores(
                values[name].values,
                values[name].items,
                clusters=scores.clusters_of(key.task, values[name].items),
            )
            for name in (key, control)
        }
        contrast = Contrast.of(key.condition, control.condition)
        (change,) = measure(arms, [contrast], rng=named_rng("entropy difference", *key))
        if change.n > 1:
            record["baseline"] = control.condition
            record |= estimate_columns("delta", change.estimate)
            record["p_value"] = number(change.test.p_value)
    add_corrected_p(records, [record["task"] for record in records], ("p_bh",))
