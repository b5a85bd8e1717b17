"""The retrievers of a run: opened on first use, one for each dataset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random

from pcsuite.config.load import Suite
from pcsuite.engines.retry import RetryPolicy, call_with_retries
from pcsuite.programs.base import Search
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.base import Passage, Retriever


def retrieval_version(suite: Suite, task_id: str) -> Mapping[str, str]:
    """What determines the passages a task's loop is shown; nothing is built or asked."""
    settings = suite.profile.integrations.retrieval
    backend = RETRIEVERS.get(settings.backend)
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
        """The search function of a task's corpus."""
        rng = Random(task_id)

        async def search(query: str, k: int) -> list[Passage]:
            retriever = await self._retriever(self._suite.tasks[task_id].dataset)
            if not retriever.blocking:
                return retriever.search(query, k)
            attempted = await call_with_retries(
                lambda: asyncio.to_thread(retriever.search, query, k), self._policy, rng
            )
            return attempted.unwrap()

        return search

    async def _retriever(self, dataset: str) -> Retriever:
        async with self._lock:
            if dataset not in self._opened:
                settings = self._suite.profile.integrations.retrieval
                backend = RETRIEVERS.get(settings.backend)
                cache_dir = Path(self._suite.profile.run.cache_dir)
                self._opened[dataset] = await asyncio.to_thread(backend.open, settings, dataset, cache_dir)
            return self._opened[dataset]
