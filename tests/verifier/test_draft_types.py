"""Types concluded from values."""

import pytest

from pcsuite.verifier.draft_types import conclude_type


@pytest.mark.parametrize(
    ("key", "values", "kind", "options"),
    [
        ("x", ["2026-03-01", "2.3.2026"], "date", {}),
        ("x", ["13/04/2026", "05/04/2026"], "date", {"day_first": True}),
        ("x", ["04/13/2026", "04/05/2026"], "date", {"day_first": False}),
        ("year", ["2019", "2020"], "text", {}),
        ("x", ["€ 5.00", "EUR 7"], "money", {"currency": "EUR"}),
        ("x", [5, "EUR 7"], "money", {"currency": "EUR"}),
        ("x", [5, "7"], "integer", {}),
        ("x", [5.5, "7"], "number", {}),
        ("total", [5, "7"], "money", {}),
        ("x", ["€ 5.00", "$7"], "money", {}),
        ("invoice_no", ["INV-1", "INV-2"], "identifier", {}),
        ("zip", ["01067", "10115"], "identifier", {}),
        ("x", ["19 %", "7%"], "percent", {}),
        ("tax_rate", [0.19, 0.07], "percent", {"fraction": True}),
        ("x", ["5 mg", "0.1 g"], "quantity", {"unit": "mg"}),
        ("tel", ["+49 30 901820"], "phone", {}),
        ("x", [1, 2], "integer", {}),
        ("x", [1, 2.25], "number", {}),
        ("total", [1, 2], "money", {}),
        ("x", [True, False], "boolean", {}),
        ("x", [[1, 2.5], []], "number_list", {}),
        ("x", [["a"], []], "text_list", {}),
        ("x", ["open", "paid"] * 4, "enum", {"values": ["open", "paid"]}),
        ("x", ["open", "paid"], "text", {}),
        ("x", ["word " * 30], "fuzzy", {"threshold": 0.85}),
        ("city", ["Kiel", "Bonn"], "text", {}),
    ],
)  # fmt: skip
def test_types(key, values, kind, options):
    concluded = conclude_type(key, values, ())
    assert (concluded.type, concluded.options) == (kind, options)


@pytest.mark.parametrize(
    ("values", "question"),
    [
        ([], "no value to conclude a type from"),
        ([None, ""], "no value to conclude a type from"),
        ([1, "red"], "integer and text in turn"),
        ([[]], "only empty lists"),
        (["12.5"], "numbers as text"),
        ([320, "320"], "some of its numbers are texts"),
    ],
)
def test_what_cannot_be_concluded_is_asked(values, question):
    concluded = conclude_type("x", values, ())
    assert question in f"{concluded.question} {concluded.why}"
    assert concluded.question
