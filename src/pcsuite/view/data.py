"""What the pages are made of: the runs of a folder, and the cells, items and answers of one.

DuckDB answers over the run's Parquet; a run in progress is read on from its log. Rows are never all loaded: what a page
needs of every row (scores by item and cell) is aggregated once for each state of the log, and kept as a table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.config.load import Suite, load_suite
from pcsuite.data.items import Item, task_items
from pcsuite.errors import ConfigError, LogError, PcsuiteError
from pcsuite.logging.labels import sample_path
from pcsuite.logging.log import read_prompts
from pcsuite.logging.manifest import RunManifest, manifest_path, read_manifest
from pcsuite.logging.segments import log_segments
from pcsuite.prompts.verbatim import readable
from pcsuite.view.filters import AXES, OUTCOMES, Filter
from pcsuite.view.slices import SliceScores

MEMORY = "700MB"
REMEMBERED_SEARCHES = 16
RUNNING_SECONDS = 15
"""A log written to this lately belongs to a run in progress."""


class RunEntry(NamedTuple):
    """A run in the overview."""

    name: str
    log: Path
    manifest: RunManifest
    size: int
    modified: datetime

    @property
    def ablation(self) -> Path | None:
        """What an ablation found (``ablation.json``), where the run is one that has ended."""
        found = self.log.parent.parent / "ablation.json"
        return found if self.log.parent.parent.parent.name == "ablations" and found.is_file() else None

    @property
    def is_live(self) -> bool:
        """Whether the log was written to in the last seconds."""
        return (datetime.now(timezone.utc) - self.modified).total_seconds() < RUNNING_SECONDS


def list_runs(output_dir: Path) -> list[RunEntry]:
    """The runs of an output folder, the newest first; those whose manifest cannot be read come with an empty one.

    A manifest is read again only when its file has changed.
    """
    found = []
    folder = Path(output_dir)
    for log in [*folder.glob("runs/*.jsonl"), *folder.glob("ablations/*/runs/*.jsonl")]:
        stats = [segment.path.stat() for segment in log_segments(log)]
        if stats:
            newest = max(entry.st_mtime for entry in stats)
            modified = datetime.fromtimestamp(newest, timezone.utc)
            size = sum(entry.st_size for entry in stats)
            found.append(RunEntry(log.stem, log, _manifest(log), size, modified))
    return sorted(found, key=lambda entry: entry.modified, reverse=True)


def _manifest(log: Path) -> RunManifest:
    try:
        written = manifest_path(log).stat()
    except OSError:
        return RunManifest()
    return _manifest_as_of(log, (written.st_ino, written.st_mtime_ns, written.st_size))


@lru_cache(maxsize=4096)
def _manifest_as_of(log: Path, stamp: tuple[int, int, int]) -> RunManifest:
    """A manifest as its file stood at ``stamp``; nobody changes what is returned."""
    try:
        return read_manifest(log) or RunManifest()
    except LogError:
        return RunManifest()


class Cell(NamedTuple):
    """One item under one column, replicates folded."""

    column: str
    n: int
    score: float | None
    low: float | None
    high: float | None
    flags: dict[str, int]


class OpenRun:
    """One run, opened for looking; safe to use from several threads.

    :meth:`refresh` reads on where the log has grown.
    """

    def __init__(self, entry: RunEntry, folder: Path, suite: Suite | None = None) -> None:
        self.name, self.log, self.ablation = entry.name, entry.log, entry.ablation
        self._folder = folder
        self._suite = suite
        self._lock = threading.RLock()
        self._stamp: tuple[int, float] | None = None
        self._tables: RunTables | None = None
        self._searched: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self.refresh()

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
                self._tables = None

    def refresh(self) -> bool:
        """Read what the log has gained; returns whether there was anything new."""
        with self._lock:
            stats = [segment.path.stat() for segment in log_segments(self.log)]
            stamp = (
                sum(entry.st_size for entry in stats),
                max((entry.st_mtime for entry in stats), default=0.0),
            )
            if stamp == self._stamp:
                return False
            self.close()
            tables = RunTables([self.log], self._folder, memory=MEMORY, cell_rows=False)
            tables.__enter__()
            self._tables, self._stamp = tables, stamp
            self.manifest = read_manifest(self.log) or RunManifest()
            self._aggregate()
            return True

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query over ``runs`` and ``cells``."""
        with self._lock:
            assert self._tables is not None
            return self._tables.query(sql, parameters)

    def columns(self, sql: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """Columns of a query as arrays."""
        with self._lock:
            assert self._tables is not None
            return self._tables.columns(sql, parameters)

    def _aggregate(self) -> None:
        """``cells``: one row for each item and cell, with what every page filters and sorts by."""
        assert self._tables is not None
        tables = self._tables
        score = tables.metric_column("task_score") or "NULL"
        abstained = tables.metric_column("abstained") or "0"
        tables.execute("SET threads = 2")
        tables.execute(
            f"""
            CREATE TABLE cells AS
            SELECT task_id, item_id, model_id, decoding_id, perturbation_type, condition_id, count(*) AS n,
                   avg({score}) FILTER (n_errors = 0) AS score, min({score}) AS low, max({score}) AS high,
                   count(*) FILTER (n_errors > 0) AS failed,
                   count(*) FILTER (n_errors = 0 AND answer IS NULL AND coalesce({abstained}, 0) = 0) AS unreadable,
                   count(*) FILTER (finish_reason = 'length') AS truncated,
                   count(*) FILTER (coalesce({abstained}, 0) > 0) AS abstained,
                   avg(total_tokens) AS tokens
            FROM runs WHERE kind = 'main' GROUP BY ALL
            """
        )
        self.__dict__.pop("values", None)
        self._searched.clear()

    @cached_property
    def values(self) -> dict[str, dict[str, list[str]]]:
        """By task, the values of each axis in natural order."""
        found: dict[str, dict[str, list[str]]] = {}
        for axis, column in AXES.items():
            for task, value in self.query(f"SELECT DISTINCT task_id, {column} FROM cells"):
                found.setdefault(task, {}).setdefault(axis, []).append(value)
        for axes in found.values():
            for listed in axes.values():
                listed.sort(key=lambda value: (value != "none", natural_key(value)))
        return found

    def bundles(self, task: str) -> dict[str, tuple[str, ...]]:
        """Operators of each condition of a task, in natural order of the conditions."""
        rows = self.query("SELECT DISTINCT condition_id, operators FROM runs WHERE task_id = ?", [task])
        named = {name: tuple(part for part in (listed or "").split("+") if part) for name, listed in rows}
        return {name: named[name] for name in self.values[task]["condition"]}

    def summary(self) -> dict[str, Any]:
        """Rows, mean score, failures and cost of the whole run."""
        sums = "sum(n), sum(failed), avg(score), sum(tokens * n)"
        rows, failed, score, tokens = self.query(f"SELECT {sums} FROM cells")[0]
        return {
            "rows": int(rows or 0),
            "failed": int(failed or 0),
            "score": score,
            "tokens": int(tokens or 0),
        }

    # -- the matrix ---------------------------------------------------------------------------------------------

    def matching(
        self, wanted: Filter, marks: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[str, list[Any]]:
        """A query for the ids of the items that a filter lets through, and its parameters."""
        column = AXES[wanted.columns]
        where, parameters = ["task_id = ?"], [wanted.task]
        for axis, value in wanted.fixed.items():
            where.append(f"{AXES[axis]} = ?")
            parameters.append(value)
        inside = " AND ".join(where)
        sql = f"SELECT item_id FROM cells WHERE {inside} GROUP BY item_id"
        kind, _, name = wanted.only.partition(":")
        given: list[Any] = list(parameters)
        if kind == "differ":
            sql += " HAVING max(score) IS DISTINCT FROM min(score)"
        elif kind in OUTCOMES:
            sql += f" HAVING sum({kind}) > 0"
        elif kind in ("fixed", "broken") and name:
            better, worse = (name, wanted.base) if kind == "fixed" else (wanted.base, name)
            sql += f" HAVING max(score) FILTER ({column} = ?) > max(score) FILTER ({column} = ?)"
            given += [better, worse]
        chosen = [f"item_id IN ({sql})"]
        if wanted.query:
            chosen.append("item_id IN (SELECT unnest(?))")
            given.append(self._saying(wanted.query, wanted.task, inside, tuple(parameters)))
        if wanted.label:
            chosen.append("item_id IN (SELECT unnest(?))")
            given.append([item for item, truth in self.truths(wanted.task).items() if truth == wanted.label])
        if wanted.marked:
            listed = [item for (task, item), label in (marks or {}).items() if task == wanted.task]
            kept = [item for item in listed if wanted.marked in ("any", (marks or {})[wanted.task, item])]
            chosen.append("item_id IN (SELECT unnest(?))")
            given.append(kept)
        return f"SELECT DISTINCT item_id FROM cells WHERE task_id = ? AND {' AND '.join(chosen)}", [
            wanted.task,
            *given,
        ]

    def _saying(self, query: str, task: str, inside: str, parameters: tuple[str, ...]) -> list[str]:
        """Items whose input, or an answer inside the filter, has a text in it.

        Remembered until the log grows: a page needs it several times, and texts are most of a run's bytes.
        """
        with self._lock:
            if (query, parameters) not in self._searched:
                rows = self.query(
                    f"SELECT DISTINCT item_id FROM runs WHERE {inside} AND contains(lower(text), lower(?))",
                    [*parameters, query],
                )
                inputs = self.inputs(task).items()
                asked = [item for item, text in inputs if query.casefold() in text.casefold()]
                if len(self._searched) >= REMEMBERED_SEARCHES:
                    del self._searched[next(iter(self._searched))]
                self._searched[query, parameters] = list({*asked, *(item for (item,) in rows)})
            return self._searched[query, parameters]

    def page(
        self, wanted: Filter, offset: int, limit: int, marks: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[int, list[tuple[str, dict[str, Cell]]]]:
        """How many items a filter lets through, and one page of them with their cells by column."""
        items, parameters = self.matching(wanted, marks)
        column = AXES[wanted.columns]
        where = ["task_id = ?", *(f"{AXES[axis]} = ?" for axis in wanted.fixed)]
        given = [wanted.task, *wanted.fixed.values()]
        total = int(self.query(f"SELECT count(*) FROM ({items})", parameters)[0][0])
        descending = wanted.sort.startswith("-")
        kind, _, name = wanted.sort.removeprefix("-").partition(":")
        key, more = "item_id", []
        if kind in ("score", "gain") and name:
            key, more = f"max(score) FILTER ({column} = ?)", [name]
            if kind == "gain":
                key, more = f"{key} - max(score) FILTER ({column} = ?)", [name, wanted.base]
        order = f"{key} {'DESC' if descending else 'ASC'} NULLS LAST, item_id"
        chosen = self.query(
            f"SELECT item_id FROM cells WHERE {' AND '.join(where)} AND item_id IN ({items}) GROUP BY item_id"
            f" ORDER BY {order} LIMIT {int(limit)} OFFSET {int(offset)}",
            [*given, *parameters, *more],
        )
        names = [item for (item,) in chosen]
        rows = self.query(
            f"SELECT item_id, {column}, n, score, low, high, unreadable, truncated, abstained, failed FROM cells"
            f" WHERE {' AND '.join(where)} AND list_contains(?, item_id)",
            [*given, names],
        )
        found: dict[str, dict[str, Cell]] = {name: {} for name in names}
        for item, value, n, score, low, high, *flags in rows:
            named = {flag: int(count) for flag, count in zip(OUTCOMES, flags, strict=True) if count}
            found[item][value] = Cell(value, int(n), score, low, high, named)
        return total, list(found.items())

    def scores(self, wanted: Filter, marks: Mapping[tuple[str, str], str] | None = None) -> SliceScores:
        """Scores of all items that a filter lets through, by column."""
        items, parameters = self.matching(wanted, marks)
        column = AXES[wanted.columns]
        where = ["task_id = ?", *(f"{AXES[axis]} = ?" for axis in wanted.fixed)]
        names = self.values[wanted.task][wanted.columns]
        pivoted = ", ".join(f"max(score) FILTER ({column} = ?) AS c{index}" for index in range(len(names)))
        found = self.columns(
            f"SELECT item_id, {pivoted} FROM cells WHERE {' AND '.join(where)} AND item_id IN ({items})"
            " GROUP BY item_id ORDER BY item_id",
            [*names, wanted.task, *wanted.fixed.values(), *parameters],
        )
        own = {name: found[f"c{index}"].astype(float) for index, name in enumerate(names)}
        return SliceScores(found["item_id"].tolist(), own)

    # -- one item -----------------------------------------------------------------------------------------------

    def answers(self, task: str, item: str) -> list[dict[str, Any]]:
        """Every row of an item, conditions in natural order, with its metrics."""
        names = (
            "run_id", "model_id", "condition_id", "decoding_id", "seed", "perturbation_type", "perturbation_id", "text",
            "answer", "json_valid", "schema_valid", "json_mode", "fields", "parse_errors", "errors", "finish_reason",
            "latency_ms", "prompt_tokens", "completion_tokens", "total_tokens", "constraint_backend", "cache_hit",
            "react_steps", "tool_calls", "attempts", "prompt_hash", "operators",
        )  # fmt: skip
        assert self._tables is not None
        metrics = [name for name, kind in self._tables.metrics.items() if kind == "number"]
        columns = [*names, *(str(self._tables.metric_column(name)) for name in metrics)]
        rows = self.query(
            f"SELECT {', '.join(columns)} FROM runs WHERE kind = 'main' AND task_id = ? AND item_id = ?",
            [task, item],
        )
        found = []
        for row in rows:
            record = dict(zip(names, row[: len(names)], strict=True))
            values = zip(metrics, row[len(names) :], strict=True)
            record["metrics"] = {name: value for name, value in values if value is not None}
            found.append(record)
        found.sort(
            key=lambda r: (
                natural_key(r["condition_id"]),
                r["model_id"],
                r["decoding_id"],
                r["perturbation_type"],
                r["seed"],
            )
        )
        return found

    def transcript(self, run_id: str) -> list[dict[str, Any]]:
        """The steps of a loop or of retries, where the row has any; read from the log itself."""
        needle = run_id.encode()
        for segment in log_segments(self.log):
            with segment.open() as stream:
                for line in stream:
                    if needle in line:
                        row = json.loads(line)
                        if row.get("run_id") == run_id:
                            return list((row.get("generation") or {}).get("transcript") or [])
        return []

    @property
    def has_sample(self) -> bool:
        """Whether answers of the run were drawn to be labelled."""
        return sample_path(self.log).is_file()

    def judge_calls(self, run_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        """What the judge said of some answers, by run id; read from the log itself, the newest row counts."""
        wanted, found = set(run_ids), {}
        for segment in log_segments(self.log):
            with segment.open() as stream:
                for line in stream:
                    name = line[11:75].decode("ascii", "replace")  # a line begins {"run_id":"…
                    if name in wanted:
                        found[name] = list(json.loads(line).get("judge") or [])
        return found

    def prompts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Texts of prompts by hash; those that are not at hand are left out."""
        try:
            found = read_prompts(self.log.with_suffix(".prompts.z"), [name for name in hashes if name])
            return {name: readable(text) for name, text in found.items()}
        except LogError:
            return {}

    # -- items as the task has them -----------------------------------------------------------------------------

    @cached_property
    def _items(self) -> dict[str, dict[str, Item]]:
        """Items by task and id, of the profile that was given or else of the bundled tasks."""
        found: dict[str, dict[str, Item]] = {}
        suite = self._suite
        try:
            suite = suite or load_suite("quickstart")
        except PcsuiteError:
            return found
        for task in self.values:
            spec = suite.tasks.get(task)
            if spec is not None:
                try:
                    items = task_items(spec, spec.split, Path(suite.profile.run.cache_dir)).items
                except PcsuiteError:
                    continue
                found[task] = {item.item_id: item for item in items}
        return found

    def item(self, task: str, item: str) -> Item | None:
        """The item itself, where the task's items are at hand."""
        return self._items.get(task, {}).get(item)

    def inputs(self, task: str) -> dict[str, str]:
        """Inputs of a task's items by id, as far as they are at hand."""
        return {name: item.input_text for name, item in self._items.get(task, {}).items()}

    def truths(self, task: str) -> dict[str, str]:
        """Labels of a task's items by id, where its truth is one word."""
        found = {}
        for name, item in self._items.get(task, {}).items():
            values = [
                value
                for key in ("label", "choice", "answer")
                if isinstance(value := item.truth.get(key), str)
            ]
            if values:
                found[name] = values[0]
        return found


class Viewer:
    """The runs of an output folder, opened as they are asked for."""

    def __init__(self, output_dir: Path, suite: Suite | None = None, evals: Path | None = None) -> None:
        self.output_dir = Path(output_dir)
        self.evals = evals
        """Folder of the verifier's evals, where there is one to look at."""
        self._suite = suite
        self._open: dict[str, OpenRun] = {}

    def entries(self) -> list[RunEntry]:
        """The runs that are there now, the newest first."""
        return list_runs(self.output_dir)

    def run(self, name: str) -> OpenRun:
        """A run by name, read on where its log has grown; a ``ConfigError`` where there is none."""
        entries = {entry.name: entry for entry in self.entries()}
        if name not in entries:
            raise ConfigError(f"there is no run '{name}' in {self.output_dir}")
        if name not in self._open:
            self._open[name] = OpenRun(entries[name], self.output_dir / "view" / name, self._suite)
        else:
            self._open[name].refresh()
        return self._open[name]

    def close(self) -> None:
        for run in self._open.values():
            run.close()
