"""HELM's figures on the page: labelled as external, beside ours, and never able to break the report."""

import csv

import pytest

from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.summary import SUMMARY
from pcsuite.integrations.helm.evidence import beside_ours, external_evidence, read_helm_evidence
from pcsuite.reporting.build import build_report
from support.helm_folder import SCENARIO, write_run, write_tables
from support.synthetic_log import make_row, write_log


def write_rows(folder):
    rows = [
        make_row(
            item=f"i{k}", task="truthfulqa_mc", model="tiny", condition=condition, score=float(k < right)
        )
        for condition, right in (("C0", 2), ("C4", 6))
        for k in range(8)
    ]
    return write_log(folder / "runs" / "a.jsonl", rows)


def import_into(folder):
    output = folder / "helm"
    write_run(output, {f"id{k}": [float(k < 1)] for k in range(4)})
    (output / "runs" / "s" / "gsm:model=pcsuite_tiny").mkdir()
    write_tables(output, folder / "tables", {"pcsuite/tiny": "tiny"})


@pytest.mark.slow
def test_helm_stands_beside_the_run_and_outside_its_tables(tmp_path):
    log = write_rows(tmp_path)
    plain = build_report([log], tmp_path, plots=False)
    before = {path.name: path.read_bytes() for path in plain.tables if path.suffix == ".csv"}
    assert 'id="helm"' not in plain.index.read_text()
    logged = log.read_bytes()
    import_into(tmp_path)
    files = build_report([log], tmp_path, plots=False, formats=("html", "md"))
    page = files.index.read_text()
    assert '<section id="helm">' in page
    assert "External evidence: HELM" in page
    assert "0.25 [0.01, 0.75]" in page  # 1 of 4, by Blaker: 0.0127 to 0.7514
    assert "no results: it was interrupted or failed" in page
    assert "Without results: 1 of HELM&#39;s 2 runs" in page
    assert {path.name: path.read_bytes() for path in files.tables if path.name in before} == before
    assert log.read_bytes() == logged
    beside = (tmp_path / "tables" / "helm_beside_ours.csv").read_text().splitlines()
    assert len(beside) == 3
    first = next(csv.DictReader(beside))
    low, high = 0.0463892639, 0.6414487911  # 2 of 8, by Blaker
    assert (first["task"], first["model"], first["condition"]) == ("truthfulqa_mc", "tiny", "C0")
    assert [float(first[name]) for name in ("score", "score_low", "score_high")] == pytest.approx(
        [0.25, low, high]
    )
    assert (first["helm_scenario"], first["helm_metric"], first["helm_value"]) == (
        SCENARIO,
        "exact_match",
        "0.25",
    )
    assert "External evidence: HELM" in files.reports[1].read_text()


@pytest.mark.slow
def test_a_damaged_import_leaves_the_report_whole(tmp_path):
    log = write_rows(tmp_path)
    import_into(tmp_path)
    (tmp_path / "tables" / "helm_metrics.csv").write_bytes(b"\xff\x00 not a table")
    page = build_report([log], tmp_path, plots=False).index.read_text()
    assert "helm_metrics.csv cannot be read" in page
    assert "HELM has no finished run." in page
    assert '<section id="levels">' in page


@pytest.mark.slow
def test_an_import_beside_the_log_is_found_from_another_folder(tmp_path):
    log = write_rows(tmp_path)
    import_into(tmp_path)
    files = build_report([log], tmp_path / "paper", plots=False)
    assert '<section id="helm">' in files.index.read_text()
    assert (tmp_path / "paper" / "tables" / "helm_beside_ours.csv").is_file()


def test_figures_stand_beside_cells_of_the_same_model_and_benchmark(tmp_path):
    output, tables = tmp_path / "helm", tmp_path / "tables"
    write_run(output, {"a": [1.0], "b": [0.0], "c": [0.0], "d": [0.0]})
    write_run(output, {"a": [1.0]}, scenario="gsm", metric="final_number_exact_match", model="simple/model1")
    write_tables(output, tables, {"pcsuite/tiny": "tiny"})
    own = {"task": "truthfulqa_mc", "decoding": "d0", "score_low": 0.1, "score_high": 0.6, "n_items": 8}
    summary = Table.of(
        SUMMARY,
        [
            own | {"model": "tiny", "condition": "C0", "score": 0.25, "perturbation": "none"},
            own | {"model": "tiny", "condition": "C4", "score": 0.5, "perturbation": "none"},
            own | {"model": "tiny", "condition": "C4", "score": 0.0, "perturbation": "reorder"},
            own | {"model": "other", "condition": "C0", "score": 0.75, "perturbation": "none"},
        ],
    )
    evidence = read_helm_evidence([tmp_path / "elsewhere", tables])
    rows = list(beside_ours(evidence, summary).records())
    assert [(row["task"], row["condition"], row["score"], row["helm_value"]) for row in rows] == [
        ("gsm8k", None, None, 1),
        ("truthfulqa_mc", "C0", 0.25, 0.25),
        ("truthfulqa_mc", "C4", 0.5, 0.25),
    ]
    assert rows[1]["helm_instances"] == 4


def test_a_damaged_table_is_a_line_and_no_error(tmp_path):
    assert read_helm_evidence([tmp_path]) is None
    assert external_evidence([tmp_path], None) is None
    write_run(tmp_path / "helm", {"a": [1.0]})
    write_tables(tmp_path / "helm", tmp_path, {"pcsuite/tiny": "tiny"})
    with (tmp_path / "helm_metrics.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["suite", "scenario"], ["s", "x"]])
    evidence = read_helm_evidence([tmp_path])
    assert len(evidence.runs) == 1
    assert evidence.metrics == []
    assert evidence.problems == [
        "helm_metrics.csv cannot be read (no column 'model'): import HELM's results again."
    ]
