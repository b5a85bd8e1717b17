"""A figure is declared once: found by its table, named by its pattern, drawn for a file and for a page."""

import re

import pytest

from pcsuite.analysis.table import Column, Table, TableSpec
from pcsuite.pages.figures import declare
from pcsuite.pages.figures.declare import (
    FIGURES,
    Facts,
    Sheet,
    draw_figures,
    draw_series,
    figure,
    grouped,
    heading,
    legend,
    values_of,
)

ROWS = [
    {"task": "b", "decoding": "hot", "condition": "C10", "model": "m", "score": 0.5},
    {"task": "a", "decoding": "cold", "condition": "C2", "model": "m", "score": 0.25},
    {"task": "b", "decoding": "cold", "condition": "C2", "model": "n", "score": 1.0},
]


@pytest.fixture
def declared(monkeypatch):
    """Nothing but what the test declares."""
    monkeypatch.setattr(declare, "FIGURES", [])


def draw_models(rows, facts):
    sheet = Sheet.blank()
    draw_series(sheet.axes, sheet.tips, rows, "score", "model", values_of(rows, "model"), tip=("decoding",))
    legend(sheet)
    sheet.caption = "What it shows."
    return sheet


def test_records_are_grouped_in_order_and_named_naturally():
    assert [(task, len(rows)) for task, rows in grouped(ROWS, "task")] == [("a", 1), ("b", 2)]
    assert [key[:2] for key in grouped(ROWS, "task", "model")] == [("a", "m"), ("b", "m"), ("b", "n")]
    assert values_of(ROWS, "condition") == ["C2", "C10"]
    assert heading(ROWS) == "b"
    assert heading(ROWS, "model", "decoding") == "b on m, hot"


def test_a_declared_figure_is_drawn_for_each_group_of_its_table(declared, tmp_path):
    figure("dummy__<task>__grid", "dummies", "A dummy", table="things")(draw_models)
    figures = draw_figures({"things": ROWS, "others": ROWS}, folder=tmp_path)
    assert [(one.name, one.task, one.model, one.spec.kind) for one in figures] == [
        ("dummy__a__grid", "a", None, "dummies"),
        ("dummy__b__grid", "b", None, "dummies"),
    ]
    assert figures[1].caption == "What it shows."
    assert figures[1].spec.title == "A dummy"
    assert figures[1].spec.id == "draw_models"
    assert re.findall("<title>(.*?)</title>", figures[1].svg) == ["C10, m, hot: 0.50", "C2, n, cold: 1.00"]
    assert [one.png for one in figures] == sorted(tmp_path.iterdir())
    assert figures[0].png.read_bytes().startswith(b"\x89PNG")
    assert draw_figures({"others": ROWS}) == []


def test_a_table_and_its_records_are_drawn_alike_and_without_a_folder_nothing_is_written(declared):
    figure("dummy__<task>__<model>", "dummies", "A dummy", table="things")(draw_models)
    spec = TableSpec("things", "Things", "row", tuple(Column(name, "") for name in ROWS[0]))
    figures = draw_figures({"things": Table.of(spec, ROWS)})
    assert figures == draw_figures({"things": ROWS})
    assert [(one.name, one.model, one.png) for one in figures] == [
        ("dummy__a__m", "m", None),
        ("dummy__b__m", "m", None),
        ("dummy__b__n", "n", None),
    ]


def test_rows_are_chosen_by_the_declaration(declared):
    drawn = []

    def draw(rows, facts):
        drawn.append([row["condition"] for row in rows])
        return Sheet.blank()

    figure("x__<task>", "k", "X", table="things", where=lambda row: row["task"] == "b", one_regime=True)(draw)
    draw_figures({"things": ROWS}, Facts(temperature={"hot": 1.0, "cold": 0.0}))
    assert drawn == [["C2"]]


def test_a_remark_stands_on_every_figure_of_its_task(declared):
    figure("x__<task>", "k", "X", table="things")(draw_models)
    first, second = draw_figures({"things": ROWS}, Facts(remarks={"b": "the judge is not validated"}))
    assert first.caption == "What it shows."
    assert second.caption == "What it shows. The judge is not validated."
    assert "the judge is not validated" in second.svg


def test_marks_of_a_live_figure_lead_where_their_rows_say(declared):
    figure("x__<task>", "k", "X", table="things")(draw_models)
    rows = [{**row, "url": f"/items/{row['model']}"} for row in ROWS if row["task"] == "b"]
    (live,) = draw_figures({"things": rows}, live=True)
    assert re.findall(r'<a data-says="(.*?):.*?href="(.*?)"', live.svg) == [
        ("C10, m, hot", "/items/m"),
        ("C2, n, cold", "/items/n"),
    ]
    assert live.svg.count("data-hides") == 2
    # one series has no legend, so nothing to hide
    (alone,) = draw_figures({"things": rows[:1]}, live=True)
    assert "data-hides" not in alone.svg


def test_names_and_functions_of_figures_are_each_their_own():
    assert len({spec.name for spec in FIGURES}) == len(FIGURES)
    assert len({spec.id for spec in FIGURES}) == len(FIGURES)
    assert all(spec.columns[0] == "task" and spec.draw.__doc__ for spec in FIGURES)
