"""The canary: a forced answer that is seen to happen, and one that is not."""

import asyncio
import json

import pytest

from pcsuite.engines.canary import ABSURD, is_enforced
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
