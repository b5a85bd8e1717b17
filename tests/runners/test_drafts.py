"""What a row says of its constraint: failed, broken, or kept and cut."""

from __future__ import annotations

import json
import sys

import pytest

from pcsuite.engines.adapters.base import Constraint
from pcsuite.programs.base import Outcome
from pcsuite.runners.drafts import constraint_broken, generation_record

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
WHOLE = Constraint("json_schema", json.dumps(SCHEMA))
PART = Constraint("json_schema", json.dumps({**SCHEMA, "properties": {"n": {"type": "integer"}}}))


@pytest.mark.parametrize(
    ("constraint", "text", "finish", "failed", "broken"),
    [
        (WHOLE, '{"n": 5}', "stop", False, False),
        (WHOLE, '{"n": 50}', "stop", True, True),
        (WHOLE, '{"n": ', "length", True, False),
        (WHOLE, '{"n": 50', "length", True, True),
        (WHOLE, "I think", "length", True, True),
        # What was enforced in part fails by the whole schema, and is broken by the part that was enforced.
        (PART, '{"n": 50}', "stop", True, False),
        (PART, '{"n": "x"}', "stop", True, True),
        (Constraint("regex", "[a-z]{5}"), "abc", "length", True, False),
        (Constraint("regex", "[a-z]{5}"), "abc", "stop", True, True),
    ],
)
def test_a_cut_answer_is_broken_only_where_it_could_not_have_become_valid(
    constraint, text, finish, failed, broken
):
    pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")
    assert constraint_broken(constraint, Outcome(text, finish), failed) is broken


def test_without_the_engine_a_cut_answer_is_not_judged(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    assert constraint_broken(WHOLE, Outcome('{"n": ', "length"), True) is None
    assert constraint_broken(WHOLE, Outcome("{}", "stop"), True) is True


def test_what_a_row_used_is_unknown_where_one_of_its_calls_does_not_say():
    told = {
        "text": "a",
        "finish_reason": "stop",
        "latency_ms": 1.0,
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }
    none = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    silent = {**told, "usage": none, "usage_reported": False}
    record, usage = generation_record(Outcome("a", "stop", calls=[told, told]))
    assert record.usage == usage
    assert usage.total_tokens == 20
    assert generation_record(Outcome("a", "stop", calls=[told, silent]))[1] is None
    assert generation_record(Outcome("a", "stop", calls=[silent]))[0].usage is None
