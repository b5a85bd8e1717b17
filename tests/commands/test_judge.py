"""``pcsuite judge`` from the drawing of the sample to effects that no judge's bias moves."""

import contextlib
import csv
import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from pcsuite.analysis.judging import draw_sample, judges_of, read_gold
from pcsuite.analysis.tables.judges import judge_status
from pcsuite.cli import main
from pcsuite.logging.labels import Labels, read_sample
from pcsuite.logging.log import newest_rows
from pcsuite.logging.manifest import read_manifest
from support.judged import fill_in, is_good, write_judged_profile
from support.profiles import write_profile

BIASED = {"sensitivity": {"C0": 0.6, "default": 1.0}, "specificity": {"C1": 0.4, "default": 1.0}}
"""Harsh on C0, lenient on C1: the judge sees an effect where there is none."""


def records_of(folder, table):
    with (folder / "outputs" / "tables" / "t" / f"{table}.csv").open() as stream:
        return list(csv.DictReader(stream))


def effect_of(folder, metric="score"):
    return next(row for row in records_of(folder, "effects") if row["metric"] == metric)


class Reported(NamedTuple):
    """What a report says, kept as it was: later commands write another over it."""

    page: str
    effect: dict[str, str]
    levels: dict[str, dict[str, str]]

    @classmethod
    def of(cls, folder):
        page = (folder / "outputs" / "reports" / "t" / "index.html").read_text()
        levels = {row["condition"]: row for row in records_of(folder, "summary_by_condition")}
        return cls(page, effect_of(folder), levels)


class Judged(NamedTuple):
    """A run whose judge is biased by condition, and its report before any label."""

    folder: Path
    path: Path
    log: Path
    before: Reported


class Checked(NamedTuple):
    """The same run after 60 items were labelled and the judge was checked, and its report then."""

    folder: Path
    path: Path
    log: Path
    drawn: str
    sheet: str
    said: str
    after: Reported


def words_of(*command):
    """What a command prints; it must end well."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([str(word) for word in command]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    path = write_judged_profile(folder, items=100, judging=BIASED, effects={"ROLE": 0.0, "GOAL": 0.0})
    words_of("run", "--config", path, "--quiet")
    words_of("report", "--config", path)
    return Judged(folder, path, folder / "outputs" / "runs" / "t.jsonl", Reported.of(folder))


@pytest.fixture(scope="module")
def checked(judged):
    folder, path, log, _ = judged
    drawn = words_of("judge", "sample", "--config", path, "--items", "60")
    table = log.with_suffix(".to_label.csv")
    sheet = table.read_text()
    fill_in(table)
    said = words_of("judge", "check", "--config", path, "--labels", table, "--again", "5")
    words_of("report", "--config", path)
    return Checked(folder, path, log, drawn, sheet, said, Reported.of(folder))


@pytest.fixture(scope="module")
def other_rubric(checked):
    """The log of a run under another rubric, with the check of the first judge laid beside it."""
    tasks = checked.folder / "tasks.yaml"
    before = tasks.read_text()
    tasks.write_text(before.replace("names what to do", "says what to do"))
    try:
        words_of("run", "--config", checked.path, "--quiet", "--name", "other")
    finally:
        tasks.write_text(before)
    log = checked.log.with_name("other.jsonl")
    check = checked.log.with_suffix(".judge_check.json").read_bytes()
    log.with_suffix(".judge_check.json").write_bytes(check)
    return log


@pytest.mark.slow
def test_without_a_check_the_report_says_so_everywhere(judged):
    page, effect, _ = judged.before
    assert "Judge not validated: the scores of advice" in page
    assert (effect["judge"], effect["caution"]) == ("judge not validated", "judge not validated")
    assert float(effect["delta_low"]) > 0  # the judge's own effect, which is none
    captions = [part.split("</figcaption>")[0] for part in page.split("<figcaption")[1:]]
    assert captions
    assert all("udge not validated" in caption for caption in captions)
    assert page.count("judge not validated.") >= 7


@pytest.mark.slow
def test_a_sample_is_blind_to_the_condition(checked):
    assert "60 of 100 items drawn" in checked.drawn
    assert "sample  advice: labelled items resemble the rest: the judge passes" in checked.said
    assert "C0" not in checked.sheet
    assert "C1" not in checked.sheet


def test_the_check_finds_the_judges_errors(checked):
    assert "advice · judge · all: 120 labels" in checked.said
    assert "asked again (5)" in checked.said
    check = json.loads(checked.log.with_suffix(".judge_check.json").read_text())
    by_condition = {record["condition"]: record for record in check["records"]}
    assert by_condition["C0"]["sensitivity"] == pytest.approx(0.6, abs=0.2)
    assert by_condition["C1"]["specificity"] == pytest.approx(0.4, abs=0.2)
    assert by_condition["C0"]["bias"] < 0 < by_condition["C1"]["bias"]


def test_labels_correct_the_report(checked):
    page, effect, levels = checked.after
    assert effect["labelled_items"] == "60"
    assert "prediction-powered" in effect["interval_method"]
    assert float(effect["delta_low"]) < 0 < float(effect["delta_high"])
    assert float(effect["judge_delta_low"]) > 0
    assert "udge not validated" not in page
    assert "judge judge checked on 120 labels" in page
    assert float(levels["C0"]["judge_score"]) < float(levels["C0"]["score"])  # the judge is harsh on C0
    assert float(levels["C1"]["judge_score"]) > float(levels["C1"]["score"])
    assert "corrected by gold labels of 60 items" in page


def test_gold_scores_are_the_truth_of_the_drawn_rows(checked):
    gold = read_gold([checked.log])
    rows = {(row.condition.id, row.task.item_id): row for row in newest_rows(checked.log)}
    labelled = 0
    for key, cell in gold.cells.items():
        for item, (value, said) in cell.labelled.items():
            row = rows[key.condition, item]
            assert value == float(is_good(row.generation.text))
            assert said == row.metrics["task_score"]
            labelled += 1
    assert labelled == 120


def test_a_larger_sample_contains_the_smaller(judged):
    manifest = read_manifest(judged.log)
    small, large = (draw_sample(judged.log, manifest, items=count) for count in (10, 30))
    assert large.items["advice"][:10] == small.items["advice"]
    ids = {unit.id for unit in large.units}
    assert all(unit.id in ids for unit in small.units)
    # Equal answers under several conditions are one unit, drawn for each of their rows.
    assert sum(len(unit.run_ids) for unit in small.units) == 20
    assert len({(unit.item, unit.answer) for unit in small.units}) == len(small.units)


def test_a_further_sample_keeps_the_labels(checked):
    labels = len(Labels(checked.log).read())
    assert labels > 0
    said = words_of("judge", "sample", "--config", checked.path, "--items", "80")
    assert f"{labels} of them are labelled already" in said
    assert len(read_sample(checked.log).items["advice"]) == 80


@pytest.mark.slow
def test_a_changed_rubric_is_another_judge_that_nobody_checked(other_rubric):
    status = judge_status([other_rubric], judges_of(read_manifest(other_rubric)))
    assert status.words == {"advice": "judge not validated"}


@pytest.mark.slow
def test_runs_with_different_judges_are_not_compared(checked, other_rubric, capsys):
    main(["compare", str(checked.log), str(other_rubric)])
    said = capsys.readouterr().out
    assert "Scores of advice are a judge's: the runs have different judges." in said
    main(["compare", str(checked.log), str(checked.log), "--format", "json"])
    cells = json.loads(capsys.readouterr().out)["cells"]
    (score,) = [cell for cell in cells if cell["metric"] == "score" and cell["condition"] == "C1"]
    assert "corrected by gold labels" in score["judge"]
    assert score["delta"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["pairwise", "one_to_five"])
def test_other_scales_go_the_same_way(tmp_path, capsys, scale):
    path = write_judged_profile(
        tmp_path,
        items=60,
        judge={"scale": scale},
        judging={"first_bias": 0.3},
        effects={"ROLE": 1.0, "GOAL": 1.0},
    )
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    assert main(["judge", "sample", "--config", str(path), "--items", "40"]) == 0
    table = tmp_path / "outputs" / "runs" / "t.to_label.csv"
    fill_in(table, scale)
    assert main(["judge", "check", "--config", str(path), "--labels", str(table), "--again", "0"]) == 0
    said = capsys.readouterr().out
    assert ("flips" in said) == (scale == "pairwise")
    assert main(["report", "--config", str(path), "--no-plots"]) == 0
    effect = effect_of(tmp_path)
    assert effect["labelled_items"] == "40"
    if scale == "pairwise":
        assert float(effect["control"]) == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sample", "--items", "0"], "at least one item"),
        (["check", "--again", "-1"], "not negative"),
        (["check", "--labels", "nowhere.csv"], "nowhere.csv: not a readable CSV"),
        (["sample", "--tasks", "advise"], "no judged task 'advise'.*did you mean 'advice'"),
        (["sample", "--name", "gone"], "no run to draw from"),
        (["check", "--name", "gone"], "no run to check"),
    ],
)
def test_bad_input_is_one_clear_line(checked, capsys, words, said):
    assert main(["judge", words[0], "--config", str(checked.path), *words[1:]]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(said, error)


@pytest.mark.slow
def test_a_run_without_judged_tasks_has_nothing_to_label(tmp_path, capsys):
    path = write_profile(tmp_path, items=2, regimes=("D0",))
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    for action in ("sample", "check"):
        assert main(["judge", action, "--config", str(path)]) == 2
        assert "no judged task" in capsys.readouterr().err


@pytest.mark.slow
def test_a_check_without_labels_says_what_to_do(tmp_path, capsys):
    path = write_judged_profile(tmp_path, items=4)
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    assert main(["judge", "check", "--config", str(path)]) == 2
    assert "pcsuite judge sample" in capsys.readouterr().err
    assert main(["judge", "sample", "--config", str(path)]) == 0
    assert main(["judge", "check", "--config", str(path)]) == 2
    assert "is labelled" in capsys.readouterr().err


def test_a_run_without_ambiguous_answers_says_so(tmp_path, capsys):
    path = write_profile(tmp_path, items=2, conditions=("C0",), regimes=("D0",))
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["judge", "ambiguous", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "no answer of the run can be read in two ways\n"
    assert main(["judge", "ambiguous", "--config", str(path), "--judge", "nobody"]) == 2
    assert "--judge: unknown model 'nobody'" in capsys.readouterr().err
