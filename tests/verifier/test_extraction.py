"""Extractions with many records."""

import json

import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.extraction import MAX_DEPTH, parse_record_set

A, B = {"id": "A", "x": 1}, {"id": "b ", "x": 2}


def parsed(text, names=("A", "B"), key="id"):
    data = text if isinstance(text, bytes) else json.dumps(text).encode()
    return parse_record_set(data, "e", key, names)


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ([A, B], ("/0", "/1")),
        ([B, A], ("/1", "/0")),
        (b'{"id": "A", "x": 1}\n\n{"id": "b ", "x": 2}\n', ("/0", "/1")),
        ({"A": {"x": 1}, "B": {"x": 2}}, ("/A", "/B")),
    ],
)
def test_lists_lines_and_objects_by_name(text, pointers):
    result = parsed(text)
    assert tuple(result.records[name][0] for name in ("A", "B")) == pointers
    assert [result.records[name][1]["x"] for name in ("A", "B")] == [1, 2]
    assert result.notes == []


def test_what_is_missing_strange_nameless_or_repeated_is_said():
    result = parsed([A, {"id": "Z"}, {"x": 3}, {"id": "A", "x": 9}, 7])
    assert result.records == {"A": ("/0", A)}
    assert result.notes == [
        "e: record 'A' comes again (/3); the first one counts",
        "e: 2 records without 'id', not scored: /2, /4",
        "e: 1 record that the truth does not have, not scored: 'Z'",
        "e: 1 record of the truth not in it, scored 0: 'B'",
    ]


def test_a_line_that_is_no_json_costs_its_own_record():
    result = parsed(b'{"id": "A"}\n{"id": "B", \n')
    assert list(result.records) == ["A"]
    assert result.notes[0].startswith("e: line 2: row 1: not JSON")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([{"id": "Z"}], "no record of the truth is in it"),
        (b"", "not JSON"),
        (b"3", "the root is a number, not a list of records"),
        (b"[" * (MAX_DEPTH + 3) + b"]" * (MAX_DEPTH + 3), "nested deeper than"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_what_holds_no_record(text, message):
    with pytest.raises(DataError, match=message):
        parsed(text)
