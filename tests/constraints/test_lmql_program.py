"""Queries: compiled from a constraint, or the task's own."""

from __future__ import annotations

import re

import pytest

from pcsuite.constraints.lmql_program import LmqlBackend, query_code
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions
from pcsuite.errors import ConstraintUnavailableError
from support.hf_model import NEEDED, shared_hf_model

D0 = Decoding("d0", 0.0, 1.0, 72)


def test_models_of_hf_are_steered_by_schema_and_pattern_only():
    options = HfOptions(path="x")
    kinds = [
        kind
        for kind in ("json_schema", "regex", "cfg")
        if LmqlBackend().steers(LocalHfAdapter, options, kind)
    ]
    assert kinds == ["json_schema", "regex"]
    assert not LmqlBackend().steers(SimulatedAdapter, SimulatedOptions(), "regex")


def test_the_query_is_the_tasks_own_or_compiled():
    assert query_code(Constraint("regex", ".*", program="mine")) == "mine"
    assert "MATCHES" in query_code(Constraint("regex", "[a-z]+"))
    with pytest.raises(ConstraintUnavailableError, match="uniqueItems"):
        query_code(Constraint("json_schema", '{"type": "array", "uniqueItems": true, "maxItems": 2}'))
    with pytest.raises(ConstraintUnavailableError, match="cannot enforce a cfg constraint"):
        query_code(Constraint("cfg", "start: A"))


@pytest.mark.model
def test_a_query_of_the_users_own():
    pytest.importorskip("lmql", reason=NEEDED)
    backend, model = LmqlBackend(), shared_hf_model()
    query = '"Colour: [COLOUR]. Why: [WHY]" where COLOUR in ["mauve", "teal"] and len(TOKENS(WHY)) < 4'
    constraint = Constraint("regex", ".*", "lmql_program", program=query)
    tricky = "What is {this} and [THAT]? Answer."  # LMQL's own brackets must stay text
    answer = backend.generate_constrained(model, Request(tricky, D0, 0, constraint), constraint)
    assert re.match(r"Colour: (mauve|teal)\. Why: ", answer["text"])
