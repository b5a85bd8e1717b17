from __future__ import annotations

import pytest

from pcsuite.engines.adapters._openai_wire import action_lines
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from support.loopback import LoopbackServer


def call(name: object, arguments: object) -> dict:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ([call("search", '{"query": "Lorvik"}')], 'Action: search["Lorvik"]'),
        ([call("search", {"query": "Lorvik"})], 'Action: search["Lorvik"]'),
        (
            [call("search", '{"query": "a"}'), call("other", '{"q": "b"}')],
            'Action: search["a"]\nAction: other["b"]',
        ),
        ([call("search", '{"query": "cut of')], 'Action: search {"query": "cut of'),
        ([call("search", '{"query": "a", "k": 3}')], 'Action: search {"query": "a", "k": 3}'),
        ([call("search", None)], "Action: search None"),
        (["nonsense", {}], ""),
        ("nonsense", ""),
    ],
)
def test_native_calls_become_lines(calls, lines):
    assert action_lines(calls) == lines


def test_tools_are_part_of_the_models_identity_only_where_they_are_used():
    plain = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1"))
    native = OpenAIAdapter("m", OpenAIOptions(base_url="http://127.0.0.1:9/v1", tools=True))
    assert "tools" not in plain.identity()
    assert native.identity() == {**plain.identity(), "tools": "native"}


def test_a_plain_call_offers_no_tools():
    with LoopbackServer() as server:
        adapter = OpenAIAdapter("m", OpenAIOptions(base_url=server.base_url, tools=True))
        adapter.generate("hello", Decoding("d0", 0.0, 1.0, 5), 0)
    assert "tools" not in server.bodies[0]
