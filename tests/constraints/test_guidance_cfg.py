"""``guidance_cfg``: what it counts and what it refuses."""

from __future__ import annotations

import pytest

from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.errors import ConstraintUnavailableError
from support.hf_model import NEEDED
from support.tiny_hf import tiny_chat_adapter

pytestmark = pytest.mark.model
D0 = Decoding("d0", 0.0, 1.0, 60)


def backend():
    pytest.importorskip("guidance", reason=NEEDED)
    from pcsuite.constraints.guidance_cfg import GuidanceBackend

    return GuidanceBackend()


def test_tokens_that_the_grammar_forces_are_counted():
    constraint = Constraint("regex", "(zqx7|zqx8) violet marmot, every day of the year", "guidance_cfg")
    model = tiny_chat_adapter()
    answer = backend().generate_constrained(model, Request("Go.", D0, 0, constraint), constraint)
    assert answer["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] >= model.count_tokens(answer["text"])


def test_alternatives_of_which_one_must_hold_are_refused_as_by_the_others():
    schema = '{"oneOf": [{"type": "integer"}, {"type": "number"}]}'
    constraint = Constraint("json_schema", schema, "guidance_cfg")
    with pytest.raises(ConstraintUnavailableError, match="oneOf"):
        backend().generate_constrained(tiny_chat_adapter(), Request("Go.", D0, 0, constraint), constraint)
