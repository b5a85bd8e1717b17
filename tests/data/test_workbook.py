"""A user's table in a spreadsheet file: the same rows as its CSV, and what is said of one that cannot be used."""

import io
from datetime import date

import openpyxl
import pytest

from pcsuite.cli import main
from pcsuite.data.table_files import read_table
from pcsuite.errors import DataError, MissingExtraError

HEADER = ["id", "text", "urgent", "due", "share", "queue"]


def write(path, rows, *, sheets=("Tickets",)):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_are_text_as_a_csv_file_would_have_them(tmp_path):
    path = write(
        tmp_path / "t.xlsx",
        [
            HEADER,
            [7, " Where is it? ", True, date(2026, 3, 1), 0.5, "billing"],
            [8, "Hm", False, None, None, "login"],
        ],
    )
    first, second = read_table(path)
    assert first.values == dict(
        zip(HEADER, ["7", "Where is it?", "TRUE", "2026-03-01", "0.5", "billing"], strict=True)
    )
    assert second.values["due"] == ""
    assert second.where == f"{path} row 3"


@pytest.mark.parametrize(
    ("rows", "sheets", "words"),
    [
        ([["a", "b"], [1, 2]], ("One", "Two"), "there are 2 sheets: One, Two (save the one you mean"),
        ([["a", "a"], [1, 2]], ("One",), "row 1: column names must be there and differ, found a, a"),
        ([["a", None, "c"], [1, 2, 3]], ("One",), "column names must be there and differ"),
        ([["a", "b"], [1, 2, 3]], ("One",), "row 2: expected 2 columns, found 3"),
        ([["a", "b"], ["=1+1", 2]], ("One",), "A2: a formula without a stored result"),
        ([], ("One",), "the workbook is empty"),
        ([["a", "b"]], ("One",), "has no rows"),
    ],
)
def test_what_cannot_be_read_is_one_line(rows, sheets, words, tmp_path):
    with pytest.raises(DataError) as error:
        read_table(write(tmp_path / "t.xlsx", rows, sheets=sheets))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_workbook(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"text,queue\na,b\n")
    with pytest.raises(DataError, match="no workbook that can be read"):
        read_table(tmp_path / "t.xlsx")


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"openpyxl is not installed \(pip install .*\[xlsx\]"):
        read_table(path)


def test_an_ablation_of_a_workbook_uses_its_ids(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    queues = ("billing", "login", "refund")
    rows = [[f"T-{n}", f"Ticket {n} about {queues[n % 3]}", queues[n % 3]] for n in range(40)]
    write(tmp_path / "tickets.xlsx", [["ID", "text", "queue"], *rows])
    (tmp_path / "p.md").write_text("Be brief.\n\nName the queue.\n\nTicket: {{ text }}\n")
    assert main(["ablate", "p.md", "--data", "tickets.xlsx", "--model", "simulated", "--show"]) == 0
    assert (
        "tickets.xlsx: 40 items, input: text, answer: queue (the only column left), ids: ID"
        in capsys.readouterr().out
    )


def test_bytes_of_a_workbook_are_told_by_their_beginning():
    buffer = io.BytesIO()
    openpyxl.Workbook().save(buffer)
    from pcsuite.data.workbook import MAGIC

    assert buffer.getvalue().startswith(MAGIC)
