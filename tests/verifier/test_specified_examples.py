"""Truths and mappings as people bring them: names before numbers, items of a list by number, versions in a header."""

from __future__ import annotations

import json

import pytest

from pcsuite.cli import main
from pcsuite.commands.verify import _instructions_version

MAPPING = """version: "1.0"
record: free
tolerances: {default: {relative: 0.005, absolute: 0.01}}
fields:
  - {label: X, path: e.list.0.x, type: number}
  - {label: Y, path: e.list.1.x, type: text}
"""


def verified(folder, truth, extracted, *flags, capsys):
    (folder / "truth.csv").write_text(truth, encoding="utf-8")
    (folder / "extracted.json").write_text(json.dumps(extracted), encoding="utf-8")
    words = [str(folder / "truth.csv"), str(folder / "extracted.json"), "--no-save", "--json", *flags]
    assert main(["verify", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    return {one["field_path"]: one["error_type"] for one in document["discrepancies"]}


@pytest.mark.parametrize(
    ("zone", "wrong"),
    [
        ("climate zone 12", {}),
        (12, {}),
        ("Zone 12", {}),
        ("climate zone 13", {"project.climate_zone": "format_error"}),
        ("twelve", {"project.climate_zone": "format_error"}),
        (None, {"project.climate_zone": "omission"}),
    ],
)
def test_a_name_before_a_number_is_read_on_both_sides(zone, wrong, tmp_path, capsys):
    truth = "Climate Zone,City\nClimate Zone 12,San Francisco\n"
    record = {"project": {"climate_zone": zone, "city": "  San  Francisco "}}
    assert verified(tmp_path, truth, record, capsys=capsys) == wrong


def test_a_plain_truth_takes_no_name_before_a_number(tmp_path, capsys):
    record = {"project": {"climate_zone": "climate zone 12"}}
    wrong = {"project.climate_zone": "format_error"}
    assert verified(tmp_path, "Climate Zone,City\n12,\n", record, capsys=capsys) == wrong


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        ({"e": {"list": [{"x": 3}, {"x": "ABC"}]}}, {}),
        ({"e": {"list": {"0": {"x": 3}, "1": {"x": "ABC"}}}}, {}),
        ({"e": {"list": [{"x": 3}]}}, {"e.list.1.x": "omission"}),
        ({"e": {"list": [{"x": 4}, {"x": 5}]}}, {"e.list.0.x": "wrong_value", "e.list.1.x": "format_error"}),
        ({"e": {"list": [{"x": 3}, {"x": "abc"}, {"x": 1}]}}, {"e.list.2.x": "hallucination"}),
        ({"e": {"list": 7}}, {"e.list.0.x": "format_error", "e.list.1.x": "format_error"}),
    ],
)
@pytest.mark.parametrize("truth", ["X,Y\n3,abc\n", "field,value\ne.list.0.x,3\ne.list.1.x,abc\n"])
def test_items_by_number_are_those_at_their_place(truth, record, wrong, tmp_path, capsys):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(MAPPING, encoding="utf-8")
    assert verified(tmp_path, truth, record, "--mapping", str(mapping), capsys=capsys) == wrong


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# Instructions v1.2.0\n\nExtract.", "prompt.md v1.2.0@"),
        ("# Extraction 2.1\n", "prompt.md v2.1@"),
        ("# Extraction v3\n", "prompt.md v3@"),
        ("Extract 12 fields.\n", "prompt.md@"),
    ],
)
def test_the_version_in_a_files_header_is_kept(text, name, tmp_path):
    path = tmp_path / "prompt.md"
    path.write_text(text, encoding="utf-8")
    assert _instructions_version(str(path)).startswith(name)
    assert _instructions_version("v7") == "v7"
