"""``native``: the model's own engine enforces, and the adapter is asked in its own way."""

from __future__ import annotations

import asyncio

from pcsuite.constraints.native import NativeBackend
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, Request
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions

REGEX = Constraint("regex", "[a-z]+")


def test_the_provider_says_what_it_enforces():
    def kinds(structured):
        options = OpenAIOptions(base_url="http://127.0.0.1:9/v1", structured=structured)
        wanted = ("json_schema", "regex", "cfg")
        return [kind for kind in wanted if NativeBackend().steers(OpenAIAdapter, options, kind)]

    assert kinds("response_format") == ["json_schema"]
    assert kinds("structured_outputs") == ["json_schema", "regex", "cfg"]
    assert kinds("none") == []


def test_the_calls_context_reaches_the_model():
    context = CallContext("t", "i", "C6", (), "none", lambda: "gold", lambda rng: "wrong")
    model = SimulatedAdapter("m", SimulatedOptions(base_accuracy=0.999999, item_difficulty_sd=0))
    request = Request("p", Decoding("d0", 0.0, 1.0, 8), 0, REGEX, context)
    answer = asyncio.run(NativeBackend().agenerate_constrained(model, request, REGEX))
    assert (answer["text"], answer["constraint_backend"]) == ("gold", "native:simulated")
