"""The figures of a slice: what their marks say, where they lie, and where they lead."""

from __future__ import annotations

import doctest

import pytest

from pcsuite.view import figures
from pcsuite.view.data import OpenRun
from pcsuite.view.figures import BOTTOM, HEIGHT, TOP, view_figures
from pcsuite.view.filters import filter_of
from pcsuite.view.runs import list_runs
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


def by_kind(run, **query):
    return {figure.kind: figure for figure in view_figures(run, filter_of(run, query))}


def points_of(figure):
    return {point.text.split(":")[0]: point for series in figure.series for point in series.points}


def test_every_figure_that_the_rows_allow_is_there(run):
    found = by_kind(run, model="large")
    assert list(found) == ["ladder", "entropy", "pareto", "robustness", "interaction"]
    (c0, c4) = (point for point in found["ladder"].series[0].points)
    assert (c0.level.value, c4.level.value, c0.level.n) == (0.5, 0.8, 20)
    assert c0.text.startswith("C0, ")
    assert "0.500 [" in c0.text
    assert "on 20 items" in c0.text
    # the two answers to one wrong item of twenty differ
    assert found["entropy"].series[0].points[0].level.value == pytest.approx(1 / 20)
    lost = points_of(found["robustness"])
    assert lost["C4, typos"].level.value == pytest.approx(4 / 20)
    assert lost["C0, typos"].level.value == 0
    assert points_of(found["interaction"])["C4 on small"].level.value == pytest.approx(12 / 20)


def test_figures_follow_the_filter(run):
    found = by_kind(run, model="large", only="fixed:C4")
    assert [point.level.value for point in found["ladder"].series[0].points] == [0.0, 1.0]
    assert found["ladder"].series[0].points[0].level.n == 6
    assert by_kind(run, q="nowhere to be found") == {}


def test_a_mark_leads_to_its_own_matrix(run):
    point = points_of(by_kind(run, model="large")["interaction"])["C4 on small"]
    led = filter_of(run, point.state)
    assert (led.fixed["model"], led.columns, led.sort) == ("small", "condition", "score:C4")


def test_marks_lie_where_their_scores_are(run):
    figure = by_kind(run, model="large")["ladder"]
    (_, (c0, c4), line), *_ = figure.placed()
    inside = HEIGHT - TOP - BOTTOM
    assert c0.y == pytest.approx(TOP + 0.5 * inside)
    assert c4.y == pytest.approx(TOP + 0.2 * inside)
    assert c4.high < c4.y < c4.low
    assert line == ""
    assert [name for _, name in figure.x_ticks()] == ["C0", "C4"]


def test_examples():
    assert doctest.testmod(figures).failed == 0


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
        found = view_figures(opened, filter_of(opened, {}))
        return next(f for f in found if f.kind == "entropy"), sum(" FROM runs " in sql for sql in asked)

    first, times = read_through()
    assert times == 1
    assert read_through() == (first, 0)
    write_log(log, [make_row(item="i0", seed=3, answer="other")])
    assert opened.refresh()
    assert read_through()[1] == 1
    opened.close()
