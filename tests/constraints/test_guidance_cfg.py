"""Constraints as guidance serialises them."""

from __future__ import annotations

import json

import pytest

from pcsuite.engines.adapters.base import Constraint

pytest.importorskip("guidance")
from pcsuite.constraints.guidance_cfg import guidance_grammar


def test_json_is_laid_out_as_everywhere():
    schema = {"type": "object", "properties": {"a": {}}}
    lark = json.loads(guidance_grammar(Constraint("json_schema", json.dumps(schema))))["grammars"][0][
        "lark_grammar"
    ]
    start = lark.index("%json") + len("%json")
    enforced, _ = json.JSONDecoder().raw_decode(lark[start:].lstrip())
    layout = enforced["x-guidance"]
    assert (layout["item_separator"], layout["key_separator"]) == (", ", ": ")
    assert layout["whitespace_flexible"] is False


def test_a_pattern_and_a_grammar_are_carried_whole():
    assert "zqx7" in guidance_grammar(Constraint("regex", "zqx7[a-z]"))
    assert "marmot" in guidance_grammar(Constraint("cfg", 'start: "marmot"\n'))
