"""Queries in a killable process."""

import os
import signal
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pcsuite._util import workers
from pcsuite.evaluation.sql_process import QueryLimits, QueryRefusedError, run_query

LIMITS = QueryLimits(0.3, 1000)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a b?#.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (i INTEGER, f REAL, s TEXT, b BLOB)")
        connection.execute(
            "INSERT INTO t VALUES (9223372036854775807, 0.1 + 0.2, 'ä', x'00ff'), (NULL, 1e999, '', x'')"
        )
    connection.close()
    return path


@pytest.fixture
def process(monkeypatch):
    own = workers.WorkerPool()
    monkeypatch.setattr(workers, "_pools", {os.getpid(): own})
    yield own
    own.close()


def child(process):
    (worker,) = process._all
    return worker._process


def test_every_kind_of_value_comes_back(database, process):
    assert run_query(database, "SELECT * FROM t", LIMITS) == (
        (2**63 - 1, 0.3, "ä", b"\x00\xff"),
        (None, float("inf"), "", b""),
    )
    assert process.starts == 1


def test_the_process_is_reused_and_replaced_after_a_kill(database, process):
    for _ in range(3):
        run_query(database, "SELECT 1", LIMITS)
    assert process.starts == 1
    os.kill(child(process).pid, 9)
    child(process).wait()
    assert run_query(database, "SELECT 2", LIMITS) == ((2,),)
    assert process.starts == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "SELECT instr(replace(hex(zeroblob(4000000)), '00', 'x'), replace(hex(zeroblob(1000000)), '00', 'xx') || 'y')",
        "SELECT replace(replace(hex(zeroblob(4900000)),'0','ab'),'ab','b') LIKE '%b%b%b%b%b%b%b%b%c'",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT group_concat(s, printf('%.*c', 9000000, 'x')) FROM t, t, t, t, t, t, t, t",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
        "SELECT hex(randomblob(999999999))",
    ],
)
def test_functions_that_run_without_end(database, process, query):
    """Each as often as it comes: the start of a process is no allowance for the query that it is started for."""
    for _ in range(3):
        started = time.monotonic()
        with pytest.raises(QueryRefusedError):
            run_query(database, query, LIMITS)
        assert time.monotonic() - started < 10
    assert run_query(database, "SELECT 3", LIMITS) == ((3,),)


@pytest.mark.slow
def test_an_interrupt_gets_through_and_ends_the_query(database, process):
    run_query(database, "SELECT 1", LIMITS)
    ended = child(process)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    endless = "SELECT instr(replace(hex(zeroblob(4000000)), '00', 'x'), replace(hex(zeroblob(1000000)), '00', 'xx') || 'y')"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_query(database, endless, QueryLimits(60.0, 10))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended.poll() is not None


def test_the_process_has_no_keys_of_ours(database, process, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    run_query(database, "SELECT 1", LIMITS)
    environment = Path(f"/proc/{child(process).pid}/environ")
    if environment.exists():
        assert b"sk-0123456789abcdef" not in environment.read_bytes()


@pytest.mark.parametrize(
    "query", ["SELECT '\ud800'", "\x00", "SELECT 1; DROP TABLE t", "", "ATTACH 'x' AS y"]
)
def test_odd_queries_are_refused_and_harm_nothing(database, process, query):
    before = database.read_bytes()
    with suppress(QueryRefusedError):
        run_query(database, query, LIMITS)
    assert process.starts == 1
    assert database.read_bytes() == before
