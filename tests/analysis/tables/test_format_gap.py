"""Strict and lenient scores by condition, and the gap between them."""

import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.analysis.tables.format_gap import format_gap
from pcsuite.analysis.tables.summary import summary_by_condition
from pcsuite.reporting.build import build_report
from support.synthetic_log import make_row, write_log


def tables_of(tmp_path, rows):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        gaps = {record["condition"]: record for record in format_gap(scores).records()}
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


@pytest.mark.slow
def test_the_page_shows_both_scores_and_the_gap(tmp_path):
    log = write_log(tmp_path / "a.jsonl", rows_of("C0", [(0, 1)] * 4) + rows_of("C3", [(1, 1)] * 4))
    build_report([log], tmp_path / "out")
    (page,) = (tmp_path / "out" / "reports").glob("*/index.html")
    text = page.read_text(encoding="utf-8")
    assert "Wrong, or wrongly formatted" in text
    assert "lenient score" in text
    (table,) = (tmp_path / "out" / "tables").glob("*/format_gap.csv")
    assert "lenient_difference" in table.read_text(encoding="utf-8")
