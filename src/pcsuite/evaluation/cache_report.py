"""``cache_report.md``: what the metric cache holds and what it saved."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pcsuite.errors import DataError
from pcsuite.evaluation.metric_cache import CACHE_VARIABLE, MetricStats, cache_path, stats_dir


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
