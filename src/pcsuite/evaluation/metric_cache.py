"""A cache of expensive metric values, keyed by metric, answer and reference, and the report of what it saved.

One SQLite file, one connection a process, writes in batches. Statistics of each cache object go to a small
JSON file of its own in the statistics folder, so that a report can be made later and by another process.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pcsuite._util.files import replace_atomically, replacing
from pcsuite._util.text import describe
from pcsuite.errors import DataError

_LOGGER = logging.getLogger("pcsuite")
IN_MEMORY = ":memory:"
CACHE_VARIABLE = "PCS_METRIC_CACHE"
STATS_VARIABLE = "PCS_CACHE_STATS_DIR"
DEFAULT_CACHE = Path(".cache") / "metric_cache.sqlite"

_EARLIER_STATS = "metric_cache_stats"
"""The folder of statistics of earlier versions, which still count."""
_BATCH = 500
_FLUSH_SECONDS = 5.0
_BUSY_SECONDS = 30.0
_serial = itertools.count()


@dataclass(slots=True)
class MetricStats:
    """What happened to one metric: lookups, stores, and the seconds spent computing what was stored."""

    hits: int = 0
    misses: int = 0
    puts: int = 0
    compute_seconds: float = 0.0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> MetricStats:
        """A record of a file; ``compute_s`` is a second name of the seconds. ``ValueError`` where it holds no counts.

        >>> MetricStats.read({"hits": 2, "misses": 1, "puts": 1, "compute_s": 0.5}).compute_seconds
        0.5
        """
        renamed = {"compute_seconds" if key == "compute_s" else key: value for key, value in values.items()}
        known = {field.name: renamed.pop(field.name, 0) for field in fields(cls)}
        numbers = all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0 for v in known.values()
        )
        if renamed or not numbers:
            raise ValueError("no counts of hits, misses, puts and seconds")
        return cls(**known)

    def written(self) -> dict[str, float]:
        """The record as a file has it."""
        return {
            "hits": self.hits,
            "misses": self.misses,
            "puts": self.puts,
            "compute_s": self.compute_seconds,
        }

    def add(self, other: MetricStats) -> None:
        """Add another record to this one."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


_configured: Path | None = None


def configure_metric_cache(path: Path) -> None:
    """Set where this process keeps its cache, as the profile's cache folder says.

    ``PCS_METRIC_CACHE`` still wins; caches that are open already stay where they are.
    """
    global _configured
    _configured = path


def cache_path() -> Path:
    """Where the cache lies: ``PCS_METRIC_CACHE``, else as configured, else ``.cache/metric_cache.sqlite``."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override) if override else (_configured or DEFAULT_CACHE)


def stats_dir(cache: Path) -> Path:
    """Where statistics lie: ``PCS_CACHE_STATS_DIR``, else ``cache_stats`` beside the cache."""
    override = os.environ.get(STATS_VARIABLE)
    return Path(override) if override else cache.parent / "cache_stats"


def cache_key(metric: str, answer: str, reference: str) -> bytes:
    """16-byte digest of the three parts, each with its length so that no two triples share a key.

    >>> cache_key("bleu", "ab", "c") == cache_key("bleu", "a", "bc")
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (metric, answer, reference):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


class MetricCache:
    """Thread-safe cache of floats; use it as a context manager or call :meth:`close`."""

    def __init__(self, path: Path | None = None, stats: Path | None = None) -> None:
        self.path = cache_path() if path is None else path
        self.stats_folder = stats_dir(self.path) if stats is None else stats
        self.stats: dict[str, MetricStats] = {}
        self._lock = threading.RLock()
        self._pending: dict[bytes, tuple[str, float]] = {}
        self._last_flush = time.monotonic()
        self._given_up = False
        self._dirty_stats = False
        started, serial = time.time(), next(_serial)
        self._stats_name = f"cache_stats_pid{os.getpid()}_{int(started)}{f'-{serial}' if serial else ''}.json"
        self._started = started
        with _usable(self.path, "opened"), ExitStack() as failed:
            if str(self.path) != IN_MEMORY:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
            failed.callback(self._connection.close)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            with self._connection:
                _take_over_earlier(self._connection)
                columns = "key BLOB PRIMARY KEY, metric TEXT NOT NULL, score REAL NOT NULL"
                self._connection.execute(f"CREATE TABLE IF NOT EXISTS metric_cache ({columns}) WITHOUT ROWID")
            failed.pop_all()

    def get(self, metric: str, answer: str, reference: str) -> float | None:
        """The stored value, or ``None``; counts a hit or a miss.

        Raises :class:`~pcsuite.errors.DataError` where the file cannot be read.
        """
        key = cache_key(metric, answer, reference)
        with self._lock:
            if key in self._pending:
                value: float | None = self._pending[key][1]
            else:
                with _usable(self.path, "read"):
                    row = self._connection.execute(
                        "SELECT score FROM metric_cache WHERE key = ?", (key,)
                    ).fetchone()
                value = None if row is None else float(row[0])
            record = self._record(metric)
            record.misses += value is None
            record.hits += value is not None
        return value

    def put(self, metric: str, answer: str, reference: str, value: float, seconds: float = 0.0) -> None:
        """Store a value and the seconds it took to compute.

        It is written with the next batch: after 500 values or 5 seconds, or by :meth:`flush`.
        """
        key = cache_key(metric, answer, reference)
        with self._lock:
            self._pending[key] = (metric, float(value))
            record = self._record(metric)
            record.puts += 1
            record.compute_seconds += seconds
            if len(self._pending) >= _BATCH or time.monotonic() - self._last_flush > _FLUSH_SECONDS:
                self.flush()

    def count_seconds(self, metric: str, seconds: float) -> None:
        """Count seconds that were spent computing a value outside of :meth:`compute`."""
        with self._lock:
            self._record(metric).compute_seconds += seconds

    @staticmethod
    def make_key(metric: str, answer: str, reference: str) -> str:
        """The key of a value, in hexadecimal: that of :func:`cache_key`."""
        return cache_key(metric, answer, reference).hex()

    def compute(self, metric: str, answer: str, reference: str, function: Callable[[], float]) -> float:
        """The stored value, else that of ``function``, which is timed and stored.

        A file that fails costs no value: a warning says so once, and from then on ``function`` is always called.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, MetricCache(Path(folder) / "cache.sqlite") as cache:
        ...     cache.compute("length", "answer", "", lambda: 6.0), cache.get("length", "answer", "")
        (6.0, 6.0)
        """
        if self._given_up:
            return float(function())
        value = None
        try:
            value = self.get(metric, answer, reference)
        except DataError as error:
            self._give_up(error)
        if value is not None:
            return value
        started = time.perf_counter()
        value = float(function())
        try:
            self.put(metric, answer, reference, value, time.perf_counter() - started)
        except DataError as error:
            self._give_up(error)
        return value

    def _give_up(self, error: DataError) -> None:
        """Go on without the file: what it would have kept is computed anew, and no answer goes unscored."""
        if not self._given_up:
            self._given_up = True
            _LOGGER.warning("%s; values are computed anew", error.message)

    def flush(self) -> None:
        """Write the batch and the statistics; :class:`~pcsuite.errors.DataError` where either cannot be written."""
        with self._lock:
            self._last_flush = time.monotonic()
            rows = [(key, metric, value) for key, (metric, value) in self._pending.items()]
            if rows:
                with _usable(self.path, "written"), self._connection:
                    self._connection.executemany("INSERT OR REPLACE INTO metric_cache VALUES (?, ?, ?)", rows)
                self._pending.clear()
            if not self._dirty_stats or str(self.path) == IN_MEMORY:
                return
            metrics = {metric: stats.written() for metric, stats in self.stats.items()}
            statistics = {
                "cache": str(self.path.resolve()),
                "pid": os.getpid(),
                "timestamp_utc": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "elapsed_s": round(time.time() - self._started, 3),
                "metrics": metrics,
            }
            target = self.stats_folder / self._stats_name
            try:
                self.stats_folder.mkdir(parents=True, exist_ok=True)
                with replacing(target) as partial:
                    partial.write_text(json.dumps(statistics, indent=1), encoding="utf-8")
            except OSError as error:
                why = f"cache statistics {target} cannot be written: {error}"
                raise DataError(why, hint=f"set {STATS_VARIABLE}") from error
            self._dirty_stats = False

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._connection.close()

    def __enter__(self) -> MetricCache:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _record(self, metric: str) -> MetricStats:
        self._dirty_stats = True
        return self.stats.setdefault(metric, MetricStats())


def _table_of(connection: sqlite3.Connection) -> str | None:
    """The table with the values: its name now, or that of earlier versions."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('metric_cache', 'metrics') ORDER BY name"
    row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def _take_over_earlier(connection: sqlite3.Connection) -> None:
    """Give the table of an earlier version its name now."""
    if _table_of(connection) == "metrics":
        connection.execute("ALTER TABLE metrics RENAME COLUMN value TO score")
        connection.execute("ALTER TABLE metrics RENAME TO metric_cache")


@contextmanager
def _usable(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        hint = f"delete the file if it is damaged, or set {CACHE_VARIABLE} to another place"
        raise DataError(f"metric cache {path} cannot be {verb}: {error}", hint=hint) from error


_shared: dict[tuple[int, Path, Path], MetricCache] = {}
_shared_lock = threading.Lock()


def shared_metric_cache() -> MetricCache:
    """The process's cache at its current location, opened on first use and closed at exit.

    A forked child opens its own: a SQLite connection must not cross a fork. Where the file cannot be opened a warning
    says so, and values are kept in memory.
    """
    path = cache_path().absolute()
    key = (os.getpid(), path, stats_dir(path))
    with _shared_lock:
        if key not in _shared:
            try:
                _shared[key] = MetricCache(path, key[2])
            except DataError as error:
                _LOGGER.warning("%s; values are kept for this session only", error.message)
                _shared[key] = MetricCache(Path(IN_MEMORY), key[2])
        return _shared[key]


def close_shared_caches() -> None:
    """Write and close the shared caches of this process."""
    with _shared_lock:
        for key in [key for key in _shared if key[0] == os.getpid()]:
            try:
                _shared.pop(key).close()
            except DataError as error:
                _LOGGER.warning("%s; values will be computed anew", error.message)


atexit.register(close_shared_caches)


@dataclass(frozen=True, slots=True)
class CacheSummary:
    """A cache file and the merged statistics of every process that used it."""

    path: Path
    size_bytes: int
    modified_utc: str | None
    """When the file was last written to, to the second; ``None`` where there is none."""
    rows: Mapping[str, int]
    stats: Mapping[str, MetricStats]


def summarise_cache(cache: Path | None = None, stats: Path | None = None) -> CacheSummary:
    """Read a cache file and the statistics of every process that used it, by default at their current locations.

    A cache never used is empty. A file of statistics that cannot be read is passed over with a warning: only counts
    are lost. :class:`~pcsuite.errors.DataError` where the cache itself cannot be read.
    """
    path = cache_path() if cache is None else cache
    folder = stats_dir(path) if stats is None else stats
    parts = [part.stat() for part in (path, Path(f"{path}-wal")) if part.exists()]
    size = sum(part.st_size for part in parts)
    newest = max((part.st_mtime for part in parts), default=None)
    modified = (
        None if newest is None else datetime.fromtimestamp(newest, timezone.utc).isoformat(timespec="seconds")
    )
    rows: list[tuple[str, int]] = []
    if path.exists():
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with _usable(path, "read"), closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
            table = _table_of(connection)
            if table is not None:
                rows = connection.execute(f"SELECT metric, count(*) FROM {table} GROUP BY metric").fetchall()
    folders = [folder] if stats is not None else [folder, path.parent / _EARLIER_STATS]
    merged = merged_statistics(folders, path)
    return CacheSummary(path, size, modified, {str(metric): int(count) for metric, count in rows}, merged)


def merged_statistics(folders: Iterable[Path], cache: Path | None = None) -> dict[str, MetricStats]:
    """The statistics that lie in some folders, by metric; with ``cache`` only those about that file.

    A file that cannot be read is passed over with a warning: only counts are lost.
    """
    merged: dict[str, MetricStats] = {}
    for file in (file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.json"))):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            if cache is not None and record.get("cache", str(cache.resolve())) != str(cache.resolve()):
                continue
            stats_of = {metric: MetricStats.read(values) for metric, values in record["metrics"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            _LOGGER.warning("cache statistics %s are passed over: %s", file, describe(error))
            continue
        for metric, counted in stats_of.items():
            merged.setdefault(metric, MetricStats()).add(counted)
    return merged


def render_cache_report(summary: CacheSummary) -> str:
    """The report as Markdown: size, and by metric rows, hits, misses, hit rate, puts and seconds.

    Estimated seconds saved are hits × average compute seconds per put.
    """
    total, total_saved, total_rows = MetricStats(), 0.0, sum(summary.rows.values())
    table = []
    for metric in sorted({*summary.rows, *summary.stats}):
        record = summary.stats.get(metric, MetricStats())
        total.add(record)
        total_saved += seconds_saved(record)
        table.append(_table_row(metric, summary.rows.get(metric, 0), record, seconds_saved(record)))
    rows = "\n".join([*table, _table_row("**all**", total_rows, total, total_saved)])
    return f"""# Metric cache

- File: `{summary.path}`
- Size: {summary.size_bytes / 1e6:.2f} MB
- Last modified: {summary.modified_utc or "never"}
- Rows: {total_rows:,}

| metric | rows | hits | misses | hit rate | puts | compute s | average s per put | estimated s saved |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
{rows}

## How the saving is estimated

- Estimated seconds saved = hits × average compute seconds per put, metric by metric; the last line adds them up.
- A put is a value that was computed and stored; its time is that of the computation alone, on the computer that did it.
- A metric that was never computed here (its values were stored by an earlier run whose statistics are gone) saves an
  unknown time and counts as 0. Values that differ much in cost make the average, and so the estimate, rough.
- What a lookup takes itself (a fraction of a millisecond) is not subtracted.
- Hits and misses are those of every process that used this file, as kept in its folder of statistics.
"""


def write_cache_report(target: Path, cache: Path | None = None, stats: Path | None = None) -> Path:
    """Write the report (``cache_report.md``) to ``target``, its folder made where needed, and return the path."""
    text = render_cache_report(summarise_cache(cache, stats))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(target, text)
    except OSError as error:
        raise DataError(f"cache report {target} cannot be written: {error}") from error
    return target


def seconds_saved(record: MetricStats) -> float:
    """Hits times the average compute time of a stored value, in seconds; 0 where nothing was computed.

    >>> seconds_saved(MetricStats(hits=10, puts=4, compute_seconds=2.0))
    5.0
    """
    return record.hits * record.compute_seconds / record.puts if record.puts else 0.0


def _table_row(name: str, rows: int, record: MetricStats, saved: float) -> str:
    lookups = record.hits + record.misses
    rate = f"{record.hits / lookups:.1%}" if lookups else "–"
    average = f"{record.compute_seconds / record.puts:.6f}" if record.puts else "–"
    return (
        f"| {name} | {rows:,} | {record.hits:,} | {record.misses:,} | {rate} | {record.puts:,} "
        f"| {record.compute_seconds:.2f} | {average} | {saved:.2f} |"
    )
