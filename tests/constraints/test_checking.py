"""A constraint is read by its file or its look, before any backend is asked."""

from __future__ import annotations

import pytest

from pcsuite.constraints.checking import ConstraintText, read_constraint, schema_views
from pcsuite.errors import ConfigError


def test_what_is_given_is_told_by_its_file_or_its_look(tmp_path):
    for name, text, kind in (
        ("a.json", '{"type": "null"}', "json_schema"),
        ("a.lark", 'start: "a"', "cfg"),
        ("a.gbnf", 'root ::= "a"', "cfg"),
        ("a.txt", "[a-z]+\n", "regex"),
    ):
        (tmp_path / name).write_text(text)
        constraint = read_constraint(str(tmp_path / name))
        assert (constraint.kind, constraint.text) == (kind, text.strip("\n") if kind == "regex" else text)
    assert read_constraint("[a-z]+") == ConstraintText("regex", "[a-z]+")
    assert read_constraint('{"type": "null"}').kind == "json_schema"
    assert read_constraint("x" * 5000).kind == "regex"
    assert read_constraint("true", "json_schema").text == "true"
    (warning,) = read_constraint('{"maxLenght": 3}').warnings
    assert "did you mean 'maxLength'?" in warning


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="line 1: byte 0xff is not UTF-8"):
        read_constraint(str(tmp_path / "a.json"))


def test_keyword_by_keyword_it_is_told_who_enforces_it_and_what_would_have_to_change():
    pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")
    number = {"type": "number", "minimum": 0}
    schema = {"type": "object", "properties": {"a": number, "b": {"type": "integer", "minimum": 1}},
              "required": ["a", "b"], "additionalProperties": False}  # fmt: skip
    views = {view.engine: view for view in schema_views(schema)}
    assert views["llguidance"].enforced
    assert views["anthropic"].kept["minimum"] == "checked afterwards"
    assert views["anthropic"].kept["required"] == "enforced"
    assert views["ollama"].kept["minimum"] == "enforced in 1 of 2 places"
    assert views["ollama"].changes == ("/properties/a: 'minimum' taken out",)
    unique = {view.engine: view for view in schema_views({"type": "array", "uniqueItems": True})}
    assert unique["llguidance"].changes == ("the top: 'uniqueItems' taken out",)
    assert "uniqueItems" in unique["llguidance"].reason


@pytest.mark.parametrize("schema", [True, False, {}, {"$ref": "#"}])
def test_a_schema_that_says_nothing_or_cannot_be_kept_at_all_is_told_too(schema):
    assert len(schema_views(schema)) > 5
