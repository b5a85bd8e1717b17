"""The improvement loop with a user's own extractor."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import pcsuite.data
from pcsuite.cli import main
from pcsuite.errors import ConfigError
from pcsuite.verifier.improve.command import CommandExtractor

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"
TRAIN, HELD_OUT = ("fig-lane-flat", "thistle-adu"), ("pebble-house",)

EXTRACTOR = """
import json, pathlib, sys
prompt, document = map(pathlib.Path, sys.argv[1:3])
assert not (document.parent / "ground_truth.csv").exists(), "the truth lies beside the document"
name = document.read_bytes().split(b"\\n")[1].decode()
with open(sys.argv[3], "a") as calls:
    calls.write(name + "\\n")
kind = "perfect" if "Read it all." in prompt.read_text() else "poor"
print(pathlib.Path(sys.argv[4], name, f"extracted_{kind}.json").read_text())
"""


@pytest.fixture
def place(tmp_path):
    """Evals whose documents are binary files that name the sample they stand for."""
    for name in (*TRAIN, *HELD_OUT):
        folder = tmp_path / "evals" / name
        folder.mkdir(parents=True)
        shutil.copy(SAMPLES / name / "ground_truth.csv", folder)
        (folder / "document.pdf").write_bytes(b"%PDF-1.4 \xff\xfe\n" + name.encode() + b"\n\x00\x01")
    kinds = ["omission", "wrong_value", "hallucination", "format_error"]
    rules = [
        {"id": "USELESS", "error_types": kinds, "text": "Be nice."},
        {"id": "HELPS", "error_types": kinds, "text": "Read it all."},
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"version": "1.0", "rules": rules}))
    (tmp_path / "extract.py").write_text(EXTRACTOR)
    return tmp_path


def improve(place, *more, command=None):
    command = (
        command
        or f"{sys.executable} {place / 'extract.py'} {{prompt}} {{document}} {place / 'calls'} {SAMPLES}"
    )
    return main(
        ["improve", str(place / "evals"), "--extractor", command, "--rules", str(place / "rules.yaml"),
         "--held-out", ",".join(HELD_OUT), "--iterations", "3", *more]
    )  # fmt: skip


@pytest.mark.slow
def test_a_command_extracts_and_the_guards_hold(place, capsys):
    assert improve(place) == 0
    steps = json.loads((place / "evals" / "improve" / "state.json").read_text())["steps"]
    assert [step["decision"] for step in steps] == ["baseline", "rolled back", "kept"]
    assert steps[-1]["train_f1"] == steps[-1]["held_out_f1"] == 1.0
    assert len((place / "calls").read_text().splitlines()) == 9  # three evals under three prompts
    summary = json.loads((place / "evals" / "improve" / "summary.json").read_text())
    assert summary["model"] is None
    assert "extract.py" in summary["extractor"]
    assert "Read it all." in (place / "evals" / "improve" / "best_prompt.txt").read_text()
    assert improve(place) == 0  # nothing is asked twice
    assert len((place / "calls").read_text().splitlines()) == 9


def test_a_command_that_fails_stops_in_one_line_and_goes_on_later(place, capsys):
    failing = f"{sys.executable} -c \"import sys; sys.exit('no licence')\" {{prompt}} {{document}}"
    assert improve(place, command=failing) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "exit status 1: no licence" in captured.err
    assert not list((place / "evals" / "improve").glob("extractions/*/*"))


@pytest.mark.slow
def test_another_command_does_not_go_on_with_the_loop(place, capsys):
    improve(place)
    assert improve(place, command=f"{sys.executable} other.py {{prompt}} {{document}}") == 2
    assert "another configuration" in capsys.readouterr().err


def test_too_slow_a_command(place, capsys):
    slow = f'{sys.executable} -c "import time; time.sleep(60)" {{prompt}} {{document}}'
    assert improve(place, "--extractor-timeout", "0.2", command=slow) == 2
    assert "more than 0.2 seconds" in capsys.readouterr().err


def test_one_document_an_eval(place, capsys):
    (place / "evals" / TRAIN[0] / "document.txt").write_text("also here")
    assert improve(place) == 2
    assert "document.pdf, document.txt" in capsys.readouterr().err


def test_a_model_cannot_draft_where_there_is_none(place, capsys):
    assert improve(place, "--method", "model") == 2
    assert "--extractor has none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "timeout", "words"),
    [
        ("cat {document}", 1, "{prompt} does not occur"),
        ("cat {prompt}", 1, "{document} does not occur"),
        ("cat 'x {prompt} {document}", 1, "quotation"),
        ("no-such-program {prompt} {document}", 1, "no program"),
        ("cat {prompt} {document}", 0, "more than 0"),
    ],
)
def test_commands_that_cannot_be_run(command, timeout, words):
    with pytest.raises(ConfigError, match=words):
        CommandExtractor(command, timeout).check()
