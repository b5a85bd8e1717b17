"""Item scores: replicates averaged within the item first, because the item is the unit of inference."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, METRIC_PREFIX, USABLE, sql_name
from pcsuite.analysis.load.sizes import ModelInfo, size_classes
from pcsuite.config.load import Suite
from pcsuite.config.profile import AnalysisSection, MissingAnswers
from pcsuite.contrasts import ArmScores
from pcsuite.data.items import LABEL_KEYS, Item, task_items
from pcsuite.errors import DataError
from pcsuite.logging.manifest import read_manifests
from pcsuite.stats.estimate import FloatArray, IntArray

CLEAN = "none"
LOGGED_SCORE, SCORE = "task_score", "score"
"""The primary metric's name in the log and in metrics files, and its name in tables."""
LENIENT = "lenient_score"
"""The score under the lenient rules: what only these read is right in substance and wrong in form."""
AMBIGUOUS = "ambiguous"
"""Share of answers that can be read in two ways."""
ANSWER_KEYS = ("best_answer", "answer", "query")
"""Keys under which a truth gives an answer in its own words."""
COUNT_OF, SQUARES_OF = "rows with ", "squares of "
DIRECT = {
    "json_valid": "json_valid::INT",
    "schema_valid": "schema_valid::INT",
    # An imported log may not say how an answer ended; that is no claim that it was whole.
    "truncated": "(nullif(finish_reason, 'unknown') = 'length')::INT",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "cached_tokens": "cached_tokens",
    "total_tokens": "total_tokens",
    "latency_ms": "latency_ms",
    "attempts": "attempts",
    "tool_calls": "tool_calls",
    "padded": "padded",
    "ambiguous": "(reading = 'ambiguous')::INT",
}
"""What every row has besides the metrics of its task, as SQL over ``runs``."""
_COUNTS = ("tp", "fp", "fn")


class TruthTexts(NamedTuple):
    """What is true, by task and item id: one of a closed set of labels, or an answer in its own words."""

    labels: dict[str, dict[str, str]]
    answers: dict[str, dict[str, str]]


def items_at_hand(suite: Suite, tasks: Iterable[str]) -> dict[str, dict[str, Item]]:
    """Items by task and id, of those tasks that the suite defines and whose items are still there."""
    by_task: dict[str, dict[str, Item]] = {}
    for task in tasks:
        if (spec := suite.tasks.get(task)) is not None:
            with suppress(DataError):
                items = task_items(spec, spec.split, Path(suite.profile.run.cache_dir), cluster=()).items
                by_task[task] = {item.item_id: item for item in items}
    return by_task


def truth_texts(suite: Suite) -> TruthTexts:
    """The truths of the profile's tasks, for measures of information.

    Tasks whose items have gone since the run are left out: what needs them is reported as not computed.
    """
    truths = TruthTexts({}, {})
    for task, by_id in items_at_hand(suite, suite.profile.selection.tasks).items():
        labels = {
            name: str(item.truth[key])
            for name, item in by_id.items()
            for key in LABEL_KEYS
            if key in item.truth
        }
        answers: dict[str, str] = {}
        for name, item in by_id.items():
            listed = item.truth.get("answers")
            texts = [item.truth[key] for key in ANSWER_KEYS if item.truth.get(key) is not None]
            texts += listed[:1] if isinstance(listed, list) else []
            if texts and str(texts[0]):
                answers[name] = str(texts[0])
        if labels:
            truths.labels[task] = labels
        elif answers:
            truths.answers[task] = answers
    return truths


def control_among(bundles: Mapping[str, Collection[str]]) -> str | None:
    """The control of conditions given by their operators, in order; ``None`` where there is none.

    C0, else the first condition with no operator, else the one whose operators every other has too (the bottom of a
    ladder on top of another condition), else the one that has all the operators of every other (the full bundle of a
    leave-one-out design).
    """
    sets = {name: frozenset(bundle) for name, bundle in bundles.items()}
    # What a study calls its control goes first; then what can be one by its operators, the barest before the fullest.
    rules = (
        lambda name, bundle: name == "C0",
        lambda name, bundle: not bundle,
        lambda name, bundle: all(bundle <= other for other in sets.values()),
        lambda name, bundle: all(bundle >= other for other in sets.values()),
    )
    return next((name for rule in rules for name, bundle in sets.items() if rule(name, bundle)), None)


class CellKey(NamedTuple):
    """Names a cell."""

    task: str
    model: str
    decoding: str
    perturbation: str
    condition: str

    def names(self) -> dict[str, str]:
        """The columns that name a clean cell: all but the perturbation."""
        return {**self.group(), "condition": self.condition}

    def group(self) -> dict[str, str]:
        """The columns that name a group of cells, which differ in the condition alone."""
        return {"task": self.task, "model": self.model, "decoding": self.decoding}


class ItemValues(NamedTuple):
    """Values of some items: their codes, sorted, and a value or a row of values for each."""

    items: IntArray
    values: FloatArray


def on_common_items(*sides: ItemValues) -> tuple[IntArray, list[FloatArray]]:
    """Codes of the items that all sides have, sorted, and the values of each side there.

    >>> first = ItemValues(np.array([1, 2, 5]), np.array([0.1, 0.2, 0.5]))
    >>> items, (left, right) = on_common_items(first, ItemValues(np.array([2, 5, 7]), np.array([1.0, 0.0, 1.0])))
    >>> items.tolist(), left.tolist(), right.tolist()
    ([2, 5], [0.2, 0.5], [1.0, 0.0])
    """
    common = reduce(
        lambda left, right: np.intersect1d(left, right, assume_unique=True), (side.items for side in sides)
    )
    return common, [side.values[np.searchsorted(side.items, common)] for side in sides]


@dataclass(slots=True)
class CellScores:
    """The scores of one cell: a value per item and metric, sorted by item."""

    key: CellKey
    items: IntArray
    """Codes of the items that have at least one row without error; equal codes are equal items."""
    values: dict[str, FloatArray]
    n_rows: int
    n_errors: int
    replicates: float
    """Rows without error per item, on average."""
    asked: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Codes of all items that were asked, those included whose every row failed."""
    failed: FloatArray = field(default_factory=lambda: np.empty(0))
    """Share of the rows of each item of ``asked`` that failed, 0..1."""
    unscored: FloatArray = field(default_factory=lambda: np.empty(0))
    """Share of them that were answered and have no score: the judge could not be read, the scorer gave no number."""
    answers: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Scored answers behind the value of each item of ``items``; empty where it is not known."""

    def metric(self, name: str) -> ItemValues:
        """A metric of the items for which it is defined; empty for an unknown one.

        A metric is undefined for an item whose rows do not carry it.
        """
        values = self.values.get(name)
        if values is None:
            return ItemValues(self.items[:0], np.empty(0))
        defined = np.isfinite(values)
        return ItemValues(self.items[defined], values[defined])

    def both(self, first: str, second: str) -> tuple[FloatArray, FloatArray]:
        """Values of two metrics on the items that have both, in the order of ``items``.

        Both are empty where the cell lacks one of the metrics.
        """
        _, (firsts, seconds) = on_common_items(self.metric(first), self.metric(second))
        return firsts, seconds

    def counts(self, prefix: str = "") -> FloatArray:
        """``(tp, fp, fn)`` per item, averaged over replicates; only for tasks in ``ItemScores.pooled``.

        ``prefix`` is ``lenient_`` for the counts under the lenient rules, where :meth:`has_counts` says so.
        """
        return np.column_stack([self.values[prefix + name] for name in _COUNTS])

    def has_counts(self, prefix: str) -> bool:
        """Whether every item has counts under a prefix: rows scored before there were any have none."""
        columns = [self.values.get(prefix + name) for name in _COUNTS]
        return all(column is not None and bool(np.isfinite(column).all()) for column in columns)


@dataclass
class ItemScores:
    """All cells of the loaded logs."""

    cells: dict[CellKey, CellScores]
    models: dict[str, ModelInfo]
    operators: dict[tuple[str, str], tuple[str, ...]]
    """Operators by task and condition (alternatives resolve by task)."""
    temperature: dict[str, float]
    pooled: frozenset[str]
    """Tasks whose corpus figure is micro-F1 from pooled counts."""
    metrics: tuple[str, ...]
    item_names: dict[str, list[str]] = field(default_factory=dict)
    """Item ids of each task, by code."""
    operator_types: Mapping[str, str] = field(default_factory=dict)
    """Types of operators, as far as the run's manifest says them."""
    operator_work: Mapping[str, str] = field(default_factory=dict)
    """What operators do (``OperatorSpec.work``), as far as the run's manifest says it."""
    control: str | None = None
    """The condition that others are compared with, where a reader names one (``report --baseline``)."""
    missing: MissingAnswers = "bound"
    """What is made of answers that are missing."""
    clusters: Mapping[str, IntArray] = field(default_factory=dict)
    """Cluster of each item by its code, of tasks with related items; one code stands for one label in all tasks.

    A task that is not named has items that all stand for themselves (:func:`number_clusters`).
    """

    def cell_keys(self, *, perturbation: str | None = CLEAN) -> Iterator[CellKey]:
        """Cell keys in natural order; of clean prompts only, unless told otherwise.

        ``perturbation=None`` gives every cell, a name those of that perturbation.
        """
        return (key for key in self.cells if perturbation in (None, key.perturbation))

    @cached_property
    def tasks(self) -> list[str]:
        """Task ids."""
        return sorted({key.task for key in self.cells})

    def groups(self) -> dict[tuple[str, str, str], list[CellKey]]:
        """Clean cells of each ``(task, model, decoding)``, conditions in natural order.

        The members of a group differ in the condition alone, so that they can be compared.
        """
        return self._groups

    @cached_property
    def _groups(self) -> dict[tuple[str, str, str], list[CellKey]]:
        grouped: dict[tuple[str, str, str], list[CellKey]] = {}
        for key in self.cell_keys():
            grouped.setdefault((key.task, key.model, key.decoding), []).append(key)
        return grouped

    def without_tasks(self, tasks: Collection[str]) -> ItemScores:
        """The same without the cells of some tasks; itself where there are none of them."""
        if not any(key.task in tasks for key in self.cells):
            return self
        return replace(self, cells={key: cell for key, cell in self.cells.items() if key.task not in tasks})

    def baseline(self, keys: Sequence[CellKey]) -> CellKey | None:
        """The control of a group of cells in natural order, ``None`` where it has none.

        It is ``control`` where that is named (and then no other), else what :func:`control_among` finds.
        """
        if self.control is not None:
            return next((key for key in keys if key.condition == self.control), None)
        name = control_among({key.condition: self.operators_in(key) for key in keys})
        return next((key for key in keys if key.condition == name), None)

    def control_of(self, key: CellKey, among: Iterable[CellKey] | None = None) -> CellKey | None:
        """The control that a clean cell is compared with; ``None`` for the control itself and where there is none.

        It is that of the cell's group, or of those of its cells that are ``among`` some.
        """
        group = self._groups.get(key[:3], []) if among is None else among
        control = self.baseline([other for other in group if other[:4] == key[:4]])
        return None if control == key else control

    def operators_in(self, key: CellKey) -> tuple[str, ...]:
        """Operators of a cell's condition; none for a bare one and for one that the log does not describe."""
        return self.operators.get((key.task, key.condition), ())

    def is_pooled(self, task: str, metric: str = SCORE) -> bool:
        """Whether a metric's figure is micro-F1 of pooled counts, not a mean over items: the score of some tasks."""
        return metric == SCORE and task in self.pooled

    def codes(self, task: str) -> dict[str, int]:
        """The codes of a task's items, by id."""
        return {name: code for code, name in enumerate(self.item_names[task])}

    def clusters_of(self, task: str, items: IntArray) -> IntArray | None:
        """The cluster of each of a task's items, given by code; ``None`` where no two of them are related."""
        of_task = self.clusters.get(task)
        if of_task is None or not len(items):
            return None
        clusters = of_task[items]
        return clusters if len(np.unique(clusters)) < len(clusters) else None

    def measured(self, key: CellKey, metric: str) -> ItemValues:
        """What a cell's figure is made of: the metric item by item, or ``(tp, fp, fn)`` where counts are pooled."""
        cell = self.cells[key]
        return (
            ItemValues(cell.items, cell.counts()) if self.is_pooled(key.task, metric) else cell.metric(metric)
        )

    def arm(
        self,
        key: CellKey,
        metric: str,
        bounds: tuple[float, float] | None = None,
        *,
        pooled: bool | None = None,
        named: bool = False,
    ) -> ArmScores:
        """A cell as an arm of a contrast, over every item that it was asked: a metric, or counts that are ``pooled``.

        Counts are pooled where the metric's figure is micro-F1, unless told otherwise. ``bounds`` are the least and
        largest value of the metric. Items are codes, which only cells of these logs share, or ``named`` by their ids.
        """
        cell = self.cells[key]
        pooled = self.is_pooled(key.task, metric) if pooled is None else pooled
        prefix = "lenient_" if metric == LENIENT else ""
        values = cell.counts(prefix) if pooled else cell.values[metric]
        items, failed = cell.items, None
        if len(cell.asked):
            items, failed, answered = cell.asked, cell.failed, values
            if metric in (SCORE, LENIENT) and len(cell.unscored):
                # An answer whose judge could not be read has no score, as a failed call has none.
                failed = failed + cell.unscored
            values = np.full((len(items), *answered.shape[1:]), np.nan)
            values[np.searchsorted(items, cell.items)] = answered
        ids = np.array(self.item_names[key.task])[items] if named else items
        clusters = self.clusters_of(key.task, items)
        ambiguous = None
        if metric in (SCORE, LENIENT) and AMBIGUOUS in cell.values:
            ambiguous = np.zeros(len(items))
            ambiguous[np.searchsorted(items, cell.items)] = np.nan_to_num(cell.values[AMBIGUOUS])
        return ArmScores(values, ids, failed, cell.replicates, bounds, clusters, ambiguous)

    def has_lenient(self, key: CellKey) -> bool:
        """Whether a cell's figure can be told under the lenient rules too; logs of earlier versions have none."""
        cell = self.cells[key]
        return cell.has_counts("lenient_") if self.is_pooled(key.task) else LENIENT in cell.values

    def paired(self, treated: CellKey, control: CellKey, metric: str) -> tuple[FloatArray, FloatArray]:
        """Values of a metric on the items that both cells have, in the same order: treated, then control.

        Items that only one of them has, or where the metric is undefined in one, are left out.
        """
        _, (first, second) = on_common_items(*(self.cells[key].metric(metric) for key in (treated, control)))
        return first, second


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts ``C2`` before ``C10``.

    Numbers inside a name are compared as numbers, everything else as text, numbers last.

    >>> sorted(["C10", "C2"], key=natural_key)
    ['C2', 'C10']
    """
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part
    )


def least_random(regimes: Iterable[str], temperature: Mapping[str, float]) -> str:
    """The regime with the lowest temperature, of equal ones the first by name.

    Where a sentence or figure can speak of one regime only, it is this one.

    >>> least_random(["warm", "greedy"], {"warm": 0.7, "greedy": 0.0})
    'greedy'
    """
    return min(regimes, key=lambda name: (temperature.get(name) or 0.0, name))


def item_scores(tables: RunTables, squares: Sequence[str] = ()) -> ItemScores:
    """Average replicates within items, for every cell of the main rows; rows with errors count as none.

    The item is the unit of inference, so this comes before any statistic. A metric of a cell that no item has is
    left out of it. The table ``item_scores`` stays in the database; of the metrics named in ``squares`` it also has how
    many rows have the metric and the sum of their squares, which tell replicates from items.
    """
    metrics = {SCORE: tables.metric_column(LOGGED_SCORE) or "NULL::DOUBLE", **DIRECT}
    for name in tables.metrics:
        column = tables.metric_column(name)
        if column is not None and name != LOGGED_SCORE:
            metrics.setdefault(name, column)
    averages = ", ".join(
        f"avg({expression}) FILTER (n_errors = 0) AS {sql_name(name)}" for name, expression in metrics.items()
    )
    # A judge that could not be read, a scorer that gave no number: answered, and as good as failed.
    unscored = f"count(*) FILTER (n_errors = 0 AND {metrics[SCORE]} IS NULL)"
    averages += "".join(
        f", count({metrics[name]}) FILTER (n_errors = 0) AS {sql_name(COUNT_OF + name)}, sum(({metrics[name]})::DOUBLE"
        f" * ({metrics[name]})) FILTER (n_errors = 0) AS {sql_name(SQUARES_OF + name)}"
        for name in squares
        if name in metrics
    )
    tables.execute(
        f"CREATE OR REPLACE TABLE item_scores AS SELECT {CELL_KEY}, item_id, any_value(cluster) AS cluster,"
        " count(*) AS n_rows,"
        f" count(*) FILTER (n_errors > 0) AS n_errors, {unscored} AS n_unscored, {averages}"
        " FROM runs WHERE kind = 'main' GROUP BY ALL"
    )
    manifest = read_manifests(tables.logs)
    pooled: frozenset[str] = frozenset()
    if all(name in metrics for name in _COUNTS):
        # Tasks whose every scored row has the counts, unless the run says that their mean counts.
        counted = " AND ".join(f"{sql_name(METRIC_PREFIX + name)} IS NOT NULL" for name in _COUNTS)
        rows = tables.query(
            f"SELECT task_id FROM runs WHERE {USABLE} GROUP BY task_id HAVING bool_and({counted})"
        )
        notes = manifest.tasks
        pooled = frozenset(task for (task,) in rows if task not in notes or notes[task].pooling != "mean")
    names = tables.query(
        "SELECT task_id, list(DISTINCT item_id ORDER BY item_id) FROM item_scores GROUP BY task_id"
    )
    cells = {cell.key: cell for cell in _fetch_cells(tables, tuple(metrics))}
    order = sorted(cells, key=lambda key: tuple(natural_key(part) for part in key))
    # An entry that was edited in the middle of a run gives its model two of each: any of them stands for it.
    described = tables.query(
        "SELECT model_id, any_value(family), any_value(size), any_value(provider) FROM runs"
        " WHERE kind = 'main' GROUP BY model_id ORDER BY model_id"
    )
    models = {model: ModelInfo(*description) for model, *description in described}
    parameters = {model: note.params_b for model, note in manifest.models.items()}
    classes = size_classes(models, parameters, AnalysisSection.model_validate(manifest.analysis).size_classes)
    return ItemScores(
        cells={key: cells[key] for key in order},
        models={model: info._replace(size_class=classes[model]) for model, info in models.items()},
        operators={
            (task, condition): tuple(names.split("+")) if names else ()
            for task, condition, names in tables.query(
                "SELECT task_id, condition_id, any_value(operators) FROM runs WHERE kind = 'main'"
                " GROUP BY task_id, condition_id"
            )
        },
        temperature=dict(
            tables.query(
                "SELECT decoding_id, any_value(temperature) FROM runs WHERE kind = 'main' GROUP BY decoding_id"
            )
        ),
        pooled=pooled,
        metrics=tuple(metrics),
        item_names={task: list(ids) for task, ids in names},
        operator_types=manifest.operator_types,
        operator_work=manifest.operator_work,
        missing=tables.missing or ("drop" if manifest.missing == "drop" else "bound"),
        clusters=_clusters(
            tables, {task: note.labels for task, note in manifest.tasks.items() if note.labels}
        ),
    )


def _clusters(tables: RunTables, written: Mapping[str, Mapping[str, str]]) -> dict[str, IntArray]:
    """The clusters of ``ItemScores``, by the labels of the log; an item without a label stands for itself.

    Labels that the reader names go before those ``written`` in the manifest, and these before those of the rows.
    """
    rows = tables.query(
        "SELECT task_id, list(item_id ORDER BY item_id), list(label ORDER BY item_id) FROM (SELECT task_id, item_id,"
        # Rows that were kept from an earlier start may have another label: the newest counts, in every cell alike.
        " arg_max(nullif(cluster, ''), timestamp_utc) AS label FROM runs WHERE kind = 'main'"
        " GROUP BY task_id, item_id) GROUP BY task_id ORDER BY task_id"
    )
    other = written if tables.clusters is None else tables.clusters
    return number_clusters(
        {
            task: [other[task].get(name) for name in names] if task in other else labels
            for task, names, labels in rows
        }
    )


def number_clusters(labels: Mapping[str, Sequence[str | None]]) -> dict[str, IntArray]:
    """Cluster codes of each task's items from their labels, in the order of the items' codes.

    Only tasks with an item whose label another item has are there, be it of the same task or of another: a customer
    whose texts are in two tasks is one customer. An item without a label has a code of its own.

    >>> {task: codes.tolist() for task, codes in number_clusters({"a": ["x", "y", "x"], "b": ["z", None]}).items()}
    {'a': [0, 1, 0]}
    """
    codes: dict[str, int] = {}
    unlabelled = itertools.count(-1, -1)
    numbered = {
        task: np.array(
            [codes.setdefault(label, len(codes)) if label else next(unlabelled) for label in of_items],
            dtype=np.int64,
        )
        for task, of_items in labels.items()
    }
    every = np.concatenate([np.empty(0, dtype=np.int64), *numbered.values()])
    distinct, count = np.unique(every, return_counts=True)
    shared = distinct[count > 1]
    return {task: of_items for task, of_items in numbered.items() if np.isin(of_items, shared).any()}


def fetch_by_cell(
    tables: RunTables, source: str, columns: Sequence[str], *, rows_in: str = "", then: str = ""
) -> Iterator[tuple[CellKey, dict[str, npt.NDArray[Any]]]]:
    """The rows of a source, cell by cell: the code of each row's item as ``item``, and some columns as arrays.

    ``source`` is a table or a query in brackets, with the columns of a cell's key and ``item_id``; ``rows_in`` is what
    the query is over, in which the same cells are found without running it twice. Rows are sorted by item, and
    by ``then`` within it. An item's code is its rank among the items of its task in the source, so that equal codes
    mean equal items in all cells of the task.
    """
    keys = tables.query(f"SELECT DISTINCT {CELL_KEY} FROM {rows_in or source} ORDER BY {CELL_KEY}")
    fetched = tables.columns(
        f"SELECT dense_rank() OVER (ORDER BY {CELL_KEY}) AS cell, dense_rank() OVER (PARTITION BY task_id"
        f" ORDER BY item_id) - 1 AS item, {', '.join(columns)} FROM {source} ORDER BY cell, item{then}"
    )
    fetched["item"] = fetched["item"].astype(np.int64)
    starts = np.searchsorted(fetched.pop("cell"), np.arange(1, len(keys) + 2))
    for index, names in enumerate(keys):
        rows = slice(int(starts[index]), int(starts[index + 1]))
        yield CellKey(*names), {name: values[rows] for name, values in fetched.items()}


def _fetch_cells(tables: RunTables, metrics: Sequence[str]) -> Iterator[CellScores]:
    columns = ["n_rows", "n_errors", "n_unscored", *(sql_name(name) for name in metrics)]
    for key, rows in fetch_by_cell(tables, "item_scores", columns):
        n_rows, good = rows["n_rows"], rows["n_rows"] - rows["n_errors"]
        usable = good > 0
        values = {name: np.asarray(rows[name], dtype=np.float64)[usable] for name in metrics}
        yield CellScores(
            key=key,
            items=rows["item"][usable],
            values={name: column for name, column in values.items() if np.isfinite(column).any()},
            n_rows=int(n_rows.sum()),
            n_errors=int(rows["n_errors"].sum()),
            replicates=float(good[usable].mean()) if usable.any() else 0.0,
            asked=rows["item"],
            failed=1.0 - np.asarray(good / n_rows, dtype=np.float64),
            unscored=np.asarray(rows["n_unscored"] / n_rows, dtype=np.float64),
            answers=np.asarray(good - rows["n_unscored"], dtype=np.int64)[usable],
        )
