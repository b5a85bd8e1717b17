"""Answers that can be read in two ways: to a person or a judge, and their labels back into the log."""

from __future__ import annotations

import csv

import msgspec
import pytest

from pcsuite.analysis.alarms import find_alarms
from pcsuite.analysis.load.item_scores import SCORE, item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import bundled_metrics
from pcsuite.analysis.tables.effects import effects
from pcsuite.analysis.tables.summary import summary_by_condition
from pcsuite.config.load import load_suite
from pcsuite.data.items import load_items
from pcsuite.errors import ConfigError
from pcsuite.logging.labels import Labels
from pcsuite.logging.log import RunLog, newest_rows
from pcsuite.logging.manifest import read_manifests
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from pcsuite.runners.settle_ambiguous import settle_ambiguous
from support.profiles import write_profile

pytestmark = pytest.mark.slow


@pytest.fixture
def unsure(tmp_path):
    """A profile of SQL questions, whose run answers two items under C3 with two queries that nothing tells apart."""
    path = write_profile(
        tmp_path,
        tasks=("spider_sql",),
        conditions=("C0", "C3"),
        regimes=("D0",),
        items=8,
        length_control="off",
    )
    suite = load_suite(path)
    log = run_suite(suite, quiet=True).paths.log
    golds = {
        item.item_id: item.truth["query"] for item in load_items("spider", "dev", tmp_path / "cache").items
    }
    rows = [row for row in newest_rows(log) if row.condition.id == "C3"][:2]
    with RunLog.of(suite.profile.run) as opened:
        for row in rows:
            text = f"```sql\n{golds[row.task.item_id]}\n```\n\n```sql\nSELECT 1 FROM sqlite_master\n```"
            generation = msgspec.structs.replace(row.generation, text=text)
            opened.append(msgspec.structs.replace(row, generation=generation))
    assert rescore(suite).labelled == 0
    return path, log, [row.run_id for row in rows]


def rows_of(log, ids):
    return [row for row in newest_rows(log) if row.run_id in ids]


def test_a_persons_labels_are_the_scores_after_rescoring_and_the_row_names_them(unsure):
    path, log, ids = unsure
    suite = load_suite(path)
    assert {row.parsed.reading for row in rows_of(log, ids)} == {"ambiguous"}
    settled = settle_ambiguous(suite)
    assert (len(settled.sample.units), settled.labelled, settled.new) == (2, 0, 0)
    with settled.table.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 2
    assert all("Truth: SELECT" in line["input"] for line in lines)
    filled = settled.table.with_name("filled.csv")
    words = dict(zip((unit.id for unit in settled.sample.units), ("pass", "fail"), strict=True))
    filled.write_text(
        "label_id,label\n" + "".join(f"{name},{word}\n" for name, word in words.items()), "utf-8"
    )
    assert settle_ambiguous(suite, labels=filled).new == 2
    assert settle_ambiguous(suite, labels=filled).new == 0  # nothing new
    outcome = rescore(suite)
    assert (outcome.changed, outcome.labelled) == (2, 2)
    by_unit = {unit.run_ids[0]: words[unit.id] for unit in settled.sample.units}
    for row in rows_of(log, ids):
        word = by_unit[row.run_id]
        assert (row.label.label, row.label.source, row.parsed.reading) == (word, "person", "read")
        assert row.metrics["task_score"] == row.metrics["lenient_score"] == float(word == "pass")
    assert rescore(suite).changed == 0
    assert settle_ambiguous(suite).sample.units == []  # settled
    # A label that is taken back leaves the answer as ambiguous as it was.
    Labels(log).add(settled.sample.units[0], "pass_fail", "")
    assert rescore(suite).changed == 1
    assert sorted(row.parsed.reading for row in rows_of(log, ids)) == ["ambiguous", "read"]


def test_a_judge_labels_what_nobody_has_and_is_named(unsure):
    path, log, ids = unsure
    suite = load_suite(path)
    first = settle_ambiguous(suite)
    Labels(log).add(first.sample.units[0], "pass_fail", "fail")
    settled = settle_ambiguous(suite, judge="sim")
    assert (settled.new, settled.unanswered, settled.labelled) == (1, 0, 2)
    sources = {label.source for label in Labels(log).read().values()}
    assert sources == {"person", "judge sim"}
    assert rescore(suite).labelled == 2
    assert {row.label.source for row in rows_of(log, ids)} == sources
    with pytest.raises(ConfigError, match="--judge: unknown model 'nobody'"):
        settle_ambiguous(suite, judge="nobody")


def test_ambiguous_answers_are_counted_by_condition_and_contrast(unsure, tmp_path):
    _, log, _ = unsure
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        levels = {
            r["condition"]: r for r in summary_by_condition(tables, scores, bundled_metrics()).records()
        }
        assert (levels["C0"]["ambiguous"], levels["C3"]["ambiguous"]) == (0, 0.25)
        table = effects(scores, bundled_metrics())
        record = next(r for r in table.records() if r["metric"] == SCORE and r["kind"] == "control")
        assert (record["ambiguous_control"], record["ambiguous_treated"]) == (0, 2)
        alarms = find_alarms(tables, scores, read_manifests([log]), table.records())
    (alarm,) = (alarm for alarm in alarms if alarm.kind == "ambiguous")
    assert alarm.text.startswith("2 of 16 answers (12%) can be read in two ways")
    assert alarm.text.endswith("(C3 25%).")
