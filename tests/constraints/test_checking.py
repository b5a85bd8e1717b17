"""A constraint is read by its file or its look, before any backend is asked."""

from __future__ import annotations

import pytest

from pcsuite.constraints.checking import ConstraintText, read_constraint
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
