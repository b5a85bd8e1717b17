"""Drafts of mappings: from samples, truths, schemas and models."""

import json

import pytest

from pcsuite.errors import PcsuiteError
from pcsuite.verifier.draft import draft_mapping
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import read_rules, score_file

SAMPLE = [
    {
        "number": f"INV-{n:03d}",
        "issued": f"2026-03-{n + 1:02d}",
        "total": 10.5 * n,
        "paid": bool(n % 2),
        "seller": {"name": "Finch", "phone": f"+49 30 90182{n}"},
        "weight": f"{n + 1} kg",
        "status": ["open", "paid"][n % 2],
        "tags": ["a"],
        "rate": "19 %",
        "length": 1.5,
        "confidence": 0.9,
        "remark": "Please deliver to the side entrance, where the porter will take the boxes and sign for all of them.",
        "lines": [
            {
                "item": "Tea",
                "qty": 1,
                "lots": [{"lot": "x", "best": "2027-01"}, {"lot": "y", "best": "2027-02"}],
            },
            {"item": "Cup", "qty": 2},
        ],
    }
    for n in range(8)
]
MODEL = """
from __future__ import annotations
from datetime import date
from enum import Enum
from typing import Optional
from pydantic import BaseModel

class Status(str, Enum):
    paid = "paid"
    open = "open"

class Line(BaseModel):
    item: str
    qty: int
    marks: list[float] = []

class Invoice(BaseModel):
    number: str
    issued: date
    status: Optional[Status] = None
    total: float
    lines: list[Line]
    anything: dict = {}
"""


def mapping_of(draft, tmp_path):
    path = tmp_path / "draft.yaml"
    path.write_text(draft.text)
    return load_mapping(path)


def types(mapping):
    return {pattern: rule.type for pattern, rule in mapping.patterns()}


def test_a_sample_says_types_keys_and_tolerances(tmp_path):
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(SAMPLE))
    draft = draft_mapping(path)
    mapping = mapping_of(draft, tmp_path)
    assert types(mapping) == {
        "number": "identifier", "issued": "date", "total": "money", "paid": "boolean", "seller.name": "text",
        "seller.phone": "phone", "weight": "quantity", "status": "enum", "tags": "text_list", "rate": "percent",
        "length": "number", "remark": "fuzzy", "lines[].item": "text", "lines[].qty": "integer",
        "lines[].lots[].lot": "text", "lines[].lots[].best": "date",
    }  # fmt: skip
    assert mapping.record_key == "number"
    assert mapping.pairing_of("lines[]").key == ("item",)
    assert mapping.pairing_of("lines[].lots[]").key == ("lot",)
    assert dict(mapping.patterns())["length"].tolerance == "decimals_1"
    assert mapping.tolerances["decimals_1"].absolute == 0.05
    assert dict(mapping.patterns())["weight"].unit == "kg"
    assert [one.partition(":")[0] for one in draft.open_questions] == ["status"]


def test_a_draft_scores_its_own_sample_as_right(tmp_path):
    path, truth = tmp_path / "sample.json", tmp_path / "ground_truth.json"
    for file in (path, truth):
        file.write_text(json.dumps(SAMPLE))
    mapping = mapping_of(draft_mapping(path), tmp_path)
    assert score_file(path, read_rules(truth, mapping)).comparison.counts.f1 == 1.0


def test_a_truth_gives_labels_and_further_values(tmp_path):
    sample, truth = tmp_path / "s.json", tmp_path / "t.csv"
    sample.write_text('{"no": "A-1", "sum": 12, "when": "2026-03-01", "lines": [{"item": "Tea"}]}')
    truth.write_text("no,Amount due (EUR),When,lines[].item,Colour\nA-1,12.50,03/04/2026,Tea,red\n")
    draft = draft_mapping(sample, truth)
    rules = dict(mapping_of(draft, tmp_path).patterns())
    assert rules["sum"].type == "money"
    assert rules["when"].day_first is True
    assert any(one.startswith("'Amount due (EUR)' of the truth") for one in draft.open_questions)
    assert any(
        one.startswith("'Colour' of the truth is no field of the sample") for one in draft.open_questions
    )
    assert "when: 03/04/2026 has its day or its month first: day_first says which" in draft.open_questions


def test_a_label_is_known_by_the_values_below_it(tmp_path):
    sample, truth = tmp_path / "s.json", tmp_path / "t.csv"
    sample.write_text('{"ref": "A-1", "city": "Kiel"}')
    truth.write_text("Our sign,Place\nA-1,Kiel\n")
    rules = dict(mapping_of(draft_mapping(sample, truth), tmp_path).patterns())
    assert {pattern: rule.label for pattern, rule in rules.items()} == {"ref": "Our sign", "city": "Place"}


def write_records(path, *records):
    path.write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records))
    return path


def test_the_record_key_is_what_sample_and_truth_share_not_where_they_differ(tmp_path):
    sample = write_records(
        tmp_path / "sample.jsonl",
        {"time": "45 min", "dish": "spaetzle", "serves": "4"},
        {"time": "70 min", "dish": "tarte", "serves": 8},
    )
    truth = write_records(
        tmp_path / "truth.jsonl",
        {"time": "PT45M", "dish": "spaetzle", "serves": 4},
        {"time": "PT1H10M", "dish": "tarte", "serves": 8},
    )
    mapping = mapping_of(draft_mapping(sample, truth), tmp_path)
    assert mapping.record_key == "dish"
    assert types(mapping)["serves"] == "integer"


def test_a_field_called_record_tells_records_apart_and_is_not_scored(tmp_path):
    rows = ["record;name;dose[].text", "A1;Ann;one", "A1;;two", "A2;Bo;one"]
    truth = tmp_path / "truth.csv"
    truth.write_text("\n".join(rows))
    sample = write_records(
        tmp_path / "sample.jsonl",
        {"record": "A1", "name": "Ann", "dose": [{"text": "one"}]},
        {"record": "A2", "name": "Bo", "dose": []},
    )
    mapping = mapping_of(draft_mapping(sample, truth), tmp_path)
    assert mapping.record_key == "record"
    assert "record" not in types(mapping)


def test_a_pydantic_model_and_its_schema_give_the_same_draft(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    by_model = draft_mapping(None, schema="model.py:Invoice")
    mapping = mapping_of(by_model, tmp_path)
    assert types(mapping) == {
        "number": "identifier", "issued": "date", "status": "enum", "total": "money", "lines[].item": "text",
        "lines[].qty": "integer", "lines[].marks": "number_list",
    }  # fmt: skip
    assert mapping.pairing_of("lines[]").key == ("item",)
    assert by_model.open_questions == (
        "anything: the schema leaves its shape open; left out",
        "lines: does item tell its items apart? A schema does not say",
    )
    schema = {
        "type": "object",
        "properties": {
            "number": {"type": "string"},
            "issued": {"type": "string", "format": "date"},
            "status": {"anyOf": [{"enum": ["paid", "open"], "type": "string"}, {"type": "null"}]},
            "total": {"type": "number"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        },
        "$defs": {"Line": {"type": "object", "properties": {"item": {"type": "string"}, "qty": {"type": "integer"}, "marks": {"type": "array", "items": {"type": "number"}}}}},
    }  # fmt: skip
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    assert types(mapping_of(draft_mapping(None, schema="schema.json"), tmp_path)) == types(mapping)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("model.py", "name the model too"),
        ("model.py:Nobody", "no pydantic model 'Nobody'"),
        ("broken.py:X", "cannot be loaded: ZeroDivisionError"),
        ("list.json", "no JSON Schema of an object"),
        ("gone.json", "no such file"),
    ],
)
def test_schemas_that_cannot_be_read(tmp_path, monkeypatch, schema, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(PcsuiteError, match=message):
        draft_mapping(None, schema=schema)


def test_a_model_that_holds_itself_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree.json").write_text(
        json.dumps(
            {
                "$ref": "#/$defs/N",
                "$defs": {"N": {"properties": {"v": {"type": "string"}, "n": {"$ref": "#/$defs/N"}}}},
            }
        )
    )
    draft = draft_mapping(None, schema="tree.json")
    assert any("nested deeper than eight levels" in one for one in draft.open_questions)


def test_keys_that_no_path_can_name_are_left_out_and_said(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"a.b": 1, "c[0]": 2, "d": "x", "e": [{"f.g": 1, "h": 2}]}')
    draft = draft_mapping(path)
    assert types(mapping_of(draft, tmp_path)) == {"d": "text", "e[].h": "integer"}
    assert [one.split("'")[1] for one in draft.open_questions[:3]] == ["a.b", "c[0]", "f.g"]
