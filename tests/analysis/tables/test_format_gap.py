"""Strict and lenient scores by condition, and the gap between them."""

import json
import re

import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.analysis.tables.effects import effects
from pcsuite.analysis.tables.format_gap import format_gap
from pcsuite.analysis.tables.summary import summary_by_condition
from pcsuite.reporting.build import build_report
from support.synthetic_log import make_row, write_log


def tables_of(tmp_path, rows):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        table = format_gap(scores, effects(scores, bundled_metrics()))
        gaps = {record["condition"]: record for record in table.records()}
        levels = summary_by_condition(tables, scores, bundled_metrics())
        return gaps, {record["condition"]: record for record in levels.records()}


def rows_of(condition, pairs, **more):
    return [
        make_row(item=f"i{k}", condition=condition, score=strict, metrics={"lenient_score": lenient}, **more)
        for k, (strict, lenient) in enumerate(pairs)
    ]


def test_the_gap_is_lenient_less_strict_and_the_contrast_is_given_both_ways(tmp_path):
    rows = rows_of("C0", [(0, 1), (0, 1), (0, 0), (1, 1)]) + rows_of("C3", [(1, 1), (1, 1), (0, 0), (1, 1)])
    gaps, levels = tables_of(tmp_path, rows)
    assert (gaps["C0"]["score"], gaps["C0"]["lenient_score"], gaps["C0"]["gap"]) == (0.25, 0.75, 0.5)
    assert (gaps["C0"]["items_in_gap"], gaps["C0"]["control"]) == (2, None)
    assert gaps["C0"]["gap_low"] <= 0.5 <= gaps["C0"]["gap_high"]
    # Strictly C3 gains 0.5 over C0, leniently nothing: all of it was form.
    assert (gaps["C3"]["difference"], gaps["C3"]["lenient_difference"]) == (0.5, 0.0)
    assert (levels["C0"]["lenient_score"], levels["C0"]["format_gap"]) == (0.75, 0.5)
    assert levels["C3"]["format_gap"] == 0.0


def test_pooled_tasks_pool_lenient_counts(tmp_path):
    def row(item, strict, lenient):
        names = ("tp", "fp", "fn")
        metrics = dict(zip(names, strict, strict=True))
        metrics |= {f"lenient_{name}": count for name, count in zip(names, lenient, strict=True)}
        return make_row(task="ner", item=item, score=0.0, metrics=metrics | {"lenient_score": 0.5})

    gaps, levels = tables_of(tmp_path, [row("a", (1, 1, 2), (3, 0, 0)), row("b", (0, 2, 1), (0, 2, 1))])
    # Strict 2·1 / (2·1 + 3 + 3) = 0.25, lenient 2·3 / (2·3 + 2 + 1) = 2/3.
    assert gaps["C0"]["score"] == pytest.approx(0.25)
    assert gaps["C0"]["lenient_score"] == pytest.approx(2 / 3)
    assert levels["C0"]["format_gap"] == pytest.approx(2 / 3 - 0.25)


def test_rows_that_were_never_scored_leniently_have_no_gap(tmp_path):
    gaps, levels = tables_of(tmp_path, [make_row(item="a", score=1.0), make_row(item="b", score=0.0)])
    assert gaps == {}
    assert (levels["C0"]["lenient_score"], levels["C0"]["format_gap"]) == (None, None)


STUDY = [(0, 1)] * 12 + [(1, 1)] * 4 + [(0, 0)] * 4
"""Of 20 items 4 are right by the strict rules and 16 by the lenient ones."""


def test_an_effect_that_only_the_strict_rules_see_is_one_of_the_form(tmp_path):
    rows = rows_of("C0", STUDY)
    rows += rows_of("C3", [(1, 1)] * 15 + [(0, 0)] * 5)  # +0.55 strictly, -0.05 leniently
    rows += rows_of("C4", [(1, 1)] * 20)  # +0.80 strictly (16 of 16), +0.20 leniently (4 of 4: p 0.125)
    rows += rows_of("C5", STUDY)
    gaps, _ = tables_of(tmp_path, rows)
    forms = {name: gaps[name]["form"] for name in ("C0", "C3", "C4", "C5")}
    said = "the form, not the answer"
    assert forms == {"C0": None, "C3": said, "C4": said, "C5": None}
    assert gaps["C3"]["difference"] == pytest.approx(0.55)
    assert gaps["C3"]["lenient_difference"] == pytest.approx(-0.05)


@pytest.mark.slow
def test_an_effect_that_both_readings_see_is_one_of_the_answers(tmp_path):
    rows = rows_of("C0", [(0, 1)] * 4 + [(0, 0)] * 16) + rows_of("C3", [(1, 1)] * 20)
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        (record,) = (
            row
            for row in effects(item_scores(tables), bundled_metrics()).records()
            if row["metric"] == "score" and row["kind"] == "control"
        )
    assert (record["delta"], record["lenient_delta"], record["form"]) == (1.0, 0.8, None)
    # 16 items of 16 the same way: 2 · 0.5^16, and one contrast in the family.
    assert record["lenient_p_bh"] == pytest.approx(2 * 0.5**16)


@pytest.mark.slow
def test_pooled_counts_are_compared_under_both_readings(tmp_path):
    def row(item, condition, strict, lenient):
        names = ("tp", "fp", "fn")
        metrics = dict(zip(names, strict, strict=True))
        metrics |= {f"lenient_{name}": count for name, count in zip(names, lenient, strict=True)}
        return make_row(
            task="ner", item=item, condition=condition, score=0.0, metrics=metrics | {"lenient_score": 0.5}
        )

    right, lost = (2, 0, 0), (0, 0, 2)
    rows = [row(f"i{k}", "C0", lost, right) for k in range(16)]
    rows += [row(f"i{k}", "C3", right, right) for k in range(16)]
    gaps, _ = tables_of(tmp_path, rows)
    assert (gaps["C3"]["difference"], gaps["C3"]["lenient_difference"]) == (1.0, 0.0)
    assert gaps["C3"]["form"] == "the form, not the answer"


@pytest.mark.slow
def test_the_page_shows_both_scores_and_the_gap(tmp_path):
    log = write_log(tmp_path / "a.jsonl", rows_of("C0", [(0, 1)] * 4) + rows_of("C3", [(1, 1)] * 4))
    build_report([log], tmp_path / "out")
    (page,) = (tmp_path / "out" / "reports").glob("*/index.html")
    text = page.read_text(encoding="utf-8")
    assert "Wrong, or wrongly formatted" in text
    assert "lenient score" in text
    # Four items cannot show an effect: 2 · 0.5^4 is more than 0.05 under either reading, and no sign differs.
    assert "the form, not the answer" not in text
    (table,) = (tmp_path / "out" / "tables").glob("*/format_gap.csv")
    assert "lenient_difference" in table.read_text(encoding="utf-8")


@pytest.mark.slow
def test_page_and_result_say_which_effect_is_one_of_the_form(tmp_path):
    log = write_log(tmp_path / "a.jsonl", rows_of("C0", [(0, 1)] * 12) + rows_of("C3", [(1, 1)] * 12))
    build_report([log], tmp_path / "out")
    (page,) = (tmp_path / "out" / "reports").glob("*/index.html")
    text = page.read_text(encoding="utf-8")
    assert "No condition moved the score under both readings of the answers; C3 raised it" in text
    # The first screen says it of the block, and the table of effects beside the number.
    assert "schema: the form, not the answer" in re.sub(r"<[^>]+>", "", text).casefold()
    (cells,) = re.findall(r'id="effects-table"[^>]*><script[^>]*>(.*?)</script>', text, re.DOTALL)
    assert "the form, not the answer" in cells
    (result,) = (tmp_path / "out" / "reports").glob("*/result.json")
    rows = {row["condition"]: row for row in json.loads(result.read_text(encoding="utf-8"))["results"]}
    assert (rows["C3"]["form"], rows["C3"]["lenient_effect"]) == ("the form, not the answer", 0.0)


@pytest.mark.slow
def test_the_paper_marks_effects_of_the_form(tmp_path):
    log = write_log(tmp_path / "a.jsonl", rows_of("C0", [(0, 1)] * 12) + rows_of("C3", [(1, 1)] * 12))
    build_report([log], tmp_path / "out", formats=("latex",))
    (table,) = (tmp_path / "out").glob("**/effects.tex")
    text = table.read_text(encoding="utf-8")
    assert r"+1.00$^{***}$$^{\dagger}$" in text
    assert r"\caption{$^{\dagger}$ the form, not the answer" in text
