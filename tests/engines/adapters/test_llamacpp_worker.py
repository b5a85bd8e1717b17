"""What a worker keeps of beginnings, on an engine that only remembers which tokens its slot holds."""

from __future__ import annotations

import os
import re
import sys
import types
from itertools import takewhile
from pathlib import Path

import pytest

from pcsuite.engines.adapters import _llamacpp_worker
from pcsuite.engines.adapters._llamacpp_worker import _Engine, _States

pytestmark = pytest.mark.skipif(_States.folder is None, reason="files in memory are Linux's")


class RememberingServer:
    """A slot's tokens by the rules of llama.cpp's cache: what a prompt shares stays, its last token is always read."""

    listening_address = "http://127.0.0.1:1"

    def __init__(self, params):
        assert params.n_parallel == 1
        self.slot: list[int] = []
        self.saved: dict[str, list[int]] = {}
        self.read: list[int] = []
        """How many tokens each call read."""
        self.full = False
        """Whether there is no room for a further state."""

    def handle_completions(self, body):
        prompt = body["prompt"]
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(self.slot, prompt, strict=False))
        known = min(len(list(alike)), len(prompt) - 1) if body["cache_prompt"] else 0
        self.slot = list(prompt)
        self.read.append(len(prompt) - known)
        return {"timings": {"prompt_n": len(prompt) - known, "cache_n": known}}

    def ask(self, method, path, body=None):
        assert method == "POST"
        action, name = path.removeprefix("/slots/0?action="), body["filename"]
        assert Path(_States.folder + name).exists()
        if action == "save":
            if self.full:
                return {"error": "no space"}
            self.saved[name] = list(self.slot)
            return {"n_saved": len(self.slot)}
        self.slot = list(self.saved[name])
        return {"n_restored": len(self.slot)}


@pytest.fixture
def engine_with(monkeypatch):
    names = ("model", "cpuparams", "cpuparams_batch")
    fake = types.SimpleNamespace(
        __version__="0",
        CommonParams=lambda: types.SimpleNamespace(**{name: types.SimpleNamespace() for name in names}),
        llama_flash_attn_type=types.SimpleNamespace(LLAMA_FLASH_ATTN_TYPE_DISABLED=0),
        Server=RememberingServer,
    )
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    engines = []

    def make(kept, context_tokens=512):
        engine = _Engine("m.gguf", context_tokens, 1, 1, True, kept)
        monkeypatch.setattr(engine, "_ask", engine._server.ask)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        for tokens in list(engine._states._files):
            engine._states.drop(tokens)


def held_in_turn(engine, *beginnings):
    """Tokens that each beginning took to be held, a prompt of it being read after it."""
    read = engine._server.read
    costs = []
    for beginning in beginnings:
        before = len(read)
        assert engine._hold(beginning)
        assert engine._server.slot == beginning
        costs.append(sum(read[before:]))
        engine._server.handle_completions({"prompt": [*beginning, 7, 8], "cache_prompt": True})
    return costs


A, B, C = [1] * 30, [2] * 40, [3] * 50


def test_beginnings_that_take_turns_are_read_once_each(engine_with):
    """Reading one takes its tokens and the last one again; putting back what is kept takes none."""
    engine = engine_with(kept=2)
    assert held_in_turn(engine, A, B, A, B, A) == [31, 41, 0, 0, 0]
    # A third takes the place of the one that was not used for longest, which is read anew.
    assert held_in_turn(engine, C, A, B) == [51, 0, 41]
    assert len(engine._states._files) == 2


def test_without_room_a_beginning_lasts_while_the_slot_holds_it(engine_with):
    engine = engine_with(kept=2)
    engine._server.full = True
    assert held_in_turn(engine, A, A, B, A) == [31, 1, 41, 31]
    assert not engine._states._files


def test_kept_beginnings_are_bounded_together(engine_with, monkeypatch):
    monkeypatch.setattr(_llamacpp_worker, "STATES_OF", 1)
    engine = engine_with(kept=10, context_tokens=95)
    assert held_in_turn(engine, A, B, C, B, A) == [31, 41, 51, 0, 31]  # 30 + 40 + 50 are more than 95
    assert sum(map(len, engine._states._files)) <= 95


def test_a_state_that_cannot_be_put_back_is_read_anew(engine_with):
    engine = engine_with(kept=2)
    assert held_in_turn(engine, A, B) == [31, 41]
    engine._server.saved = {name: [] for name in engine._server.saved}
    assert held_in_turn(engine, A, A) == [31, 0]


@pytest.mark.parametrize(
    ("beginning", "kept"),
    [
        ("Be brief.\n\nLetter: ", "Be"),  # "brief" and then ".", which goes on over the empty line
        ("Be brief\n\nLetter: ", "Be brief"),
        ("Say yes or no.\nLetter ", "Say yes or"),
        ("Say (yes or no)\n\n", "Say (yes or"),
        ("brief.\n\n", ""),
    ],
)
def test_a_beginning_ends_where_no_token_goes_on(engine_with, monkeypatch, beginning, kept):
    """Qwen's vocabulary has a stop with the empty line behind it as one token, which cut off no beginning at all."""
    engine = engine_with(kept=2)
    numbers: dict[str, int] = {}

    def tokenize(method, path, body):
        assert path == "/tokenize"
        found = re.findall(r"\s?\w+|\s?[^\w\s]+\n*|\s", body["content"])
        return {"tokens": [numbers.setdefault(token, len(numbers)) for token in found]}

    monkeypatch.setattr(engine, "_ask", tokenize)
    tokens, cut = engine._beginning_of(
        {"prompt": beginning + "fine"}, False, [0, len(beginning), len(beginning)]
    )
    assert (tokens, beginning[:cut]) == (engine._tokens(kept), kept)
    assert engine._tokens(beginning + "fine")[: len(tokens)] == tokens


def test_files_of_dropped_states_are_closed():
    states = _States(1, 100)
    first = int(states.add(A))
    states.add(B)
    assert states.get(A) is None
    second = states.get(B)
    assert second is not None
    assert states.add([0] * 101) is None
    states.drop(B)
    for descriptor in {first, int(second)}:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
