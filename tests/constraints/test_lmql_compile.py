from __future__ import annotations

import pytest

from pcsuite.constraints.lmql_compile import compile_regex, compile_schema
from pcsuite.errors import ConstraintUnavailableError


def an_object(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_keys_are_text_and_values_are_holes():
    program = compile_schema(
        an_object(label={"enum": ["a", "b"]}, score={"type": "integer", "minimum": 1, "maximum": 3})
    )
    assert program.splitlines() == [
        "given = ''",
        "if given == '':",
        r'    "{{\"label\":"',
        "given = ''",
        """"[V0]" where V0 in [' "a"', ' "b"']""",
        "given = ''",
        "if given == '':",
        r'    ", \"score\":"',
        "given = ''",
        # A number ends where the object ends, so the hole takes in the closing brace.
        r""""[V1]" where MATCHES(V1, ' ([1-3])(\\})')""",
        "given = V1.lstrip(' -.0123456789')",
        "if given == '':",
        '    "}}"',
        "given = ''",
    ]


def test_a_regular_expression_is_one_hole():
    assert compile_regex("a+") == """"[V0]" where MATCHES(V0, 'a+')"""


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 3, "uniqueItems": True}, "uniqueItems"),
        ({"type": "string", "pattern": "^a"}, "pattern"),
        ({"type": "string", "format": "date"}, "format"),
        ({"type": "integer", "multipleOf": 5}, "multipleOf"),
        ({"type": "number", "minimum": 0.5}, "minimum: 0.5"),
        ({"type": "number", "exclusiveMinimum": 0}, "exclusiveMinimum"),
        ({"type": "array", "items": {"type": "string"}}, "an array without maxItems"),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "contains": {"const": 1}},
            "contains",
        ),
        ({"$ref": "#/$defs/x"}, "$ref"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "oneOf"),
        ({"not": {"type": "string"}}, "not"),
        ({"type": "integer", "anyOf": [{"minimum": 3}]}, "anyOf beside type"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "an optional first property"),
        ({"type": "object", "properties": {}, "minProperties": 1}, "minProperties"),
        ({}, "a value without type"),
        (True, "the schema True"),
    ],
)
def test_what_would_not_be_enforced_is_refused_by_name_and_place(schema, keyword):
    with pytest.raises(ConstraintUnavailableError) as caught:
        compile_schema(an_object(field=schema))
    assert f"'{keyword}' at /field" in str(caught.value)


def test_an_enumeration_keeps_what_the_other_keywords_allow():
    program = compile_schema(an_object(size={"type": "string", "enum": ["s", "large", 3], "maxLength": 2}))
    assert """where V0 in [' "s"']""" in program
