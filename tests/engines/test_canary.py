"""The canary: a forced answer that is seen to happen, and one that is not."""

import asyncio
import json

import pytest

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.canary import ABSURD, is_enforced, why_not_kept
from pcsuite.errors import ConstraintUnavailableError, EngineError


def found(kind, answer):
    async def force(request):
        assert request.constraint.kind == kind
        if isinstance(answer, Exception):
            raise answer
        return {"text": answer, "finish_reason": "stop"}

    return asyncio.run(is_enforced(force, kind))


@pytest.mark.parametrize("kind", ["regex", "cfg"])
def test_the_absurd_words_prove_it_and_a_sensible_answer_does_not(kind):
    assert found(kind, f" {ABSURD}\n") is True
    assert found(kind, "4") is False
    assert found(kind, f"{ABSURD}!") is False


def test_a_record_is_read_as_json_whatever_its_white_space():
    forced = {"reply": ABSURD, "size": 733}
    assert found("json_schema", json.dumps(forced, indent=2)) is True
    assert found("json_schema", json.dumps({**forced, "size": 4})) is False
    assert found("json_schema", "The answer is 4.") is False


def test_a_model_that_cannot_be_given_the_constraint_is_not_held_to_it_and_other_failures_are_told():
    assert found("regex", ConstraintUnavailableError("no regex here")) is False
    with pytest.raises(EngineError, match="HTTP 500"):
        found("regex", EngineError("HTTP 500", retryable=True))


SCHEMA = Constraint(
    "json_schema", '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
)


def kept(constraint, answer, finish="stop", backend="native:response_format"):
    async def force(request):
        assert request.constraint is constraint
        if isinstance(answer, Exception):
            raise answer
        return {"text": answer, "finish_reason": finish, "constraint_backend": backend}

    return asyncio.run(why_not_kept(force, constraint))


def test_a_task_s_own_schema_has_to_be_kept_by_the_answer_to_another_question():
    assert kept(SCHEMA, '{"n": 4}') is None
    assert "not kept: the answer was '4'" in kept(SCHEMA, "4")
    assert "not kept" in kept(SCHEMA, '{"n": "four"}')
    assert kept(SCHEMA, ABSURD, backend="native:simulated") is None


def test_an_answer_that_was_cut_has_to_begin_as_one_that_conforms():
    pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")
    assert kept(SCHEMA, '{"n": ', "length") is None
    assert "not kept" in kept(SCHEMA, "Two plus two is", "length")
    assert "not kept" in kept(Constraint("regex", "[a-z]{9}"), "abc1", "length")
    assert kept(Constraint("regex", "[a-z]{3}"), "abc") is None


def test_a_server_that_refuses_the_schema_is_told_in_its_own_words_and_other_failures_are_raised():
    refused = EngineError("HTTP 400: For 'integer' type, property 'minimum' is not supported", status=400)
    assert "property 'minimum' is not supported" in kept(SCHEMA, refused)
    with pytest.raises(EngineError, match="HTTP 503"):
        kept(SCHEMA, EngineError("HTTP 503", status=503, retryable=True))
