"""The page's tables: columns as declared, colours only where a change holds and has a good end."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.report.sections import (
    effects_section,
    filters_for,
    folded_section,
    levels_section,
    matrix_section,
    objective_section,
)
from support.synthetic_log import make_row, write_log


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sections")
    rows = []
    for k in range(20):
        rows.append(
            make_row(item=f"{k}", condition="C0", score=0.0, metrics={"abstained": False, "edits": 3})
        )
        rows.append(make_row(item=f"{k}", condition="C1", score=1.0, metrics={"abstained": True, "edits": 1}))
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        return analyse(tables, embeddings="off")


def cells(section, label):
    index = [column.label for column in section.table.columns].index(label)
    return [row.cells[index] for row in section.table.rows]


def test_effects_are_coloured_where_there_is_a_better(analysis):
    section = effects_section(analysis)
    css = dict(
        zip(
            (c.text for c in cells(section, "metric")),
            (c.css for c in cells(section, "difference")),
            strict=True,
        )
    )
    assert css["score"] == "n up"
    # Every answer abstains: that holds, and is neither good nor bad by itself.
    assert css["abstention rate"] == "n"
    (stars,) = (
        c.text for c in cells(section, "difference") if c.text.startswith("+1.00") and c.css == "n up"
    )
    assert stars.endswith("***")


def test_the_matrix_has_a_column_for_each_condition(analysis):
    section = matrix_section(analysis)
    assert [column.label for column in section.table.columns] == ["task", "model", "regime", "control", "C1"]
    assert cells(section, "C1")[0].css == "n up"
    assert section.filters == []


def test_levels_have_declared_headings_and_items_last(analysis):
    section = levels_section(analysis)
    assert [column.label for column in section.table.columns] == [
        "task", "model", "regime", "condition", "score", "median", "IQR", "seed variance", "JSON valid",
        "schema valid", "truncated", "tokens", "items", "rows", "errors",
    ]  # fmt: skip
    (extra,) = section.extras
    assert [column.label for column in extra.table.columns] == ["model", "decoding", "condition", "edits"]


def test_tables_without_rows_are_not_shown(analysis):
    assert [extra.id for extra in folded_section(analysis).extras] == [
        "efficiency-table",
        "information-table",
    ]
    section = objective_section(analysis)
    assert (section.table.rows, section.extras) == ([], [])


def test_filters_are_for_what_varies():
    records = [{"task": "t10", "model": "m"}, {"task": "t2", "model": "m"}]
    assert filters_for(records, {"task": "Task", "model": "Model"}) == [("task", "Task", ["t2", "t10"])]
