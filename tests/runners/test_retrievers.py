"""What a profile's tasks are searched in, while a run goes on."""

from __future__ import annotations

import asyncio

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import ConfigError, EngineError
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.base import Passage, Retriever
from pcsuite.runners.retrievers import TaskRetrievers, retrieval_version, retriever_type
from support.profiles import write_profile


class Flaky(Retriever):
    """A server that fails twice before it answers."""

    blocking = True
    opened = 0
    calls = 0

    @classmethod
    def open(cls, settings, dataset, cache_dir):
        cls.opened += 1
        return cls()

    @classmethod
    def version(cls, settings, dataset, cache_dir):
        return {"backend": "flaky", "dataset": dataset}

    def search(self, query, k=5):
        type(self).calls += 1
        if type(self).calls < 3:
            raise EngineError("busy", status=503, retryable=True)
        return [Passage("Page", 0, query, 1.0)][:k]


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_targets", {**RETRIEVERS._targets, "flaky": Flaky})
    monkeypatch.setattr(Flaky, "opened", 0)
    monkeypatch.setattr(Flaky, "calls", 0)
    searched = {"retrieval": {"enabled_for_tasks": ["fever_json"], "backend": "flaky"}}
    return load_suite(write_profile(tmp_path, tasks=("fever_json",), integrations=searched))


def test_a_search_is_tried_again_and_the_backend_opened_once(suite):
    async def search():
        retrievers = TaskRetrievers(suite, RetryPolicy(max_attempts=3, base_s=0.001, cap_s=0.001))
        await retrievers.open("fever_json")
        return await asyncio.gather(*(retrievers.search_of("fever_json")("Lorvik", 2) for _ in range(2)))

    for found in asyncio.run(search()):
        assert [passage.text for passage in found] == ["Lorvik"]
    assert Flaky.opened == 1


def test_retries_end(suite):
    async def search():
        retrievers = TaskRetrievers(suite, RetryPolicy(max_attempts=2, base_s=0.001, cap_s=0.001))
        return await retrievers.search_of("fever_json")("Lorvik", 2)

    with pytest.raises(EngineError, match="busy"):
        asyncio.run(search())


def test_the_corpus_names_the_rows(suite):
    assert retriever_type(suite) is Flaky
    dataset = suite.tasks["fever_json"].dataset
    assert retrieval_version(suite, "fever_json") == {"backend": "flaky", "dataset": dataset}


def test_a_backend_that_nobody_registered_is_told_with_its_line(tmp_path):
    searched = {"retrieval": {"backend": "bm26_local"}}
    with pytest.raises(ConfigError, match=r"profile\.yaml:\d+.*did you mean 'bm25_local'"):
        retriever_type(load_suite(write_profile(tmp_path, integrations=searched)))
