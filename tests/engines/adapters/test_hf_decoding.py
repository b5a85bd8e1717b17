"""The thread that owns a model: batches, jobs alone, and its end."""

from __future__ import annotations

import threading

import pytest

from pcsuite.engines.adapters._hf_decoding import BatchingThread, nearest
from pcsuite.errors import EngineError


def test_requests_that_wait_together_are_one_batch_and_a_job_is_alone():
    batches, started, go = [], threading.Event(), threading.Event()

    def answer(batch):
        batches.append(batch)
        return [ValueError(f"no {request}") if request == 3 else request * 10 for request in batch]

    def hold():
        started.set()
        go.wait(10)
        return "alone"

    thread = BatchingThread(answer, batch_size=3, wait_s=0.01)
    first = thread.alone(hold)
    started.wait(10)
    futures = [thread.submit(number) for number in range(5)]
    cancelled = thread.submit(9)
    assert cancelled.cancel()
    go.set()
    assert first.result(10) == "alone"
    assert [future.result(10) for future in futures if future is not futures[3]] == [0, 10, 20, 40]
    with pytest.raises(ValueError, match="no 3"):
        futures[3].result(10)
    thread.close()
    assert batches == [[0, 1, 2], [3, 4]]


def test_an_error_of_a_batch_is_every_rows_and_a_job_has_its_own():
    def answer(batch):
        raise RuntimeError("out of memory")

    thread = BatchingThread(answer, batch_size=2, wait_s=0.01)
    for future in [thread.submit(1), thread.submit(2)]:
        with pytest.raises(RuntimeError, match="out of memory"):
            future.result(10)
    with pytest.raises(ZeroDivisionError):
        thread.alone(lambda: 1 // 0).result(10)
    thread.close()


def test_a_closed_thread_takes_nothing_and_fails_what_waits():
    started, go = threading.Event(), threading.Event()
    thread = BatchingThread(list, batch_size=1, wait_s=0.0)
    held = thread.alone(lambda: (started.set(), go.wait(10)))
    started.wait(10)
    closing = threading.Thread(target=thread.close)
    closing.start()
    while not thread._closed:
        pass
    with pytest.raises(EngineError, match="the model was closed"):
        thread.submit(1)
    go.set()
    closing.join(10)
    assert held.done()
    thread.close()  # twice is once


def test_a_job_that_comes_while_a_batch_is_gathered_runs_after_it_and_before_what_follows():
    done = []

    def answer(batch):
        done.append(batch)
        return batch

    thread = BatchingThread(answer, batch_size=8, wait_s=0.5)
    futures = [thread.submit("a"), thread.alone(lambda: done.append("job") or "job"), thread.submit("b")]
    assert [future.result(10) for future in futures] == ["a", "job", "b"]
    thread.close()
    assert done == [["a"], "job", ["b"]]


def test_what_a_batch_leaves_unfinished_comes_first_in_the_next():
    batches, held, go = [], threading.Event(), threading.Event()

    def answer(batch):
        batches.append(list(batch))
        whole = thread.fills_batch(beside=1)
        return [None if request == "slow" and whole else request for request in batch]

    thread = BatchingThread(answer, batch_size=3, wait_s=0.01)
    thread.alone(lambda: (held.set(), go.wait(10)))
    held.wait(10)
    futures = [thread.submit(request) for request in ("a", "slow", "b", "c", "d", "e", "f", "g")]
    go.set()
    assert [future.result(10) for future in futures] == ["a", "slow", "b", "c", "d", "e", "f", "g"]
    thread.close()
    # With fewer waiting than make a batch, it is held until it ends.
    assert batches == [["a", "slow", "b"], ["slow", "c", "d"], ["slow", "e", "f"], ["g"]]


def test_an_error_ends_what_was_carried_over_too():
    held, go, batches = threading.Event(), threading.Event(), []

    def answer(batch):
        batches.append(list(batch))
        if len(batches) > 1:
            raise RuntimeError("out of memory")
        return [None, 2]

    thread = BatchingThread(answer, batch_size=2, wait_s=0.01)
    thread.alone(lambda: (held.set(), go.wait(10)))
    held.wait(10)
    futures = [thread.submit(number) for number in range(3)]
    go.set()
    assert futures[1].result(10) == 2
    for future in (futures[0], futures[2]):
        with pytest.raises(RuntimeError, match="out of memory"):
            future.result(10)
    thread.close()
    assert batches == [[0, 1], [0, 2]]


def test_of_more_requests_than_a_batch_takes_those_of_one_length_run_together_and_none_is_left_behind():
    batches, held, go = [], threading.Event(), threading.Event()

    def answer(batch):
        batches.append(list(batch))
        return batch

    thread = BatchingThread(answer, batch_size=2, wait_s=0.01, choose=nearest(lambda text: (len(text),)))
    thread.alone(lambda: (held.set(), go.wait(10)))
    held.wait(10)
    requests = ["a" * 50, "b", "c" * 9, "dd", "e" * 8, "f" * 30]
    futures = [thread.submit(request) for request in requests]
    job = thread.alone(lambda: batches.append("job"))
    late = thread.submit("b" * 2)
    go.set()
    assert [future.result(10) for future in futures] == requests
    job.result(10)
    late.result(10)
    thread.close()
    assert batches == [["a" * 50, "f" * 30], ["b", "dd"], ["c" * 9, "e" * 8], "job", ["bb"]]
