"""The answer of a run: its table, its sentence, as text and as JSON."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from pcsuite.analysis.alarms import Alarm
from pcsuite.analysis.analyse import analyse, analyse_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.reporting.results import Result, print_result, result_of, results_at_end
from support.synthetic_log import make_row, write_log


def written(tmp_path, levels, items=12, **more):
    """A log whose conditions are right on so many of the items each."""
    rows = [
        make_row(
            item=f"i{k:02}",
            answer=str(k),
            condition=name,
            score=float(k < right),
            prompt_tokens=tokens,
            **more,
        )
        for name, (right, tokens) in levels.items()
        for k in range(items)
    ]
    return write_log(tmp_path / "runs" / "a.jsonl", rows)


def answer(log, tmp_path):
    with RunTables([log], tmp_path / "t") as tables:
        return result_of(analyse_scores(tables), [log])


@pytest.mark.slow
def test_effects_intervals_verdicts_and_tokens(tmp_path):
    log = written(tmp_path, {"C0": (6, 100), "C1": (12, 130), "C2": (6, 150)}, items=24)
    result = answer(log, tmp_path)
    rows = {row["condition"]: row for row in result.rows}
    assert [row["verdict"] for row in result.rows] == ["control", "no reliable change", "no reliable change"]
    assert rows["C1"]["p_adjusted"] > 0.05  # six items of one sign: 2/2⁶, doubled for two comparisons
    assert rows["C1"]["effect"] == pytest.approx(0.25)
    assert rows["C1"]["effect_low"] < 0.25 < rows["C1"]["effect_high"]
    assert (rows["C0"]["effect"], rows["C0"]["baseline"]) == (None, None)
    assert rows["C2"]["effect"] == 0
    assert [rows[name]["tokens"] for name in ("C0", "C1", "C2")] == [120, 150, 170]


@pytest.mark.slow
def test_a_condition_with_fewer_items_says_so(tmp_path):
    def printed(result):
        out = io.StringIO()
        print_result(result, Console(file=out, width=120))
        return out.getvalue()

    levels = {"C0": (10, 100), "C1": (20, 100)}
    even = printed(answer(written(tmp_path / "even", levels, items=20), tmp_path / "even"))
    assert "Not every condition" not in even
    rows = [
        make_row(item=f"i{k:02}", answer=str(k), condition=name, score=float(k < right))
        for name, right, items in (("C0", 10, 20), ("C1", 20, 20), ("C2", 10, 10))
        for k in range(items)
    ]
    told = printed(answer(write_log(tmp_path / "runs" / "a.jsonl", rows), tmp_path))
    (line,) = [line.split() for line in told.splitlines() if line.startswith("C2 ")]
    assert (line[1], line[2], line[-1]) == (
        "1.00",
        "+0.00",
        "10",
    )  # both right on those ten; C0 has 0.50 of all
    assert "Not every condition has all items" in told


@pytest.mark.slow
def test_a_gain_and_a_loss_are_one_true_sentence(tmp_path):
    log = written(tmp_path, {"C0": (10, 100), "C1": (20, 100), "C2": (0, 100)}, items=20)
    assert re.fullmatch(
        r"C1 raised the score from 0\.50 to 1\.00 against C0 \(\+0\.50, 95 % \+0\.\d\d to \+0\.\d\d for all 2 contrasts at once, 20 items\);"
        r" C2 lowered the score from 0\.50 to 0\.00 against C0 \(-0\.50, 95 % -0\.\d\d to -0\.\d\d for all 2 contrasts at once, 20 items\)\.",
        answer(log, tmp_path).sentence,
    )


@pytest.mark.slow
def test_nothing_moved_says_what_cannot_be_ruled_out(tmp_path):
    log = written(tmp_path, {"C0": (10, 100), "C1": (11, 100)}, items=20)
    sentence = answer(log, tmp_path).sentence
    assert sentence.startswith(
        "No condition moved the score beyond chance: on 20 items the intervals reach 0."
    )


@pytest.mark.slow
def test_several_tasks_are_counted(tmp_path):
    rows = [
        make_row(task=task, item=f"i{k}", condition=name, score=float(name == "C1"))
        for task in ("agnews_json", "trec")
        for k in range(12)
        for name in ("C0", "C1")
    ]
    log = write_log(tmp_path / "runs" / "a.jsonl", rows)
    assert answer(log, tmp_path).sentence == (
        "C1 improved the score on 2 of 2 task–model pairs (after correction), by +1.00 in the median."
    )


@pytest.mark.slow
def test_without_a_control_nothing_is_claimed(tmp_path):
    log = written(tmp_path, {"C1": (6, 100)})
    result = answer(log, tmp_path)
    assert result.sentence == "No condition could be compared with a control."
    assert [row["verdict"] for row in result.rows] == ["not compared"]


@pytest.mark.slow
def test_the_end_of_a_run_says_what_the_report_says(tmp_path):
    log = written(tmp_path, {"C0": (3, 100), "C1": (12, 130)})
    quick = results_at_end(log, tmp_path)
    with RunTables([log], tmp_path / "t") as tables:
        assert quick == result_of(analyse(tables), [log])


def test_a_huge_log_is_left_to_the_report(tmp_path, monkeypatch):
    log = written(tmp_path, {"C0": (3, 100)})
    monkeypatch.setattr("pcsuite.reporting.results.LARGEST_LOG", 10)
    assert results_at_end(log, tmp_path) is None
    assert not (tmp_path / "tables").exists()


@pytest.mark.slow
def test_the_terminal_has_table_then_sentence(tmp_path):
    log = written(tmp_path, {"C0": (3, 100), "C1": (12, 130)})
    result = results_at_end(log, tmp_path)
    out = io.StringIO()
    print_result(result, Console(file=out, width=120))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]
    assert lines.pop(0).startswith("! Simulated: m1 is not a language model")
    assert lines[0] == "agnews_json × m1 × D0 (12 items)"
    assert lines[1] == "condition score against C0 95 % interval verdict tokens"
    assert lines[2] == "C0 0.25 control 120"
    assert lines[3].startswith("C1 1.00 +0.75 +0.")
    assert lines[3].endswith("better 150")
    assert lines[-1] == result.sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alarms", "lines"), [(6, 6), (7, 7), (25, 7)], ids=["as many as stand there", "one more", "many"]
)
def test_many_alarms_do_not_hide_the_results(tmp_path, alarms, lines):
    result = results_at_end(written(tmp_path, {"C0": (3, 100), "C1": (12, 130)}), tmp_path)
    result = replace(result, alarms=[Alarm("constant", f"alarm {n}") for n in range(alarms)])
    out = io.StringIO()
    print_result(result, Console(file=out, width=120))
    said = [line for line in out.getvalue().splitlines() if line.startswith("!")]
    assert len(said) == lines
    more = alarms - 6
    assert more <= 0 or said[-1] == f"! and {more} more alarm{'s' * (more > 1)}: the report has them all"


def test_a_result_survives_its_file(tmp_path):
    result = results_at_end(written(tmp_path, {"C0": (3, 100), "C1": (12, 130)}), tmp_path)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result.document()), encoding="utf-8")
    assert Result.read(path) == result


def test_the_sentence_names_its_regime_where_there_are_others(tmp_path):
    rows = [
        make_row(item=f"i{k}", answer=str(k), condition=name, decoding=regime, score=float(name == regime))
        for regime in ("D0", "D1")
        for name in ("C0", "C1")
        for k in range(12)
    ]
    log = write_log(tmp_path / "runs" / "a.jsonl", rows)
    assert answer(log, tmp_path).sentence.startswith("Under D0: No condition moved the score beyond chance")


@pytest.mark.slow
def test_labels_that_correct_a_judge_are_told_below_the_table(tmp_path):
    result = results_at_end(written(tmp_path, {"C0": (3, 100), "C1": (12, 130)}), tmp_path)
    assert {row["labelled_items"] for row in result.rows} == {None}
    shown = []
    for labelled in (None, 12):
        rows = [row | {"labelled_items": labelled if row["baseline"] else None} for row in result.rows]
        out = io.StringIO()
        print_result(replace(result, rows=rows), Console(file=out, width=120))
        shown.append("corrected by labels of 12 items, each by itself" in out.getvalue())
    assert shown == [False, True]
