"""Queries: compiled from a constraint, or the task's own."""

from __future__ import annotations

import re

import pytest

from pcsuite._util.patterns import read_pattern
from pcsuite.constraints.lmql_program import LmqlBackend
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions
from support.hf_model import NEEDED, shared_hf_model
from support.tiny_hf import tiny_chat_adapter

D0 = Decoding("d0", 0.0, 1.0, 72)
HOT = Decoding("hot", 1.6, 1.0, 60)


def test_models_of_hf_are_steered_by_every_kind():
    options = HfOptions(path="x")
    for kind in ("json_schema", "regex", "cfg"):
        assert LmqlBackend().steers(LocalHfAdapter, options, kind)
        assert not LmqlBackend().steers(SimulatedAdapter, SimulatedOptions(), kind)


@pytest.mark.model
@pytest.mark.parametrize("seed", range(3))
def test_a_character_in_several_tokens_does_not_end_the_mask(seed):
    pytest.importorskip("lmql", reason=NEEDED)
    backend, model = LmqlBackend(), tiny_chat_adapter()
    for pattern in ("Zürich|東京|😀", r"\s{1,2}\d{2}\w{2}", "[α-ω]{3}", "東{2,4}京"):
        constraint = Constraint("regex", pattern, "lmql_program")
        answer = backend.generate_constrained(model, Request("Go.", HOT, seed, constraint), constraint)
        assert answer["finish_reason"] == "stop"
        assert read_pattern(pattern, "answer").fullmatch(answer["text"])


@pytest.mark.model
@pytest.mark.parametrize("seed", range(3))
def test_holes_of_the_users_own_query_are_followed_by_their_tokens(seed):
    pytest.importorskip("lmql", reason=NEEDED)
    query = '"<[A]> and [B]" where MATCHES(A, "東{2,3}|😀") and MATCHES(B, "[éà]{2}")'
    constraint = Constraint("regex", ".*", "lmql_program", program=query)
    answer = LmqlBackend().generate_constrained(
        tiny_chat_adapter(), Request("Go.", HOT, seed, constraint), constraint
    )
    assert re.fullmatch("<(東{2,3}|😀)> and [éà]{2}", answer["text"])


@pytest.mark.model
def test_a_query_of_the_users_own():
    pytest.importorskip("lmql", reason=NEEDED)
    backend, model = LmqlBackend(), shared_hf_model()
    query = '"Colour: [COLOUR]. Why: [WHY]" where COLOUR in ["mauve", "teal"] and len(TOKENS(WHY)) < 4'
    constraint = Constraint("regex", ".*", "lmql_program", program=query)
    tricky = "What is {this} and [THAT]? Answer."  # LMQL's own brackets must stay text
    answer = backend.generate_constrained(model, Request(tricky, D0, 0, constraint), constraint)
    assert re.match(r"Colour: (mauve|teal)\. Why: ", answer["text"])
