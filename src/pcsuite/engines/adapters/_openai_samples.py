"""Replicates of a prompt that share one request, where a server can draw several samples at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
WAIT_S = 0.005
"""How long a request waits for further replicates; they are started together, so a moment is enough."""


class SharedRequests(Generic[Question, Answer]):
    """Puts calls that ask the same question at the same time into one request of several samples.

    ``send(question, samples)`` answers with at most so many samples. Where it gives fewer, the rest is asked
    for again; where it fails, every call of the request fails with that error and may be tried again.
    """

    def __init__(self, send: Callable[[Question, int], Awaitable[list[Answer]]], most: int) -> None:
        self._send = send
        self._most = most
        self._open: dict[tuple[asyncio.AbstractEventLoop, Question], list[asyncio.Future[Answer]]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> Answer:
        """One answer, from a request of its own or a shared one."""
        loop = asyncio.get_running_loop()
        waiting = self._open.get((loop, question))
        if waiting is None or len(waiting) >= self._most:
            waiting = self._open[(loop, question)] = []
            task = loop.create_task(self._collect(loop, question, waiting))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        future: asyncio.Future[Answer] = loop.create_future()
        waiting.append(future)
        return await future

    async def _collect(
        self, loop: asyncio.AbstractEventLoop, question: Question, waiting: list[asyncio.Future[Answer]]
    ) -> None:
        await asyncio.sleep(WAIT_S)
        if self._open.get((loop, question)) is waiting:
            del self._open[(loop, question)]
        while left := [future for future in waiting if not future.done()]:
            try:
                answers = await self._send(question, len(left))
            except BaseException as error:
                for future in left:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                return
            for future, answer in zip(left, answers, strict=False):
                if not future.done():
                    future.set_result(answer)
