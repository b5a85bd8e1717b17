"""Dates in their normal form."""

import pytest

from pcsuite.verifier.dates import DateReader
from pcsuite.verifier.value_reader import TypeOptions


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-03-01", "2026-03-01"),
        ("2026/3/1", "2026-03-01"),
        ("2026-03-01 14:05", "2026-03-01"),
        ("1. 3. 2026", "2026-03-01"),
        ("March 2026", "2026-03"),
        ("2026", "2026"),
        ("29 February 2028", "2028-02-29"),
        ("1st of May 2026", "2026-05-01"),
        ("05/05/2026", "2026-05-05"),
    ],
)
def test_normal_forms(text, normal):
    assert DateReader(TypeOptions()).read(text) == normal


@pytest.mark.parametrize(
    "text", ["29.2.2026", "32.1.2026", "13/13/2026", "May", "1 May", "1.5.26", "May May 2026", "2026-13"]
)
def test_what_is_no_date(text):
    with pytest.raises(ValueError, match="date|calendar|first"):
        DateReader(TypeOptions()).read(text)
