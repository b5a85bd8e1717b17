import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.best import best_conditions
from support.synthetic_log import make_row, write_log


def compute(tmp_path, levels, items=20, operators=None):
    rng = np.random.default_rng(0)
    rows = [
        make_row(
            item=f"{k}",
            condition=c,
            operators=(operators or {}).get(c, (c,) * (c != "C0")),
            score=level + rng.normal(0, 0.2),
        )
        for c, level in levels.items()
        for k in range(items)
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        return list(best_conditions(item_scores(tables)).records())


def test_the_best_is_named_with_what_remains_of_its_gain(tmp_path):
    (record,) = compute(tmp_path, {"C0": 0.2} | {f"x{k}": 0.2 for k in range(8)})
    assert (record["baseline"], record["n_conditions"], record["n_items"]) == ("C0", 9, 20)
    assert record["adjusted"] < record["observed"]
    assert record["adjusted_low"] < 0 < record["adjusted_high"]


def test_a_clear_winner_keeps_its_gain(tmp_path):
    (record,) = compute(tmp_path, {"C0": 0.2, "a": 0.2, "b": 0.9})
    assert record["condition"] == "b"
    assert record["adjusted"] == pytest.approx(record["observed"])


def test_one_condition_is_no_choice(tmp_path):
    assert compute(tmp_path, {"C0": 0.2, "a": 0.4}) == []


def test_the_control_is_the_best_where_nothing_is_better(tmp_path):
    (record,) = compute(tmp_path, {"C0": 0.9, "a": 0.2, "b": 0.3})
    assert (record["condition"], record["baseline"]) == ("C0", "C0")
    assert (record["observed"], record["adjusted"]) == (0, 0)


def test_a_sham_is_never_the_best_and_no_choice(tmp_path):
    shams = {"S2": ("SHAM_RULES",), "S4": ("SHAM_CHECKS",)}
    (record,) = compute(tmp_path, {"C0": 0.2, "a": 0.2, "b": 0.5, "S2": 0.9}, operators=shams)
    assert (record["condition"], record["n_conditions"]) == ("b", 3)
    assert compute(tmp_path / "shams", {"C0": 0.2, "a": 0.4, "S2": 0.9, "S4": 0.8}, operators=shams) == []
