"""The log as tables: ``runs.parquet``, ``runs.csv``, and a connection that answers questions about them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite._util.files import LOCK_NAME, Put, file_lock, replace_atomically, replacing, write_errors
from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.frame import quiet_connection
from pcsuite.analysis.load.parts import PARQUET, LogParts, file_stamp
from pcsuite.analysis.load.schema import (
    CLEAN_NAMES,
    CLEAN_UNNAMED,
    FLAT_COLUMNS,
    LOGICAL_KEY,
    METRIC_PREFIX,
    create_cell_rows,
    dotted_name,
    merged_metrics,
    metric_select_sql,
    sql_name,
    sql_text,
    well_formed_sql,
)
from pcsuite.analysis.table import FORMULA_STARTS
from pcsuite.config.profile import MissingAnswers
from pcsuite.errors import AnalysisError
from pcsuite.logging.log import warn_of_altered

_LOGGER = logging.getLogger("pcsuite")
DOTTED_VIEW = "runs_dotted.sql"
HELD_BYTES = 4 << 20
"""A ``runs.parquet`` up to this size is held as a table: planning a query over the file takes longer than its rows."""
JUDGED_RUN_ID = "judged_run_id"
VERDICT_METRICS = ("contradiction", "verifier_correct", "verifier_score")
"""What a row of kind ``verifier`` says about the main row that it names."""


@dataclass(slots=True)
class LoadReport:
    """What was read, and what could not be."""

    logs: list[str] = field(default_factory=list)
    lines: int = 0
    rows: int = 0
    malformed_count: int = 0
    malformed: dict[str, list[int]] = field(default_factory=dict)
    """First unreadable line numbers by log."""
    altered_count: int = 0
    """Rows that are not as they were written: their checksum differs. They are left out."""
    altered: dict[str, list[int]] = field(default_factory=dict)
    """First line numbers of such rows by log."""
    torn: list[str] = field(default_factory=list)
    """Logs whose last line is unfinished."""
    superseded: int = 0
    """Rows that a newer row with the same key replaces."""
    converted_bytes: int = 0
    """Bytes of log that were new since the last report."""
    share: float = 1.0
    """Share of the logs' bytes that was read: below 1 where their beginning was asked for."""


class RunTables:
    """Logs loaded into DuckDB; use as a context manager.

    ``runs`` has every counted row (the newest of each logical key, auxiliary kinds included). Main
    rows that a verifier pass judged have its verdict among their metrics. ``cell_rows`` has the same rows with
    the columns that most tables are made of, and answers faster; without ``cell_rows`` it is not made.
    """

    def __init__(
        self,
        logs: Sequence[Path],
        tables_dir: Path,
        *,
        memory: str | None = None,
        cell_rows: bool = True,
        beginning: int | None = None,
    ) -> None:
        """``memory`` is what the database may take before it spills to disk, ``"2GB"``; a fifth of all if not given.

        With ``beginning`` only about so many bytes of each log are loaded.
        """
        self.logs = [Path(log) for log in logs]
        self.folder = Path(tables_dir)
        self.loaded = LoadReport()
        self.metrics: dict[str, str] = {}
        """Metric names in the log and whether each is a ``number`` or ``text``."""
        self.stamp = ""
        """Changes with what was loaded."""
        self.clusters: Mapping[str, Mapping[str, str]] | None = None
        """Labels of clusters by task and item id, in place of those in the logs."""
        self.missing: MissingAnswers | None = None
        """What is made of missing answers, in place of what the manifests say."""
        self._memory = memory or f"{_memory_share() >> 20}MB"
        self._cell_rows = cell_rows
        self._beginning = beginning
        self._connection: Any = None

    def __enter__(self) -> RunTables:
        spill = self.folder / ".parts" / "spill"
        with write_errors(AnalysisError, self.folder):
            spill.mkdir(parents=True, exist_ok=True)
        # Half of the processors: a thread beside the database takes checksums, and threads that hand each other rows in
        # order take a third more work than one (10 s of CPU against 7 for a million rows).
        threads = max(1, min(4, (os.cpu_count() or 1) // 2))
        self._connection = quiet_connection(
            memory_limit=self._memory, threads=threads, temp_directory=str(spill)
        )
        try:
            with file_lock(self.folder / ".parts" / LOCK_NAME, waiting=self._say_waiting):
                self._load()
        except BaseException:
            self.close()
            raise
        return self

    def _say_waiting(self, by: str) -> None:
        _LOGGER.warning("%s: waiting: its tables are being made%s", self.folder, by)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query; ``parameters`` stand for its ``?``.

        tables.query("SELECT count(*) FROM runs WHERE task_id = ?", ["gsm8k"])
        """
        return list(self._connection.execute(sql, list(parameters)).fetchall())

    def columns(self, sql: str, parameters: Sequence[Any] = ()) -> dict[str, npt.NDArray[Any]]:
        """Columns of a query as arrays, by name.

        NULL becomes ``nan`` in columns of numbers (which are then floats) and ``None`` in text.
        """
        fetched: Mapping[str, Any] = self._connection.execute(sql, list(parameters)).fetchnumpy()
        return {name: _unmasked(values) for name, values in fetched.items()}

    def execute(self, sql: str) -> None:
        """Run a statement for its effect."""
        self._connection.execute(sql)

    def metric_column(self, name: str) -> str | None:
        """SQL name of a numeric metric's column, ``None`` where no row has it.

        A metric that is text anywhere in the log has no such column: it cannot be averaged.
        """
        return sql_name(METRIC_PREFIX + name) if self.metrics.get(name) == "number" else None

    def write_csv(self, put: Put = replacing) -> Path:
        """Write ``runs.csv``: every counted row, text cells made safe for spreadsheets; left where it is current.

        May run on a thread of its own beside queries. ``put`` is how the file takes its place. Returns its path.
        """
        target = self.folder / "runs.csv"
        note_file = self.folder / ".parts" / "runs_csv.json"
        if not self._is_noted(note_file, target):
            cursor = self._connection.cursor()
            described = cursor.execute("DESCRIBE SELECT * FROM runs").fetchall()
            starts = ", ".join(f"chr({ord(start)})" for start in FORMULA_STARTS)
            last = max(map(ord, FORMULA_STARTS))
            selected = ", ".join(
                # Few cells come before what follows the last of these characters, and no others have to be taken apart.
                f"CASE WHEN {column} < chr({last + 1}) AND left({column}, 1) IN ({starts})"
                f" THEN '''' || {column} ELSE {column} END AS {column}"
                if kind == "VARCHAR"
                else column
                for column, kind in ((sql_name(name), kind) for name, kind, *_ in described)
            )
            rows = f"SELECT * REPLACE ({CLEAN_UNNAMED}) FROM runs"
            with put(target) as partial:
                cursor.execute(
                    f"COPY (SELECT {selected} FROM ({rows})) TO {sql_text(str(partial))} (FORMAT csv, HEADER)"
                )
                cursor.close()
                stamp = file_stamp(partial)  # a rename leaves it as it is
            note_file.write_text(json.dumps({"stamp": self.stamp, "file": stamp}))
        return target

    def _load(self) -> None:
        parts = [LogParts(log, self.folder / ".parts") for log in self.logs]
        for part in parts:
            state = part.update(self._connection, beginning=self._beginning)
            report = self.loaded
            report.logs.append(part.log.name)
            report.lines += state.lines
            report.rows += state.rows
            report.converted_bytes += part.converted_bytes
            report.malformed_count += state.malformed_count
            if state.malformed:
                report.malformed[part.log.name] = state.malformed
            report.altered_count += state.altered_count
            if state.altered:
                report.altered[part.log.name] = state.altered
            warn_of_altered(part.log, state.altered_count, state.altered, "left out")
            if part.torn_bytes:
                report.torn.append(part.log.name)
        read = sum(part.state.consumed for part in parts), sum(part.log_bytes for part in parts)
        self.loaded.share = read[0] / read[1] if self._beginning and read[1] else 1.0
        if self.loaded.rows == 0:
            names = ", ".join(str(log) for log in self.logs)
            raise AnalysisError(
                f"{names}: no readable row", hint="pcsuite run --config PROFILE fills the log"
            )
        self.metrics = merged_metrics(part.metrics for log in parts for part in log.state.parts)
        self.stamp = sha256_hex(
            "\n".join(
                f"{log.folder.name}:{log.state.head}:{log.state.consumed}:{part.file}:{part.stamp}"
                for log in parts
                for part in log.state.parts
            )
        )
        target, note_file = self.folder / "runs.parquet", self.folder / ".parts" / "runs.json"
        if not self._is_noted(note_file, target):
            self._write_parquet(target, parts)
            note = {"stamp": self.stamp, "superseded": self.loaded.superseded, "file": file_stamp(target)}
            note_file.write_text(json.dumps(note))
        self._write_dotted_view()
        self.execute(
            f"CREATE VIEW counted AS SELECT * EXCLUDE (metrics) REPLACE ({CLEAN_NAMES})"
            f" FROM read_parquet({sql_text(str(target))})"
        )
        held = target.stat().st_size <= HELD_BYTES
        self.execute(f"CREATE {'TABLE' if held else 'VIEW'} runs AS {self._judged_rows_sql()}")
        if self._cell_rows:
            create_cell_rows(self.execute, self.query, self.metrics)
        # Sums of floats depend on their order, and several threads leave that to chance. One thread reads the
        # rows in log order, so the same log gives the same digits.
        self.execute("SET threads = 1")

    def _write_parquet(self, target: Path, parts: Sequence[LogParts]) -> None:
        """``runs.parquet`` with one column per metric: the only part as it is, or all parts together.

        Of rows about the same thing the last in log order counts; the others are left out.
        """
        files = [file for part in parts for file in part.files]
        # Rows of a later part come after all of an earlier one: no part has 2⁴⁰ rows.
        union = " UNION ALL BY NAME ".join(
            f"SELECT *, {index * (1 << 40)} + file_row_number AS sequence FROM"
            f" read_parquet({sql_text(str(file))}, file_row_number=true)"
            for index, file in enumerate(files)
        )
        self.execute(f"CREATE VIEW logged AS SELECT * FROM ({union}) WHERE {well_formed_sql()}")
        key = ", ".join(f"coalesce(CAST({column} AS VARCHAR), '')" for column in LOGICAL_KEY)
        keyed = f"SELECT md5_number(concat_ws(chr(31), {key})) AS key, sequence FROM logged"
        self.execute(
            f"CREATE TABLE repeated AS SELECT key, max(sequence) AS newest FROM ({keyed})"
            " GROUP BY key HAVING count(*) > 1"
        )
        self.execute("CREATE TABLE superseded (sequence BIGINT)")
        if self.query("SELECT count(*) FROM repeated")[0][0]:
            self.execute(
                f"INSERT INTO superseded SELECT sequence FROM ({keyed}) JOIN repeated USING (key)"
                " WHERE sequence < newest"
            )
        self.loaded.superseded = int(self.query("SELECT count(*) FROM superseded")[0][0])
        states = [part for log in parts for part in log.state.parts]
        as_it_is = (
            len(states) == 1 and states[0].typed and not (states[0].malformed or self.loaded.superseded)
        )
        with replacing(target) as partial:
            linked = False
            # Linked instead of copied: for a large log, copying would take as long as converting it did.
            if as_it_is:
                partial.unlink(missing_ok=True)
                with suppress(OSError):  # a file system without links
                    os.link(files[0], partial)
                    linked = True
            if not linked:
                flat = ", ".join(sql_name(name) for name in FLAT_COLUMNS)
                chosen = "logged"
                if self.loaded.superseded:
                    chosen += " WHERE sequence NOT IN (SELECT sequence FROM superseded)"
                self.execute(
                    f"COPY (SELECT {flat}{metric_select_sql(self.metrics)} FROM {chosen})"
                    f" TO {sql_text(str(partial))} {PARQUET}"
                )

    def _write_dotted_view(self) -> None:
        """``runs_dotted.sql``: the rows of ``runs.parquet`` under the names they have in the log, as a view."""
        names = [*FLAT_COLUMNS, *(METRIC_PREFIX + metric for metric in self.metrics)]
        listed = ", ".join(f"{sql_name(name)} AS {sql_name(dotted_name(name))}" for name in names)
        view = f"CREATE OR REPLACE VIEW runs AS SELECT {listed} FROM read_parquet('runs.parquet');"
        text = f"-- In this folder: duckdb -init {DOTTED_VIEW}\n{view}\n"
        target = self.folder / DOTTED_VIEW
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            replace_atomically(target, text)

    def _is_noted(self, note_file: Path, target: Path) -> bool:
        """Whether a file was made of just these parts and nobody has changed it since."""
        try:
            note = json.loads(note_file.read_text())
            if note["stamp"] != self.stamp or note["file"] != file_stamp(target):
                return False
            self.loaded.superseded = int(note.get("superseded", self.loaded.superseded))
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def _judged_rows_sql(self) -> str:
        """The counted rows; a main row that was judged has the verdict's metrics as its own."""
        verdict = [sql_name(METRIC_PREFIX + name) for name in VERDICT_METRICS if name in self.metrics]
        if JUDGED_RUN_ID not in self.metrics or not verdict:
            return "SELECT * FROM counted"
        judged = sql_name(METRIC_PREFIX + JUDGED_RUN_ID)
        merged = ", ".join(f"coalesce(row.{column}, verdict.{column}) AS {column}" for column in verdict)
        return (
            f"SELECT row.* REPLACE ({merged}) FROM counted AS row LEFT JOIN"
            f" (SELECT {judged} AS about, {', '.join(verdict)} FROM counted"
            " WHERE kind = 'verifier' AND n_errors = 0) AS verdict"
            " ON row.kind = 'main' AND row.run_id = verdict.about"
        )


def read_runs(path: Path | str) -> dict[str, npt.NDArray[Any]]:
    """Columns of a ``runs.parquet`` or ``runs.csv``, or of those in a folder of tables, under their dotted names.

        rows = read_runs("outputs/tables")
        rows["task.id"], rows["metrics.task_score"]

    What reads such files itself can rename the columns by :func:`~pcsuite.analysis.load.schema.dotted_name`. Raises
    :class:`AnalysisError` where there is no such file.
    """
    file = Path(path)
    if file.is_dir():
        file = file / ("runs.parquet" if (file / "runs.parquet").is_file() else "runs.csv")
    if not file.is_file():
        raise AnalysisError(f"{file}: no such table of rows", hint="pcsuite report writes it")
    reader = "read_csv" if file.suffix == ".csv" else "read_parquet"
    with quiet_connection() as connection:
        fetched = connection.execute(f"SELECT * FROM {reader}({sql_text(str(file))})").fetchnumpy()
    return {dotted_name(name): _unmasked(values) for name, values in fetched.items()}


def _memory_share() -> int:
    """A fifth of the machine's memory in bytes, at least 1.2 and at most 4 GB: the sums of a million items need it."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        memory = 0
    return min(4 << 30, max(1200 << 20, memory // 5))


def _unmasked(values: Any) -> npt.NDArray[Any]:
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    return np.asarray(np.ma.filled(values.astype(object), None))
