"""A sample of the worlds of ``benchmarks/simulate_real_data.py`` and ``simulate_proportions.py``; they run 500 studies."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STUDIES = 20
FAMILIES = (
    "copies and clusters",
    "lopsided scores",
    "failures that depend on the score",
    "selected figures",
)


@pytest.fixture
def simulations(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import simulate_proportions
    import simulate_real_data  # noqa: F401, registers its families
    import simulation_cells

    yield simulation_cells, simulate_proportions
    for name in ("simulate_real_data", "simulate_proportions", "simulation_cells"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_required_rate_is_rejected(simulations, name):
    cells, _ = simulations
    required = [
        cell for cell in cells.FAMILIES[name]() if cell.at_least is not None or cell.at_most is not None
    ]
    assert required
    for number, cell in enumerate(required):
        rng = np.random.default_rng([number, len(name)])
        outcomes = [cell.study(rng) for _ in range(STUDIES)]
        assert cell.verdict(float(np.mean(outcomes)), STUDIES) != "no", (cell.name, cell.measure)


def test_taking_copies_for_items_is_rejected(simulations):
    """The worlds can tell: without their clusters the copies make false claims in more than half of the studies."""
    cells, _ = simulations
    ((_, rate, studies),) = cells.run_family("copies and clusters", 40, "as single items")
    assert cells.Cell("", "", lambda rng: None, at_most=0.05).verdict(rate, studies) == "no"


@pytest.mark.parametrize("items", [5, 20])
def test_intervals_of_0_and_1_cover_on_the_grid(simulations, items):
    _, proportions = simulations
    found = proportions.enumerate_items(items)
    assert found.proportion >= 0.95 - 1e-9
    assert found.difference >= 0.93
    assert found.width <= 1.1
    assert found.tango < 0.93  # what made the hull necessary
