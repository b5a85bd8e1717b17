"""``pcsuite constraint check``: every backend is asked, and says what it cannot."""

from __future__ import annotations

import json

import pytest

from pcsuite.cli import main

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 3, "maximum": 5}},
    "required": ["size"],
    "additionalProperties": False,
}


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
