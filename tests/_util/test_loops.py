"""Coroutines from plain code, from inside a loop, and awaited beside one."""

import asyncio
import contextvars
import gc
import threading

import pytest

from pcsuite._util.loops import fewer_collections, gather_or_cancel, run_blocking, run_in_thread

NAME = contextvars.ContextVar("name", default="nobody")


async def thread_name():
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_plain_code_runs_it_in_its_own_thread():
    assert run_blocking(thread_name()) == threading.current_thread().name


def test_inside_a_running_loop_it_gets_a_thread_and_the_callers_context():
    async def outer():
        NAME.set("caller")

        async def inner():
            return NAME.get(), threading.current_thread().name

        return run_blocking(inner())

    assert asyncio.run(outer()) == ("caller", "pcsuite-loop")


def test_errors_come_back():
    async def fails():
        raise ValueError("no")

    async def outer():
        with pytest.raises(ValueError, match="no"):
            run_blocking(fails())
        with pytest.raises(ValueError, match="no"):
            await run_in_thread(fails())

    asyncio.run(outer())


def test_the_callers_loop_stays_free_while_it_awaits():
    async def outer():
        ticks = []
        blocked = threading.Event()

        async def blocking():
            blocked.wait(10)
            return "done"

        async def tick():
            for n in range(3):
                ticks.append(n)
                await asyncio.sleep(0)
            blocked.set()

        made, _ = await asyncio.gather(run_in_thread(blocking()), tick())
        return made, ticks

    assert asyncio.run(outer()) == ("done", [0, 1, 2])


def test_cancelling_the_awaiting_task_lets_the_coroutine_clean_up():
    cleaned = []

    async def outer():
        begun = threading.Event()

        async def long():
            try:
                begun.set()
                await asyncio.sleep(60)
            finally:
                cleaned.append(True)

        task = asyncio.create_task(run_in_thread(long()))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outer())
    assert cleaned == [True]


def test_an_interrupt_while_waiting_cancels_the_coroutine(monkeypatch):
    cleaned = []
    original = threading.Thread.join

    async def long():
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    async def outer():
        calls = []

        def join(self, timeout=None):
            if self.name == "pcsuite-loop" and not calls:
                calls.append(1)
                raise KeyboardInterrupt
            return original(self, timeout)

        monkeypatch.setattr(threading.Thread, "join", join)
        with pytest.raises(KeyboardInterrupt):
            run_blocking(long())

    asyncio.run(outer())
    assert cleaned == [True]


def test_where_one_fails_the_others_are_cancelled_before_it_is_told():
    ended = []

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_blocking(gather_or_cancel([waits(), fails(), waits()]))
    assert ended == ["waits", "waits"]


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_cycles_are_looked_for_less_often_until_the_last_session_ends(thresholds):
    first, second = fewer_collections(), fewer_collections()
    first.__enter__()
    assert gc.get_threshold() == (20_000, 10, 10)
    assert gc.get_freeze_count() > 1000
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (20_000, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


def test_collection_is_as_before_after_an_error(thresholds):
    with pytest.raises(ValueError, match="lost"), fewer_collections():
        raise ValueError("lost")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (50_000, 5, 5)])
def test_what_a_user_has_set_stays(thresholds, own):
    gc.set_threshold(*own)
    with fewer_collections():
        assert gc.get_threshold() == own
        assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == own
