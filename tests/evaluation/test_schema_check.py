"""Schema validation and the values that satisfy a schema."""

from __future__ import annotations

import time

import pytest

from pcsuite.errors import ConfigError
from pcsuite.evaluation.schema_check import _validator, fill_required, schema_error


def test_first_error_is_one_short_line() -> None:
    schema = {"type": "object", "properties": {"a": {"maxLength": 3}}}
    error = schema_error({"a": "x" * 10_000}, schema)
    assert error is not None
    assert error.startswith("$.a: 'xxx")
    assert len(error) < 250


def test_validator_is_built_once_per_content() -> None:
    _validator.cache_clear()
    for _ in range(3):
        assert schema_error([], {"type": "array"}) is None
    assert _validator.cache_info().misses == 1


def test_unique_items_is_linear_and_number_blind() -> None:
    schema = {"type": "array", "uniqueItems": True}
    started = time.process_time()
    assert schema_error([{"a": i} for i in range(50_000)], schema) is None
    assert time.process_time() - started < 5.0
    assert schema_error([{"a": 1}, {"a": 1.0}], schema) == '$: {"a": 1} is repeated'
    assert schema_error([1, True], schema) is None


def test_a_wrong_schema_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="not a valid JSON schema"):
        schema_error({}, {"type": "objekt"})


def test_fields_are_fitted_to_the_schema() -> None:
    schema = {
        "type": "object",
        "required": ["label", "note", "score", "flag", "tags", "kind", "inner"],
        "additionalProperties": False,
        "properties": {
            "label": {"type": "string", "maxLength": 4},
            "note": {"type": "string", "minLength": 2},
            "score": {"type": "number", "minimum": 0.5},
            "flag": {"type": "boolean"},
            "tags": {"type": "array", "minItems": 1, "items": {"const": "x"}},
            "kind": {"enum": ["k1", "k2"]},
            "inner": {"type": "object", "required": ["n"], "properties": {"n": {"type": ["null", "string"]}}},
        },
    }
    fitted = fill_required({"label": "Sports", "stray": 1}, schema)
    assert fitted == {
        "label": "Spor",
        "note": "--",
        "score": 0.5,
        "flag": False,
        "tags": ["x"],
        "kind": "k1",
        "inner": {"n": None},
    }
    assert schema_error(fitted, schema) is None
