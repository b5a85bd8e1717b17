from __future__ import annotations

from collections import deque

import pytest

from pcsuite.engines.adapters import _llamacpp_pool
from pcsuite.engines.adapters._llamacpp_pool import LlamaCppPool, Reading, Worker


class RecordingWorker:
    """A worker that answers when the test says so."""

    def __init__(self, settings, on_free):
        self.on_free = on_free
        self.alive = True
        self.read = deque(maxlen=settings["kept_beginnings"])
        self.sent: list[str] = []
        self._slots = settings["slots"]
        self._futures = []

    hold = Worker.hold

    def send(self, request, future, timeout_s=None):
        assert len(self._futures) < self._slots, "a worker answers one request a slot at a time"
        self.sent.append(request["body"])
        self._futures.append(future)

    def answer(self):
        self._futures.pop(0).set_result({})
        self.on_free(self)

    def close(self):
        pass


@pytest.fixture
def pool_of(monkeypatch):
    monkeypatch.setattr(_llamacpp_pool, "Worker", RecordingWorker)

    def make(slots):
        settings = {
            "model": "model.gguf",
            "context_tokens": 512,
            "threads": 1,
            "slots": slots,
            "prefix_reuse": True,
            "kept_beginnings": 1,
        }
        return LlamaCppPool(settings, size=2, timeout_s=1.0)

    return make


@pytest.fixture
def pool(pool_of):
    return pool_of(slots=1)


def ask(pool, *names):
    return [pool.generate(name, True, Reading(name[0])) for name in names]


def test_each_worker_keeps_to_the_prompt_it_has_read(pool):
    answers = ask(pool, "a1", "b1", "a2", "a3", "b2", "b3", "c1", "c2")
    first, second = pool._workers
    for _ in range(4):
        first.answer()
        second.answer()
    assert first.sent[:3] == ["a1", "a2", "a3"]
    assert second.sent[:3] == ["b1", "b2", "b3"]
    assert sorted(first.sent[3:] + second.sent[3:]) == ["c1", "c2"]
    assert all(answer.done() for answer in answers)


def test_a_worker_has_as_many_calls_as_slots(pool_of):
    pool = pool_of(slots=2)
    ask(pool, *"abcde")
    first, second = pool._workers
    assert (first.sent, second.sent) == (["a", "b"], ["c", "d"])
    second.answer()
    assert second.sent == ["c", "d", "e"]
    first.alive = False
    first.on_free(first)
    second.answer()
    ask(pool, *"fgh")
    assert second.sent == ["c", "d", "e", "f"]
    assert [worker.sent for worker in pool._workers[1:]] == [["g", "h"]]


def test_no_worker_idles_because_the_prompt_is_another_workers(pool):
    ask(pool, "a1", "a2", "a3")
    first, second = pool._workers
    assert (first.sent, second.sent) == (["a1"], ["a2"])


def test_a_free_worker_takes_a_prompt_that_nobody_has_read(pool):
    ask(pool, "a1", "b1", "b2", "c1")
    first, _ = pool._workers
    first.answer()
    assert first.sent == ["a1", "c1"]


def test_the_idle_worker_that_has_read_the_prompt_gets_it(pool):
    ask(pool, "a1", "b1")
    first, second = pool._workers
    first.answer()
    second.answer()
    ask(pool, "a2")
    assert (first.sent, second.sent) == (["a1", "a2"], ["b1"])


def test_calls_that_were_given_up_are_passed_over(pool):
    ask(pool, "a1", "b1")
    given_up, kept = ask(pool, "a2", "a3")
    given_up.cancel()
    first, _ = pool._workers
    first.answer()
    assert first.sent == ["a1", "a3"]
    assert not kept.done()


def ask_with_beginnings(pool, *names):
    """The first letter is the beginning, the first two are the prompt."""
    return [pool.generate(name, True, Reading(name[:2], name[0])) for name in names]


def test_prompts_that_begin_alike_go_to_the_worker_that_read_the_beginning(pool):
    ask_with_beginnings(pool, "a1", "a2", "b1", "a3", "b2", "b3")
    first, second = pool._workers
    # Nobody waits while there is work: the second takes a prompt of the same beginning where no other is there yet.
    assert (first.sent, second.sent) == (["a1"], ["a2"])
    for _ in range(3):
        first.answer()
        second.answer()
    assert (first.sent, second.sent) == (["a1", "a3", "b2"], ["a2", "b1", "b3"])


def test_a_prompt_goes_before_a_beginning(pool):
    ask_with_beginnings(pool, "a1x", "b1x", "a2x", "a1y")
    first, _ = pool._workers
    first.answer()
    first.answer()
    assert first.sent == ["a1x", "a1y", "a2x"]


def test_a_worker_holds_as_many_readings_as_it_keeps():
    worker = RecordingWorker({"slots": 1, "kept_beginnings": 2}, None)
    for reading in (Reading("a1", "a"), Reading("b1", "b"), Reading("a2", "a"), Reading("c")):
        worker.hold(reading)
    assert list(worker.read) == [Reading("a2", "a"), Reading("c")]
