"""What the pages are made of: the cells, items and answers of one run.

DuckDB answers over the run's Parquet; a run in progress is read on from its log. Rows are never all loaded: what a page
needs of every row (scores by item and cell) is aggregated once for each state of the log and kept as Parquet, ordered
so that a page reads only its own slice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pcsuite._util.hashing import sha256_hex
from pcsuite.ablation.arms import FULL
from pcsuite.analysis.load.item_scores import control_among, natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.load import Suite
from pcsuite.errors import ConfigError, LogError
from pcsuite.logging.ledger import last_start_ended
from pcsuite.logging.log import logged_rows, read_prompts
from pcsuite.logging.manifest import RunManifest, read_manifest
from pcsuite.logging.segments import Beside, log_segments
from pcsuite.prompts.verbatim import readable
from pcsuite.view.cells import make_cells
from pcsuite.view.filters import AXES, OUTCOMES, Filter, state_of
from pcsuite.view.run_items import RunItems
from pcsuite.view.runs import RunEntry, RunTotals, cost_of, refreshed
from pcsuite.view.slices import SliceScores, related
from pcsuite.view.where import NUMBERS, TEXTS, Comparison, parse_where

Key = TypeVar("Key", bound=Hashable)
Rows = TypeVar("Rows")
MEMORY = "700MB"
NATURAL_ORDER = "regexp_replace(item_id, '[0-9]+$', ''), length(item_id), item_id"
"""Item 2 before item 10."""
CACHED_SEARCHES = 16
CACHED_SCORES = 4_000_000
"""Scores of slices that are kept, so that paging, sorting and effects of the same slice read nothing again."""
SMALL_LOG_BYTES = 200 << 20
"""Bytes of a log that are read through for the steps of a loop without being asked to."""
REREAD_FACTOR = 10.0
"""A log that goes on is read on after so many times the seconds that reading it took the last time."""


class ItemCell(NamedTuple):
    """One item under one column, replicates folded."""

    column: str
    n: int
    score: float | None
    low: float | None
    high: float | None
    flags: dict[str, int]


def condition_order(bundles: Mapping[str, Sequence[str]]) -> list[str]:
    """Conditions, given by their operators, in the order of columns: first what the others are compared with.

    That is the full prompt of an ablation, followed by the prompts that lack one block in the order of the blocks, else
    the control of the conditions; all others are in natural order.

    >>> condition_order({"none": (), "-b": ("a",), "-a": ("b",), "full": ("a", "b"), "+a": ("a",)})
    ['full', '-a', '-b', 'none', '+a']
    """
    drops = [f"-{name}" for name in bundles.get(FULL, ()) if f"-{name}" in bundles]
    control = FULL if drops else control_among({name: bundles[name] for name in _natural(bundles)})
    first = [control, *drops] if control is not None else []
    return [*first, *(name for name in _natural(bundles) if name not in first)]


def _natural(values: Iterable[str]) -> list[str]:
    return sorted(values, key=lambda value: (value != "none", natural_key(value)))


class OpenRun:
    """One run, opened for looking; safe to use from several threads.

    :meth:`refresh` reads on where the log has grown. With ``beginning`` about so many bytes of the log are read, and
    :attr:`share` is below 1.
    """

    def __init__(
        self, entry: RunEntry, folder: Path, suite: Suite | None = None, *, beginning: int | None = None
    ) -> None:
        self.name, self.log, self.ablation = entry.name, entry.log, entry.ablation
        self._entry = entry
        self.manifest = RunManifest()
        self.folder = folder
        self._suite = suite
        self._beginning = beginning
        self._lock = threading.RLock()
        self._stamp: tuple[int, float] | None = None
        self._tables: RunTables | None = None
        self._next_read = 0.0
        self._cached_searches: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._cached_scores: dict[Any, SliceScores] = {}
        self._cached_rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        self.refresh()

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
                self._tables = None

    @property
    def is_behind(self) -> bool:
        """Whether the log has changed and it is time to read it again: a large one is not read at every request.

        What a run wrote last is read as soon as it has ended.
        """
        if self.is_current:
            return False
        return time.monotonic() >= self._next_read or last_start_ended(self.log)

    @property
    def is_current(self) -> bool:
        """Whether everything that is in the log has been read."""
        return self._log_stamp() == self._stamp

    @property
    def is_live(self) -> bool:
        """Whether the run goes on."""
        return refreshed(self._entry).is_live

    def _log_stamp(self) -> tuple[int, float]:
        stats = [segment.path.stat() for segment in log_segments(self.log)]
        return sum(entry.st_size for entry in stats), max((entry.st_mtime for entry in stats), default=0.0)

    def refresh(self) -> bool:
        """Read what the log has gained; returns whether there was anything new.

        Pages go on with what was known until all of it has been read. Raises ``LogError`` or ``AnalysisError`` where
        the log is gone or has no row.
        """
        started = time.monotonic()
        stamp = self._log_stamp()
        if stamp == self._stamp:
            return False
        tables = RunTables([self.log], self.folder, memory=MEMORY, cell_rows=False, beginning=self._beginning)
        tables.__enter__()
        try:
            make_cells(tables, self.folder)
        except BaseException:
            tables.close()
            raise
        with self._lock:
            old, self._tables, self._stamp = self._tables, tables, stamp
            self.manifest = read_manifest(self.log) or RunManifest()
            for name in ("values", "bundles", "items", "_clusters"):
                self.__dict__.pop(name, None)
            self._cached_searches.clear()
            self._cached_scores.clear()
            self._cached_rows.clear()
            if old is not None:
                old.close()
        self._next_read = time.monotonic() + REREAD_FACTOR * (time.monotonic() - started)
        return True

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query over ``runs`` and ``cells``."""
        with self._lock:
            return self._opened.query(sql, parameters)

    def cached_query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query that reads all answers, asked once for each state of the log."""
        key = (sql, sha256_hex(repr(parameters)))
        return self._remembered(self._cached_rows, key, lambda: self.query(sql, parameters))

    def _remembered(self, cache: dict[Key, Rows], key: Key, make: Callable[[], Rows]) -> Rows:
        """What a cache has under a key, made where it has none; the oldest entry makes room."""
        with self._lock:
            if key not in cache:
                if len(cache) >= CACHED_SEARCHES:
                    del cache[next(iter(cache))]
                cache[key] = make()
            return cache[key]

    def columns(self, sql: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """Columns of a query as arrays."""
        with self._lock:
            return self._opened.columns(sql, parameters)

    @property
    def _opened(self) -> RunTables:
        if self._tables is None:
            raise ConfigError(f"run '{self.name}' was closed", hint="load the page again")
        return self._tables

    @cached_property
    def values(self) -> dict[str, dict[str, list[str]]]:
        """By task, as the manifest orders them, the values of each axis in natural order.

        Conditions begin with the one that others are compared with (:func:`condition_order`).
        """
        by_axis: dict[str, dict[str, set[str]]] = {}
        bundles: dict[str, dict[str, tuple[str, ...]]] = {}
        columns = ", ".join(AXES.values())
        for task, *axes, operators in self.query(f"SELECT DISTINCT task_id, {columns}, operators FROM cells"):
            row = dict(zip(AXES, axes, strict=True))
            bundles.setdefault(task, {})[row["condition"]] = tuple(filter(None, (operators or "").split("+")))
            for axis, value in row.items():
                by_axis.setdefault(task, {}).setdefault(axis, set()).add(value)
        order = {task: number for number, task in enumerate(self.manifest.tasks)}
        return {
            task: {
                axis: condition_order(bundles[task]) if axis == "condition" else _natural(listed)
                for axis, listed in by_axis[task].items()
            }
            for task in sorted(by_axis, key=lambda task: (order.get(task, len(order)), natural_key(task)))
        }

    @cached_property
    def _clusters(self) -> dict[str, dict[str, str]]:
        """By task with related items, the cluster of each item that has one."""
        rows = self.query(
            "SELECT task_id, item_id, max(cluster) AS label FROM cells WHERE cluster IS NOT NULL AND task_id IN"
            " (SELECT task_id FROM cells WHERE cluster IS NOT NULL GROUP BY task_id"
            " HAVING count(DISTINCT cluster) < count(DISTINCT item_id)) GROUP BY task_id, item_id"
        )
        by_task: dict[str, dict[str, str]] = {}
        for task, item, label in rows:
            by_task.setdefault(task, {})[item] = label
        return by_task

    def clusters_of(self, task: str) -> dict[str, str]:
        """The cluster of each item of a task by its id; empty where no items are related."""
        return self._clusters.get(task, {})

    @cached_property
    def bundles(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Operators of each condition by task, in natural order of the conditions."""
        rows = self.query("SELECT DISTINCT task_id, condition_id, operators FROM cells")
        named = {
            (task, name): tuple(part for part in (listed or "").split("+") if part)
            for task, name, listed in rows
        }
        return {
            task: {name: named[task, name] for name in axes["condition"]}
            for task, axes in self.values.items()
        }

    def summary(self) -> RunTotals:
        """Rows, mean score, failures, tokens and cost of the whole run."""
        by_model = self.query(
            "SELECT model_id, sum(n), sum(failed), sum(scored), sum(score * scored), sum(all_tokens),"
            " sum(all_prompt_tokens) FROM cells GROUP BY model_id ORDER BY model_id"
        )
        rows, failed, scored, points, tokens = (
            sum(float(row[index] or 0) for row in by_model) for index in range(1, 6)
        )
        spent = {
            model: (float(asked or 0), float(every or 0) - float(asked or 0))
            for model, *_, every, asked in by_model
        }
        score = points / scored if scored else None
        return RunTotals(int(rows), int(failed), score, round(tokens), cost_of(self.manifest, spent))

    # -- the matrix ---------------------------------------------------------------------------------------------

    def matching(
        self, selection: Filter, marks: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[str, list[Any]]:
        """A query for the ids of the items that a filter lets through, and its parameters."""
        rest, parameters = self._grouped(selection, marks)
        return f"SELECT item_id {rest}", parameters

    def _grouped(
        self, selection: Filter, marks: Mapping[tuple[str, str], str] | None
    ) -> tuple[str, list[Any]]:
        """The cells of a filter grouped by item, from FROM on, and the parameters."""
        column = AXES[selection.columns]
        inside = " AND ".join(["task_id = ?", *(f"{AXES[axis]} = ?" for axis in selection.fixed)])
        parameters: list[Any] = [selection.task, *selection.fixed.values()]
        where, having = [inside], list[str]()
        compared: list[Any] = []
        for chosen in self._chosen_items(selection, inside, marks):
            where.append("item_id IN (SELECT unnest(?))")
            parameters.append(sorted(chosen))
        kind, _, name = selection.only.partition(":")
        if kind == "differ":
            having.append("max(score) IS DISTINCT FROM min(score)")
        elif kind in OUTCOMES:
            having.append(f"sum({kind}) > 0")
        elif kind in ("fixed", "broken"):
            having.append(f"max(score) FILTER ({column} = ?) > max(score) FILTER ({column} = ?)")
            compared += [name, selection.base] if kind == "fixed" else [selection.base, name]
        for limit, sign in ((selection.tokens_from, ">="), (selection.tokens_to, "<=")):
            if limit is not None:
                having.append(f"max(prompt_tokens) FILTER ({column} = ?) {sign} ?")
                compared += [selection.base, limit]
        sql = f"FROM cells WHERE {' AND '.join(where)} GROUP BY item_id"
        return sql + (f" HAVING {' AND '.join(having)}" if having else ""), [*parameters, *compared]

    def _chosen_items(
        self, selection: Filter, inside: str, marks: Mapping[tuple[str, str], str] | None
    ) -> list[Collection[str]]:
        """Items that a search, a label, a group and a mark each let through, as far as the filter has them."""
        selections: list[Collection[str]] = []
        if selection.query:
            selections.append(
                self._items_containing(
                    selection.query, selection.task, inside, (selection.task, *selection.fixed.values())
                )
            )
        if selection.where:
            selections.append(self._items_where(selection, inside))
        if selection.label:
            truths = self.items.truths(selection.task)
            selections.append([item for item, truth in truths.items() if truth == selection.label])
        if selection.group:
            name, _, value = selection.group.partition(":")
            selections.append(self.items.in_group(selection.task, name, value))
        if selection.marked:
            listed = {item: label for (task, item), label in (marks or {}).items() if task == selection.task}
            selections.append([item for item, label in listed.items() if selection.marked in ("any", label)])
        return selections

    def _items_where(self, selection: Filter, inside: str) -> list[str]:
        """Items of which the filter's condition is true; remembered until the log grows."""
        parameters = (selection.task, *selection.fixed.values())
        axis = AXES[selection.columns]

        def matching(compared: Comparison) -> Collection[str]:
            column, value = compared.column or selection.base, compared.value
            if compared.field in NUMBERS:
                name = {"tokens": "tokens", "answers": "n"}.get(compared.field, "score")
                sign = compared.sign.replace("!=", "<>")
                rows = self.query(
                    f"SELECT item_id FROM cells WHERE {inside} AND {axis} = ? AND {name} {sign} ?",
                    [*parameters, column, value],
                )
                return [item for (item,) in rows]
            words = str(value).casefold()
            if compared.field in TEXTS:
                test = (
                    f"contains(lower({compared.field}), lower(?))"
                    if "~" in compared.sign
                    else f"lower({compared.field}) = lower(?)"
                )
                rows = self.query(
                    f"SELECT DISTINCT item_id FROM runs WHERE kind = 'main' AND {inside} AND {axis} = ? AND {test}",
                    [*parameters, column, value],
                )
                fitting = {item for (item,) in rows}
            else:
                texts = {item: item for item in every}
                if compared.field != "item":
                    texts = (self.items.inputs if compared.field == "input" else self.items.truths)(
                        selection.task
                    )
                fitting = {
                    item
                    for item, text in texts.items()
                    if (words in text.casefold() if "~" in compared.sign else words == text.casefold())
                }
            return every - fitting if compared.sign.startswith("!") else fitting

        def search() -> list[str]:
            condition = parse_where(selection.where, self.values[selection.task][selection.columns])
            return sorted(condition.items(every, matching))

        every = {
            item for (item,) in self.query(f"SELECT DISTINCT item_id FROM cells WHERE {inside}", parameters)
        }
        key = (selection.where, (*parameters, selection.columns, selection.base))
        return self._remembered(self._cached_searches, key, search)

    def texts(self, selection: Filter, items: Sequence[str]) -> dict[tuple[str, str], str]:
        """The first answer to some items under each column, by item and column, inside a filter's cells."""
        axis = AXES[selection.columns]
        inside = " AND ".join(["task_id = ?", *(f"{AXES[name]} = ?" for name in selection.fixed)])
        rows = self.query(
            f"SELECT item_id, {axis}, arg_min(coalesce(nullif(errors, ''), text), seed) FROM runs WHERE kind = 'main'"
            f" AND {inside} AND item_id IN (SELECT unnest(?)) GROUP BY item_id, {axis}",
            [selection.task, *selection.fixed.values(), list(items)],
        )
        return {(item, name): text or "" for item, name, text in rows}

    def _items_containing(self, query: str, task: str, inside: str, parameters: tuple[str, ...]) -> list[str]:
        """Items whose input, or an answer inside the filter, has a text in it.

        Remembered until the log grows: a page needs it several times, and texts are most of a run's bytes.
        """

        def search() -> list[str]:
            rows = self.query(
                f"SELECT DISTINCT item_id FROM runs WHERE {inside} AND contains(lower(text), lower(?))",
                [*parameters, query],
            )
            inputs = self.items.inputs(task).items()
            asked = [item for item, text in inputs if query.casefold() in text.casefold()]
            return list({*asked, *(item for (item,) in rows)})

        return self._remembered(self._cached_searches, (query, parameters), search)

    def page(
        self, selection: Filter, offset: int, limit: int, marks: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[int, list[tuple[str, dict[str, ItemCell]]]]:
        """How many items a filter lets through, and one page of them with their cells by column."""
        scores = self.scores(selection, marks)
        order = _ordered(scores, selection)
        names = [scores.items[index] for index in order[offset : offset + limit]]
        column = AXES[selection.columns]
        where = ["task_id = ?", *(f"{AXES[axis]} = ?" for axis in selection.fixed)]
        rows = self.query(
            f"SELECT item_id, {column}, n, score, low, high, {', '.join(OUTCOMES)} FROM cells"
            f" WHERE {' AND '.join(where)} AND item_id IN (SELECT unnest(?))",
            [selection.task, *selection.fixed.values(), names],
        )
        cells: dict[str, dict[str, ItemCell]] = {name: {} for name in names}
        for item, value, n, score, low, high, *flags in rows:
            named = {flag: int(count) for flag, count in zip(OUTCOMES, flags, strict=True) if count}
            cells[item][value] = ItemCell(value, int(n), score, low, high, named)
        return len(scores.items), list(cells.items())

    def neighbours(
        self, selection: Filter, item: str, marks: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[str | None, str | None]:
        """The items before and after one in the matrix as it is filtered and sorted; ``None`` where there is none."""
        scores = self.scores(selection, marks)
        names = [scores.items[index] for index in _ordered(scores, selection)]
        if item not in names:
            return None, None
        index = names.index(item)
        return (names[index - 1] if index else None), (names[index + 1] if index + 1 < len(names) else None)

    def scores(self, selection: Filter, marks: Mapping[tuple[str, str], str] | None = None) -> SliceScores:
        """Scores of all items that a filter lets through, by column; remembered until the log grows."""
        marked = frozenset((marks or {}).items()) if selection.marked else None
        key = (tuple(state_of(replace(selection, sort="item")).items()), marked)
        with self._lock:
            if key in self._cached_scores:
                self._cached_scores[key] = self._cached_scores.pop(key)  # the last used goes last
                return self._cached_scores[key]
        rest, parameters = self._grouped(selection, marks)
        names = self.values[selection.task][selection.columns]
        column = AXES[selection.columns]
        pivoted = ", ".join(
            f"max({value}) FILTER ({column} = ?) AS {value}{index}"
            for value in ("score", "lenient")
            for index in range(len(names))
        )
        pivot = self.columns(
            f"SELECT item_id, sum(ambiguous) AS ambiguous, {pivoted} {rest} ORDER BY {NATURAL_ORDER}",
            [*names, *names, *parameters],
        )
        by_column, lenient = (
            {name: pivot[f"{value}{index}"].astype(float) for index, name in enumerate(names)}
            for value in ("score", "lenient")
        )
        items, labels = pivot["item_id"].tolist(), self.clusters_of(selection.task)
        clusters = related([labels.get(item) for item in items]) if labels else None
        scores = SliceScores(
            items, by_column, clusters, self._replicates(selection), lenient, pivot["ambiguous"] > 0
        )
        with self._lock:
            self._cached_scores[key] = scores
            # An id takes about as much memory as eight scores.
            sizes = [
                len(entry.items) * (2 * len(entry.columns) + 8) for entry in self._cached_scores.values()
            ]
            while len(sizes) > 1 and sum(sizes) > CACHED_SCORES:
                del self._cached_scores[next(iter(self._cached_scores))], sizes[0]
        return scores

    def _replicates(self, selection: Filter) -> dict[str, float]:
        """Scored answers of an item by column, on average, in the cells that a filter is about."""
        column = AXES[selection.columns]
        inside = " AND ".join(["task_id = ?", *(f"{AXES[axis]} = ?" for axis in selection.fixed)])
        rows = self.query(
            f"SELECT {column}, avg(scored) FROM cells WHERE scored > 0 AND {inside} GROUP BY {column}",
            [selection.task, *selection.fixed.values()],
        )
        return {name: float(answers) for name, answers in rows}

    # -- one item -----------------------------------------------------------------------------------------------

    def answers(self, task: str, item: str) -> list[dict[str, Any]]:
        """Every row of an item, conditions in natural order, with its metrics."""
        names = (
            "run_id", "model_id", "condition_id", "decoding_id", "seed", "perturbation_type", "perturbation_id", "text",
            "answer", "reading", "json_valid", "schema_valid", "json_mode", "fields", "parse_errors", "errors",
            "finish_reason", "latency_ms", "prompt_tokens", "completion_tokens", "total_tokens", "constraint_backend",
            "cache_hit", "provider", "react_steps", "tool_calls", "steps", "attempts", "prompt_hash", "operators",
        )  # fmt: skip
        tables = self._opened
        metrics = [name for name, kind in tables.metrics.items() if kind == "number"]
        columns = [*names, *(str(tables.metric_column(name)) for name in metrics)]
        rows = self.query(
            f"SELECT {', '.join(columns)} FROM runs WHERE kind = 'main' AND task_id = ? AND item_id = ?",
            [task, item],
        )
        records = []
        for row in rows:
            record = dict(zip(names, row[: len(names)], strict=True))
            values = zip(metrics, row[len(names) :], strict=True)
            record["metrics"] = {name: value for name, value in values if value is not None}
            records.append(record)
        records.sort(
            key=lambda r: (
                natural_key(r["condition_id"]),
                r["model_id"],
                r["decoding_id"],
                r["perturbation_type"],
                r["seed"],
            )
        )
        return records

    @property
    def is_small(self) -> bool:
        """Whether the log is small enough to be read through for one page."""
        return (self._stamp or (0, 0.0))[0] <= SMALL_LOG_BYTES

    def logged(self, run_ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """Rows as the log has them, with what the tables lack (steps of loops, calls of a judge); the newest counts.

        Reads the log through, once for all of them.
        """
        return logged_rows(self.log, run_ids)

    @property
    def share(self) -> float:
        """Share of the log's bytes that was read; 1 for all."""
        with self._lock:
            return self._opened.loaded.share

    @property
    def altered_rows(self) -> int:
        """Rows of the log that are left out because they are not as they were written."""
        with self._lock:
            return self._opened.loaded.altered_count

    @property
    def has_ambiguous(self) -> bool:
        """Whether an answer can be read in two ways."""
        return bool(self.cached_query("SELECT 1 FROM cells WHERE ambiguous > 0 LIMIT 1"))

    @property
    def has_sample(self) -> bool:
        """Whether answers of the run were drawn to be labelled."""
        return Beside.JUDGE_SAMPLE.of(self.log).is_file()

    def prompts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Texts of prompts by hash; those that are not at hand are left out."""
        try:
            texts = read_prompts(Beside.PROMPTS.of(self.log), [name for name in hashes if name])
            return {name: readable(text) for name, text in texts.items()}
        except LogError:
            return {}

    @cached_property
    def items(self) -> RunItems:
        """The items that the run asked, as its tasks have them."""

        def asked(task: str) -> set[str]:
            return {
                item for (item,) in self.query("SELECT DISTINCT item_id FROM cells WHERE task_id = ?", [task])
            }

        return RunItems.of(self.log, self._suite, self.values, asked)


def _ordered(scores: SliceScores, selection: Filter) -> list[int]:
    """Indices of the items in the order of the matrix, those without the score that is sorted by last."""
    descending = selection.sort.startswith("-")
    kind, _, name = selection.sort.removeprefix("-").partition(":")
    if kind not in ("score", "gain"):
        indices = range(len(scores.items))
        if descending or scores.ambiguous is None:
            return list(reversed(indices) if descending else indices)
        # What no rule could read for certain is what a person should see first.
        return [int(index) for index in np.argsort(~scores.ambiguous, kind="stable")]
    key = scores.columns[name]
    if kind == "gain":
        key = key - scores.columns[selection.base]
    return [int(index) for index in np.argsort(-key if descending else key, kind="stable")]
