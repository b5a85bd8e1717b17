import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.best import best_conditions
from support.synthetic_log import make_row, write_log


def compute(tmp_path, levels, items=20):
    rng = np.random.default_rng(0)
    rows = [
        make_row(item=f"{k}", condition=c, operators=(c,) * (c != "C0"), score=level + rng.normal(0, 0.2))
        for c, level in levels.items()
        for k in range(items)
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        return list(best_conditions(item_scores(tables)).records())


def test_the_best_is_named_with_what_remains_of_its_gain(tmp_path):
    (record,) = compute(tmp_path, {"C0": 0.2} | {f"x{k}": 0.2 for k in range(8)})
    assert (record["baseline"], record["n_conditions"], record["n_items"]) == ("C0", 8, 20)
    assert record["adjusted"] < record["observed"]
    assert record["adjusted_low"] < 0 < record["adjusted_high"]


def test_a_clear_winner_keeps_its_gain(tmp_path):
    (record,) = compute(tmp_path, {"C0": 0.2, "a": 0.2, "b": 0.9})
    assert record["condition"] == "b"
    assert record["adjusted"] == pytest.approx(record["observed"])


def test_one_condition_is_no_choice(tmp_path):
    assert compute(tmp_path, {"C0": 0.2, "a": 0.4}) == []
