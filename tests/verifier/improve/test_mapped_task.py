"""What an extraction prompt says where only a mapping is known."""

from pathlib import Path

import jsonschema
import pytest

import pcsuite.data
from pcsuite.cli import main
from pcsuite.verifier.improve.mapped_task import instruction_of, schema_of
from pcsuite.verifier.mapping import load_mapping

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "domains"


def test_the_instruction_names_every_field_with_its_type():
    text = instruction_of(load_mapping(SAMPLES / "invoices" / "mapping.yaml"))
    assert "- issued: a date as YYYY-MM-DD ('Issued' in the document, or the like)" in text
    assert "- status: one of paid, open, overdue" in text
    assert "- total: an amount in EUR, as a number" in text
    assert "lines, a list, each item with:\n- item: text" in text
    assert "discounts, a list inside each item of lines, each item with:\n- reason: text" in text
    assert "building" not in text.casefold()


def test_the_schema_takes_a_record_of_the_domain():
    schema = schema_of(load_mapping(SAMPLES / "cvs" / "mapping.yaml"))
    record = {
        "name": "Ilse", "skills": ["Welding"],
        "jobs": [{"employer": "Marlow", "projects": [{"project": "Cold store", "year": 2018}]}],
        "education": [{"degree": "Master", "year": 2009}],
    }  # fmt: skip
    jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"education": [{"degree": "Diploma"}]}, schema)


@pytest.fixture
def evals(tmp_path):
    for number in (1, 2, 3):
        folder = tmp_path / "evals" / f"a{number}"
        folder.mkdir(parents=True)
        (folder / "ground_truth.json").write_text(f'{{"number": "N-{number}", "total": {number}.5}}')
        (folder / "document.txt").write_text(f"Invoice N-{number}, total {number}.50")
    (tmp_path / "evals" / "mapping.yaml").write_text(
        "tolerances: {default: {}}\nfields:\n  - {path: number, type: identifier}\n  - {path: total, type: money}\n"
    )
    return tmp_path / "evals"


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--model", "simulated"], ["--extractor", "cat {document} {prompt}"]])
def test_improve_begins_from_the_mapping_and_says_so(evals, capsys, more):
    assert main(["improve", str(evals), "--iterations", "1", *more]) == 0
    assert f"started from: a prompt made of the mapping {evals / 'mapping.yaml'}" in capsys.readouterr().out
    first = (evals / "improve" / "prompts" / "v000.txt").read_text()
    assert first.startswith("Extract the record that the document describes as one JSON object.")
    assert "- number: as printed" in first


@pytest.mark.slow
def test_improve_refuses_many_records_in_one_eval(tmp_path, capsys):
    main(["verify-all", str(tmp_path / "cvs"), "--copy-samples", "--samples", "cvs", "--no-save"])
    (tmp_path / "cvs" / "batch" / "document.txt").write_text("x")
    (tmp_path / "cvs" / "other").mkdir()
    for name in ("ground_truth.jsonl", "document.txt"):
        (tmp_path / "cvs" / "other" / name).write_bytes((tmp_path / "cvs" / "batch" / name).read_bytes())
    assert main(["improve", str(tmp_path / "cvs"), "--extractor", "cat {prompt} {document}"]) == 2
    assert "holds 20 records" in capsys.readouterr().err
