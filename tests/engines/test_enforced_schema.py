"""What is written for an engine: plain types and alternatives, and by name what cannot be."""

from __future__ import annotations

import pytest

from pcsuite.engines.enforced_schema import enforceable_schema
from pcsuite.errors import ConstraintUnavailableError

DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"allOf": [DIGIT, {"exclusiveMinimum": 3}]}, {"type": "integer", "minimum": 4, "maximum": 9}),
        ({"enum": [1, "a", None], "type": ["integer", "null"]}, {"enum": [1, None]}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
        ({"type": "object", "properties": {"b": DIGIT, "a": True}, "additionalProperties": False, "required": ["a"]},
         {"type": "object", "properties": {"b": DIGIT, "a": {}}, "required": ["a"], "additionalProperties": False}),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, {"anyOf": [{"type": "null"}, {"type": "boolean"}]}),
        ({"type": "array", "items": False}, {"type": "array", "items": False}),
        ({"type": "boolean", "not": {"const": True}}, {"enum": [False]}),
        ({"type": "string", "maxLength": 3.0}, {"type": "string", "maxLength": 3}),
    ],
)  # fmt: skip
def test_what_schemas_say_together_is_written_plainly(schema, written):
    assert enforceable_schema(schema) == written


def test_what_occurs_within_itself_becomes_a_definition_and_keeps_the_order_of_its_properties():
    schema = {
        "type": "object",
        "properties": {"z": DIGIT, "next": {"$ref": "#"}},
        "additionalProperties": False,
    }
    written = enforceable_schema(schema)
    ((name, definition),) = written.pop("$defs").items()
    assert definition == written
    assert list(definition["properties"]) == ["z", "next"]
    assert definition["properties"]["next"] == {"$ref": f"#/$defs/{name}"}


def test_an_alternative_that_nothing_finite_conforms_to_is_left_out():
    endless = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"]}
    assert enforceable_schema({"anyOf": [DIGIT, {"$ref": "#/$defs/x"}], "$defs": {"x": endless}}) == DIGIT


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "integer", "minimum": 2**60}, "'minimum'"),
        ({"enum": [9007199254740993]}, "'enum'"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, "less than one"),
        (
            {"type": "object", "patternProperties": {"^l": {}}, "properties": {"l\nb": {"type": "null"}}},
            "several ways",
        ),
        (
            {"type": "object", "maxProperties": 3, "properties": {name: {} for name in "abcdefgh"}},
            "more than 7",
        ),
        ({"allOf": [{"type": "null"}, {"type": "string"}]}, "unsatisfiable"),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_reason(schema, reason):
    with pytest.raises(ConstraintUnavailableError, match=reason):
        enforceable_schema(schema)
