"""The four commands as a user calls them."""

import json
import shutil
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.cli import main

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"
IDS = ("heron-cottage", "salt-terrace", "two-gables")


@pytest.fixture
def evals(tmp_path):
    root = tmp_path / "evals"
    for name in IDS:
        shutil.copytree(SAMPLES / name, root / name)
    return root


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_verify_saves_beside_the_truth(evals, capsys):
    folder = evals / "heron-cottage"
    assert run("verify", folder / "ground_truth.csv", folder / "extracted.json") == 0
    output = capsys.readouterr().out
    assert output.startswith("heron-cottage: F1 0.968")
    assert "windows[name=W-9].area" in output
    assert (folder / "results" / "iteration-001" / "eval-report.html").exists()
    assert json.loads((folder / "results" / "aggregate.json").read_text())["eval_id"] == "heron-cottage"


def test_verify_elsewhere_under_another_mapping(evals, tmp_path):
    folder, out = evals / "heron-cottage", tmp_path / "elsewhere"
    code = run(
        "verify", folder / "ground_truth.csv", folder / "extracted_perfect.json", "--out", out, "--eval-id", "mine",
        "--mapping", "schemas/field_mapping_classes.yaml", "--instructions-version", "p7",
    )  # fmt: skip
    assert code == 0
    document = json.loads(
        (out / "results" / "iteration-001" / "eval-results.json").read_text(encoding="utf-8")
    )
    assert (document["eval_id"], document["instructions_version"], document["metrics"]["f1"]) == (
        "mine",
        "p7",
        1.0,
    )
    assert not (folder / "results").exists()


def test_gates(evals, capsys):
    folder = evals / "heron-cottage"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    before = everything(evals)
    assert run("verify", *files, "--no-save", "--fail-under", "0.96") == 0
    assert run("verify", *files, "--no-save", "--fail-under", "0.97") == 1
    assert "below 0.97" in capsys.readouterr().err
    assert everything(evals) == before


def test_verify_as_json(evals, capsys):
    folder = evals / "two-gables"
    run("verify", folder / "ground_truth.csv", folder / "extracted.json", "--json", "--no-save")
    document = json.loads(capsys.readouterr().out)
    quality = json.loads((folder / "quality.json").read_text())
    assert document["metrics"]["errors_by_type"] == quality["extracted.json"]


BAD_EXTRACTIONS = {
    "a list": b"[1, 2]",
    "text": b'"hello"',
    "truncated": b'{"project": {"city": "X"',
    "NaN": b'{"envelope": {"window_area": NaN}}',
    "Infinity": b'{"envelope": {"window_area": -Infinity}}',
    "out of range": b'{"envelope": {"window_area": 1e999}}',
    "latin-1": '{"project": {"city": "Vallée"}}'.encode("latin-1"),
    "empty": b"",
    "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "deep but readable": b'{"a":' * 200 + b"1" + b"}" * 200,
}


@pytest.mark.parametrize("data", BAD_EXTRACTIONS.values(), ids=BAD_EXTRACTIONS.keys())
def test_bad_extractions(evals, capsys, data):
    folder = evals / "heron-cottage"
    (folder / "extracted.json").write_bytes(data)
    message = _refused(evals, capsys, "verify", folder / "ground_truth.csv", folder / "extracted.json")
    assert "extracted.json" in message


BAD_TRUTHS = {
    "a PDF": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj",
    "UTF-16": "a,b\n".encode("utf-16"),
    "prose": b"Dear Sir or Madam,\nplease find enclosed\n\nyours\n",
    "empty": b"",
    "open quote": b',City,"X\n,Bedrooms,2\n',
    "bad number": b",City,X,\n,Bedrooms,several,\n",
}


@pytest.mark.parametrize("data", BAD_TRUTHS.values(), ids=BAD_TRUTHS.keys())
def test_bad_truths(evals, capsys, data):
    folder = evals / "heron-cottage"
    (folder / "ground_truth.csv").write_bytes(data)
    message = _refused(evals, capsys, "verify", folder / "ground_truth.csv", folder / "extracted.json")
    assert "row " in message
    _refused(evals, capsys, "verify-all", evals)


def test_missing_files_and_wrong_mappings(evals, capsys, tmp_path):
    folder = evals / "heron-cottage"
    truth, record = folder / "ground_truth.csv", folder / "extracted.json"
    _refused(evals, capsys, "verify", folder / "nothing.csv", record)
    _refused(evals, capsys, "verify", truth, folder / "nothing.json")
    _refused(evals, capsys, "verify", truth, folder)
    _refused(evals, capsys, "verify", truth, record, "--mapping", folder / "nothing.yaml")
    mapping = tmp_path / "m.yaml"
    mapping.write_text(
        "record: buildingspec\ntolerances: {default: {}}\n"
        "fields: [{label: Climate Zone, path: project.climate_zon, type: integer}]\n"
    )
    message = _refused(evals, capsys, "verify", truth, record, "--mapping", mapping)
    assert "unknown path 'project.climate_zon' (did you mean 'project.climate_zone'?)" in message
    mapping.write_text("tolerances: [")
    _refused(evals, capsys, "verify", truth, record, "--mapping", mapping)


def _refused(evals, capsys, *arguments):
    before = everything(evals)
    capsys.readouterr()
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("pcsuite: ")
    assert everything(evals) == before
    return captured.err


def test_verify_all(evals, capsys):
    assert run("verify-all", evals, "--fail-under", "0.9", "--no-regress") == 0
    output = capsys.readouterr().out
    assert "macro-F1 0.970" in output
    assert all(name in output for name in IDS)
    assert run("verify-all", evals, "--fail-under", "0.99", "--no-save") == 1
    assert [len(list((evals / name / "results").glob("iteration-*"))) for name in IDS] == [1, 1, 1]


def test_the_samples_can_be_copied_to_a_new_folder(tmp_path, evals, capsys):
    assert run("verify-all", tmp_path / "new", "--copy-samples", "--fail-under", "0.9") == 0
    assert "over 16 evals" in capsys.readouterr().out
    _refused(evals, capsys, "verify-all", evals, "--copy-samples")


def test_no_regress_compares_with_the_best_so_far(evals, capsys):
    run("verify-all", evals, "--extracted", "extracted_perfect.json")
    assert run("verify-all", evals, "--no-regress") == 1
    assert capsys.readouterr().err.count("regressed") == 3
    assert run("verify-all", evals, "--no-regress") == 1
    assert run("verify-all", evals, "--no-regress", "--extracted", "extracted_perfect.json") == 0


def test_a_record_that_cannot_be_parsed_scores_zero_and_is_not_skipped(evals, capsys):
    (evals / "two-gables" / "extracted.json").write_text("[]")
    assert run("verify-all", evals, "--json", "--extracted", "extracted.json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["evals"]["two-gables"]["f1"] == 0
    assert "root is a list" in document["evals"]["two-gables"]["parse_error"]
    others = [document["evals"][name]["f1"] for name in IDS]
    assert document["macro_f1"] == pytest.approx(sum(others) / 3)
    assert document["macro_f1_interval"][0] < document["macro_f1"] < document["macro_f1_interval"][1]


def test_choosing_evals(evals, capsys):
    run("verify-all", evals, "--only", "two-gables", "--no-save")
    assert "heron-cottage" not in capsys.readouterr().out
    run("verify-all", evals, "--exclude", "two-gables", "--no-save")
    assert "two-gables" not in capsys.readouterr().out
    assert "did you mean 'two-gables'" in _refused(evals, capsys, "verify-all", evals, "--only", "two-gable")
    _refused(evals, capsys, "verify-all", evals / "nothing")
    (evals / "two-gables" / "extracted.json").unlink()
    _refused(evals, capsys, "verify-all", evals)


def test_history_and_diff(evals, capsys):
    folder = evals / "salt-terrace"
    for name in ("extracted_poor.json", "extracted.json", "extracted_perfect.json"):
        run("verify", folder / "ground_truth.csv", folder / name)
    capsys.readouterr()
    assert run("verify-history", folder) == 0
    output = capsys.readouterr().out
    assert "best: F1 1.000 in iteration 3" in output
    assert output.count("improved") == 2
    assert "windows[].u_factor" in output
    assert run("verify-history", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["field_trends"]["windows[].u_factor"][-1] == 1.0
    results = folder / "results"
    assert run("verify-diff", results / "iteration-003", results / "iteration-002", "--fail-on-broken") == 1
    output = capsys.readouterr().out
    assert "broken: 12" in output
    assert "fixed: 0" in output
    assert (
        run(
            "verify-diff",
            results / "iteration-002" / "eval-results.json",
            results / "iteration-003",
            "--json",
        )
        == 0
    )
    assert len(json.loads(capsys.readouterr().out)["fixed"]) == 12
    _refused(evals, capsys, "verify-diff", results, results / "iteration-002")
    _refused(evals, capsys, "verify-history", evals / "two-gables")


def test_history_marks_scores_under_other_rules(evals, capsys):
    folder = evals / "salt-terrace"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    run("verify", *files)
    run("verify", *files, "--mapping", "field_mapping_classes.yaml")
    capsys.readouterr()
    run("verify-history", folder)
    output = capsys.readouterr().out
    assert "scored again" in output
    assert "no field moved" in output
    results = folder / "results"
    run("verify-diff", results / "iteration-001", results / "iteration-002")
    assert "different rules" in capsys.readouterr().err
