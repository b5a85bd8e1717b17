from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.constraints.lmql_compile import compile_regex, compile_schema, integer_pattern, number_pattern
from pcsuite.errors import ConstraintUnavailableError

BOUND = st.one_of(st.none(), st.integers(-20_000, 20_000))


@given(low=BOUND, high=BOUND, value=st.integers(-25_000, 25_000))
def test_an_integer_matches_exactly_when_it_is_within_the_bounds(low, high, value):
    if low is not None and high is not None and low > high:
        with pytest.raises(ValueError, match="no integer"):
            integer_pattern(low, high)
        return
    within = (low is None or value >= low) and (high is None or value <= high)
    assert bool(re.fullmatch(integer_pattern(low, high), str(value))) is within


@given(low=BOUND, high=BOUND, thousandths=st.integers(-25_000_000, 25_000_000))
def test_a_decimal_matches_exactly_when_it_is_within_the_bounds(low, high, thousandths):
    if low is not None and high is not None and low > high:
        return
    text = f"{'-' if thousandths < 0 else ''}{abs(thousandths) // 1000}.{abs(thousandths) % 1000:03d}"
    within = (low is None or thousandths >= 1000 * low) and (high is None or thousandths <= 1000 * high)
    assert bool(re.fullmatch(number_pattern(low, high), text)) is within


def test_small_ranges_by_hand():
    assert integer_pattern(0, 9) == "[0-9]"
    assert integer_pattern(7, 7) == "7"
    assert integer_pattern(98, 101) == "(9[8-9]|10[0-1])"
    assert number_pattern(0, 1) == r"(0(\.[0-9]{1,6})?|1(\.0{1,6})?)"


@pytest.mark.parametrize("text", ["007", "-0", "+1", "1.", "1e3", ""])
def test_what_is_no_plain_json_integer_does_not_match(text):
    assert not re.fullmatch(integer_pattern(None, None), text)


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
        """    given = '{"label":'""",
        "given = ''",
        """"[V0]" where V0 in [' "a"', ' "b"']""",
        "given = ''",
        "if given == '':",
        r'    ", \"score\":"',
        """    given = ', "score":'""",
        "given = ''",
        # A number ends where the object ends, so the hole takes in the closing brace.
        r""""[V1]" where MATCHES(V1, ' ([1-3])(\\})')""",
        "given = V1.lstrip(' -.0123456789')",
        "if given == '':",
        '    "}}"',
        "given = ''",
    ]


def test_an_object_may_begin_with_any_key_up_to_the_first_required_one():
    text = {"type": "string", "maxLength": 3}
    optional = {"type": "object", "properties": {"a": text, "b": text, "c": text}, "required": ["b"]}
    assert """where V0 in ['{"a":', '{"b":']""" in compile_schema(optional)
    assert """where V0 in ['{"a":', '{"b":', '{"c":', '{}']""" in compile_schema(optional | {"required": []})


def test_a_loop_within_a_loop_counts_for_itself():
    inner = {"type": "array", "items": an_object(x={"type": "null"}), "minItems": 1, "maxItems": 2}
    outer = {"type": "array", "items": an_object(rows=inner), "minItems": 1, "maxItems": 2}
    program = compile_schema(an_object(tables=outer)).splitlines()
    assert [line.strip() for line in program if line.endswith("= 0")] == ["count0 = 0", "count1 = 0"]


def test_references_are_what_they_name():
    small = {"type": "integer", "minimum": 1, "maximum": 3}
    named = an_object(first={"$ref": "#/$defs/small~1one", "title": "t"}, second={"$ref": "#/$defs/again"})
    definitions = {"small/one": small, "again": {"$ref": "#/$defs/small~1one"}}
    assert compile_schema(named | {"$defs": definitions}) == compile_schema(
        an_object(first=small, second=small)
    )
    # Among values and names "$ref" and "$defs" are words like any others.
    plain = an_object(**{"$ref": {"enum": ["$defs"]}})
    assert """where V0 in [' "$defs"']""" in compile_schema(plain)


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
        ({"$ref": "#/$defs/x"}, "$ref: #/$defs/x, which is not in this schema,"),
        ({"$ref": "other.json#/a"}, "$ref: other.json#/a, which is not in this schema,"),
        ({"$ref": "#"}, "$ref: #, which contains itself,"),
        ({"$ref": "#/properties/field", "minimum": 1}, "$ref beside minimum"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "oneOf"),
        ({"not": {"type": "string"}}, "not"),
        ({"type": "integer", "anyOf": [{"minimum": 3}]}, "anyOf beside type"),
        ({"type": "object"}, "an object without properties"),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}, "required: b"),
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
