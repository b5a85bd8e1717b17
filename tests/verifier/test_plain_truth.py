"""Plain tables of any domain: long and wide, one record and many."""

import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.truth import parse_truth

MAPPING = FieldMapping.model_validate(
    {
        "tolerances": {"default": {"absolute": 0.005}},
        "fields": [
            {"label": "Invoice No", "path": "number", "type": "identifier"},
            {"label": "Total", "path": "total", "type": "money", "currency": "EUR"},
            {"path": "tags", "type": "text_list"},
            {"path": "readings", "type": "number_list", "separator": ";"},
        ],
        "tables": [
            {
                "path": "orders",
                "columns": [
                    {"label": "Order", "path": "order", "type": "text"},
                    {"path": "by", "type": "text"},
                ],
            },
            {
                "path": "orders[].lines",
                "columns": [
                    {"label": "Item", "path": "item", "type": "text"},
                    {"label": "Qty", "path": "qty", "type": "integer"},
                ],
            },
        ],
    }
)
KEYED = MAPPING.model_copy(update={"record_key": "number"})


def read(text, mapping=KEYED):
    return parse_truth(text.encode(), mapping, "t.csv")


def test_repeated_rows_of_a_text_list_are_all_kept():
    truth = read("field,value\ntags,export\ntags,urgent\ntags,a; b\n", MAPPING)
    assert truth.record == {"tags": ["export", "urgent", "a; b"]}
    assert [truth.row_of(("tags", index)) for index in range(3)] == [2, 3, 4]


def test_a_separator_divides_where_the_mapping_has_one():
    assert read("field,value\nreadings,1; 2.5;3\n", MAPPING).record == {"readings": [1.0, 2.5, 3.0]}


def test_items_named_by_a_number_have_its_type():
    mapping = FieldMapping.model_validate(
        {"tolerances": {"default": {}}, "tables": [{"path": "tests", "key": "code", "columns": [{"path": "code", "type": "integer"}, {"path": "value", "type": "number"}]}]}
    )  # fmt: skip
    text = "field,value\ntests[code=718].value,3\ntests[code=2160].value,4\ntests[code=718].code,718\n"
    assert read(text, mapping).record == {
        "tests": [{"code": 718, "value": 3.0}, {"code": 2160, "value": 4.0}]
    }


def test_many_records_with_a_row_for_each_field():
    truth = read("number,field,value\nA-1,Total,5\nB-2,Total,6\nA-1,number,A-1\n")
    assert {name: one.record for name, one in truth.records.items()} == {
        "A-1": {"total": "5", "number": "A-1"},
        "B-2": {"total": "6"},
    }
    assert truth.records["B-2"].row_of(("total",)) == 3


def test_many_records_with_a_row_for_each_item_and_lists_in_lists():
    truth = read(
        "Invoice No,Total,Order,by,Item,Qty,tags\n"
        "A,5,o1,Ann,Tea,1,x\n"
        "A,5,o1,Ann,Cup,2,y\n"
        "A,5,o2,Bo,Tea,3,x\n"
        "B,7,o1,Cy,,,\n"
        "B,,o2,Cy,,,\n"
    )
    a, b = (one.record for one in truth.records.values())
    assert a == {
        "number": "A",
        "total": "5",
        "tags": ["x", "y"],
        "orders": [
            {"order": "o1", "by": "Ann", "lines": [{"item": "Tea", "qty": 1}, {"item": "Cup", "qty": 2}]},
            {"order": "o2", "by": "Bo", "lines": [{"item": "Tea", "qty": 3}]},
        ],
    }
    assert b == {
        "number": "B",
        "total": "7",
        "orders": [{"order": "o1", "by": "Cy"}, {"order": "o2", "by": "Cy"}],
    }
    assert truth.records["A"].row_of(("orders", 0, "lines", 1, "qty")) == 3


def test_two_equal_items_of_the_deepest_list_are_two():
    record = read("number,Order,Item,Qty\nA,o1,Tea,1\nA,o1,Tea,1\n").records["A"].record
    assert record["orders"] == [
        {"order": "o1", "lines": [{"item": "Tea", "qty": 1}, {"item": "Tea", "qty": 1}]}
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number,Total\nA,5\nA,6\n", r"row 3: total: '6' where row 2 of the same record has '5'"),
        ("number,Total\n,5\nB,6\n", r"row 2: no 'number', so nothing says which record it is"),
        ("number,Totl\nA,5\nB,6\n", r"row 1: unknown field 'Totl'"),
        ("number,Total\nA,five\nB,6\n", r"row 2: total: 'five' is not an amount of money"),
        ("number,field,value\n,Total,5\n", r"row 2: no 'number', so nothing says which record it belongs to"),
        ("number,Total,Total\nA,5,6\nB,6,7\n", r"row 1: field 'Total' has two columns"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(DataError, match=message):
        read(text)


def test_rows_without_a_column_that_tells_records_apart():
    with pytest.raises(DataError, match=r"2 rows, and no column that tells records apart .*--record-key"):
        read("Total,tags\n5,x\n6,y\n", MAPPING)


def test_a_truth_that_was_cut_within_a_number_gets_a_note():
    note = "the file ends within a line, after a digit; it may have been cut off"
    assert read("field,value\nnumber,A\nTotal,119.5", MAPPING).warnings == (f"row 3: {note}",)
    assert read("field,value\nnumber,A\nTotal,119.", MAPPING).warnings == (f"row 3: {note}",)
    assert read("field,value\nnumber,A\nTotal,119.5\n", MAPPING).warnings == ()
    assert read("field,value\nTotal,5\ntags,blue", MAPPING).warnings == ()


def test_columns_after_field_and_value_are_remarks():
    assert read("field,value,comment\nnumber,A,checked\n", MAPPING).record == {"number": "A"}
