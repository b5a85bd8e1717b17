"""The four commands as a user calls them."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

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
        "--mapping", "schemas/field_mapping_classes.yaml", "--instructions", "p7",
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


@pytest.mark.slow
def test_the_samples_can_be_copied_to_a_new_folder(tmp_path, evals, capsys):
    assert run("verify-all", tmp_path / "new", "--copy-samples", "--fail-under", "0.9") == 0
    assert "over 16 evals" in capsys.readouterr().out
    _refused(evals, capsys, "verify-all", evals, "--copy-samples")


@pytest.mark.slow
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
    assert "different rules: both extractions were scored again" in capsys.readouterr().err


@pytest.mark.parametrize("gate", ["nan", "90", "-0.1", "inf", "1.01"])
@pytest.mark.parametrize("command", ["verify", "verify-all"])
def test_gates_that_are_none(evals, capsys, command, gate):
    folder = evals / "heron-cottage"
    what = (folder / "ground_truth.csv", folder / "extracted.json") if command == "verify" else (evals,)
    message = _refused(evals, capsys, command, *what, "--fail-under", gate)
    assert "between 0 and 1" in message


def test_a_truth_that_says_nothing_is_refused(evals, capsys):
    folder = evals / "heron-cottage"
    for empty in (b"field,value\n", b"field,value\nCity,\n", b",Run Title,Only excluded,\n,City,,\n"):
        (folder / "ground_truth.csv").write_bytes(empty)
        message = _refused(evals, capsys, "verify", folder / "ground_truth.csv", folder / "extracted.json")
        assert "no value that is compared" in message or "no label" in message
        _refused(evals, capsys, "verify-all", evals)


@pytest.mark.slow
def test_places_that_cannot_be_written(evals, capsys, tmp_path, monkeypatch):
    folder = evals / "heron-cottage"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    (evals / "a file").write_text("in the way")
    assert "a file" in _refused(evals, capsys, "verify", *files, "--out", evals / "a file")
    assert "a file" in _refused(evals, capsys, "verify", *files, "--out", evals / "a file" / "deeper")
    _refused(evals, capsys, "verify", *files, "--junit", evals / "a file" / "x.xml")
    _refused(evals, capsys, "verify", *files, "--sarif", evals / "nowhere" / "x.sarif")

    def refuse(kind):
        def write(*_, **__):
            raise OSError(kind, os.strerror(kind))

        return write

    for kind in (errno.ENOSPC, errno.EACCES, errno.EROFS):
        for step in ("pathlib.Path.write_bytes", "pcsuite._util.changes.sync_folder"):
            with monkeypatch.context() as patch:
                patch.setattr(step, refuse(kind))
                out = evals / "new" / "folder"
                message = _refused(evals, capsys, "verify", *files, "--out", out)
                assert os.strerror(kind) in message
                assert not (evals / "new").exists()
                _refused(evals, capsys, "verify-all", evals)
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.mkdir", refuse(errno.EACCES))
        _refused(evals, capsys, "verify", *files)


def test_a_mapping_path_with_a_hole(evals, capsys, tmp_path):
    mapping = tmp_path / "m.yaml"
    mapping.write_text(
        "tolerances: {default: {}}\nfields: [{label: City, path: project..city, type: text}]\n"
    )
    folder = evals / "heron-cottage"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    assert "'project..city' is no path" in _refused(evals, capsys, "verify", *files, "--mapping", mapping)


def test_all_evals_are_saved_or_none(evals, capsys):
    run("verify-all", evals)
    (evals / "salt-terrace").rename(
        evals / "zebra-terrace"
    )  # the last to be saved, with another eval's iterations
    message = _refused(evals, capsys, "verify-all", evals)
    assert "holds iterations of eval 'salt-terrace', not 'zebra-terrace'" in message
    assert {
        len(list((folder / "results").glob("iteration-*"))) for folder in evals.iterdir() if folder.is_dir()
    } == {1}


KILLED = """
import sys
sys.path.insert(0, sys.argv[3])
from support.failing_steps import kill_at
from pcsuite.cli import main
kill_at(int(sys.argv[2]))
main(["verify-all", sys.argv[1]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_in_the_middle(evals, capsys):
    saved, outcomes = 1, []
    run("verify-all", evals)
    # Three evals: seven things are prepared and synced; call 49 writes the journal's last line, seven renames follow.
    for step in (8, 49, 50, 54, 58):
        words = [sys.executable, "-c", KILLED, str(evals), str(step), str(Path(__file__).parents[1])]
        assert subprocess.run(words, check=False, capture_output=True).returncode == -9, step
        for name in IDS:
            for folder in (evals / name / "results").glob("iteration-*[0-9]"):
                assert json.loads((folder / "eval-results.json").read_text())["eval_id"] == name
        run("verify-history", evals / IDS[0])  # any command that looks finishes what was begun
        numbers = {len(list((evals / name / "results").glob("iteration-*"))) for name in IDS}
        assert len(numbers) == 1, f"step {step}: all of them or none"
        outcomes.append(numbers.pop() - saved)
        saved += outcomes[-1]
        assert not list(evals.rglob("*.partial"))
        assert not list(evals.rglob(".*.changes"))
    assert outcomes == [0, 0, 1, 1, 1]
    assert run("verify-all", evals) == 0
    for name in IDS:
        aggregate = json.loads((evals / name / "results" / "aggregate.json").read_text())
        assert [entry["iteration"] for entry in aggregate["iterations"]] == list(range(1, saved + 2))


def test_folders_that_are_no_evals_are_named(evals, capsys, monkeypatch):
    (evals / "notes").mkdir()
    (evals / "locked").mkdir()
    true = Path.iterdir

    def iterdir(path):
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return true(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert run("verify-all", evals, "--no-save") == 0
    err = capsys.readouterr().err
    assert "notes: no ground_truth.csv, passed over" in err
    assert "locked: cannot be read, passed over" in err


def test_notes_on_truth_and_extraction_are_printed(evals, capsys):
    folder = evals / "two-gables"
    truth = (folder / "ground_truth.csv").read_text()
    (folder / "ground_truth.csv").write_text(truth + "\n,Colour,red,\n")
    (folder / "extracted.json").write_text('{"project": {"city": "A", "city": "B"}}')
    run("verify-all", evals, "--no-save")
    err = capsys.readouterr().err
    assert "label 'Colour' is not in the mapping" in err
    assert "gives 'city' more than once" in err
    run("verify", folder / "ground_truth.csv", folder / "extracted.json", "--no-save")
    assert "gives 'city' more than once" in capsys.readouterr().err


def test_the_ceiling_is_said(tmp_path, capsys):
    truth, record = tmp_path / "ground_truth.csv", tmp_path / "extracted.json"
    truth.write_text(",City,X,\n,Bedrooms,3,\n,Stories,1,\n,Colour,red,\n")
    record.write_text('{"project": {"city": "X", "bedrooms": 3, "stories": 1, "colour": "red"}}')
    assert run("verify", truth, record, "--no-save", "--fail-under", "1") == 0
    out = capsys.readouterr().out
    assert (
        "a perfect record under this schema scores 0.857: 1 of 4 values of the truth are outside the mapping"
        in out
    )
    assert "not judged: 1 values" in out


def test_standard_input(evals, capsys, monkeypatch):
    folder = evals / "heron-cottage"
    truth, record = folder / "ground_truth.csv", folder / "extracted_perfect.json"

    def piped(data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    piped(record.read_bytes())
    assert run("verify", truth, "-", "--fail-under", "1") == 0
    assert (folder / "results" / "iteration-001" / "extracted.json").read_bytes() == record.read_bytes()
    piped(truth.read_bytes())
    assert run("verify", "-", record, "--no-save", "--fail-under", "1") == 0
    piped(b"{")
    assert "standard input" in _refused(evals, capsys, "verify", truth, "-")
    piped(truth.read_bytes())
    assert "--out or --no-save" in _refused(evals, capsys, "verify", "-", record)
    assert "both" in _refused(evals, capsys, "verify", "-", "-")


def test_files_for_ci(evals, capsys, tmp_path):
    junit, sarif = tmp_path / "v.xml", tmp_path / "v.sarif"
    assert run("verify-all", evals, "--no-save", "--fail-under", "1", "--junit", junit, "--sarif", sarif) == 1
    root = ElementTree.parse(junit).getroot()
    assert [suite.get("name") for suite in root] == [*IDS, "gates"]
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    assert len(results) == 36  # twelve errors in each of the three
    folder = evals / "heron-cottage"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    assert run("verify", *files, "--no-save", "--sarif", sarif) == 0
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 12


def test_versions_of_mapping_and_instructions_are_in_every_result(evals, capsys, tmp_path):
    prompt = tmp_path / "prompt-7.txt"
    prompt.write_text("Read it all.")
    run("verify-all", evals, "--instructions", prompt, "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["mapping_version"] == "2.0"
    assert document["instructions_version"].startswith("prompt-7.txt@")
    for name in IDS:
        saved = json.loads((evals / name / "results" / "iteration-001" / "eval-results.json").read_text())
        entry = json.loads((evals / name / "results" / "aggregate.json").read_text())["iterations"][0]
        for one in (saved, entry):
            assert one["mapping_version"] == "2.0"
            assert one["instructions_version"] == document["instructions_version"]
    message = _refused(evals, capsys, "verify-all", evals, "--instructions", tmp_path / "prompt-8.txt")
    assert "prompt-8.txt" in message


@pytest.mark.slow
def test_a_difference_is_refused_where_nothing_can_be_scored_again(evals, capsys):
    folder = evals / "salt-terrace"
    files = (folder / "ground_truth.csv", folder / "extracted.json")
    run("verify", *files)
    run("verify", *files, "--mapping", "field_mapping_classes.yaml")
    one, two = folder / "results" / "iteration-001", folder / "results" / "iteration-002"
    assert run("verify-diff", one, two) == 0
    assert "fixed: 0" in capsys.readouterr().out
    assert run("verify-diff", one, one, "--mapping", "field_mapping_classes.yaml") == 0
    (one / "extracted.json").unlink()
    assert "not there to score again" in _refused(evals, capsys, "verify-diff", one, two)
    (folder / "ground_truth.csv").unlink()
    assert "ground_truth.csv is not there" in _refused(evals, capsys, "verify-diff", one, two)
    results = json.loads((two / "eval-results.json").read_text())
    (two / "eval-results.json").write_text(json.dumps(results | {"rules_hash": "x"}))
    (one / "eval-results.json").write_text(json.dumps(results | {"rules_hash": "y"}))
    assert "none of them known" in _refused(evals, capsys, "verify-diff", one, two)


def test_a_difference_between_evals_is_refused(evals, capsys):
    run("verify-all", evals)
    one, two = (evals / name / "results" / "iteration-001" for name in IDS[:2])
    assert "different evals" in _refused(evals, capsys, "verify-diff", one, two)


def test_a_page_says_what_was_fixed_and_broken(evals, capsys):
    folder = evals / "heron-cottage"
    for name in ("extracted.json", "extracted_poor.json"):
        run("verify", folder / "ground_truth.csv", folder / name)
    page = (folder / "results" / "iteration-002" / "eval-report.html").read_text(encoding="utf-8")
    assert "Since the last iteration" in page
    assert "new error" in page
