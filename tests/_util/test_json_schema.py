"""Schemas as data."""

from __future__ import annotations

import pytest

from pcsuite._util.json_schema import (
    map_schema,
    misspelt_keywords,
    schema_problem,
    validator_class,
    with_patterns,
)
from pcsuite._util.patterns import PatternError


def test_every_schema_within_is_reached_once_and_data_never():
    schema = {
        "properties": {"items": {"type": "string"}, "enum": True},
        "items": [{"type": "null"}],
        "anyOf": [{"not": {"const": {"type": "not a schema"}}}],
        "enum": [{"properties": {"x": {}}}],
    }
    places = []
    map_schema(schema, lambda part, where: places.append(where) or part)
    assert sorted(places) == ["", "/anyOf/0", "/anyOf/0/not", "/items/0", "/properties/items"]


def test_patterns_are_rewritten_where_they_are_patterns():
    schema = {
        "properties": {"pattern": {"pattern": "a"}},
        "patternProperties": {"b": {}},
        "const": {"pattern": "c"},
    }
    assert with_patterns(schema, str.upper) == {
        "properties": {"pattern": {"pattern": "A"}},
        "patternProperties": {"B": {}},
        "const": {"pattern": "c"},
    }

    def refuse(pattern):
        raise PatternError("no")

    with pytest.raises(PatternError, match="^/properties/pattern/pattern: no$"):
        with_patterns(schema, refuse)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strin"}, "strin"),
        ({"properties": {"a": {"pattern": r"\z"}}}, r"/properties/a/pattern: the pattern"),
        ({"items": 3}, "items"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}, "items"),
    ],
)
def test_what_is_no_schema_is_told_in_one_line(schema, problem):
    found = schema_problem(schema)
    assert problem in found
    assert "\n" not in found


def test_older_drafts_are_read_without_being_named():
    from jsonschema import Draft7Validator, Draft202012Validator

    assert schema_problem({"items": [{"type": "integer"}]}) is None
    assert validator_class({"items": [{}]}) is Draft7Validator
    assert validator_class({"prefixItems": [{}]}) is Draft202012Validator
    assert validator_class({"$schema": "http://json-schema.org/draft-07/schema#"}) is Draft7Validator


def test_keywords_that_are_nearly_one():
    schema = {
        "properties": {"maxLenght": {"min_length": 3, "maxlength": 4, "x-maxLenght": 5}, "b": {"unit": "mm"}},
        "requierd": [],
    }
    assert misspelt_keywords(schema) == [
        "/properties/maxLenght: 'min_length' is no keyword (did you mean 'minLength'?)",
        "/properties/maxLenght: 'maxlength' is no keyword (did you mean 'maxLength'?)",
        "the top: 'requierd' is no keyword (did you mean 'required'?)",
    ]
