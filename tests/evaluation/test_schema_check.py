"""Schema validation and the values that satisfy a schema."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pcsuite.errors import ConfigError
from pcsuite.evaluation.schema_check import _plain_check, _validator, fill_required, schema_error

SCALARS = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from([0.5, 1.0, "a", "b", "", "x"])
JSON_VALUES = SCALARS | st.dictionaries(
    st.sampled_from(["label", "score", "names", "sure", "more"]), SCALARS | st.lists(SCALARS, max_size=3)
)


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


@pytest.mark.slow
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


@given(value=JSON_VALUES)
@example(value={"label": "a", "score": 1, "names": ["x"], "sure": True})
@example(value={"label": "a", "score": True, "names": [], "sure": True})
@example(value={"label": "a", "score": 1.5, "names": ["x"], "sure": 1, "more": None})
def test_the_quick_check_accepts_only_what_the_validator_accepts(value) -> None:
    schema = {
        "type": "object",
        "properties": {
            "label": {"enum": ["a", "b"]},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "names": {"type": "array", "maxItems": 2, "items": {"type": "string", "minLength": 1}},
            "sure": {"type": "boolean"},
        },
        "required": ["label", "score"],
    }
    validator, check = _validator(json.dumps(schema))
    assert check is not None
    if check(value):
        assert next(validator.iter_errors(value), None) is None
    assert _plain_check({"type": "string", "pattern": "a"}) is None
