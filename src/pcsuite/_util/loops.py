"""Coroutines run to their end from anywhere: from plain code, inside a running loop (a notebook), or awaited.

Inside a running loop they get a thread and a loop of their own, so that a model that blocks never holds up the
caller's loop, and a sync call works where one is running.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pcsuite._util import signals

ResultT = TypeVar("ResultT")


def run_blocking(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end in a loop of its own, whether or not the caller is inside one.

    Ctrl-C, or whatever else is raised while waiting, cancels the coroutine and waits until it has cleaned up.

    >>> async def answer():
    ...     return 42
    >>> run_blocking(answer())
    42
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_cancellable(coroutine)
    worker = _LoopThread(coroutine)
    worker.start()
    try:
        worker.join()
    except BaseException:
        worker.cancel()
        worker.join()
        raise
    return worker.result()


def _run_cancellable(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """``asyncio.run``; a signal that the command line hears cancels the coroutine, and is raised once it has ended."""

    async def main() -> ResultT:
        with signals.cancelling(asyncio.current_task()):
            return await coroutine

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if (number := signals.received()) is not None:
            raise signals.Ended(number) from None
        raise


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """What coroutines return, in their order, run side by side; where one raises, the others are cancelled first.

    ``asyncio.gather`` would leave the others running, and calling models that are being closed.

    >>> async def twice(number):
    ...     return 2 * number
    >>> run_blocking(gather_or_cancel(map(twice, (1, 2))))
    [2, 4]
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def run_in_thread(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await a coroutine that runs in a thread and a loop of its own; cancelling the awaiting task cancels it too.

    The caller's loop stays free meanwhile, whatever the coroutine blocks on.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    worker = _LoopThread(coroutine, lambda: loop.call_soon_threadsafe(ended.set))
    worker.start()
    try:
        await ended.wait()
    except asyncio.CancelledError:
        worker.cancel()
        await ended.wait()
        raise
    worker.join()
    return worker.result()


_COLLECT_AFTER = 20_000
_collecting_less = threading.Lock()
_under_way: list[tuple[int, int, int]] = []


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Let Python look for reference cycles less often while calls are made, process-wide; afterwards as before.

    Hundreds of calls under way are many young objects that Python goes through again and again and that nearly all end
    without its help, and each look at everything else, which a run leaves alone, holds the loop up for as long as a
    call takes. Whoever has set a higher threshold, or switched collection off, keeps that.
    """
    with _collecting_less:
        thresholds = gc.get_threshold()
        _under_way.append(thresholds)
        if len(_under_way) == 1 and 0 < thresholds[0] < _COLLECT_AFTER:
            gc.freeze()
            gc.set_threshold(_COLLECT_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        with _collecting_less:
            earlier = _under_way.pop()
            # The one that is left when the list is empty came first, and saw what was set before.
            if not _under_way and 0 < earlier[0] < _COLLECT_AFTER:
                gc.set_threshold(*earlier)
                gc.unfreeze()


class _LoopThread(threading.Thread, Generic[ResultT]):
    """A thread with an event loop that runs one coroutine, in a copy of the caller's context."""

    def __init__(self, coroutine: Coroutine[Any, Any, ResultT], ended: Callable[[], object] = bool) -> None:
        super().__init__(name="pcsuite-loop", daemon=True)
        self._coroutine = coroutine
        self._ended = ended
        self._context = contextvars.copy_context()
        self._begun = threading.Event()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outcome: tuple[Any, BaseException | None] = (None, RuntimeError("it has not ended"))

    def run(self) -> None:
        async def main() -> Any:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            self._begun.set()
            return await self._coroutine

        try:
            # In the caller's context, so that what it has set in context variables holds here too.
            self._outcome = (self._context.run(asyncio.run, main()), None)
        except BaseException as error:
            self._outcome = (None, error)
        finally:
            self._begun.set()
            self._ended()

    def cancel(self) -> None:
        """Ask the coroutine to end; one that has ended already is left alone."""
        self._begun.wait()
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                return  # closed in this moment

    def result(self) -> ResultT:
        """What the coroutine returned; raises what it raised."""
        value, error = self._outcome
        if error is not None:
            raise error
        result: ResultT = value
        return result
