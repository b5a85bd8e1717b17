"""Numbers as people write them."""

import pytest

from pcsuite.verifier.amounts import parse_amount


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", 1234.5),
        ("1 234,5", 1234.5),
        ("0,125", 0.125),
        ("1.234", 1.234),
        ("-3", -3.0),
        ("3-", -3.0),
        (".5", 0.5),
    ],
)
def test_amounts_as_people_write_them(text, number):
    assert parse_amount(text) == number


@pytest.mark.parametrize("text", ["", "one", "1.2.3,4,5", "1,2.3,4"])
def test_what_is_no_amount(text):
    with pytest.raises(ValueError, match="is not a number"):
        parse_amount(text)
