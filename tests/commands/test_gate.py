import json

import pytest

from pcsuite.cli import main
from support.import_logs import FIXTURES

PROMPTFOO = FIXTURES / "promptfoo"


@pytest.mark.slow
def test_a_stated_gate_is_planned(capsys):
    assert main(["gate", "plan", "--items", "40", "--repeats", "3", "--margin", "0.05"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("A gate of 40 items × 3 repeats, margin 0.05.\nIt can fail: a loss of 0.")
    assert "0 (nothing changed)" in text
    assert "To show 'no worse' with 80 % where nothing changed:" in text


@pytest.mark.slow
def test_a_gate_that_can_never_fail_says_so(capsys):
    assert main(["gate", "plan", "--items", "5", "--margin", "0.05", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    # Five sign flips have no p-value below 2/32.
    assert plan["least_loss"] is None
    assert {entry["fails"] for entry in plan["losses"]} == {0.0}
    assert plan["wanted"]["items_to_find"] > 5


@pytest.mark.slow
def test_a_gate_is_planned_from_files_of_other_tools(capsys):
    repeated = str(PROMPTFOO / "repeated_base.json")
    assert main(["gate", "plan", repeated, "--margin", "0.1", "--loss", "0.2", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["items"], again["repeats"]) == (14, 3)
    both = [str(PROMPTFOO / name) for name in ("base.json", "new.json")]
    assert main(["gate", "plan", *both, "--margin", "0.1", "--items", "200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 200


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "how many items does the gate ask?"),
        (["--items", "40", "--margin", "2"], "a share of the score between 0 and 1"),
        (["--items", "40", "--loss", "x"], "numbers are needed"),
        (["--items", "40", "--loss", "0.9"], "up to 0.8 fit"),
        (["--items", "1"], "needs at least 2"),
        (["nowhere"], "no file and no run"),
    ],
)
def test_what_is_not_clear_is_told_in_one_line(words, problem, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gate", "plan", *words]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
