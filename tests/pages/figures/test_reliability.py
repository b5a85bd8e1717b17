"""Figures: what they are named, what they leave out, which regime they show."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.efficiency import ABSTENTION
from pcsuite.pages.figures.declare import Facts, draw_figures
from pcsuite.report.build import figures_of
from support.synthetic_log import Design, design_rows, make_row, write_log


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    models = {"small": ("fam", "135M"), "large": ("fam", "7B")}
    rows = list(design_rows(Design(items=6, models=models, conditions=("C0", "C3", "C6"))))
    rows += [
        make_row(item=f"p{k}", model="small", size="135M", condition="C3", perturbation=kind, score=score)
        for k in range(4)
        for kind, score in (("none", 1.0), ("reorder", 0.0))
    ]
    rows += [
        make_row(task="fever_json", item=f"{k}", condition=c, metrics={"unsupported_rate": 0.5})
        for k in range(4)
        for c in ("C3", "C7")
    ]
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        analysis = analyse(tables, embeddings="off")
    return {figure.name: figure for figure in figures_of(analysis)}


@pytest.mark.slow
def test_every_kind_is_drawn_by_its_contract_name(figures):
    assert {
        "perf_condition_ladder__agnews_json__small",
        "entropy_vs_condition__agnews_json__large",
        "variance_decomposition__agnews_json__small",
        "pareto_accuracy_tokens__agnews_json__grid",
        "cost_per_correct__agnews_json__grid",
        "robustness_drop__agnews_json__grid",
        "robustness_worst_case__agnews_json__grid",
        "perf_condition_ladder__agnews_json__grid",
        "interaction_condition_size__agnews_json",
        "unsupported_rate__fever_json__m1",
        "operator_attribution__agnews_json__small",
    } <= set(figures)
    assert not [name for name in figures if name.startswith("abstain_confusion")]


def test_captions_and_tooltips_name_what_is_shown(figures):
    assert "Retrieval is on in C7 (shaded)" in figures["unsupported_rate__fever_json__m1"].caption
    assert "<title>C3, reorder, D0: 1.00" in figures["robustness_drop__agnews_json__grid"].svg


def record(decoding, **values):
    return {"task": "t", "model": "m", "decoding": decoding, "condition": "C0", **values}


def test_the_least_random_regime_is_the_one_of_lowest_temperature():
    temperature = {"a_hot": 1.0, "b_cold": 0.0}
    counts = {
        f"{what}_{items}": 2 for what in ("abstained", "answered") for items in ("unanswerable", "answerable")
    }
    rows = [record(name, recall=0.5, misuse=0.5, **counts) for name in temperature]
    (figure,) = draw_figures({"abstention": Table.of(ABSTENTION, rows)}, Facts(temperature))
    assert "under b_cold" in figure.caption


def test_abstention_is_a_matrix_for_each_condition():
    counts = {
        "abstained_unanswerable": 3,
        "answered_unanswerable": 1,
        "abstained_answerable": 0,
        "answered_answerable": 6,
    }
    rows = [record("cold", **counts) | {"condition": name} for name in ("C0", "C2", "C10")]
    (figure,) = draw_figures({"abstention": Table.of(ABSTENTION, rows)})
    assert figure.name == "abstain_confusion__t__m"
    for name in ("C0", "C2", "C10"):
        assert f"{name}, unanswerable items that were abstained: 3 of 4" in figure.svg
        assert f"{name}, answerable items that were answered: 6 of 6" in figure.svg
    assert "75%" in figure.svg
