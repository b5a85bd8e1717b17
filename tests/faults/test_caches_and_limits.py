"""A full cache disk and a small number of open files: every answer that was paid for has its row."""

import logging
import sqlite3

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines import limits
from pcsuite.engines.limits import RetryPolicy, calls_that_fit
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache
from pcsuite.evaluation import metric_cache
from pcsuite.evaluation.metric_cache import MetricCache
from pcsuite.logging.log import newest_rows
from pcsuite.runners.run_suite import run_suite
from support.loopback import LoopbackServer
from support.profiles import write_profile

POLICY = RetryPolicy(max_attempts=2, base_s=0.001)


def profile_of(tmp_path, server, items=8, inflight=4, conditions=("C0",), tasks=("agnews_json",)):
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url}
    return write_profile(
        tmp_path,
        {"m": model},
        tasks=tasks,
        conditions=conditions,
        regimes=("D0",),
        items=items,
        repro={"max_inflight": inflight},
    )


@pytest.mark.parametrize("method", ["get", "put", "flush"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_cache_that_fails_costs_no_answer(tmp_path, monkeypatch, caplog, method, after):
    real, calls = getattr(ResponseCache, method), []

    def failing(self, *arguments):
        calls.append(arguments)
        if len(calls) > after:
            with self._translated:
                raise sqlite3.OperationalError("database or disk is full")
        return real(self, *arguments)

    monkeypatch.setattr(ResponseCache, method, failing)
    with LoopbackServer(answer=lambda body: "Sports") as server, caplog.at_level(logging.WARNING, "pcsuite"):
        summary = run_suite(load_suite(profile_of(tmp_path, server)), quiet=True, policy=POLICY)
    assert (summary.tally.done, summary.tally.failed) == (8, 0)
    assert len(server.bodies) == 8
    assert caplog.text.count("goes on without the response cache") == (
        0 if method == "flush" and after else 1
    )


def test_a_cache_that_cannot_be_opened_costs_no_run(tmp_path, caplog):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FILE_NAME).write_bytes(b"this is no database" * 100)
    with LoopbackServer(answer=lambda body: "Sports") as server, caplog.at_level(logging.WARNING, "pcsuite"):
        summary = run_suite(load_suite(profile_of(tmp_path, server)), quiet=True, policy=POLICY)
    assert summary.tally.failed == 0
    assert caplog.text.count("without the response cache") == 1


@pytest.mark.parametrize("value", [b"torn {", b"[1, 2]", b"{}", b"\xff\xfe"])
def test_a_damaged_entry_is_asked_for_again(tmp_path, value):
    with LoopbackServer(answer=lambda body: "Sports") as server:
        suite = load_suite(profile_of(tmp_path, server, items=2))
        run_suite(suite, quiet=True, policy=POLICY)
        with sqlite3.connect(tmp_path / "cache" / FILE_NAME) as database:
            database.execute("UPDATE answers SET value = ?", (value,))
        database.close()
        again = load_suite(profile_of(tmp_path, server, items=2), {"run.name": "again"})
        summary = run_suite(again, quiet=True, policy=POLICY)
        assert summary.tally.failed == 0
        assert len(server.bodies) == 4
        third = run_suite(load_suite(again.path, {"run.name": "third"}), quiet=True, policy=POLICY)
    assert third.tally.cache_hits == 2


def test_a_metric_cache_that_fails_costs_no_score(tmp_path, monkeypatch, caplog):
    def full(self):
        with metric_cache._usable(self.path, "written"):
            raise sqlite3.OperationalError("database or disk is full")

    cache = MetricCache(tmp_path / "m.sqlite", tmp_path)
    monkeypatch.setattr(metric_cache, "_BATCH", 1)
    monkeypatch.setattr(MetricCache, "flush", full)
    with caplog.at_level(logging.WARNING, "pcsuite"):
        assert [cache.compute("m", text, "", lambda: 2.5) for text in "abc"] == [2.5] * 3
    assert caplog.text.count("computed anew") == 1
    monkeypatch.undo()
    cache.close()


def test_a_metric_cache_that_cannot_be_opened(tmp_path, monkeypatch, caplog):
    (tmp_path / "taken").write_text("a file where a folder should be")
    monkeypatch.setenv("PCS_METRIC_CACHE", str(tmp_path / "taken" / "m.sqlite"))
    monkeypatch.setenv("PCS_CACHE_STATS_DIR", str(tmp_path))
    with caplog.at_level(logging.WARNING, "pcsuite"):
        cache = metric_cache.shared_metric_cache()
        assert cache.compute("m", "a", "", lambda: 1.0) == 1.0
        assert metric_cache.shared_metric_cache() is cache
    metric_cache.close_shared_caches()
    assert caplog.text.count("this session only") == 1


@pytest.mark.parametrize(("allowed", "fitting"), [(256, 192), (64, 1), (10, 1), (576, 512), (4096, 512)])
def test_calls_in_flight_fit_into_the_open_files(monkeypatch, caplog, allowed, fitting):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (allowed, allowed))
    with caplog.at_level(logging.WARNING, "pcsuite"):
        assert calls_that_fit(512) == fitting
    assert ("open files" in caplog.text) == (fitting < 512)


def test_a_run_with_more_calls_than_files_finishes(tmp_path, monkeypatch, caplog):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(limits, "FILES_BESIDE_CALLS", 200)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (203, 203))
    with LoopbackServer(answer=lambda body: "Sports", delay_s=0.01) as server:
        suite = load_suite(profile_of(tmp_path, server, items=12, inflight=512))
        with caplog.at_level(logging.WARNING, "pcsuite"):
            summary = run_suite(suite, quiet=True, policy=POLICY)
    assert server.peak_in_flight <= 3
    assert len(newest_rows(summary.paths.log)) == 12
    assert "3 calls in flight instead of 512" in caplog.text


def test_running_out_of_files_is_tried_again(tmp_path, monkeypatch):
    import aiohttp

    real, calls = aiohttp.TCPConnector.connect, []

    async def failing(self, *arguments, **options):
        calls.append(1)
        if len(calls) in (1, 3):
            raise OSError(24, "Too many open files")
        return await real(self, *arguments, **options)

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", failing)
    with LoopbackServer(answer=lambda body: "Sports") as server:
        summary = run_suite(load_suite(profile_of(tmp_path, server)), quiet=True, policy=POLICY)
    assert (summary.tally.done, summary.tally.failed) == (8, 0)
