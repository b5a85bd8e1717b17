"""Averages of effects, by hand."""

import pytest

from pcsuite.analysis.verdicts.findings import average_effect

Z = 1.959963984540054


def effect(task, delta, se, model="m"):
    return {
        "task": task, "model": model, "delta": delta, "delta_low": delta - Z * se, "delta_high": delta + Z * se,
    }  # fmt: skip


def test_cells_of_a_task_are_dependent_and_tasks_are_not():
    found = average_effect([effect("a", 0.1, 0.02), effect("a", 0.3, 0.04, "n"), effect("b", 0.4, 0.04)])
    # Tasks: 0.2 with SE 0.03 and 0.4 with SE 0.04; their mean 0.3 with SE √(0.03² + 0.04²) / 2 = 0.025.
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx((0.3 - Z * 0.025, 0.3 + Z * 0.025))
    assert (found.cells, found.tasks, found.models) == (3, 2, 2)
    assert found.words() == "mean change +0.300, 95 % interval 0.251 to 0.349, over 3 cells of 2 tasks"


@pytest.mark.parametrize(
    ("delta", "expected", "verdict"),
    [
        (0.3, "positive", "supported"),
        (0.3, "negative", "contradicted"),
        (-0.3, "negative", "supported"),
        (0.01, "positive", "inconclusive"),
    ],
)
def test_an_interval_on_one_side_of_zero_decides(delta, expected, verdict):
    assert average_effect([effect("a", delta, 0.02)]).verdict(expected=expected) == verdict


def test_records_without_limits_are_left_out():
    assert average_effect([effect("a", 0.3, 0.02) | {"delta_low": None}]) is None
