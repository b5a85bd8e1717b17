"""Answers of the replay suite with parts taken out or replaced: whatever a server sends is an answer or an error of ours."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.errors import EngineError
from support.replay import ReplayFile, adapter_for, environment, replay_files

DAMAGES = 40
"""Damaged copies of each answer."""
JUNK = [
    None,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    {},
    True,
    [1],
    ["\ud800"],
    {"a": 1},
    "failed",
    "incomplete",
    10**20,
    float("nan"),
]
FILES = [file for file in replay_files() if file.wire != "batches"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def damaged(answer: Any, random: Random) -> Any:
    """The answer with one to three of its parts missing or of another kind."""
    answer = copy.deepcopy(answer)
    for _ in range(random.randint(1, 3)):
        paths = list(places(answer))
        if not paths:
            break
        *above, last = random.choice(paths)
        holder = answer
        for step in above:
            holder = holder[step]
        if random.random() < 0.3:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(random.choice(JUNK))
    return answer


@pytest.mark.parametrize("file", FILES, ids=[f"{file.provider}-{file.wire}" for file in FILES])
def test_a_damaged_answer_is_an_answer_or_an_error(file: ReplayFile, monkeypatch):
    random, count = Random(f"{file.provider}-{file.wire}"), 0
    for exchange in file.exchanges:
        turn = exchange.all_turns()[-1]
        if exchange.reading is None or not isinstance(turn.reply.body, dict) or exchange.via != "call":
            continue
        for name, value in environment(file, exchange, "http://127.0.0.1:9").items():
            monkeypatch.setenv(name, value)
        adapter = adapter_for(file, exchange)
        assert isinstance(adapter, HttpAdapter)
        request = exchange.ask.request()
        path = adapter.wire(request).path
        for _ in range(DAMAGES):
            answer = damaged(turn.reply.body, random)
            count += 1
            try:
                generations = adapter.read_answer(request, path, answer)
            except EngineError:
                continue
            for generation in generations:
                assert isinstance(generation["text"], str), answer
                assert isinstance(generation["finish_reason"], str), answer
                counts = generation["usage"].values()
                assert all(type(each) is int and each >= 0 for each in counts), answer
                json.dumps(generation)
    assert count >= DAMAGES
