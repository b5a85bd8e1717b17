"""Files with positions: an error names the line of the key that is wrong."""

from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pcsuite.config.load import REFERENCED, load_suite
from pcsuite.config.model_names import ProvidersFile
from pcsuite.config.profile import Profile
from pcsuite.config.yaml_source import EXPECTED, YamlSource
from pcsuite.engines import ADAPTERS
from pcsuite.errors import ConfigError
from pcsuite.evaluation import EVALUATORS

TEXT = """version: "1.0"
run:
  name: x
selection:
  tasks: [a, b]
  models:
    - m
"""


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load_suite(path)
    return str(caught.value)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return YamlSource.read(path)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["run", "name"], 3),
        (["selection", "tasks", 1], 5),
        (["selection", "models", 0], 7),
        (["selection", "models", 5], 6),
        (["selection", "nothing", "deeper"], 4),
        (["nothing"], None),
        ([], None),
    ],
)
def test_the_line_of_the_deepest_key_that_exists(source, keys, line):
    assert source.line_of(keys) == line


def test_a_problem_is_one_line_with_file_line_and_dotted_key(source):
    assert source.problem(["selection", "tasks", 1], "no") == f"{source.path}:5: selection.tasks[1]: no"
    assert source.problem(["nothing"], "no") == f"{source.path}: nothing: no"
    assert source.problem([], "no") == f"{source.path}: (top level): no"


def test_every_problem_is_a_line_and_only_ten_are_shown(source):
    unknown = {f"key{number}": 1 for number in range(12)}
    with pytest.raises(ConfigError) as caught:
        YamlSource(source.path, source.text, {**source.data, **unknown}).parse(Profile)
    lines = str(caught.value).splitlines()
    assert len(lines) == 11
    assert (
        lines[-1] == f"{source.path}: … and 4 more problems"
    )  # two required keys of the selection are missing


def test_duplicate_key_and_broken_yaml_are_one_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text('version: "1.0"\nversion: "1.0"\n', encoding="utf-8")
    assert refusal(path) == f"{path}:2: not valid YAML: key 'version' is given twice"
    path.write_text("run: [unclosed\n", encoding="utf-8")
    assert refusal(path).startswith(f"{path}:")
    path.write_text("just text\n", encoding="utf-8")
    assert "expected a mapping" in refusal(path)


class Inner(BaseModel):
    depth: int = 1


class Sample(BaseModel):
    """One field for every kind of value that configuration files have."""

    model_config = ConfigDict(extra="forbid")

    count: int = 1
    least: int = Field(default=1, ge=1)
    share: float = Field(default=0.5, gt=0, lt=1)
    most: float = Field(default=1.0, le=1)
    finite: float = Field(default=1.0, allow_inf_nan=False)
    wanted: bool = True
    name: str = Field(default="a", min_length=1, max_length=8)
    code: str = Field(default="c1", pattern="^c[0-9]$")
    pair: tuple[float, ...] = Field(default=(0.0, 1.0), min_length=2, max_length=2)
    names: list[str] = []
    by_name: dict[str, int] = {}
    inner: Inner = Inner()
    mode: Literal["off", "warn", "pad"] = "off"
    either: int | dict[str, int] | None = None
    place: Path = Path()
    nothing: None = None
    text: str
    even: int = 2

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("an even number, please")
        if value >= 100:
            raise AssertionError("below 100, please")
        return value


@pytest.mark.parametrize(
    ("key", "given", "kinds", "said"),
    [
        ("count", "many", {"int_parsing"}, "a whole number is wanted (got 'many')"),
        ("count", 1.5, {"int_from_float"}, "a whole number is wanted (got 1.5)"),
        ("count", [1], {"int_type"}, "a whole number is wanted (got [1])"),
        ("count", "9" * 5000, {"int_parsing_size"}, "a smaller whole number is wanted (got '" + "9" * 56 + "…)"),
        ("least", 0, {"greater_than_equal"}, "a number of 1 or more is wanted (got 0)"),
        ("share", 0, {"greater_than"}, "a number above 0 is wanted (got 0)"),
        ("share", 1, {"less_than"}, "a number below 1 is wanted (got 1)"),
        ("share", "half", {"float_parsing"}, "a number is wanted (got 'half')"),
        ("share", None, {"float_type"}, "a number is wanted (got None)"),
        ("most", 2, {"less_than_equal"}, "a number of 1 or less is wanted (got 2)"),
        ("finite", float("inf"), {"finite_number"}, "a finite number is wanted (got inf)"),
        ("wanted", "perhaps", {"bool_parsing"}, "true or false is wanted (got 'perhaps')"),
        ("wanted", [], {"bool_type"}, "true or false is wanted (got [])"),
        ("name", 5, {"string_type"}, "a text is wanted (got 5)"),
        ("name", "", {"string_too_short"}, "a text of 1 or more characters is wanted (got '')"),
        ("name", "abcdefghi", {"string_too_long"}, "a text of 8 or fewer characters is wanted (got 'abcdefghi')"),
        ("code", "d1", {"string_pattern_mismatch"}, "a text of the form ^c[0-9]$ is wanted (got 'd1')"),
        ("pair", "0", {"tuple_type"}, "a list such as [A, B] is wanted (got '0')"),
        ("pair", [1], {"too_short"}, "a list of 2 or more entries is wanted (got [1])"),
        ("pair", [1, 2, 3], {"too_long"}, "a list of 2 or fewer entries is wanted (got [1, 2, 3])"),
        ("names", "A", {"list_type"}, "a list such as [A, B] is wanted (got 'A')"),
        ("by_name", [1], {"dict_type"}, "a mapping of keys to values is wanted (got [1])"),
        ("inner", "deep", {"model_type"}, "a mapping of keys to values is wanted (got 'deep')"),
        ("mode", "warm", {"literal_error"}, "'off', 'warn' or 'pad' is wanted (got 'warm'; did you mean 'warn'?)"),
        ("mode", "x", {"literal_error"}, "'off', 'warn' or 'pad' is wanted (got 'x')"),
        ("mode", True, {"literal_error"}, "'off', 'warn' or 'pad' is wanted (got True)"),
        ("either", "x", {"int_parsing", "dict_type"}, "a whole number or a mapping of keys to values is wanted (got 'x')"),
        ("place", 5, {"path_type"}, "a path is wanted (got 5)"),
        ("nothing", 5, {"none_required"}, "null is wanted (got 5)"),
        ("even", 3, {"value_error"}, "an even number, please (got 3)"),
        ("even", 200, {"assertion_error"}, "below 100, please (got 200)"),
        ("shares", 1, {"extra_forbidden"}, "unknown key (did you mean 'share'?)"),
    ],
)  # fmt: skip
def test_every_kind_of_mistake_is_told_in_our_own_words(tmp_path, key, given, kinds, said):
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"text": "t", key: given})
    assert {entry["type"] for entry in caught.value.errors()} == kinds
    path = tmp_path / "sample.yaml"
    path.write_text(yaml.safe_dump({"text": "t", key: given}, sort_keys=False))
    with pytest.raises(ConfigError) as told:
        YamlSource.read(path).parse(Sample)
    assert str(told.value) == f"{path}:2: {key}: {said}"


def test_a_kind_that_was_tried_is_no_key(tmp_path):
    path = tmp_path / "sample.yaml"
    path.write_text("text: t\neither:\n  a: b\n")
    with pytest.raises(ConfigError) as told:
        YamlSource.read(path).parse(Sample)
    assert str(told.value).splitlines() == [
        f"{path}:2: either: a whole number is wanted (got {{'a': 'b'}})",
        f"{path}:3: either.a: a whole number is wanted (got 'b')",
    ]


def test_what_is_missing_is_told_with_its_key(tmp_path):
    path = tmp_path / "sample.yaml"
    path.write_text("count: 1\n")
    with pytest.raises(ConfigError, match=r"sample.yaml: text: required, but not given"):
        YamlSource.read(path).parse(Sample)


RAISED = {
    "int": {"int_type", "int_parsing", "int_parsing_size", "int_from_float"},
    "float": {"float_type", "float_parsing"},
    "bool": {"bool_type", "bool_parsing"},
    "str": {"string_type", "string_unicode", "string_sub_type"},
    "tuple": {"tuple_type"},
    "list": {"list_type"},
    "dict": {"dict_type"},
    "model": {"model_type"},
    "model-fields": {"model_attributes_type"},
    "is-instance": {"is_instance_of"},
    "none": {"none_required"},
    "date": {"date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"},
    "gt": {"greater_than"},
    "ge": {"greater_than_equal"},
    "lt": {"less_than"},
    "le": {"less_than_equal"},
    "pattern": {"string_pattern_mismatch"},
    "min_length": {"too_short", "string_too_short"},
    "max_length": {"too_long", "string_too_long"},
    "allow_inf_nan": {"finite_number"},
}
"""What validation of each kind of field can find wrong (pydantic's core schema and its errors)."""
WITHOUT = {
    "any", "default", "nullable", "union", "literal", "definitions", "definition-ref", "model-field", "no-info",
    "function-before", "function-after", "function-wrap", "function-plain", "json-or-python", "lax-or-strict",
}  # fmt: skip
"""Kinds that find nothing wrong themselves, or a value of none of ours: choices and rules have words of their own."""


def test_no_field_of_ours_can_be_wrong_in_words_that_are_not_ours():
    found = set()

    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("type"), str):
                found.add(node["type"])
                found.update(
                    key for key in node if key in RAISED and key not in ("list", "dict", "tuple", "model")
                )
            for value in node.values():
                walk(value)
        elif isinstance(node, (list, tuple)):
            for value in node:
                walk(value)

    files = [Profile, *REFERENCED.values(), ProvidersFile]
    options = [registry.get(name).Options for registry in (ADAPTERS, EVALUATORS) for name in registry]
    for model in [*files, *options]:
        walk(model.__pydantic_core_schema__)
    assert found <= set(RAISED) | WITHOUT
    assert {"int", "str", "gt", "min_length", "literal"} <= found
    assert {kind for name in found & set(RAISED) for kind in RAISED[name]} <= set(EXPECTED)
