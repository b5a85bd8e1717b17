"""Truths in spreadsheet files."""

import io
from datetime import date

import openpyxl
import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.truth import parse_truth

MAPPING = FieldMapping.model_validate(
    {
        "record_key": "number",
        "tolerances": {"default": {"absolute": 0.005}},
        "fields": [
            {"label": "No", "path": "number", "type": "identifier"},
            {"label": "Issued", "path": "issued", "type": "date"},
            {"label": "Rate", "path": "rate", "type": "percent"},
            {"label": "Paid", "path": "paid", "type": "boolean"},
        ],
        "tables": [
            {
                "path": "lines",
                "columns": [{"path": "item", "type": "text"}, {"path": "qty", "type": "integer"}],
            }
        ],
    }
)


def workbook(sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return book


def saved(book):
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def test_records_and_their_lists_in_sheets():
    book = workbook(
        {
            "Invoices": [
                ["No", "Issued", "Rate", "Paid"],
                ["A-1", date(2026, 3, 1), 0.19, True],
                [42, "1.4.2026", "7 %", None],
            ],
            "Lines": [["No", "item", "qty"], ["A-1", "Tea", 2.0], ["A-1", "Cup", 1], [42, "Jar", 3]],
            "Remarks": [["nothing", "here"]],
        }
    )
    book["Invoices"]["C2"].number_format = "0%"
    truth = parse_truth(saved(book), MAPPING, "t.xlsx")
    assert {name: one.record for name, one in truth.records.items()} == {
        "A-1": {
            "number": "A-1", "issued": "2026-03-01", "rate": "19%", "paid": True,
            "lines": [{"item": "Tea", "qty": 2}, {"item": "Cup", "qty": 1}],
        },
        "42": {"number": "42", "issued": "1.4.2026", "rate": "7 %", "lines": [{"item": "Jar", "qty": 3}]},
    }  # fmt: skip
    assert truth.warnings == ("sheet 'Remarks' is called like no list and is passed over",)


def test_a_formula_without_its_result_is_no_empty_cell():
    data = saved(workbook({"Invoices": [["No", "Rate"], ["A", "=1+1"]]}))
    with pytest.raises(DataError, match=r"sheet 'Invoices', B2: a formula without a stored result"):
        parse_truth(data, MAPPING, "t.xlsx")


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ({"Invoices": [["No", "Issued"]]}, "a header and no row of values"),
        (
            {"Invoices": [["No"], ["A"]], "Lines": [["No", "item"], ["B", "Tea"]]},
            "'B' of the table 'lines' is no record",
        ),
        (
            {"Invoices": [["No"], ["A"]], "Lines": [["item"], ["Tea"]]},
            "'lines' has no column that tells records apart",
        ),
    ],
)
def test_what_cannot_be_read(sheets, message):
    with pytest.raises(DataError, match=message):
        parse_truth(saved(workbook(sheets)), MAPPING, "t.xlsx")


def test_a_zip_that_is_no_workbook():
    with pytest.raises(DataError, match="no workbook that can be read"):
        parse_truth(b"PK\x03\x04nothing", MAPPING, "t.xlsx")
