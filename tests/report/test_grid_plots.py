"""Figures over the models of a task: lines per size, effects by size and regime, the worst case."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.efficiency import EFFICIENCY
from pcsuite.report.grid_plots import (
    cost_figures,
    interaction_figures,
    ladder_by_size_figures,
    worst_case_figures,
)
from support.synthetic_log import Design, design_rows, make_row, write_log


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    models = {"s": ("fam", "7B"), "m": ("fam", "24B"), "api": ("gpt", "frontier")}
    rows = list(design_rows(Design(items=8, models=models, conditions=("C0", "C3", "C6"))))
    rows += [
        make_row(item=f"p{k}", model="s", size="7B", condition=condition, perturbation=kind, score=score)
        for k in range(6)
        for condition in ("C0", "C3")
        for kind, score in (("none", 1.0), ("reorder", 0.5), ("injection", 0.0))
    ]
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as loaded:
        return analyse(loaded, embeddings="off").tables


@pytest.mark.slow
def test_the_ladder_has_a_line_per_size_with_intervals(tables):
    (figure,) = ladder_by_size_figures(tables["by_size"], None, {"agnews_json": ("C0", "C3")})
    assert figure.name == "perf_condition_ladder__agnews_json__grid"
    for level in ("S", "M", "L"):
        assert f"<title>C3 at {level}, D0: " in figure.svg
        assert f"<title>C3 at {level}, D1: " in figure.svg
    assert "by model size class" in figure.svg


def test_lines_join_the_conditions_of_the_ladder_alone(tables):
    joined, alone = (
        ladder_by_size_figures(tables["by_size"], None, {"agnews_json": names})[0]
        for names in (("C0", "C3"), ())
    )
    assert "Lines join C0, C3, which build on one another." in joined.caption
    assert "Lines join" not in alone.caption
    # A line per size and regime, and no other difference: C6 is joined to nothing.
    assert joined.svg.count("<path") - alone.svg.count("<path") == 3 * 2


def test_the_interaction_is_the_effect_by_size_and_regime(tables):
    (figure,) = interaction_figures(tables["by_size"], None)
    assert figure.name == "interaction_condition_size__agnews_json"
    shown = {
        (row["condition"], row["level"], row["decoding"]): row
        for row in tables["by_size"].records()
        if row["effect"] is not None
    }
    assert len(shown) == 2 * 3 * 2
    for (condition, level, regime), row in shown.items():
        words = f"{row['effect']:.2f} [{row['effect_low']:.2f}, {row['effect_high']:.2f}]"
        assert f"<title>{condition} at {level}, {regime}: {words}" in figure.svg
    assert "against C0" in figure.caption


def test_the_worst_case_stands_beside_the_clean_score(tables):
    temperature = {"D0": 0.0, "D1": 0.7}
    (figure,) = worst_case_figures(tables["robustness_worst_case"], None, temperature)
    assert figure.name == "robustness_worst_case__agnews_json__grid"
    assert "<title>C3, clean prompts, no attack: 1.00" in figure.svg
    assert "<title>C3, worst attack, injection: 0.00" in figure.svg


def test_the_least_random_regime_is_the_one_of_lowest_temperature():
    temperature = {"a_hot": 1.0, "b_cold": 0.0}
    record = {"task": "t", "model": "m", "condition": "C0", "tokens_per_correct": 10.0}
    costs = Table.of(EFFICIENCY, [record | {"decoding": name} for name in temperature])
    (figure,) = cost_figures(costs, None, temperature)
    assert "t under b_cold" in figure.caption


@pytest.mark.slow
def test_a_run_of_one_size_has_no_figure_by_size(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=0.5) for k in range(4) for c in ("C0", "C1")]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as loaded:
        table = analyse(loaded, embeddings="off").tables["by_size"]
    assert ladder_by_size_figures(table, None, {}) == interaction_figures(table, None) == []
