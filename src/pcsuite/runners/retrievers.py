"""What a profile's tasks are searched in: the backend, what it has for each task, and searches while a run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random

from pcsuite.config.load import Suite
from pcsuite.engines.limits import RetryPolicy, call_with_retries
from pcsuite.errors import ConfigError
from pcsuite.programs.base import Search
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.base import Passage, Retriever


def retriever_type(suite: Suite) -> type[Retriever]:
    """The profile's search backend, built in or a plug-in's.

    Raises :class:`ConfigError`, with the key's line in the profile, for a name that nobody registered.
    """
    try:
        return RETRIEVERS.get(suite.profile.integrations.retrieval.backend)
    except ConfigError as error:
        key = ["integrations", "retrieval", "backend"]
        raise ConfigError(suite.sources["profile"].problem(key, str(error))) from error


def retrieval_version(suite: Suite, task_id: str) -> Mapping[str, str]:
    """What determines the passages a task's loop is shown; nothing is built or asked.

    Part of the fingerprint of cells whose program searches: another corpus makes other rows.
    """
    settings = suite.profile.integrations.retrieval
    backend = retriever_type(suite)
    return backend.version(settings, suite.tasks[task_id].dataset, Path(suite.profile.run.cache_dir))


class TaskRetrievers:
    """Search functions by task."""

    def __init__(self, suite: Suite, policy: RetryPolicy) -> None:
        self._suite = suite
        self._policy = policy
        self._opened: dict[str, Retriever] = {}
        self._lock = asyncio.Lock()

    async def open(self, task_id: str) -> None:
        """Open a task's retriever, so that what is missing is told before the first model call."""
        await self._retriever(self._suite.tasks[task_id].dataset)

    def search_of(self, task_id: str) -> Search:
        """The search function of a task's corpus.

        Searches that fail for a while are tried again as the retry policy says; then :class:`EngineError` is
        raised.
        """
        rng = Random(task_id)

        async def search(query: str, k: int) -> list[Passage]:
            retriever = await self._retriever(self._suite.tasks[task_id].dataset)
            if not retriever.blocking:
                return retriever.search(query, k)
            passages, _ = await call_with_retries(
                lambda: asyncio.to_thread(retriever.search, query, k), self._policy, rng
            )
            return passages

        return search

    async def _retriever(self, dataset: str) -> Retriever:
        async with self._lock:
            if dataset not in self._opened:
                settings = self._suite.profile.integrations.retrieval
                backend = retriever_type(self._suite)
                cache_dir = Path(self._suite.profile.run.cache_dir)
                self._opened[dataset] = await asyncio.to_thread(backend.open, settings, dataset, cache_dir)
            return self._opened[dataset]
