"""Numbers as people write them in tables: the decimal mark is a matter of the whole column."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.text import fraction_text
from pcsuite.data.items import Row
from pcsuite.data.table_numbers import MARKS, all_numbers, read_cell, read_column
from pcsuite.errors import DataError


def column(*cells):
    return [Row(f"t.csv line {number}", {"n": cell}) for number, cell in enumerate(cells, start=2)]


def numbers(*cells, decimal=None):
    return [fraction_text(value) for value in read_column(column(*cells), "n", decimal).values]


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("25%", "25"), ("25 %", "25"), ("€5", "5"), ("5 €", "5"), ("£ 3", "3"), ("¥7", "7"), ("5 EUR", "5"),
        ("CHF 7", "7"), ("-$5", "-5"), ("$-5", "-5"), ("1/2", "0.5"), ("2 1/2", "2.5"), ("1½", "1.5"), ("¾", "0.75"),
        ("−3", "-3"), ("–3", "-3"), ("+3", "3"), ("1 200", "1200"), ("1\u00a0200", "1200"), ("1\u202f200", "1200"),
        ("1'200", "1200"), ("1’200", "1200"), ("12 345 678", "12345678"), ("2/3", "2/3"), ("１２", "12"),
        ("\u200e7", "7"), ("1e3", "1000"),
    ],
)  # fmt: skip
def test_what_both_marks_read_alike_is_read(cell, number):
    assert numbers(cell) == [number]
    assert numbers(cell, decimal=",") == numbers(cell, decimal=".") == [number]


@pytest.mark.parametrize(
    ("cell", "mark", "number"),
    [
        ("0,5", ",", "0.5"), ("1,5", ",", "1.5"), ("1.200,50", ",", "1200.5"), ("1.234.567", ",", "1234567"),
        ("12,5%", ",", "12.5"), ("€ 1.200,-", None, None), ("0.5", ".", "0.5"), ("1,200.50", ".", "1200.5"),
        ("1,234,567", ".", "1234567"), ("12,34,567", ".", "1234567"), ("1'200.50", ".", "1200.5"),
        ("1 200,50", ",", "1200.5"), ("0,500", ",", "0.5"), ("0.500", ".", "0.5"), (",5", ",", "0.5"),
    ],
)  # fmt: skip
def test_one_cell_tells_the_mark_of_its_column(cell, mark, number):
    if mark is None:
        with pytest.raises(DataError, match="holds no number"):
            read_column(column(cell), "n")
        return
    read = read_column(column("7", cell), "n")
    assert (read.mark, fraction_text(read.values[1])) == (mark, number)
    other = "," if mark == "." else "."
    with pytest.raises(DataError, match=f"no number with a decimal {'comma' if other == ',' else 'point'}"):
        read_column(column(cell), "n", other)


@pytest.mark.parametrize(
    "cell", ["(5)", "5 apples", "1,2,3", "--3", "1.2.3", "1 2", "12 3456", "nan", "1/0", "1/2/3", "0x10"]
)
def test_what_is_no_number_is_refused_with_its_place(cell):
    with pytest.raises(DataError, match="t.csv line 3: column 'n' holds no number: "):
        read_column(column("1", cell), "n")


def test_what_was_concluded_is_said_with_a_cell_that_shows_it():
    assert (
        read_column(column("7", "1.200,50", "0,5"), "n").sentence == "n: decimal comma: '1.200,50' is 1200.5"
    )
    assert read_column(column("7", "$1,200.50"), "n").sentence == "n: decimal point: '$1,200.50' is 1200.5"
    assert read_column(column("7", "25%"), "n").sentence == "n: '25%' is 25"
    assert read_column(column("1,200"), "n", ",").sentence == "n: decimal comma, as told: '1,200' is 1.2"
    assert read_column(column("1.200"), "n", ",").sentence == "n: decimal comma, as told: '1.200' is 1200"
    assert read_column(column("7", "1.5", 2.25), "n").sentence == ""


def test_where_both_readings_fit_and_differ_the_column_is_refused_with_both():
    with pytest.raises(DataError) as caught:
        read_column(column("12", "1,200", "3.400"), "n")
    # One cell has a comma where the other has a point: under each mark one groups and one parts.
    assert caught.value.message == (
        "t.csv line 3: column 'n': '1,200' is 1200 or 1.2, and no cell of the column tells which"
    )
    assert caught.value.hint == "say what the decimal mark is: --decimal . or --decimal ,"
    assert numbers("12", "1,200", decimal=".") == ["12", "1200"]
    assert numbers("12", "1,200", decimal=",") == ["12", "1.2"]
    assert numbers("0,5", "1,200") == ["0.5", "1.2"]  # the first cell tells


def test_cells_that_need_different_marks_are_named_both():
    with pytest.raises(DataError) as caught:
        read_column(column("0,5", "3", "0.5"), "n")
    assert caught.value.message == (
        "t.csv line 4: column 'n' holds '0.5', which has a decimal point, and line 2 '0,5', which has a decimal comma"
    )


def test_numbers_of_json_are_numbers_whatever_the_texts_say():
    assert numbers(1.2, "0,5", 3) == ["1.2", "0.5", "3"]
    with pytest.raises(DataError, match="holds no number: 'True'"):
        read_column(column(True), "n")


def test_an_empty_cell_is_refused_unless_it_may_be():
    with pytest.raises(DataError, match="line 3: column 'n' is empty"):
        read_column(column("1", " "), "n")
    assert read_column(column("1", None), "n", optional=True).values == (Fraction(1), None)


def test_a_column_of_numbers_is_one_even_where_its_marks_are_in_doubt():
    assert all_numbers(["1,200", "1/2", "€5", 3])
    assert not all_numbers(["1,200", "yes"])


def written(value, places, mark, group):
    """A number as a spreadsheet of a locale writes it."""
    text = f"{Decimal(value.numerator) / Decimal(value.denominator):,.{places}f}"
    return text.translate(str.maketrans({",": group, ".": mark}))


LOCALES = {"us": (".", ","), "de": (",", "."), "fr": (",", "\u202f"), "ch": (".", "'"), "se": (",", " ")}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 4)), min_size=1, max_size=12),
    st.sampled_from(sorted(LOCALES)),
    st.sampled_from(["{}", "€{}", "{} €", "{}%", " {} "]),
)
def test_a_column_written_in_one_locale_is_read_as_it_was_meant_or_refused(entries, locale, form):
    values = [Fraction(whole, 10**places) for whole, places in entries]
    cells = [
        form.format(written(value, places, *LOCALES[locale]))
        for value, (_, places) in zip(values, entries, strict=True)
    ]
    mark = LOCALES[locale][0]
    told = read_column(column(*cells), "n", mark)
    assert list(told.values) == values
    point, comma = ([read_cell(cell, each) for cell in cells] for each in MARKS)
    if point != comma and None not in point + comma:
        with pytest.raises(DataError, match="no cell of the column tells which"):
            read_column(column(*cells), "n")
    else:
        concluded = read_column(column(*cells), "n")
        assert list(concluded.values) == values
        assert concluded.mark in (mark, None)


@given(st.text(max_size=12))
def test_no_cell_makes_it_fail_otherwise(text):
    for mark in MARKS:
        value = read_cell(text, mark)
        assert value is None or Fraction(fraction_text(value)) == value


@given(st.fractions(max_denominator=1000))
def test_words_of_a_number_mean_the_number(value):
    assert Fraction(fraction_text(value)) == value
