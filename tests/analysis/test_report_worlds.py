"""A sample of the worlds of ``benchmarks/simulate_reports.py``, which runs 500 studies of each."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STUDIES = 8
FAMILIES = ("reports of related items", "few tasks", "effects in the headline", "labels of related items")


@pytest.fixture
def simulations(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import simulate_reports
    import simulation_cells

    yield simulation_cells, simulate_reports
    for name in ("simulate_reports", "simulate_verdicts", "simulation_cells"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_required_rate_is_rejected(simulations, name):
    cells, _ = simulations
    required = [
        cell for cell in cells.FAMILIES[name]() if cell.at_least is not None or cell.at_most is not None
    ]
    assert required
    for number, cell in enumerate(required):
        rng = np.random.default_rng([number, len(name)])
        outcomes = [outcome for outcome in (cell.study(rng) for _ in range(STUDIES)) if outcome is not None]
        assert cell.verdict(float(np.mean(outcomes)), len(outcomes)) != "no", (cell.name, cell.measure)


def test_copies_taken_apart_make_false_effects(simulations):
    """The worlds can tell: without clusters a report of copies finds effects of nothing in far more than 5 %."""
    cells, reports = simulations
    rng = np.random.default_rng(0)
    apart = [
        reports.false_effect(rng, lambda rng: reports.copies(rng, 20, 5, labelled=False)) for _ in range(30)
    ]
    assert cells.Cell("", "", lambda rng: None, at_most=0.05).verdict(float(np.mean(apart)), 30) == "no"
