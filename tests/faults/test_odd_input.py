"""Read-only and full disks, odd names, carriage returns: one line each, and nothing split."""

import csv
import io
import json
import shutil
import sqlite3

import pytest

from pcsuite.analysis.table import Column, Table, TableSpec
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit
from pcsuite.logging.log import RunLog, RunPaths
from pcsuite.runners.run_suite import run_suite
from support.profiles import SIMULATED, write_profile
from support.rows import make_row


def one_line_of(capsys):
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1, shown
    assert "Traceback" not in shown
    return shown


@pytest.fixture
def profile(tmp_path):
    return write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0", "C3"), regimes=("D0",), items=3)


def test_run_where_nothing_can_be_written(profile, tmp_path, capsys):
    (tmp_path / "outputs").write_text("a file where a folder should be")
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.BAD_INPUT
    assert "cannot be opened for writing" in one_line_of(capsys)


@pytest.mark.slow
@pytest.mark.parametrize("taken", ["tables", "reports", "plots"])
def test_report_where_nothing_can_be_written(profile, tmp_path, capsys, taken):
    pytest.importorskip("duckdb")
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    shutil.rmtree(tmp_path / "outputs" / taken, ignore_errors=True)
    (tmp_path / "outputs" / taken).write_text("a file where a folder should be")
    capsys.readouterr()
    assert main(["report", "--config", str(profile)]) == Exit.BAD_INPUT
    one_line_of(capsys)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rescore", "verifier-pass"])
def test_other_commands_on_a_log_that_cannot_be_written(profile, tmp_path, capsys, monkeypatch, command):
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    capsys.readouterr()
    import os

    real = os.open

    def read_only(path, flags, *more, **options):
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path).endswith(".jsonl"):
            raise OSError(30, "Read-only file system", str(path))
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", read_only)
    assert main([command, "--config", str(profile)]) == Exit.BAD_INPUT
    assert "Read-only file system" in one_line_of(capsys)


def test_a_database_that_is_full_is_no_fault_of_ours(profile, capsys, monkeypatch):
    def full(*arguments, **options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("pcsuite.api.runs.run_suite", full)
    assert main(["run", "--config", str(profile)]) == Exit.BAD_INPUT
    assert "disk is full" in one_line_of(capsys)


@pytest.mark.parametrize(
    "name", ["x" * 300, "a\nb", "a\n", "../up", "a/b", "a~0001", "", ".hidden", "a b", "nul\0", "ü"]
)
def test_names_that_no_file_can_have(profile, tmp_path, capsys, name):
    before = sorted(tmp_path.rglob("*"))
    assert main(["run", "--config", str(profile), "--set", f"run.name={json.dumps(name)}"]) == Exit.BAD_INPUT
    one_line_of(capsys)
    assert (
        main(
            ["import", "--from", "inspect", "none.eval", "--name", name or "-", "--output-dir", str(tmp_path)]
        )
        == Exit.BAD_INPUT
    )
    one_line_of(capsys)
    assert sorted(tmp_path.rglob("*")) == before


ODD = ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b", "=1+1", "a\u2028b", "\ud800", "\x85", "plain", "'", ""]


def test_a_carriage_return_splits_no_row(tmp_path):
    spec = TableSpec("t", "t", "item", (Column("item", "x"), Column("n", "y")))
    table = Table.of(spec, [{"item": text, "n": 1.5} for text in ODD])
    content = table.write_csv(tmp_path / "t.csv").read_bytes().decode()
    rows = list(csv.reader(io.StringIO(content, newline="")))
    assert len(rows) == len(ODD) + 1
    assert all(len(row) == 2 for row in rows)
    assert rows[1][0] == "a\rb"
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT count(*) FROM read_csv('{tmp_path / 't.csv'}', header=true)"
        ).fetchall()
    assert found == [(len(ODD),)]


@pytest.mark.slow
def test_a_carriage_return_in_an_item_id_splits_no_row_of_the_report(tmp_path):
    pytest.importorskip("duckdb")
    from pcsuite.analysis.load.runs import RunTables

    paths = RunPaths.of(tmp_path, "r")
    with RunLog(paths) as log:
        for text in ODD:
            if text != "\ud800":
                log.append(make_row(item=text, text=text))
    with RunTables([paths.log], tmp_path / "tables") as tables:
        content = tables.write_csv().read_bytes().decode()
    rows = list(csv.reader(io.StringIO(content, newline="")))
    assert len(rows) == len(ODD)
    assert len({len(row) for row in rows}) == 1


def test_an_item_with_odd_characters_runs(tmp_path):
    folder = tmp_path / "cache" / "datasets"
    folder.mkdir(parents=True)
    lines = [{"item_id": text, "input_text": f"x{text}", "truth": {"label": "World"}} for text in ODD if text]
    (folder / "agnews_test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    profile = write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0",), regimes=("D0",), items=50)
    suite = load_suite(profile)
    dataset = suite.tasks["agnews_json"].dataset
    (folder / "agnews_test.jsonl").rename(folder / f"{dataset}_{suite.tasks['agnews_json'].split}.jsonl")
    summary = run_suite(suite, quiet=True)
    assert (summary.tally.done, summary.tally.failed) == (len(lines), 0)
