from __future__ import annotations

import io
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite


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
    assert "test     .cache/datasets/notes_test.jsonl (6 items)" in out
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
