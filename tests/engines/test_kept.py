"""Cut answers: the beginning of something that conforms, or not."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")

from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.kept import conforms_whole, could_conform

SCHEMA = Constraint(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "label": {"enum": ["World", "Sports"]},
                "score": {"type": "integer", "maximum": 9},
            },
            "required": ["label", "score"],
            "additionalProperties": False,
        }
    ),
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"label": "Wor',
        '{\n  "label":"World",\n  "sc',
        '{"score": 3, "label": "Sp',
        ' {"label": "World", "score": 5}',
    ],
)
def test_a_beginning_of_something_valid_is_kept_whatever_its_layout_and_order(text):
    assert could_conform(SCHEMA, text) is True


@pytest.mark.parametrize(
    "text",
    [
        "The answer is",
        '{"label": "Wx',
        '{"label": "World", "score": 12',
        '{"name',
        '{"label": "World"}',
        "[1",
        "```json\n{",
    ],
)
def test_what_could_not_have_become_valid_is_broken(text):
    assert could_conform(SCHEMA, text) is False


def test_half_a_character_at_the_end_was_cut_and_not_written():
    word = Constraint("json_schema", json.dumps({"type": "string", "pattern": "^é+$"}))
    assert could_conform(word, '"éé\ufffd') is True


def test_patterns_and_grammars_are_followed_and_what_nobody_here_can_follow_is_not_judged(monkeypatch):
    assert could_conform(Constraint("regex", "[a-z]{3}"), "ab") is True
    assert could_conform(Constraint("regex", "[a-z]{3}"), "a1") is False
    assert could_conform(Constraint("cfg", 'start: "a" "b"'), "a") is True
    assert could_conform(Constraint("cfg", 'start: "a" "b"'), "b") is False
    assert could_conform(Constraint("cfg", 'root ::= "a"'), "b") is None
    assert could_conform(Constraint("json_schema", '{"type": "array", "uniqueItems": true}'), "{") is None
    monkeypatch.setitem(sys.modules, "llguidance", None)
    assert could_conform(SCHEMA, "nonsense") is None


def test_whole_answers_are_judged_by_the_validator():
    assert conforms_whole(SCHEMA, '{"label": "World", "score": 5}')
    assert not conforms_whole(SCHEMA, '{"label": "World", "score": 50}')
    assert not conforms_whole(SCHEMA, '{"label": "World"')
