"""Constraints as guidance serialises them."""

from __future__ import annotations

import json

import pytest

from pcsuite.engines.adapters.base import LLGUIDANCE_JSON_LAYOUT, Constraint

pytest.importorskip("guidance")
from pcsuite.constraints.guidance_cfg import guidance_grammar


def test_json_is_laid_out_as_everywhere():
    grammar = guidance_grammar(Constraint("json_schema", '{"type": "object", "properties": {"a": {}}}'))
    enforced, _ = json.JSONDecoder().raw_decode(grammar.partition("%json ")[2])
    layout = enforced["x-guidance"]
    assert {key: layout[key] for key in LLGUIDANCE_JSON_LAYOUT} == LLGUIDANCE_JSON_LAYOUT


def test_a_pattern_and_a_grammar_are_carried_whole():
    assert "zqx7" in guidance_grammar(Constraint("regex", "zqx7[a-z]"))
    assert "marmot" in guidance_grammar(Constraint("cfg", 'start: "marmot"\n'))
