"""What each kind of task makes of a row, and of all of them."""

from __future__ import annotations

import pytest

from pcsuite.data.items import Item, Row
from pcsuite.data.task_recipes import ABSTAIN_LABEL, RECIPES, Columns, cell_text
from pcsuite.errors import DataError

QUESTION = Columns(inputs=("q",), answer="a")


def row(**values):
    return Row("t.csv line 2", {"q": "why?", **values})


def items(kind, columns, *rows):
    read = [RECIPES[kind].read(row, columns) for row in rows]
    return [Item(f"i{number}", *reading) for number, reading in enumerate(read)]


def test_cells_are_stripped_texts_and_never_empty():
    assert cell_text(row(a="  b "), "a") == "b"
    assert cell_text(row(a=[1, "é"]), "a") == '[1, "é"]'
    with pytest.raises(DataError, match="t.csv line 2: column 'a' is empty"):
        cell_text(row(a=" "), "a")


def test_labels_are_those_that_occur_or_those_that_are_listed():
    found = items("classification", QUESTION, row(a="yes"), row(a="no"), row(a="yes"))
    words = RECIPES["classification"].describe(found, QUESTION)
    assert words.task["evaluator_options"] == {"labels": ["yes", "no"]}
    assert words.schema is not None
    assert words.schema["properties"]["label"]["enum"] == ["yes", "no", ABSTAIN_LABEL]
    assert words.schema["required"] == ["label", "confidence"]
    listed = Columns(inputs=("q",), answer="a", labels=("Yes", "No"))
    assert RECIPES["classification"].read(row(a="YES"), listed).truth == {"label": "Yes"}
    with pytest.raises(DataError, match="label 'maybe' is not one of the labels"):
        RECIPES["classification"].read(row(a="maybe"), listed)


@pytest.mark.parametrize(
    ("cell", "answer"), [("$1,200.50", "1200.5"), ("42.0", "42"), ("-3", "-3"), (7, "7")]
)
def test_numbers_are_plain_digits(cell, answer):
    recipe = RECIPES["number"]
    (settled,), _ = recipe.settle([row(a=cell)], QUESTION)
    assert recipe.read(settled, QUESTION).truth == {"answer": answer}


@pytest.mark.parametrize("cell", ["many", "nan", "1e999999"])
def test_what_is_no_plain_number_is_refused(cell):
    with pytest.raises(DataError, match="holds no number"):
        RECIPES["number"].settle([row(a=cell)], QUESTION)


def lines(name, *cells):
    return [
        Row(f"t.csv line {number}", {"q": "why?", name: cell}) for number, cell in enumerate(cells, start=2)
    ]


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        ("Sports", "sports", "case"),
        ("Sci Tech", "Sci  Tech", "blanks"),
        ("Caf\u00e9", "Cafe\u0301", "Unicode form"),
        ("Spo\u200brts", "Sports", "Unicode form"),
        ("\uff21\uff22", "AB", "Unicode form"),
    ],
)
def test_labels_that_no_scorer_tells_apart_are_refused_with_both_places(first, second, how):
    settle = RECIPES["classification"].settle
    with pytest.raises(DataError) as caught:
        settle(lines("a", first, "World", second), QUESTION)
    assert caught.value.message == (
        f"t.csv line 4: label '{second}' differs from '{first}' (t.csv line 2) by {how} alone"
    )
    listed = Columns(inputs=("q",), answer="a", labels=(first, "World"))
    rows, _ = settle(lines("a", first, "World", second), listed)  # which spelling counts is said
    assert [RECIPES["classification"].read(row, listed).truth["label"] for row in rows] == [
        first,
        "World",
        first,
    ]
    with pytest.raises(DataError, match="--labels: "):
        settle(lines("a", "World"), Columns(inputs=("q",), answer="a", labels=(first, second)))


def test_a_records_columns_are_read_whole_each_by_its_own_mark():
    columns = Columns(inputs=("q",), fields=("net", "code", "share", "note"))
    rows = [
        Row("t.csv line 2", {"q": "x", "net": "1.200,50", "code": "007", "share": "0.5", "note": "12"}),
        Row("t.csv line 3", {"q": "x", "net": "3", "code": "008", "share": "", "note": "a dozen"}),
    ]
    recipe = RECIPES["extraction"]
    settled, told = recipe.settle(rows, columns)
    assert told == ["net: decimal comma: '1.200,50' is 1200.5"]
    records = [recipe.read(row, columns).truth for row in settled]
    assert records[0] == {"net": 1200.5, "code": "007", "share": 0.5, "note": 12}
    assert records[1] == {"net": 3, "code": "008", "share": None, "note": "a dozen"}
    told = Columns(inputs=("q",), fields=("net", "share"), decimal=",")
    mixed = [
        Row("t.csv line 2", {"q": "x", "net": "0,5", "share": "1.5"}),
        Row("l", {"q": "x", "net": "none", "share": "x"}),
    ]
    (first, second), _ = recipe.settle(mixed, told)
    assert recipe.read(first, told).truth == {"net": 0.5, "share": "1.5"}
    assert recipe.read(second, told).truth == {"net": "none", "share": "x"}
    with pytest.raises(DataError, match=r"'1,200' is 1200 or 1\.2, and no cell"):
        recipe.settle(lines("net", "1,200", "3"), Columns(inputs=("q",), fields=("net",)))


def test_a_number_is_reasoned_about_without_a_schema():
    words = RECIPES["number"].describe([], QUESTION)
    assert (words.task["kind"], words.schema, words.task["primary_metric"]) == (
        "reasoning",
        None,
        "exact match",
    )


def test_choices_are_lettered_and_the_answer_is_a_letter_or_a_text():
    columns = Columns(inputs=("q",), answer="a", choices=("o",))
    by_text, by_letter = (row(a=answer, o="red|blue|green") for answer in ("Blue", "c"))
    (first, second) = items("choice", columns, by_text, by_letter)
    assert first.input_text == "why?\nA. red\nB. blue\nC. green"
    assert (first.truth["choice"], second.truth["choice"]) == ("B", "C")
    words = RECIPES["choice"].describe([first, second], columns)
    assert words.schema is not None
    assert words.schema["properties"]["choice"]["enum"] == ["A", "B", "C", ABSTAIN_LABEL]
    with pytest.raises(DataError, match="neither a letter A to C nor an option's text"):
        RECIPES["choice"].read(row(a="pink", o="red|blue|green"), columns)


def test_short_answers_may_be_several():
    assert RECIPES["short_answer"].read(row(a="Paris | the capital"), QUESTION).truth == {
        "answers": ["Paris", "the capital"]
    }


def test_a_record_has_the_types_of_its_cells():
    columns = Columns(inputs=("q",), fields=("n", "code", "x", "tags"))
    found = items(
        "extraction",
        columns,
        row(n="3", code="007", x="", tags=["a"]),
        row(n="2.5", code="1e5", x="b", tags=None),
    )
    assert found[0].truth == {"n": 3, "code": "007", "x": None, "tags": ["a"]}
    schema = RECIPES["extraction"].describe(found, columns).schema
    assert schema is not None
    kinds = {name: entry["type"] for name, entry in schema["properties"].items()}
    assert kinds == {
        "n": ["number", "null"],
        "code": ["string", "null"],
        "x": ["string", "null"],
        "tags": ["array", "null"],
    }


def test_a_kind_without_its_column_says_which():
    with pytest.raises(DataError, match="--answer COLUMN"):
        RECIPES["number"].read(row(), Columns(inputs=("q",)))
    with pytest.raises(DataError, match="--choices COLUMN"):
        RECIPES["choice"].read(row(), Columns(inputs=("q",)))
