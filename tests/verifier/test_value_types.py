"""Types with a reader: what is the same, what is another value, what is of another type."""

import pytest

from pcsuite.errors import ConfigError
from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.tree import compile_mapping
from pcsuite.verifier.values import judge_value

M, W, F = "match", "wrong_value", "format_error"


def verdict(options, expected, actual):
    """The verdict of a mapping with one field ``x``."""
    rule = {"path": "x", "tolerance": "default", **options}
    mapping = FieldMapping.model_validate(
        {"tolerances": {"default": {"relative": 0.005, "absolute": 0.01}}, "fields": [rule]}
    )
    leaf = compile_mapping(mapping).children["x"]
    return judge_value(expected, actual, leaf.type, leaf.relative, leaf.absolute, leaf.modulo, leaf.reader)


DATE = {"type": "date"}
CASES = [
    # dates
    (DATE, "2026-03-01", "01.03.2026", M),
    (DATE, "2026-03-01", "1.3.2026", M),
    (DATE, "2026-03-01", "2026-03-01T00:00:00Z", M),
    (DATE, "2026-03-01", "1 March 2026", M),
    (DATE, "2026-03-01", "Mar 1, 2026", M),
    (DATE, "2026-03-01", "01/03/2026", F),
    (DATE, "2026-03-25", "25/03/2026", M),
    (DATE, "2026-03-01", "2 March 2026", W),
    (DATE, "2026-03-01", "2026-02-30", F),
    (DATE, "2026-03", "03/2026", M),
    (DATE, "2026-03", "2026-03-01", W),
    (DATE, "2026-03-01", "soon", F),
    (DATE, "2026-03-01", 20260301, F),
    (DATE | {"day_first": True}, "2026-03-01", "01/03/2026", M),
    (DATE | {"day_first": False}, "2026-03-01", "03/01/2026", M),
    (DATE | {"day_first": False}, "2026-03-01", "01/03/2026", W),
    (DATE | {"precision": "month"}, "2026-03", "2026-03-17", M),
    (DATE | {"formats": "DD-MMM-YY"}, "2026-03-01", "01-Mar-26", M),
    (DATE | {"formats": ["%d/%m/%Y"]}, "2026-03-01", "1 March 2026", F),
    (DATE | {"months": ["janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
                        "octobre", "novembre", "décembre"]}, "2026-08-01", "1 août 2026", M),
    (DATE | {"values": {"present": ["current"]}}, "present", "Current", M),
    (DATE | {"values": {"present": ["current"]}}, "present", "2026-01-01", W),
    # money
    ({"type": "money"}, "119.50", 119.5, M),
    ({"type": "money"}, "119.50", "119,50", M),
    ({"type": "money"}, "1234.50", "1.234,50", M),
    ({"type": "money"}, "1234.00", "1.234", M),
    ({"type": "money"}, "1234567.00", "1,234,567", M),
    ({"type": "money"}, "-12.00", "(12.00)", M),
    ({"type": "money"}, "12.00", "12,-", M),
    ({"type": "money"}, "10000.00", 10000.01, W),
    ({"type": "money"}, "5.00 EUR", 5, W),
    ({"type": "money", "currency": "EUR"}, "5.00 EUR", 5, M),
    ({"type": "money", "currency": "EUR"}, 5, "€5", M),
    ({"type": "money", "currency": "EUR"}, 5, "5 USD", W),
    ({"type": "money", "currency": "CAD"}, 5, "$5.00", M),
    ({"type": "money"}, "5 CHF", "Fr. 5.00", M),
    ({"type": "money"}, 5, {"amount": 5.0, "currency": None}, M),
    ({"type": "money"}, 5, "INV 5", F),
    ({"type": "money"}, 5, True, F),
    ({"type": "money", "decimal": ","}, "1,5", "1,500", M),
    # enums
    ({"type": "enum", "values": ["paid", "open"]}, "paid", "PAID", M),
    ({"type": "enum", "values": {"paid": "settled", "open": None}}, "paid", "Settled", M),
    ({"type": "enum", "values": ["paid", "open"]}, "paid", "unknown", W),
    ({"type": "enum", "values": ["paid", "open"]}, "paid", 1, F),
    # identifiers
    ({"type": "identifier"}, "INV-0042", "inv 0042", M),
    ({"type": "identifier"}, "0042", 42, W),
    ({"type": "identifier"}, "4711", 4711, M),
    ({"type": "identifier"}, "4711", 4711.0, F),
    ({"type": "identifier"}, "Ä-1", "ä1", M),
    # fuzzy text: the threshold and the numbers in it
    ({"type": "fuzzy"}, "St. Mary's Hospital", "St Marys Hospital", M),
    ({"type": "fuzzy"}, "Aspirin 100 mg tablets", "Aspirin 500 mg tablets", W),
    ({"type": "fuzzy", "threshold": 0.5}, "red brick house", "brick house", M),
    ({"type": "fuzzy", "threshold": 1.0}, "red house", "house red", M),
    ({"type": "fuzzy"}, "red house", ["red house"], F),
    # percent
    ({"type": "percent"}, "19 %", 19, M),
    ({"type": "percent"}, "19 %", "19%", M),
    ({"type": "percent"}, "19 %", 0.19, W),
    ({"type": "percent", "fraction": True}, "19 %", 0.19, M),
    ({"type": "percent"}, "1.5 %", "15 ‰", M),
    ({"type": "percent"}, 19, "nineteen", F),
    # phones
    ({"type": "phone", "region": "DE"}, "+49 30 901820", "(030) 90 18 20", M),
    ({"type": "phone"}, "+49 30 901820", "0049 30 901820", F),
    ({"type": "phone"}, "+49 30 901820", "+49 30 901821", W),
    # quantities
    ({"type": "quantity", "unit": "mg"}, "500 mg", "0.5 g", M),
    ({"type": "quantity", "unit": "mg"}, 500, "500", M),
    ({"type": "quantity", "unit": "degC"}, 37, "98.6 degF", M),
    ({"type": "quantity", "unit": "10^9/L"}, 5.2, "5.2 x10^9/L", M),
    ({"type": "quantity", "unit": "10^9/L"}, 5.2, "5200 /uL", M),
    ({"type": "quantity", "unit": "m2"}, 100, "1076.4 sq ft", M),
    ({"type": "quantity", "unit": "mg"}, 500, "500 mL", W),
    ({"type": "quantity", "unit": "mg"}, 500, "a spoonful", F),
    ({"type": "quantity", "unit": "IU/L"}, 40, "40 IU/L", M),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected", "actual", "outcome"), CASES)
def test_verdicts(options, expected, actual, outcome):
    assert verdict(options, expected, actual) == outcome


@pytest.mark.parametrize("options", [case[0] for case in CASES[::9]])
def test_what_is_missing_or_invented_is_so_in_every_type(options):
    assert verdict(options, None, "anything") == "hallucination"
    assert verdict(options, None, " ") == "match"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("{path: x, type: colour}", "'text', 'integer', 'number'"),
        ("{path: x, type: text, currency: EUR}", "'currency' says nothing about a field of type text"),
        (
            "{path: x, type: number, day_first: false}",
            "'day_first' says nothing about a field of type number",
        ),
        ("{path: x, type: enum}", "'x': an enum needs values"),
        ("{path: x, type: enum, values: {a: [b], c: [b]}}", "'b' stands for both 'a' and 'c'"),
        ("{path: x, type: quantity}", "'x': a quantity needs a unit"),
        ("{path: x, type: quantity, unit: blorbs}", "'blorbs' is no unit"),
        ("{path: x, type: money, currency: Taler}", "'Taler' is no code of ISO 4217"),
        ("{path: x, type: date, formats: soon}", "date format 'soon' names no day, month or year"),
        ("{path: x, type: date, months: [jan]}", "months has 1 names, not 12"),
        ("{path: x, type: phone, region: Germany}", "region 'Germany' is no country code"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused_in_one_line(tmp_path, field, message):
    path = tmp_path / "m.yaml"
    path.write_text(f"tolerances: {{default: {{}}}}\nfields:\n  - {field}\n")
    with pytest.raises(ConfigError) as error:
        load_mapping(path)
    assert message in str(error.value)
    assert "\n" not in error.value.message


def test_a_type_without_its_library_says_which_extra_brings_it(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    path = tmp_path / "m.yaml"
    path.write_text("tolerances: {default: {}}\nfields:\n  - {path: x, type: phone}\n")
    with pytest.raises(Exception, match=r"phonenumbers is not installed.*pip install .*\[verify\]"):
        load_mapping(path)


def test_own_units(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(
        "tolerances: {default: {absolute: 0.1}}\nunits: ['cup = 250 mL']\nfields:\n  - {path: x, type: quantity, unit: cup}\n"
    )
    leaf = compile_mapping(load_mapping(path)).children["x"]
    assert leaf.reader.read("0.5 L") == pytest.approx(2.0)
