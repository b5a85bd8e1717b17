from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcsuite.cli import main


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
