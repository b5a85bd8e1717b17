"""From logs of other tools to paired tests and a report, by the command line alone."""

import csv
import json

import pytest

from pcsuite.cli import main
from support.import_logs import FIXTURES

pytest.importorskip("duckdb")


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def run(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


def test_two_inspect_runs_compare_by_name(outputs, capsys):
    run("import", "--from", "inspect", FIXTURES / "inspect_c0.eval", "--name", "a", "--scorer", "includes")
    shown = capsys.readouterr().out
    assert "24 samples of 12 items: 24 new, 0 changed, 0 already there" in shown
    assert "as inspect_ai reports" in shown
    run("import", "--from", "inspect", FIXTURES / "inspect_c1.eval", "--name", "v1.2", "--metric", "includes")
    capsys.readouterr()
    run("compare", "a", "v1.2", "--format", "json")
    found = json.loads(capsys.readouterr().out)
    assert found["renamed"] == {"condition": ["C0", "C1"]}
    score = next(cell for cell in found["cells"] if cell["metric"] == "score")
    means = [reported(FIXTURES / f"inspect_{name}.eval") for name in ("c0", "c1")]
    assert (score["n_items"], score["first"], score["second"]) == (12, *means)
    assert score["delta"] == pytest.approx(means[1] - means[0])
    assert 0 < score["p_value"] <= score["p_bh"] <= 1


def reported(path):
    from pcsuite.importers.inspect_ai_log import InspectLog

    log = InspectLog(path)
    log.close()
    return log.header.reported["includes"]


def test_two_lm_eval_runs_compare(outputs, capsys):
    for folder in ("bare", "told"):
        run(
            "import", "--from", "lm-eval", FIXTURES / "lm_eval" / folder, "--name", folder, "--metric",
            "exact_match,last-number",
        )  # fmt: skip
    capsys.readouterr()
    run("compare", "bare", "told", "--format", "json")
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["metric"] for cell in cells] == ["score"]  # a samples file has no tokens and no ends
    assert (cells[0]["first"], cells[0]["second"]) == (2 / 12, 3 / 12)


def test_report_on_an_imported_run(outputs, capsys):
    logs = [FIXTURES / name for name in ("inspect_c0.eval", "inspect_c1.eval", "odd.eval")]
    run("import", "--from", "inspect", *logs, "--name", "study", "--metric", "includes", "--metric", "grade")
    run("report", "study", "--no-plots", "--format", "md")
    text = (outputs / "reports" / "report.md").read_text()
    assert "Imported from inspect\\_ai 0.3.285" in text
    assert "as in the imported log" in text
    assert "2 calls failed" in text
    assert "not scored by grade: grader" in text
    with (outputs / "tables" / "effects.csv").open() as stream:
        effects = [row for row in csv.DictReader(stream) if row["metric"] == "score"]
    assert [(row["task"], row["condition"], row["baseline"]) for row in effects] == [("sums", "C1", "C0")]
    with (outputs / "tables" / "summary_by_condition.csv").open() as stream:
        rows = {(row["task"], row["condition"]): row for row in csv.DictReader(stream)}
    assert float(rows["odd", "imported"]["score"]) == pytest.approx(2.5 / 6, abs=1e-9)
    assert rows["sums", "C0"]["provider"] == "imported:inspect"


def test_mistakes_are_one_line(outputs, capsys):
    log = str(FIXTURES / "odd.eval")
    assert main(["import", "--from", "inspect", log, "--name", "a"]) == 2
    assert capsys.readouterr().err.startswith("pcsuite: odd.eval has several scores: 'grade'")
    assert main(["import", "--from", "inspect", log, "--name", "../a"]) == 2
    assert "a run's name is no path" in capsys.readouterr().err
    both = ["--condition", "x", "--condition-from", "eval.task"]
    assert main(["import", "--from", "inspect", log, "--name", "a", *both]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_stopped_evaluation_says_what_is_missing(outputs, capsys):
    run("import", "--from", "inspect", FIXTURES / "inspect_stopped.eval", "--name", "a", "--metric", "match")
    shown = capsys.readouterr().out
    assert "3 of 24 samples are not in the log" in shown
    assert "note: the evaluation did not end well (status 'started')" in shown
    assert "reports no mean to check it against" in shown
