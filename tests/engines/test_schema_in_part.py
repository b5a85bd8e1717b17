"""Enforcing in part: what is taken out allows more, and no more than is needed is taken out."""

from __future__ import annotations

import json
from random import Random

import pytest

pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")

from pcsuite.engines.schema_in_part import relax_for_engine, relax_for_limits, why_refused
from pcsuite.engines.schema_limits import beyond_limits, schema_limits
from pcsuite.errors import ConstraintUnavailableError
from support.random_schemas import judge, random_schema, random_values


@pytest.mark.parametrize(
    ("schema", "changes"),
    [
        ({"type": "integer"}, []),
        ({"type": "array", "uniqueItems": True}, ["the top: 'uniqueItems' taken out"]),
        ({"properties": {"u": {"format": "uri"}, "d": {"format": "date"}}}, ["/properties/u: 'format' taken out"]),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["the top: 'oneOf' made 'anyOf'"]),
        ({"items": {"not": {"pattern": "a"}}, "uniqueItems": True, "type": "array"},
         ["/items: 'not' taken out", "the top: 'uniqueItems' taken out"]),
    ],
)  # fmt: skip
def test_the_fewest_changes(schema, changes):
    relaxed, made = relax_for_engine(schema)
    assert sorted(map(str, made)) == sorted(changes)
    assert why_refused(relaxed) is None


def test_nothing_is_taken_out_below_not_where_it_would_forbid_more():
    relaxed, _ = relax_for_engine({"type": "string", "not": {"pattern": "a", "minLength": 2}})
    assert relaxed == {"type": "string"}


def test_a_schema_that_nothing_conforms_to_stays_refused_or_loses_the_contradiction():
    with pytest.raises(ConstraintUnavailableError):
        relax_for_engine(False)


def test_relaxed_random_schemas_allow_all_that_the_whole_allows():
    relaxed_ones = 0
    for seed in range(400, 480):
        rng = Random(seed)
        schema = random_schema(rng, 2)
        if not isinstance(schema, dict) or why_refused(schema) is None:
            continue
        try:
            relaxed, changes = relax_for_engine(schema)
        except ConstraintUnavailableError:
            continue
        relaxed_ones += 1
        assert changes
        holds, still = judge(schema), judge(relaxed)
        for value in random_values(schema, rng, 15):
            assert not holds(value) or still(value), (json.dumps(schema), json.dumps(relaxed), value)
    assert relaxed_ones > 10


@pytest.mark.parametrize("service", sorted(schema_limits()))
def test_within_a_service_s_limits_nothing_is_left_beyond_them(service):
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "number", "minimum": 0},
            "tags": {
                "type": "array",
                "items": {"type": "string", "maxLength": 9},
                "minItems": 2,
                "uniqueItems": True,
            },
            "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]},
            "x": {"not": {"type": "null"}},
        },
    }
    limits = schema_limits()[service]
    relaxed, changes = relax_for_limits(schema, limits)
    assert beyond_limits(relaxed, limits) == []
    assert "'uniqueItems' taken out" in " ".join(map(str, changes))
    assert list(relaxed["properties"]) == ["n", "tags", "kind", "x"]
    if limits.closed:
        assert relaxed["additionalProperties"] is False
    if limits.all_required:
        assert relaxed["required"] == ["n", "tags", "kind", "x"]
