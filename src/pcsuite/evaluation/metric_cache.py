"""A cache of expensive metric values, keyed by metric, answer and reference.

One SQLite file, one connection a process, writes in batches. Statistics of each cache object go to a small
JSON file of its own in the statistics folder, so that a report can be made later and by another process.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from pcsuite._util.files import replacing
from pcsuite.errors import DataError

CACHE_VARIABLE = "PCS_METRIC_CACHE"
STATS_VARIABLE = "PCS_CACHE_STATS_DIR"
DEFAULT_CACHE = Path(".cache") / "metric_cache.sqlite"

_BATCH = 500
_FLUSH_SECONDS = 5.0
_BUSY_SECONDS = 30.0
_serial = itertools.count()


@dataclass(slots=True)
class MetricStats:
    """What happened to one metric: lookups, stores, and the time spent computing what was stored."""

    hits: int = 0
    misses: int = 0
    puts: int = 0
    compute_seconds: float = 0.0

    def add(self, other: MetricStats) -> None:
        """Add another record to this one."""
        self.hits += other.hits
        self.misses += other.misses
        self.puts += other.puts
        self.compute_seconds += other.compute_seconds


_configured: Path | None = None


def configure_metric_cache(path: Path) -> None:
    """Set where this process keeps its cache; the environment variable still wins."""
    global _configured
    _configured = path


def cache_path() -> Path:
    """Where the cache lies: ``PCS_METRIC_CACHE``, else as configured, else ``.cache/metric_cache.sqlite``."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override) if override else (_configured or DEFAULT_CACHE)


def stats_dir(cache: Path) -> Path:
    """Where statistics lie: ``PCS_CACHE_STATS_DIR``, else a folder beside the cache."""
    override = os.environ.get(STATS_VARIABLE)
    return Path(override) if override else cache.parent / "metric_cache_stats"


def cache_key(metric: str, answer: str, reference: str) -> bytes:
    """16-byte digest of the three parts, each with its length so that no two triples share a key."""
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
        self._dirty_stats = False
        self._stats_name = f"{os.getpid()}-{time.time_ns()}-{next(_serial)}.json"
        self._connection = self._open()

    def get(self, metric: str, answer: str, reference: str) -> float | None:
        """The stored value, or ``None``; counts a hit or a miss."""
        key = cache_key(metric, answer, reference)
        with self._lock:
            value = self._lookup(key)
            self._count(metric, hits=int(value is not None), misses=int(value is None))
        return value

    def put(self, metric: str, answer: str, reference: str, value: float, seconds: float = 0.0) -> None:
        """Store a value and the seconds it took to compute; written with the next batch."""
        key = cache_key(metric, answer, reference)
        with self._lock:
            self._pending[key] = (metric, float(value))
            self._count(metric, puts=1, seconds=seconds)
            overdue = time.monotonic() - self._last_flush > _FLUSH_SECONDS
            if len(self._pending) >= _BATCH or overdue:
                self.flush()

    def compute(self, metric: str, answer: str, reference: str, function: Callable[[], float]) -> float:
        """The stored value, else that of ``function``, which is timed and stored."""
        value = self.get(metric, answer, reference)
        if value is not None:
            return value
        started = time.perf_counter()
        value = float(function())
        self.put(metric, answer, reference, value, time.perf_counter() - started)
        return value

    def flush(self) -> None:
        """Write the batch and the statistics."""
        with self._lock:
            self._last_flush = time.monotonic()
            rows = [(key, metric, value) for key, (metric, value) in self._pending.items()]
            if rows:
                try:
                    with self._connection:
                        self._connection.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", rows)
                except sqlite3.Error as error:
                    raise self._unusable("written", error) from error
                self._pending.clear()
            self._write_stats()

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._connection.close()

    def __enter__(self) -> MetricCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lookup(self, key: bytes) -> float | None:
        pending = self._pending.get(key)
        if pending is not None:
            return pending[1]
        try:
            row = self._connection.execute("SELECT value FROM metrics WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._unusable("read", error) from error
        return None if row is None else float(row[0])

    def _count(
        self, metric: str, hits: int = 0, misses: int = 0, puts: int = 0, seconds: float = 0.0
    ) -> None:
        record = self.stats.get(metric)
        if record is None:
            record = self.stats[metric] = MetricStats()
        record.hits += hits
        record.misses += misses
        record.puts += puts
        record.compute_seconds += seconds
        self._dirty_stats = True

    def _open(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS metrics "
                    "(key BLOB PRIMARY KEY, metric TEXT NOT NULL, value REAL NOT NULL) WITHOUT ROWID"
                )
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise self._unusable("opened", error) from error
        return connection

    def _write_stats(self) -> None:
        if not self._dirty_stats:
            return
        record = {
            "cache": str(self.path.resolve()),
            "metrics": {metric: asdict(stats) for metric, stats in self.stats.items()},
        }
        target = self.stats_folder / self._stats_name
        try:
            self.stats_folder.mkdir(parents=True, exist_ok=True)
            with replacing(target) as partial:
                partial.write_text(json.dumps(record, indent=1), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"cache statistics {target} cannot be written: {error}", hint=f"set {STATS_VARIABLE}"
            ) from error
        self._dirty_stats = False

    def _unusable(self, verb: str, error: Exception) -> DataError:
        hint = f"delete the file if it is damaged, or set {CACHE_VARIABLE} to another place"
        return DataError(f"metric cache {self.path} cannot be {verb}: {error}", hint=hint)


_shared: dict[tuple[int, Path, Path], MetricCache] = {}
_shared_lock = threading.Lock()


def shared_metric_cache() -> MetricCache:
    """The process's cache at its current place, opened on first use and closed at exit.

    A forked child opens its own: a SQLite connection must not cross a fork.
    """
    path = cache_path().absolute()
    place = (os.getpid(), path, stats_dir(path))
    with _shared_lock:
        if place not in _shared:
            _shared[place] = MetricCache(path, place[2])
        return _shared[place]


def close_shared_caches() -> None:
    """Write and close the shared caches of this process."""
    with _shared_lock:
        for place in [place for place in _shared if place[0] == os.getpid()]:
            _shared.pop(place).close()


atexit.register(close_shared_caches)


# ``cache_report.md``: what the metric cache holds and what it saved.


@dataclass(frozen=True, slots=True)
class CacheSummary:
    """A cache file and the merged statistics of every process that used it."""

    path: Path
    size_bytes: int
    rows: Mapping[str, int]
    stats: Mapping[str, MetricStats]


def summarise_cache(cache: Path | None = None, stats: Path | None = None) -> CacheSummary:
    """Read a cache and its statistics, by default at their current places; a cache never used is empty."""
    path = cache_path() if cache is None else cache
    folder = stats_dir(path) if stats is None else stats
    size = sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())
    return CacheSummary(path, size, _rows_per_metric(path), _merged_stats(path, folder))


def render_cache_report(summary: CacheSummary) -> str:
    """The report as Markdown."""
    lines = [
        "# Metric cache",
        "",
        f"- File: `{summary.path}`",
        f"- Size: {summary.size_bytes / 1e6:.2f} MB",
        f"- Rows: {sum(summary.rows.values()):,}",
        "",
        "| metric | rows | hits | misses | hit rate | puts "
        "| compute s | average s per put | estimated s saved |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    total, total_saved = MetricStats(), 0.0
    for metric in sorted({*summary.rows, *summary.stats}):
        record = summary.stats.get(metric, MetricStats())
        total.add(record)
        total_saved += seconds_saved(record)
        lines.append(_table_row(metric, summary.rows.get(metric, 0), record, seconds_saved(record)))
    lines.append(_table_row("**all**", sum(summary.rows.values()), total, total_saved))
    lines += [
        "",
        "Estimated seconds saved = hits × average compute seconds per put, metric by metric.",
        "",
    ]
    return "\n".join(lines)


def write_cache_report(target: Path, cache: Path | None = None, stats: Path | None = None) -> Path:
    """Write the report to ``target`` and return it."""
    text = render_cache_report(summarise_cache(cache, stats))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cache report {target} cannot be written: {error}") from error
    return target


def seconds_saved(record: MetricStats) -> float:
    """Hits times the average compute time of a stored value; 0 where nothing was computed."""
    return record.hits * record.compute_seconds / record.puts if record.puts else 0.0


def _table_row(name: str, rows: int, record: MetricStats, saved: float) -> str:
    lookups = record.hits + record.misses
    rate = f"{record.hits / lookups:.1%}" if lookups else "–"
    average = f"{record.compute_seconds / record.puts:.6f}" if record.puts else "–"
    return (
        f"| {name} | {rows:,} | {record.hits:,} | {record.misses:,} | {rate} | {record.puts:,} "
        f"| {record.compute_seconds:.2f} | {average} | {saved:.2f} |"
    )


def _rows_per_metric(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    try:
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)
        ) as connection:
            rows = connection.execute("SELECT metric, count(*) FROM metrics GROUP BY metric").fetchall()
    except sqlite3.Error as error:
        raise DataError(
            f"metric cache {path} cannot be read: {error}",
            hint=f"delete the file if it is damaged, or set {CACHE_VARIABLE} to another place",
        ) from error
    return {str(metric): int(count) for metric, count in rows}


def _merged_stats(cache: Path, folder: Path) -> dict[str, MetricStats]:
    """Sum the statistics files that speak of this cache."""
    merged: dict[str, MetricStats] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["cache"] != str(cache.resolve()):
                continue
            for metric, values in record["metrics"].items():
                merged.setdefault(metric, MetricStats()).add(MetricStats(**values))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"cache statistics {path} cannot be read: {error}",
                hint="delete the file; only counts are lost",
            ) from error
    return merged
