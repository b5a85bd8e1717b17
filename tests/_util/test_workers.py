"""Workers that can be ended: what is over its limit costs itself and nobody else."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pcsuite._util.worker_process import MOST_KEPT
from pcsuite._util.workers import (
    CODE,
    DATA,
    NOTHING,
    PATTERNS,
    Batcher,
    Handler,
    Jobs,
    Kind,
    Limits,
    PoolClosedError,
    Raised,
    Shared,
    Stopped,
    Value,
    WorkerPool,
    inside_worker,
)

pytestmark = pytest.mark.subprocess
JOBS = textwrap.dedent(
    """
    import os, pickle, signal, sys, time

    def prepare(shared):
        if shared is not None:
            time.sleep(pickle.loads(shared))
        return do

    def do(job, kept=None):
        what, value = job
        if what == "sleep":
            time.sleep(value)
        elif what == "spin":
            while True:
                pass
        elif what == "deaf":
            while True:
                try:
                    time.sleep(1)
                except BaseException:
                    pass
        elif what == "compute":
            return sum(range(1 << 50))  # in C, and never back in Python
        elif what == "alarm":
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.alarm(0)
        elif what == "read":
            return sys.stdin.read()
        elif what == "kept":
            return (id(kept), kept)
        elif what == "take":
            return len(bytearray(value))
        elif what == "raise":
            raise ValueError(value)
        elif what == "die":
            os._exit(value)
        elif what == "print":
            print("noise", flush=True)
        elif what == "closure":
            return lambda: None
        elif what == "environment":
            return os.environ.get(value)
        elif what == "path":
            return list(sys.path)
        return value
    """
)


@pytest.fixture
def handler(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    return Handler(f"{tmp_path / 'jobs.py'}:prepare", DATA)


@pytest.fixture
def pool():
    pool = WorkerPool()
    yield pool
    pool.close()


def test_one_job_over_its_limit_costs_itself_alone(pool, handler):
    jobs = [
        ("say", 1),
        ("spin", 0),
        ("say", 2),
        ("sleep", 30),
        ("deaf", 0),
        ("take", 1 << 31),
        ("raise", "no"),
        ("die", 3),
        ("say", 3),
    ]
    started = time.monotonic()
    results = pool.run(handler, NOTHING, jobs, Limits(0.3))
    assert results == [
        Value(1),
        Stopped("time"),
        Value(2),
        Stopped("time"),
        Stopped("time"),
        Stopped("memory"),
        Raised("ValueError", "no", None),
        Stopped("died", 3),
        Value(3),
    ]
    assert time.monotonic() - started < 10
    assert (
        pool.starts == 3
    )  # one more each for the one that was deaf and the one that ended its process; the others were told and went on


def test_a_limit_counts_a_jobs_own_time_only(pool, handler):
    """Neither the start, nor what is loaded, nor the jobs before it: together they take five times the limit."""
    results = pool.run(handler, Shared.of(1.0), [("sleep", 0.25)] * 8, Limits(0.6))
    assert results == [Value(0.25)] * 8
    assert pool.starts <= 2


def test_answers_that_go_down_with_a_process_are_had_again(pool, handler):
    """Quick jobs are answered together: the one that ends the process takes the answers before it along."""
    jobs = [("die", 5) if number in (7, 20) else ("say", number) for number in range(40)]
    results = pool.run(handler, NOTHING, jobs, Limits(2.0))
    assert results == [Stopped("died", 5) if number in (7, 20) else Value(number) for number in range(40)]


def test_code_that_never_returns_to_python_and_a_job_with_alarms_of_its_own(pool, handler):
    started = time.monotonic()
    jobs = [("compute", 0), ("say", 1), ("alarm", 0), ("spin", 0), ("say", 2)]
    results = pool.run(handler, NOTHING, jobs, Limits(0.3))
    assert results == [Stopped("time"), Value(1), Value(0), Stopped("time"), Value(2)]
    assert time.monotonic() - started < 6


def test_what_many_jobs_have_is_sent_once(pool, handler):
    kind, (first, second) = Kind(handler, NOTHING, Limits(2.0)), ({"a": "b" * 99}, ["c"])
    with Jobs(pool) as jobs:
        ahead = [jobs.add(kind, ("kept", 0), kept) for kept in (first, second) * 20]
        told = [jobs.result(job).value for job in ahead]
    assert [kept for _, kept in told] == [first, second] * 20
    assert len({identity for identity, _ in told}) == 2
    with Jobs(pool) as jobs:  # more than a worker keeps
        ahead = [jobs.add(kind, ("kept", 0), [number]) for number in range(MOST_KEPT + 300)]
        assert [jobs.result(job).value[1] for job in ahead] == [[number] for number in range(MOST_KEPT + 300)]


def test_a_job_has_nothing_to_read_and_one_that_cannot_be_sent_fails_alone(pool, handler):
    unsendable = ("say", lambda: None)
    results = pool.run(handler, NOTHING, [("read", 0), unsendable, ("say", 2)], Limits(2.0))
    assert (results[0], results[2]) == (Value(""), Value(2))
    assert "cannot be sent to a worker" in results[1].message


def test_slow_jobs_are_shared_by_workers_and_quick_ones_stay_with_one(pool, handler):
    quick, slow = Kind(handler, NOTHING, Limits(5.0)), Kind(handler, Shared.of(0.0), Limits(5.0))

    async def main(kind, jobs):
        batcher = Batcher(pool)
        return await asyncio.gather(*(batcher.run(kind, job) for job in jobs))

    assert asyncio.run(main(quick, [("say", number) for number in range(500)])) == [
        Value(number) for number in range(500)
    ]
    assert pool.starts == 1
    assert asyncio.run(main(slow, [("sleep", 0.2)] * 24)) == [Value(0.2)] * 24
    assert pool.starts == 2


def test_who_holds_a_loop_up_does_not_wait_for_workers_that_need_the_loop(pool, handler):
    kind = Kind(handler, NOTHING, Limits(5.0))

    async def main():
        batcher = Batcher(pool)
        slow = [asyncio.create_task(batcher.run(kind, ("sleep", 0.3))) for _ in range(40)]
        await asyncio.sleep(1.0)  # both workers are busy by now
        blocking = pool.run(handler, NOTHING, [("say", 1)], Limits(5.0))
        return blocking, await asyncio.gather(*slow)

    assert asyncio.run(main()) == ([Value(1)], [Value(0.3)] * 40)


def test_jobs_that_nobody_waits_for_any_more_free_their_workers(pool, handler):
    kind = Kind(handler, NOTHING, Limits(60.0))

    async def main():
        batcher = Batcher(pool)
        tasks = [asyncio.create_task(batcher.run(kind, ("spin", 0))) for _ in range(4)]
        await asyncio.sleep(0.8)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await batcher.run(kind, ("say", 1))

    started = time.monotonic()
    assert asyncio.run(main()) == Value(1)
    assert pool.run(handler, NOTHING, [("say", 2)] * 2, Limits(5.0)) == [Value(2)] * 2
    assert time.monotonic() - started < 10


def test_closing_the_pool_tells_those_who_wait(pool, handler):
    kind = Kind(handler, NOTHING, Limits(60.0))

    async def main():
        batcher = Batcher(pool)
        waiting = asyncio.gather(*(batcher.run(kind, ("spin", 0)) for _ in range(40)), return_exceptions=True)
        await asyncio.sleep(0.8)
        pool.close()
        return await waiting

    assert {type(result) for result in asyncio.run(main())} == {PoolClosedError}
    assert pool.run(handler, NOTHING, [("say", 2)], Limits(5.0)) == [Value(2)]


def test_what_a_job_prints_or_cannot_send_back_harms_nothing(pool, handler):
    printed, unsendable, after = pool.run(
        handler, NOTHING, [("print", 1), ("closure", 0), ("say", 2)], Limits(5.0)
    )
    assert (printed, after) == (Value(1), Value(2))
    assert isinstance(unsendable, Raised)
    assert "cannot be sent back" in unsendable.message


def test_strangers_data_sees_none_of_our_keys_and_a_users_code_what_it_would_see_here(
    pool, handler, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    (secret,) = pool.run(handler, NOTHING, [("environment", "OPENAI_API_KEY")], Limits(5.0))
    assert secret == Value(None)
    code = handler._replace(kind=CODE)
    key, path = pool.run(code, NOTHING, [("environment", "OPENAI_API_KEY"), ("path", 0)], Limits(5.0))
    assert (key, path) == (Value("sk-0123456789abcdef"), Value(sys.path))
    assert not inside_worker()


def test_jobs_of_a_loop_go_in_batches_and_the_loop_goes_on(pool, handler):
    async def main():
        batcher, ticks, kind = Batcher(pool), 0, Kind(handler, NOTHING, Limits(0.5))

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        jobs = [("spin", 0) if number == 7 else ("say", number) for number in range(300)]
        results = await asyncio.gather(*(batcher.run(kind, job) for job in jobs))
        ticking.cancel()
        return results, ticks

    results, ticks = asyncio.run(main())
    assert results == [Stopped("time") if number == 7 else Value(number) for number in range(300)]
    assert ticks > 20
    assert pool.starts <= 3


def test_patterns_are_matched_as_python_matches_them(pool):
    jobs = [
        (r"(a)\1", 0, "search", "xaax"),
        (r"(?i)A+", 0, "finditer", "aXaa"),
        (r"\d", 0, "fullmatch", "12"),
    ]
    expected = [Value(True), Value([("a",), ("aa",)]), Value(False)]
    assert pool.run(PATTERNS, NOTHING, jobs, Limits(2.0)) == expected


@pytest.mark.parametrize(
    ("how", "what"), [(signal.SIGKILL, "spin"), (signal.SIGTERM, "spin"), (signal.SIGKILL, "compute")]
)
def test_no_worker_outlives_us_even_in_the_midst_of_a_job(tmp_path, handler, how, what):
    code = (
        "import sys, threading\n"
        "from pcsuite._util.workers import *\n"
        "pool = WorkerPool()\n"
        f"handler = Handler({handler.address!r}, DATA)\n"
        "pool.run(handler, NOTHING, [('say', 1)], Limits(2.0))\n"
        "print(*(worker._process.pid for worker in pool._all), flush=True)\n"
        f"pool.run(handler, NOTHING, [({what!r}, 1)], Limits(1.0))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.send_signal(how)
    parent.communicate()
    for _ in range(600):  # of processor time, on a busy machine
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        pytest.fail("the worker is still there")
