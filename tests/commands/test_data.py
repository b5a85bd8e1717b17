"""From logs of other tools to paired tests and a report, by the command line alone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.logging.log import newest_rows
from support.import_logs import FIXTURES


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    folder = tmp_path / "originals" / "svamp"
    folder.mkdir(parents=True)
    problem = {"ID": "chal-1", "Body": "Two nuts.", "Question": "How many?", "Answer": 2.0}
    (folder / "SVAMP.json").write_text(json.dumps([problem]), encoding="utf-8")
    return folder.parent


def test_a_short_source_fails_with_its_name(originals, tmp_path, capsys):
    cache = tmp_path / "c"
    status = main(["export-datasets", "--from", str(originals), "--only", "svamp", "--cache-dir", str(cache)])
    captured = capsys.readouterr()
    assert status == 2
    assert "svamp: FAILED" in captured.out
    assert "pcsuite: svamp: svamp/SVAMP.json: expected 1000 records, found 1" in captured.err


def test_allowed_partial_export_prints_files_and_notes(originals, tmp_path, capsys):
    cache = tmp_path / "c"
    arguments = ["export-datasets", "--from", str(originals), "--cache-dir", str(cache), "--allow-partial"]
    assert main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["svamp_test.jsonl", "1", "records"]
    assert "svamp: partial: svamp/SVAMP.json: expected 1000 records, found 1" in out
    assert out[-1] == f"1 files in {cache / 'datasets'}"
    assert (cache / "datasets" / "svamp_test.jsonl").is_file()


def test_unknown_dataset(originals, tmp_path, capsys):
    arguments = ["export-datasets", "--from", str(originals), "--only", "swamp", "--cache-dir", str(tmp_path)]
    assert main(arguments) == 2
    assert "unknown dataset 'swamp' (did you mean 'svamp'?)" in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["export-datasets", "--help"])
    assert "examples:" in capsys.readouterr().out


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"note {n},{'yes' if n % 2 else 'no'}\n" for n in range(12))
    Path("notes.csv").write_text("text,urgent\n" + rows, encoding="utf-8")
    return Path("notes.csv")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_flags_write_a_task_and_say_how_to_run_it(table, capsys):
    arguments = ["--kind", "classification", "--input", "text", "--answer", "urgent", "--labels", "yes,no"]
    assert main(["init-task", "notes", "--data", str(table), *arguments]) == 0
    out = capsys.readouterr().out
    assert "test     .cache/datasets/notes_test.jsonl (8 items)" in out
    assert out.endswith("next: pcsuite run --config notes_profile.yaml\n")
    suite = load_suite("notes_profile.yaml")
    assert suite.tasks["notes"].evaluator_options == {"labels": ["yes", "no"]}


def test_questions_are_asked_until_the_answer_fits(table, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal("classification\ntxt\ntext\nurgent\n\n"))
    assert main(["init-task", "notes", "--data", str(table)]) == 0
    assert "no 'txt': did you mean 'text'?" in capsys.readouterr().out
    assert load_suite("notes_profile.yaml").tasks["notes"].evaluator == "classification"


def test_without_a_terminal_the_missing_flag_is_named(table, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["init-task", "notes", "--data", str(table), "--kind", "number"]) == 2
    assert "column of the input is not given (--input, one of: text, urgent)" in capsys.readouterr().err


pytest.importorskip("duckdb")


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def run(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert "it names files" in capsys.readouterr().err
    both = ["--condition", "x", "--condition-from", "eval.task"]
    assert main(["import", "--from", "inspect", log, "--name", "a", *both]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main(["import", "--from", "inspect", log, "--name", "a", "--model-option", "famly=x"]) == 2
    assert "did you mean 'family'?" in capsys.readouterr().err


def test_what_the_report_is_told_of_an_imported_model(outputs):
    about = ["--model-option", "family=llama", "--model-option", "size=7"]
    run(
        "import",
        "--from",
        "inspect",
        FIXTURES / "inspect_c0.eval",
        "--name",
        "a",
        "--metric",
        "match",
        *about,
    )
    model = newest_rows(outputs / "runs" / "a.jsonl")[0].model
    assert (model.family, model.size) == ("llama", "7")


def test_a_stopped_evaluation_says_what_is_missing(outputs, capsys):
    run("import", "--from", "inspect", FIXTURES / "inspect_stopped.eval", "--name", "a", "--metric", "match")
    shown = capsys.readouterr().out
    assert "3 of 24 samples are not in the log" in shown
    assert "note: the evaluation did not end well (status 'started')" in shown
    assert "reports no mean to check it against" in shown


@pytest.mark.slow
def test_a_fresh_task_of_short_inputs_raises_no_alarm_about_lengths(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"Ticket {n} about {'ab'[n % 2]},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "tickets.csv").write_text("\n".join(["text,queue", *rows]) + "\n")
    given = ["--kind", "classification", "--input", "text", "--answer", "queue", "--model", "simulated"]
    assert main(["init-task", "tickets", "--data", "tickets.csv", *given]) == 0
    assert main(["run", "--config", "tickets_profile.yaml", "-q"]) == 0
    out = capsys.readouterr().out
    assert "range of tokens" not in out
    assert "! Simulated" in out  # alarms that hold are shown
