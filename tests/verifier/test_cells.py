import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.cells import _unit_key, label_key, parse_rows, split_unit


def cells(data):
    return [row.cells for row in parse_rows(data, "t.csv")]


def test_cells_are_trimmed_and_padding_is_dropped():
    assert cells(b',A, b ,"c ",,,\r\n\r\nx') == [("", "A", "b", "c"), (), ("x",)]


def test_encodings_give_the_same_text():
    text = ",City,Vallée,\n"
    wanted = [("", "City", "Vallée")]
    for data in (
        text.encode("utf-8"),
        text.encode("utf-8-sig"),
        text.encode("latin-1"),
        text.encode("cp1252"),
    ):
        assert cells(data) == wanted


def test_windows_quotes():
    assert cells(",Title,Lot\x929,\n".encode("latin-1")) == [("", "Title", "Lot’9")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "PDF"),
        ("a,b".encode("utf-16"), "UTF-16"),
        (b"a\nb\x00c", "row 2"),
        (b"a\nb,\x81\x80", "row 2"),
        (b'a\n"never closed', "row 2"),
        (b"", "empty"),
        (b",,,\r\n , \r\n", "empty"),
    ],
)
def test_what_is_no_csv_is_one_line(data, words):
    with pytest.raises(DataError) as caught:
        parse_rows(data, "t.csv")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("t.csv: row ")


def test_line_numbers_count_lines_of_the_file():
    rows = parse_rows(b'"a\nb",c\nd', "t.csv")
    assert [row.number for row in rows] == [2, 3]


def test_labels_and_units():
    assert label_key(" U-factor:") == label_key("Ufactor")
    assert split_unit("Area (ft2)") == ("Area", "ft2")
    assert split_unit("Heat Pump (Heating):") == ("Heat Pump", "Heating")
    assert _unit_key("Btuh/ft2-?F") == _unit_key("Btuh/ft2-°F") == _unit_key("Btuh/ft2-F")
