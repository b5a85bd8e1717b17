"""What embeddings add to the tables: clusters of meaning for free text, and InfoNCE against the truth.

Embedding is the dear part, so each measure embeds at most about ``TEXT_LIMIT`` texts a report, shared over
tasks and cells; which items are taken is decided by a hash of their ids, the same for all conditions, so that
they stay paired. Every number says on how many items it rests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.embeddings import Embedder, NoEmbedder
from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, USABLE_CLEAN
from pcsuite.stats.answer_variation import entropy, semantic_clusters
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.information import InfoNce, infonce

TEXT_LIMIT = 8_000
"""Texts each measure embeds in one report, about 15 s on one core."""
SIMILARITY = 0.85
"""Cosine similarity from which two answers count as saying the same."""
TEMPERATURES = (0.05, 0.1, 0.3, 1.0)
# The least and the most items of a cell: fewer say nothing, and all cells share one budget of texts.
_SEMANTIC_ITEMS = (20, 100)
_INFONCE_ITEMS = (40, 200)


_LEFT_OUT = "not computed: left out to bound the cost"


class Meaning(NamedTuple):
    """Clusters of meaning among the replicates of one item."""

    clusters: int
    entropy: float
    """In nats, corrected after Chao & Shen."""


def _share(cells: int, replicates: int, texts: int, bounds: tuple[int, int], there: int) -> tuple[int, int]:
    """How many of the items that are ``there``, in how many cells, a number of texts is enough for."""
    least, most = bounds
    items = min(there, most, max(least, texts // max(1, cells * replicates)))
    return items, min(cells, max(1, texts // max(1, items * replicates)))


def chosen_items(names: Iterable[str], most: int) -> list[str]:
    """The first ``most`` items by a hash of their ids.

    A sample that is the same in every condition and every report, so that conditions stay paired.
    """
    return sorted(names, key=lambda name: hashlib.md5(name.encode(), usedforsecurity=False).digest())[:most]


def semantic_meanings(
    tables: RunTables, scores: ItemScores, tasks: Iterable[str], embedder: Embedder | NoEmbedder
) -> dict[CellKey, tuple[dict[str, Meaning], str]]:
    """Cluster the replicates of each item of some tasks by what they mean.

    By cell with replicates: the meanings by item id, and how they were found or why there are none. Items and cells are
    limited so that about ``TEXT_LIMIT`` texts are embedded in all.
    """
    by_cell: dict[CellKey, tuple[dict[str, Meaning], str]] = {}
    names = sorted(tasks)
    for task in names:
        keys = [key for key in scores.cell_keys() if key.task == task and scores.cells[key].replicates > 1]
        if isinstance(embedder, NoEmbedder):
            by_cell |= {key: ({}, f"not computed: {embedder.reason}") for key in keys}
            continue
        if not keys:
            continue
        replicates = round(float(np.mean([scores.cells[key].replicates for key in keys])))
        listed = scores.item_names[task]
        texts = TEXT_LIMIT // len(names)
        most_items, most_cells = _share(len(keys), replicates, texts, _SEMANTIC_ITEMS, len(listed))
        items = chosen_items(listed, most_items)
        chosen_cells = set(_by_group(keys)[:most_cells])
        # In the order of seeds, "" for a missing answer.
        rows = tables.query(
            f"SELECT {CELL_KEY}, item_id, list(coalesce(answer, '') ORDER BY seed) FROM runs WHERE {USABLE_CLEAN}"
            " AND task_id = ? AND item_id IN (SELECT unnest(?)) GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL",
            [task, items],
        )
        replicated = [
            (CellKey(*key), item, answers) for *key, item, answers in rows if CellKey(*key) in chosen_cells
        ]
        vectors = _vectors(embedder, [answer for *_, answers in replicated for answer in answers])
        how = (
            f"clusters of {embedder.model.describe()} embeddings with cosine similarity ≥ {SIMILARITY}"
            f" (average linkage, in place of entailment), {len(items)} of {len(listed)} items"
        )
        by_cell |= {key: ({}, _LEFT_OUT) for key in keys} | {key: ({}, how) for key, *_ in replicated}
        for key, item, answers in replicated:
            embedded = [vectors[answer] for answer in answers if answer.strip()]
            clusters = semantic_clusters(np.stack(embedded), similarity=SIMILARITY) if embedded else ()
            sizes = np.bincount(np.asarray(clusters, dtype=np.int64))
            missing = len(answers) - len(embedded)  # one cluster of their own
            counts = np.append(sizes, missing) if missing else sizes
            by_cell[key][0][item] = Meaning(len(counts), float(entropy(counts[None, :])[0]))
    return by_cell


def _by_group(keys: Sequence[CellKey]) -> list[CellKey]:
    """Cells with those that are compared with each other side by side, groups in the order of a hash."""
    names = {key: "\x1f".join(key[:3]) for key in keys}
    order = {name: index for index, name in enumerate(chosen_items(set(names.values()), len(keys)))}
    return sorted(keys, key=lambda key: order[names[key]])


def _vectors(embedder: Embedder, texts: Iterable[str]) -> dict[str, FloatArray]:
    distinct = sorted({text for text in texts if text.strip()})
    return dict(zip(distinct, embedder.vectors(distinct), strict=True))


def infonce_cells(
    tables: RunTables, scores: ItemScores, references: Mapping[str, Mapping[str, str]], embedder: Embedder
) -> list[tuple[CellKey, InfoNce | None, str]]:
    """InfoNCE between answers and true answers, by cell of the tasks with truths, one answer per item.

    Each with a note, or ``None`` with why not: a cell needs 20 answered items and two different truths.
    ``references`` are true answers by task and item id.
    """
    tasks = [task for task in scores.tasks if task in references]
    cells: list[tuple[CellKey, InfoNce | None, str]] = []
    for task in tasks:
        names = [name for name in scores.item_names[task] if name in references[task]]
        keys = [key for key in scores.cell_keys() if key.task == task]
        texts = TEXT_LIMIT // len(tasks)
        most_items, most_cells = _share(len(keys), 1, texts, _INFONCE_ITEMS, len(names))
        items = chosen_items(names, most_items)
        truths = _vectors(embedder, [references[task][item] for item in items])
        items = [item for item in items if references[task][item] in truths]
        chosen_cells = _by_group(keys)[:most_cells]
        # Of each cell and item the answer under the first seed, or the raw text where none could be read.
        first_answers: dict[CellKey, dict[str, str]] = {}
        for *names_of_cell, item, answer in tables.query(
            f"SELECT {CELL_KEY}, item_id, arg_min(coalesce(answer, text, ''), coalesce(seed, 0)) FROM runs"
            f" WHERE {USABLE_CLEAN} AND task_id = ? AND item_id IN (SELECT unnest(?)) GROUP BY ALL ORDER BY ALL",
            [task, items],
        ):
            first_answers.setdefault(CellKey(*names_of_cell), {})[item] = answer
        how = f"{embedder.model.describe()} embeddings, {len(items)} of {len(names)} items"
        for key in keys:
            if key not in chosen_cells:
                cells.append((key, None, _LEFT_OUT))
                continue
            answers = first_answers.get(key, {})
            vectors = _vectors(embedder, answers.values())
            pairs = [
                (vectors[answers[item]], truths[references[task][item]])
                for item in items
                if answers.get(item, "") in vectors
            ]
            cells.append((key, *_infonce(key, pairs, how)))
    return cells


def _infonce(
    key: CellKey, pairs: Sequence[tuple[FloatArray, FloatArray]], how: str
) -> tuple[InfoNce | None, str]:
    outputs = np.array([output for output, _ in pairs])
    truths = np.array([truth for _, truth in pairs])
    # Log N caps the bound: of fewer items it could not tell much from little.
    if len(pairs) < 20 or len(np.unique(truths, axis=0)) < 2:
        return None, "not computed: needs 20 answered items and two different true answers"
    rng, effort = named_rng("infonce", *key), {"rounds": 4, "shuffles": 3, "resamples": 1_000}
    result = infonce(outputs, truths, rng=rng, temperature=TEMPERATURES, **effort)
    cap = f"cannot exceed log N = {result.cap:.2f} nats (N = {result.batch})"
    full = ", which it has reached: the truth may be larger" if result.saturated else ""
    return result, f"a lower bound, {cap}{full}; {how}; alike embeddings need not mean a right answer"
