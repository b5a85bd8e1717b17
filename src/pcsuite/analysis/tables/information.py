"""``information.csv``: how much the outputs tell about the truth, and how well stated confidence fits it.

One record per cell and measure. Measures that need what the run or the installation lacks are listed once
with the reason, so that a gap is never mistaken for a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.embeddings import NO_EMBEDDER, Embedder, NoEmbedder
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, IN_CELL, USABLE
from pcsuite.analysis.table import CELL, Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.tables.embeddings import infonce_cells
from pcsuite.errors import AnalysisError
from pcsuite.evaluation.answer_probability import LABEL_PROBABILITY
from pcsuite.stats.calibration import brier_interval, ece_interval, risk_coverage_interval
from pcsuite.stats.estimate import Estimate, undefined
from pcsuite.stats.information import hashed_features, mutual_information, online_code, v_information

INFORMATION = TableSpec(
    "information",
    "Information and calibration",
    "condition and measure; a measure that could not be computed has one row that says why",
    (
        *CELL,
        Column("measure", "name of the measure"),
        Column("unit", "its unit"),
        *interval("value", "its value"),
        Column("reference", "what the value is to be held against"),
        Column("reference_is", "what the reference is"),
        Column("cap", "what the value cannot exceed"),
        Column("p_value", "p-value of no information"),
        Column("n_items", "items it rests on", shown=False),
        Column("note", "what the measure does not see, or why it was not computed"),
    ),
    note="Proxies: each says in its note what it does not see.",
    folded=True,
)
PROBE_ITEMS = 600
"""Items of a cell the probe is trained on, chosen by hash where there are more."""
MI_ITEMS = 5_000
AREA = "risk–coverage area"
NOTES = {
    "mutual information": "sees the parsed answer only; a model that is systematically wrong scores high",
    "V-information": "what this probe can read off the text, not all that is in it",
    "online code": "bits a fixed probe needs per label; lower than the control means the text tells the label",
    "ECE": "gap between stated confidence and score; noise inflates it",
    "Brier score": "mean squared gap between confidence and score",
    AREA: "error rate averaged over coverages, most confident answers first",
    "ECE (label probability)": "gap between the model's probability of its label and score; noise inflates it",
    "Brier score (label probability)": "mean squared gap between that probability and score",
    f"{AREA} (label probability)": "error rate averaged over coverages, most probable labels first",
}
NOT_GIVEN = "the truths were not given: report with --config"
Truths = Mapping[str, Mapping[str, str]]
"""Truth labels by task and item id, of tasks with a closed set of labels."""


def information_table(
    tables: RunTables,
    scores: ItemScores,
    truths: Truths | None = None,
    *,
    references: Truths | None = None,
    embedder: Embedder | NoEmbedder = NO_EMBEDDER,
) -> Table:
    """``information.csv``: every measure that the rows, the truths and the installation allow.

    ``truths`` are labels by task and item, ``references`` true answers of tasks with open answers, for InfoNCE.
    """
    records: list[dict[str, Any]] = []
    texts = _Texts(tables)
    if truths:
        # Items in an order that has nothing to do with them, the same in every cell.
        tables.execute(
            "CREATE OR REPLACE TEMP TABLE hash_order AS SELECT task_id, item_id, row_number() OVER (PARTITION BY"
            " task_id ORDER BY md5(item_id::VARCHAR)) AS item_rank"
            " FROM (SELECT DISTINCT task_id, item_id FROM cell_rows)"
        )
    for key in scores.cell_keys():
        records += _calibration(scores, key, "confidence", "")
        records += _calibration(scores, key, LABEL_PROBABILITY, " (label probability)")
        labels = (truths or {}).get(key.task)
        if labels:
            records += _about_truth(tables, key, labels, texts, scores.cells[key].replicates)
    if not truths:
        why = NOT_GIVEN if truths is None else "no task has a closed set of labels"
        records.append(_absent("mutual information", why))
    answers = None if truths is None and references is None else {**(references or {}), **(truths or {})}
    records += _infonce(tables, scores, answers, embedder)
    return Table.of(INFORMATION, records)


def _absent(measure: str, why: str) -> dict[str, Any]:
    return {"measure": measure, "note": f"not computed: {why}"}


def _record(key: CellKey, measure: str, unit: str, estimate: Estimate, **columns: Any) -> dict[str, Any]:
    return {
        **key.names(),
        "measure": measure,
        "unit": unit,
        **estimate_columns("value", estimate),
        "n_items": estimate.n,
        "note": NOTES.get(measure),
        **columns,
    }


def _calibration(scores: ItemScores, key: CellKey, metric: str, of: str) -> list[dict[str, Any]]:
    """How well a confidence fits the score: the one that answers state, or the model's own of the label it chose."""
    stated, right = (np.clip(values, 0, 1) for values in scores.cells[key].both(metric, SCORE))
    # Of so few answers a calibration error is mostly noise.
    if len(stated) < 10:
        return []
    # Stated confidence is named without its metric: its numbers are the same whether there is another kind or not.
    rng = named_rng("calibration", *key, *([metric] if of else []))
    measured = (
        ("ECE", "probability", ece_interval(stated, right, rng=rng, resamples=1_000)),
        ("Brier score", "probability²", brier_interval(stated, right, rng=rng, resamples=1_000)),
        # Every resample is sorted anew, so there are fewer of them.
        (AREA, "error rate", risk_coverage_interval(stated, right, rng=rng, resamples=200)),
    )
    return [_record(key, name + of, unit, value, note=NOTES[name + of]) for name, unit, value in measured]


def _infonce(
    tables: RunTables, scores: ItemScores, references: Truths | None, embedder: Embedder | NoEmbedder
) -> list[dict[str, Any]]:
    if isinstance(embedder, NoEmbedder):
        return [_absent("InfoNCE", embedder.reason)]
    if not references:
        why = NOT_GIVEN if references is None else "no task has a truth to compare answers with"
        return [_absent("InfoNCE", why)]
    cells = infonce_cells(tables, scores, references, embedder)
    computed = {key.task for key, result, _ in cells if result is not None}
    # Of a task without any figure one row says why, in the words of its first cell.
    first = {key.task: note for key, _, note in reversed(cells) if key.task not in computed}
    records: list[dict[str, Any]] = [
        {"task": task, "measure": "InfoNCE", "note": note} for task, note in sorted(first.items())
    ]
    for key, result, note in cells:
        if result is not None:
            against = {"reference": number(result.control), "reference_is": "shuffled truths"}
            cap = number(result.cap)
            records.append(_record(key, "InfoNCE", "nats", result.bound, **against, cap=cap, note=note))
        elif key.task in computed:
            records.append(_record(key, "InfoNCE", "nats", undefined(""), note=note))
    return records


class _Texts:
    """First texts of items by cell; those of all cells of a task are fetched at once, since reading texts is dear."""

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables
        self._fetched: dict[str, set[str]] = {}
        self._by_cell: dict[CellKey, dict[str, str]] = {}

    def of(self, key: CellKey, items: Sequence[str]) -> list[str]:
        """The text with the lowest seed of each item."""
        fetched = self._fetched.setdefault(key.task, set())
        missing = [item for item in items if item not in fetched]
        if missing:
            fetched.update(missing)
            for *names, item, text in self._tables.query(
                f"SELECT {CELL_KEY}, item_id, arg_min(coalesce(text, ''), seed) FROM runs WHERE {USABLE}"
                f" AND task_id = ? AND item_id IN (SELECT unnest(?)) GROUP BY {CELL_KEY}, item_id",
                [key.task, missing],
            ):
                self._by_cell.setdefault(CellKey(*names), {})[item] = text
        return [self._by_cell[key][item] for item in items]


def _first_answers(tables: RunTables, key: CellKey, replicates: float) -> list[tuple[str, str | None]]:
    """Item and answer of the first rows of a cell, items in the order of their hashes."""
    most = MI_ITEMS * 10
    # Twice the items that so many rows are expected of; where that falls short, all.
    for bound in (f"AND item_rank <= {2 * most / max(replicates, 1.0):.0f}", ""):
        rows = tables.query(
            "SELECT item_id, answer FROM cell_rows JOIN hash_order USING (task_id, item_id)"
            f" WHERE {USABLE} AND {IN_CELL} {bound} ORDER BY item_rank, seed LIMIT {most}",
            key,
        )
        if len(rows) == most:
            break
    return rows


def _about_truth(
    tables: RunTables, key: CellKey, labels: Mapping[str, str], texts: _Texts, replicates: float
) -> list[dict[str, Any]]:
    """Information between answers (or texts) and true labels in one cell."""
    rows = _first_answers(tables, key, replicates)
    names = frozenset(labels.values())
    labelled = [(item, answer, labels[item]) for item, answer in rows if item in labels]
    if len({item for item, *_ in labelled}) < 10 or len({label for *_, label in labelled}) < 2:
        return []
    rng = named_rng("information", *key)
    try:
        mutual = mutual_information(
            # Anything that is none of the labels is one answer of its own.
            [answer if answer in names else "other or none" for _, answer, _ in labelled],
            [label for *_, label in labelled],
            [item for item, *_ in labelled],
            rng=rng,
            resamples=1_000,
            permutations=200,
            labels=len(names),
        )
        record = _record(
            key, "mutual information", "nats", mutual.information, reference=number(mutual.truth_entropy),
            reference_is="entropy of the truth", p_value=number(mutual.p_value),
        )  # fmt: skip
        items = list(dict.fromkeys(item for item, *_ in labelled))[:PROBE_ITEMS]
        return [record, *_by_probe(key, texts.of(key, items), [labels[item] for item in items], rng)]
    except AnalysisError as error:
        note = f"not computed: {error.message}"
        return [_record(key, "mutual information", "nats", undefined(""), note=note)]


def _by_probe(
    key: CellKey, texts: Sequence[str], labels: Sequence[str], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Probe measures on one text per item, the first by seed."""
    if len(texts) < 40:
        return []
    features = hashed_features(texts, bits=8)
    usable = v_information(features, labels, rng=rng, folds=3, resamples=1_000)
    code = online_code(features, labels, rng=rng, controls=1, resamples=1_000)
    return [
        _record(key, "V-information", "bits", usable),
        _record(
            key, "online code", "bits per item", code.bits_per_item,
            reference=number(code.control_bits / len(labels)), reference_is="random-label control",
        ),
    ]  # fmt: skip
