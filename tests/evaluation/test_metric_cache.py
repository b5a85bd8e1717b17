"""The metric cache: values, batches, threads, processes, statistics."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pcsuite.errors import DataError
from pcsuite.evaluation.metric_cache import (
    MetricCache,
    MetricStats,
    cache_key,
    cache_path,
    close_shared_caches,
    configure_metric_cache,
    shared_metric_cache,
    stats_dir,
    summarise_cache,
    write_cache_report,
)


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM metric_cache").fetchone()[0])


def test_values_survive_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.sqlite"
    with MetricCache(path) as cache:
        assert cache.get("m", "a", "r") is None
        cache.put("m", "a", "r", 0.25, seconds=2.0)
        assert cache.get("m", "a", "r") == 0.25
    with MetricCache(path) as cache:
        assert cache.get("m", "a", "r") == 0.25
        assert cache.compute("m", "a", "r", lambda: 1 / 0) == 0.25
        assert cache.compute("m", "a", "s", lambda: 7.0) == 7.0
        stats = cache.stats["m"]
        assert (stats.hits, stats.misses, stats.puts) == (2, 1, 1)
    assert rows(path) == 2


def test_no_two_triples_share_a_key() -> None:
    assert cache_key("m", "ab", "c") != cache_key("m", "a", "bc")
    assert cache_key("ma", "b", "c") != cache_key("m", "ab", "c")
    assert cache_key("m", "\ud800", "") != cache_key("m", "\ud801", "")


def test_writes_come_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with MetricCache(path) as cache:
        for number in range(499):
            cache.put("m", str(number), "", 1.0)
        assert rows(path) == 0
        cache.put("m", "499", "", 1.0)
        assert rows(path) == 500
        cache.put("m", "500", "", 1.0)
    assert rows(path) == 501


def test_threads_share_one_cache(tmp_path: Path) -> None:
    with MetricCache(tmp_path / "c.sqlite") as cache:

        def work(worker: int) -> None:
            for number in range(300):
                cache.compute("m", str(number), "", lambda n=number: float(n))
                cache.compute("own", f"{worker}:{number}", "", lambda: 1.0)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [cache.get("m", str(number), "") for number in range(300)] == [float(n) for n in range(300)]
        assert cache.stats["own"].puts == 1200
        assert cache.stats["m"].hits + cache.stats["m"].misses == 1500
    assert rows(tmp_path / "c.sqlite") == 1500


def fill(path: str, worker: int) -> None:
    with MetricCache(Path(path)) as cache:
        for number in range(600):
            cache.put("m", f"{worker}:{number}", "", 1.0)


def test_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=fill, args=(str(path), worker)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert rows(path) == 1200


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCS_METRIC_CACHE", str(tmp_path / "mine.sqlite"))
    monkeypatch.setenv("PCS_CACHE_STATS_DIR", str(tmp_path / "stats"))
    monkeypatch.setattr("pcsuite.evaluation.metric_cache._configured", Path("other"))
    assert cache_path() == tmp_path / "mine.sqlite"
    assert stats_dir(Path("x/y.sqlite")) == tmp_path / "stats"
    shared_metric_cache().put("m", "a", "b", 1.0)
    assert shared_metric_cache() is shared_metric_cache()
    close_shared_caches()
    assert rows(tmp_path / "mine.sqlite") == 1
    assert len(list((tmp_path / "stats").glob("*.json"))) == 1
    monkeypatch.delenv("PCS_METRIC_CACHE")
    monkeypatch.delenv("PCS_CACHE_STATS_DIR")
    assert cache_path() == Path("other")
    monkeypatch.setattr("pcsuite.evaluation.metric_cache._configured", None)
    assert cache_path() == Path(".cache/metric_cache.sqlite")
    assert stats_dir(Path("x/y.sqlite")) == Path("x/cache_stats")
    configure_metric_cache(tmp_path / "run" / "metrics.sqlite")
    assert shared_metric_cache().path == tmp_path / "run" / "metrics.sqlite"
    close_shared_caches()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"this is no database, but it is long enough to be read as one" * 20)
    with pytest.raises(DataError, match=r"c\.sqlite cannot be opened: .*PCS_METRIC_CACHE"):
        MetricCache(path)


def test_report_merges_what_every_process_wrote(tmp_path: Path) -> None:
    path, stats = tmp_path / "c.sqlite", tmp_path / "stats"
    with MetricCache(path, stats) as cache:
        for number in range(4):
            cache.get("rouge_l", str(number), "r")
            cache.put("rouge_l", str(number), "r", 1.0, seconds=0.5)
    with MetricCache(path, stats) as cache:
        for number in range(4):
            cache.get("rouge_l", str(number), "r")
        cache.put("bleu", "x", "r", 1.0, seconds=0.25)
    with MetricCache(tmp_path / "other.sqlite", stats) as other:
        other.get("rouge_l", "x", "r")
    summary = summarise_cache(path, stats)
    assert dict(summary.rows) == {"rouge_l": 4, "bleu": 1}
    assert summary.size_bytes > 0
    report = write_cache_report(tmp_path / "reports" / "cache_report.md", path, stats).read_text(
        encoding="utf-8"
    )
    assert "- Rows: 5" in report
    # 4 hits at an average of 0.5 s a put save 2 s.
    assert "| rouge_l | 4 | 4 | 4 | 50.0% | 4 | 2.00 | 0.500000 | 2.00 |" in report
    assert "| bleu | 1 | 0 | 0 | – | 1 | 0.25 | 0.250000 | 0.00 |" in report
    assert "| **all** | 5 | 4 | 4 | 50.0% | 5 | 2.25 | 0.450000 | 2.00 |" in report


def test_a_cache_never_used_is_empty(tmp_path: Path) -> None:
    report = write_cache_report(tmp_path / "r.md", tmp_path / "none.sqlite", tmp_path / "none").read_text(
        "utf-8"
    )
    assert "| **all** | 0 | 0 | 0 | – | 0 | 0.00 | – | 0.00 |" in report


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"metrics": 3}',
        '{"metrics": {"bleu": {"hits": "x"}}}',
        '{"metrics": {"bleu": {"b": 1}}}',
    ],
)
def test_foreign_statistics_are_passed_over_with_a_line(tmp_path: Path, text: str, caplog: Any) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    counts = '{"metrics": {"bleu": {"hits": 3, "misses": 1, "puts": 1, "compute_s": 0.5}}}'
    (tmp_path / "cache_stats_pid1_2.json").write_text(counts, encoding="utf-8")
    summary = summarise_cache(tmp_path / "c.sqlite", tmp_path)
    assert summary.stats == {"bleu": MetricStats(3, 1, 1, 0.5)}
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"cache statistics {tmp_path / 'x.json'} are passed over: ")
