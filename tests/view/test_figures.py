"""The figures of a slice: what their marks say, and where they lead."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from pcsuite.view.data import OpenRun
from pcsuite.view.figures import figure_tables, head_to_head_figures, view_figures
from pcsuite.view.filters import filter_of
from pcsuite.view.runs import list_runs
from pcsuite.view.slices import slice_effects
from support.synthetic_log import make_row, write_log


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two models and two conditions on twenty items; typos cost C4 what they do not cost C0."""
    folder = tmp_path_factory.mktemp("figures")
    rows = []
    for number in range(20):
        for model in ("small", "large"):
            for condition, right in (("C0", number < 10), ("C4", number < (16 if model == "large" else 12))):
                for seed in (0, 1):
                    answer = "yes" if right or (seed == 1 and number == 19) else "no"
                    rows.append(
                        make_row(
                            item=f"i{number:02d}", model=model, condition=condition, seed=seed, score=float(right),
                            answer=answer,
                        )
                    )  # fmt: skip
                hit = right and not (condition == "C4" and number < 4)
                rows.append(
                    make_row(
                        item=f"i{number:02d}", model=model, condition=condition, score=float(hit),
                        perturbation="typos",
                    )
                )  # fmt: skip
    write_log(folder / "runs" / "one.jsonl", rows)
    opened = OpenRun(list_runs(folder)[0], folder / "view")
    yield opened
    opened.close()


def tables(run, **query):
    return figure_tables(run, filter_of(run, query))


def marks_of(figure):
    """Where each mark of a figure leads, by what it says."""
    pairs = re.findall(r'data-says="([^"]*)"[^>]* href="([^"]*)"', figure.svg)
    return {html.unescape(text): html.unescape(link) for text, link in pairs}


def by_id(figures):
    return {figure.spec.id: figure for figure in figures}


def test_every_figure_that_the_rows_allow_is_there(run):
    figures = by_id(view_figures(run, filter_of(run, {"model": "large"})))
    assert list(figures) == ["ladder", "ladder_by_size", "interaction", "pareto", "entropy", "robustness"]
    assert [words.split("[")[0] for words in marks_of(figures["ladder"])] == [
        "C0, D0: 0.50 ",
        "C4, D0: 0.80 ",
    ]
    assert all(words.endswith(" on 20 items") for words in marks_of(figures["ladder"]))
    assert "mean over 20 items" in figures["ladder"].caption
    # typos cost C4 four of its twenty items
    assert [words.split(" [")[0] for words in marks_of(figures["robustness"])] == [
        "C0, typos, D0: 0.00",
        "C4, typos, D0: 0.20",
    ]
    # one mark for each condition of a model
    assert len(marks_of(figures["pareto"])) == len(marks_of(figures["ladder_by_size"])) == 4


def test_values_are_those_of_the_items(run):
    found = tables(run, model="large")
    assert [(row["score"], row["score_n"]) for row in found["summary_by_condition"]] == [(0.5, 20), (0.8, 20)]
    low, high = (found["summary_by_condition"][1][f"score_{end}"] for end in ("low", "high"))
    assert 0.5 < low < 0.8 < high < 1
    # the two answers to one wrong item of twenty differ
    assert found["entropy_by_condition"][0]["disagreement"] == pytest.approx(1 / 20)
    scores = {(row["condition"], row["level"].split()[0]): row["score"] for row in found["by_size"]}
    assert scores["C4", "small"] == pytest.approx(12 / 20)
    effects = {(row["condition"], row["level"].split()[0]): row["effect"] for row in found["by_size"]}
    assert effects["C4", "small"] == pytest.approx(2 / 20)
    assert effects["C4", "large"] == pytest.approx(6 / 20)
    assert effects["C0", "large"] is None
    # equal tokens everywhere: the best score alone is on the front
    front = [(row["model"], row["condition"]) for row in found["efficiency"] if row["on_pareto_front"]]
    assert front == [("large", "C4")]


def test_figures_follow_the_filter(run):
    rows = tables(run, model="large", only="fixed:C4")["summary_by_condition"]
    assert [(row["score"], row["score_n"]) for row in rows] == [(0.0, 6), (1.0, 6)]
    assert not any(tables(run, q="nowhere to be found").values())
    assert view_figures(run, filter_of(run, {"q": "nowhere to be found"})) == []


def test_a_mark_leads_to_its_own_matrix(run):
    figures = by_id(view_figures(run, filter_of(run, {"model": "large"})))
    (link,) = (
        link for words, link in marks_of(figures["interaction"]).items() if words.startswith("C4 at small")
    )
    parts = urlsplit(link)
    assert parts.path == "/run/one"
    led = filter_of(run, dict(parse_qsl(parts.query)))
    assert (led.fixed["model"], led.columns, led.sort) == ("small", "condition", "score:C4")


def test_some_tables_can_be_drawn_alone(run):
    (ladder,) = view_figures(run, filter_of(run, {}), None, "summary_by_condition")
    assert ladder.spec.id == "ladder"


def test_points_of_a_head_to_head_lead_to_their_rows(run):
    points = [{"x": 0.0, "y": 1.0, "n": 3}, {"x": 1.0, "y": 1.0, "n": 1}]
    (scatter,) = head_to_head_figures(filter_of(run, {}), "C0", "C4", points)
    assert marks_of(scatter) == {"3 items at 0.0 and 1.0": "#point-0", "1 item at 1.0 and 1.0": "#point-1"}


@pytest.mark.slow
def test_what_reads_all_answers_is_asked_once_for_each_state_of_the_log(tmp_path, monkeypatch):
    rows = [make_row(item=f"i{n}", seed=seed, answer=str(seed % 2)) for n in range(5) for seed in range(3)]
    log = write_log(tmp_path / "runs" / "one.jsonl", rows)
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    asked = []
    query = opened.query
    monkeypatch.setattr(opened, "query", lambda sql, given=(): asked.append(sql) or query(sql, given))

    def read_through():
        asked.clear()
        rows = figure_tables(opened, filter_of(opened, {}))["entropy_by_condition"]
        return rows, sum(" FROM runs " in sql for sql in asked)

    first, times = read_through()
    assert times == 1
    assert read_through() == (first, 0)
    write_log(log, [make_row(item="i0", seed=3, answer="other")])
    assert opened.refresh()
    assert read_through()[1] == 1
    opened.close()


@pytest.fixture(scope="module")
def copied_run(tmp_path_factory):
    """Ten texts four times each, on two models; C4 wins three of them."""
    folder = tmp_path_factory.mktemp("copies")
    rows = [
        make_row(
            item=f"{text}.{copy}", model=model, condition=condition, seed=seed, answer=f"{seed * (text > 7)}",
            score=float(text < right), cluster=f"text {text}", decoding="D1",
        )
        for text in range(10)
        for copy in range(4)
        for model in ("small", "large")
        for condition, right in (("C0", 4), ("C4", 7))
        for seed in (0, 1)
    ]  # fmt: skip
    write_log(folder / "runs" / "copies.jsonl", rows)
    opened = OpenRun(list_runs(folder)[0], folder / "view" / "copies")
    yield opened
    opened.close()


def test_figures_and_slices_go_by_cluster(copied_run):
    selection = filter_of(copied_run, {})
    tables = figure_tables(copied_run, selection)
    (control, treated) = tables["summary_by_condition"]
    assert (control["n_items"], control["score"], treated["score"]) == (40, 0.4, 0.7)
    # Ten texts: about as wide as ten 0/1 answers, not as forty.
    assert treated["score_high"] - treated["score_low"] > 0.45
    by_model = [row for row in tables["by_size"] if row["condition"] == "C4"]
    assert all(row["effect"] == pytest.approx(0.3) and row["effect_low"] <= 0 for row in by_model)
    assert {row["condition"] for row in tables["entropy_by_condition"]} == {"C0", "C4"}
    (effect,) = slice_effects(copied_run.scores(selection), "C0", ["C4"])
    assert (effect.n, effect.n_clusters) == (40, 10)
    assert effect.p_value >= 0.25  # three equal signs
