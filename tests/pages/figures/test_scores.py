"""Figures of scores: lines per size, effects by size and regime, cost, two columns head to head."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.efficiency import EFFICIENCY
from pcsuite.pages.figures import drawing, scores
from pcsuite.pages.figures.declare import Facts, draw_figures
from support.synthetic_log import Design, design_rows, make_row, write_log


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    models = {"s": ("fam", "7B"), "m": ("fam", "24B"), "api": ("gpt", "frontier")}
    rows = list(design_rows(Design(items=8, models=models, conditions=("C0", "C3", "C6"))))
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as loaded:
        return analyse(loaded, embeddings="off").tables


def drawn(tables, name, **facts):
    """The one figure of some tables that a function draws."""
    (found,) = (one for one in draw_figures(tables, Facts(**facts)) if one.spec.id == name)
    return found


@pytest.mark.slow
def test_the_ladder_has_a_line_per_size_with_intervals(tables):
    figure = drawn({"by_size": tables["by_size"]}, "ladder_by_size", ladders={"agnews_json": ("C0", "C3")})
    assert figure.name == "perf_condition_ladder__agnews_json__grid"
    for level in ("S", "M", "L"):
        assert f"<title>C3 at {level}, D0: " in figure.svg
        assert f"<title>C3 at {level}, D1: " in figure.svg
    assert "by model size class" in figure.svg


def test_lines_join_the_conditions_of_the_ladder_alone(tables):
    joined, alone = (
        drawn({"by_size": tables["by_size"]}, "ladder_by_size", ladders={"agnews_json": names})
        for names in (("C0", "C3"), ())
    )
    assert "Lines join C0, C3, which build on one another." in joined.caption
    assert "Lines join" not in alone.caption
    # A line per size and regime, and no other difference: C6 is joined to nothing.
    assert joined.svg.count("<path") - alone.svg.count("<path") == 3 * 2


def test_the_interaction_is_the_effect_by_size_and_regime(tables):
    figure = drawn({"by_size": tables["by_size"]}, "interaction")
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


def test_the_least_random_regime_is_the_one_of_lowest_temperature():
    temperature = {"a_hot": 1.0, "b_cold": 0.0}
    record = {"task": "t", "model": "m", "condition": "C0", "tokens_per_correct": 10.0}
    costs = Table.of(EFFICIENCY, [record | {"decoding": name} for name in temperature])
    figure = drawn({"efficiency": costs}, "cost", temperature=temperature)
    assert "t under b_cold" in figure.caption


@pytest.mark.slow
def test_a_run_of_one_size_has_no_figure_by_size(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=0.5) for k in range(4) for c in ("C0", "C1")]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as loaded:
        table = analyse(loaded, embeddings="off").tables["by_size"]
    assert draw_figures({"by_size": table}) == []


def test_levels_that_are_models_are_called_so():
    row = {"task": "t", "decoding": "cold", "factor": "", "baseline": "C0", "score": 0.5, "effect": 0.1}
    rows = [
        {
            **row,
            "condition": c,
            "level": m,
            "score_low": 0.4,
            "score_high": 0.6,
            "effect_low": 0.0,
            "effect_high": 0.2,
        }
        for c in ("C1", "C2")
        for m in ("small", "large")
    ]
    by_model = drawn({"by_size": rows}, "ladder_by_size")
    assert "t, by model<" in by_model.svg
    assert (
        by_model.caption
        == "Score by prompt condition, t: a colour for each model; 95 % intervals over items."
    )
    effects = drawn({"by_size": rows}, "interaction")
    assert effects.caption.startswith("Does the model change what a condition does?")
    assert "scale.csv" not in effects.caption


def test_areas_of_a_head_to_head_are_numbers_of_items():
    common = {"task": "t", "model": "m", "across": "C0", "up": "C4"}
    rows = [
        {**common, "x": x, "y": y, "n_items": n, "url": f"#point-{x}"}
        for x, y, n in ((0.0, 1.0, 1), (1.0, 1.0, 4))
    ]
    with drawing.style():
        _, one, four = scores.head_to_head(rows, Facts()).axes.lines
    assert four.get_markersize() == 2 * one.get_markersize() == 12
    figure = drawn({"head_to_head": rows}, "head_to_head")
    assert "<title>1 item at 0.0 and 1.0</title>" in figure.svg
    assert "<title>4 items at 1.0 and 1.0</title>" in figure.svg
