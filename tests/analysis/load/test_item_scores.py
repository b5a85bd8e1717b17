"""Cells, their items, and what the log says of models and conditions."""

from __future__ import annotations

import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores, item_scores, on_common_items
from pcsuite.analysis.load.runs import RunTables
from support.synthetic_log import make_row, write_log


def scores_of(tmp_path, rows) -> ItemScores:
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        return item_scores(tables)


def key(condition, perturbation="none") -> CellKey:
    return CellKey("agnews_json", "m1", "D0", perturbation, condition)


def test_items_of_two_cells_are_paired_by_name(tmp_path):
    rows = [make_row(item=item, condition="C0", score=score) for item, score in [("b", 0.0), ("a", 1.0)]]
    rows += [make_row(item=item, condition="C2", score=score) for item, score in [("c", 0.5), ("b", 0.25)]]
    scores = scores_of(tmp_path, rows)
    treated, control = scores.paired(key("C2"), key("C0"), SCORE)
    assert (treated.tolist(), control.tolist()) == ([0.25], [0.0])
    assert scores.item_names == {"agnews_json": ["a", "b", "c"]}
    assert scores.cells[key("C0")].items.tolist() == [0, 1]


def test_rows_with_errors_give_no_value_and_are_counted(tmp_path):
    rows = [make_row(item="a", score=1.0), make_row(item="b", errors=["EngineError: down"])]
    cell = scores_of(tmp_path, rows).cells[key("C0")]
    assert (cell.n_rows, cell.n_errors, cell.replicates) == (2, 1, 1.0)
    items, values = cell.metric(SCORE)
    assert (items.tolist(), values.tolist()) == ([0], [1.0])
    assert all(part.size == 0 for part in cell.metric("no such metric"))


def test_a_cell_is_an_arm_over_all_items_that_it_was_asked(tmp_path):
    rows = [
        make_row(item="a", score=1.0),
        make_row(item="a", errors=["EngineError: down"], seed=2),
        make_row(item="b", errors=["EngineError: down"]),
        make_row(item="c", score=0.5),
    ]
    arm = scores_of(tmp_path, rows).arm(key("C0"), SCORE, (0.0, 1.0), named=True)
    assert arm.items.tolist() == ["a", "b", "c"]
    np.testing.assert_equal(arm.values, [1.0, np.nan, 0.5])
    assert arm.failed.tolist() == [0.5, 1.0, 0.0]
    assert (arm.replicates, arm.bounds, arm.counted) == (1.0, (0.0, 1.0), False)


def test_cells_stand_in_natural_order_and_the_control_is_c0_or_the_bare_one(tmp_path):
    rows = [
        make_row(condition="C10", operators=("ROLE",)),
        make_row(condition="bare", operators=()),
        make_row(condition="C2", operators=("ROLE", "GOAL")),
        make_row(condition="C2", operators=("ROLE", "GOAL"), perturbation="reorder"),
    ]
    scores = scores_of(tmp_path, rows)
    clean = list(scores.cell_keys())
    assert [cell.condition for cell in clean] == ["C2", "C10", "bare"]
    assert len(list(scores.cell_keys(perturbation=None))) == 4
    assert scores.groups() == {("agnews_json", "m1", "D0"): clean}
    assert scores.operators_in(key("C2")) == ("ROLE", "GOAL")
    assert scores.baseline(clean) == key("bare")
    assert scores.baseline([key("C10"), key("C0")]) == key("C0")
    assert scores.baseline([key("C10")]) == key("C10")  # alone: compared with nothing


@pytest.mark.slow
def test_counts_are_paired_where_every_row_has_them(tmp_path):
    rows = [
        make_row(item=f"i{number}", condition=condition, metrics={"tp": number, "fp": 1, "fn": extra})
        for condition, extra in [("C0", 2), ("C2", 0)]
        for number in range(2)
    ]
    scores = scores_of(tmp_path, rows)
    assert scores.pooled == {"agnews_json"}
    _, (treated, control) = on_common_items(*(scores.measured(key(name), SCORE) for name in ("C2", "C0")))
    assert np.array_equal(treated, [[0, 1, 0], [1, 1, 0]])
    assert np.array_equal(control, [[0, 1, 2], [1, 1, 2]])


@pytest.mark.parametrize(("finish", "value"), [("length", 1.0), ("stop", 0.0)])
def test_a_truncated_answer_is_one_that_reached_its_limit(tmp_path, finish, value):
    cell = scores_of(tmp_path, [make_row(finish_reason=finish)]).cells[key("C0")]
    assert cell.values["truncated"].tolist() == [value]


def test_an_imported_answer_of_unknown_end_is_neither_truncated_nor_whole(tmp_path):
    cell = scores_of(tmp_path, [make_row(finish_reason="unknown")]).cells[key("C0")]
    assert "truncated" not in cell.values
