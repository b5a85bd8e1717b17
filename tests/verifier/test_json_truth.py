"""Truths as JSON and JSON Lines."""

import json

import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.truth import parse_truth

MAPPING = FieldMapping.model_validate(
    {
        "tolerances": {"default": {"absolute": 0.005}},
        "not_given_numbers": [-99],
        "metadata": ["source"],
        "fields": [
            {"path": "id", "type": "identifier"},
            {"path": "when", "type": "date"},
            {"path": "sum", "type": "number"},
            {"path": "count", "type": "integer"},
            {"path": "done", "type": "boolean"},
            {"path": "place.city", "type": "text"},
            {"path": "tags", "type": "text_list"},
        ],
        "tables": [{"path": "lines", "columns": [{"path": "item", "type": "text"}]}],
    }
)


def read(value, mapping=MAPPING):
    return parse_truth(json.dumps(value).encode(), mapping, "t.json")


def test_a_record_with_every_type():
    value = {
        "id": 7, "when": "2026-03-01", "sum": 1.5, "count": 3.0, "done": False, "place": {"city": " Kiel "},
        "tags": ["a", None, "b"], "lines": [{"item": "Tea"}], "source": {"page": 1},
    }  # fmt: skip
    assert read(value).record == {
        "id": 7, "when": "2026-03-01", "sum": 1.5, "count": 3, "done": False, "place": {"city": "Kiel"},
        "tags": ["a", "b"], "lines": [{"item": "Tea"}],
    }  # fmt: skip


def test_marks_for_not_given_and_nulls_are_no_values():
    assert read({"sum": -99, "count": None, "place": {"city": "NA"}, "when": ""}).record == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"when": "soon"}, "t.json: when: 'soon' is not a date"),
        ({"place": {"city": 3}}, "t.json: place.city: a number where text is declared"),
        ({"place": "Kiel"}, "t.json: place: text where an object belongs"),
        ({"lines": {"item": "Tea"}}, "t.json: lines: an object where a list belongs"),
        ({"lines": ["Tea"]}, r"t.json: lines\[0\]: text where an object belongs"),
        ({"tags": "a"}, "t.json: tags: text where a list belongs"),
        ({"count": 2.5}, "t.json: count: 2.5 is not a whole number"),
        ({"done": "perhaps"}, "t.json: done: 'perhaps' is not Yes or No"),
        ([{"id": "a"}, {"id": "a"}], "record 1 has no 'record'"),
        ("text", "text where a record or a list of records belongs"),
    ],
)
def test_what_cannot_be_read(value, message):
    if value == "text":
        with pytest.raises(DataError):
            read(value)
        return
    with pytest.raises(DataError, match=message):
        read(value)


def test_what_the_mapping_does_not_know_is_noted_and_not_judged():
    truth = read({"id": "a", "colour": "red"})
    assert truth.warnings == ("'colour' is not in the mapping (1 value passed over)",)
    assert truth.unread.labels == ["colour"]


def test_json_lines_and_lists_are_many_records():
    mapping = MAPPING.model_copy(update={"record_key": "id"})
    lines = b'{"id": "a", "sum": 1}\n\n{"id": "b", "sum": 2}\n'
    by_lines = parse_truth(lines, mapping, "t.jsonl")
    by_list = read([{"id": "a", "sum": 1}, {"id": "b", "sum": 2}], mapping)
    assert {name: one.record for name, one in by_lines.records.items()} == {
        "a": {"id": "a", "sum": 1},
        "b": {"id": "b", "sum": 2},
    }
    assert by_lines.content_hash == by_list.content_hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"id": "a"}\n{"id": }\n', "t.jsonl: line 2: not JSON"),
        (b'{"id": "a"}\n{"id": "a"}\n', "record 2: 'a' is there twice"),
        (b'[{"id": "a"}, 3]', "record 2: a number where an object belongs"),
        (b'{"sum": NaN}', "NaN is no number of JSON"),
    ],
)
def test_many_records_that_cannot_be_read(text, message):
    with pytest.raises(DataError, match=message):
        parse_truth(text, MAPPING.model_copy(update={"record_key": "id"}), "t.jsonl")


def test_a_building_may_be_json_too():
    record = parse_truth(b'{"project": {"city": "Fennimore", "climate_zone": 12}}', load_mapping()).record
    assert record == {"project": {"city": "Fennimore", "climate_zone": 12}}
    with pytest.raises(DataError, match="climate_zone"):
        parse_truth(b'{"project": {"climate_zone": 17}}', load_mapping())
