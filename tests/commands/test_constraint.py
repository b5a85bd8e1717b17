"""``pcsuite constraint check``: every backend is asked, and says what it cannot."""

from __future__ import annotations

import json

import pytest

from pcsuite.cli import main
from pcsuite.commands.constraint import read_constraint
from pcsuite.errors import ConfigError

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 3, "maximum": 5}},
    "required": ["size"],
    "additionalProperties": False,
}


def test_what_is_given_is_told_by_its_file_or_its_look(tmp_path):
    for name, text, kind in (
        ("a.json", '{"type": "null"}', "json_schema"),
        ("a.lark", 'start: "a"', "cfg"),
        ("a.gbnf", 'root ::= "a"', "cfg"),
        ("a.txt", "[a-z]+\n", "regex"),
    ):
        (tmp_path / name).write_text(text)
        assert read_constraint(str(tmp_path / name)) == (kind, text.strip("\n") if kind == "regex" else text)
    assert read_constraint("[a-z]+") == ("regex", "[a-z]+")
    assert read_constraint('{"type": "null"}') == ("json_schema", '{"type": "null"}')
    assert read_constraint("x" * 5000)[0] == "regex"
    assert read_constraint("true", "json_schema") == ("json_schema", "true")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("nothere.json", "nothere.json: no such file"),
        ("(a", "the pattern '(a' cannot be read at character 3: a group is not closed"),
        ('{"type": "strin"}', "not a valid JSON schema: $.type"),
        ('{"type": ', "the schema: not JSON"),
    ],
)
def test_what_is_none_of_them_is_one_line(given, problem, capsys):
    assert main(["constraint", "check", given]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="line 1: byte 0xff is not UTF-8"):
        read_constraint(str(tmp_path / "a.json"))


@pytest.mark.model
def test_backends_enforce_or_say_why_not(tmp_path, capsys):
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed")
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({**SCHEMA, "requierd": []}))
    assert main(["constraint", "check", str(file), "--backend", "native", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["warnings"] == ["the top: 'requierd' is no keyword (did you mean 'required'?)"]
    (native,) = told["backends"]
    assert native["enforced"]
    assert all(3 <= json.loads(answer)["size"] <= 5 for answer in native["answers"])
    assert len(native["answers"]) == 3
    file.write_text(json.dumps({"type": "array", "uniqueItems": True}))
    assert main(["constraint", "check", str(file), "--backend", "native"]) == 1
    assert "uniqueItems" in capsys.readouterr().out


@pytest.mark.model
def test_gbnf_is_read_by_llama_cpp_alone(tmp_path, capsys):
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed")
    pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")
    file = tmp_path / "choice.gbnf"
    file.write_text('root ::= "zqx7" | "zqx8"')
    command = [
        "constraint",
        "check",
        str(file),
        "--json",
        "--backend",
        "native",
        "--backend",
        "outlines_json",
    ]
    assert main(command) == 0
    native, outlines = json.loads(capsys.readouterr().out)["backends"]
    assert set(native["answers"]) <= {"zqx7", "zqx8"}
    assert not outlines["enforced"]
    assert "GBNF" in outlines["reason"]
