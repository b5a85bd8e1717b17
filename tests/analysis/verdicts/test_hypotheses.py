"""Every declared hypothesis is judged and told, also one that somebody adds."""

import csv
import runpy
from pathlib import Path

import pytest

from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.verdicts.evidence import pool_deltas
from pcsuite.analysis.verdicts.findings import Finding, Hypothesis, judge
from pcsuite.analysis.verdicts.hypotheses import CLAIMS
from pcsuite.reporting.build import build_report
from support.analysed import tables_of
from support.synthetic_log import make_row, write_log

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_table_docs.py"


def role_helps(evidence):
    pairs = evidence.operators.get("ROLE")
    if not pairs:
        return None
    effect = pool_deltas(evidence.deltas(pairs, SCORE), "ROLE", SCORE)
    return Finding(f"score: {effect.words()}.", judge(effect, 1), effect)


H5 = Hypothesis(
    "H5",
    "a role raises the score (within ±{analysis.scale_bound:g}).",
    "score with ROLE less without it",
    "no condition with ROLE beside the one without",
    role_helps,
)


def findings_of(tmp_path, rows, **options):
    return {row["id"]: row for row in tables_of(tmp_path, rows, **options)["hypotheses"]}


@pytest.mark.slow
def test_every_hypothesis_has_its_row(tmp_path):
    found = findings_of(tmp_path, [make_row(item=f"{k}") for k in range(3)])
    assert list(found) == [
        "H1", "H1V", "H1I", "H2", "H2E", "H2U", "H2R", "H3", "H3L", "H4", "H4C", "P1", "P2", "P3", "P4",
    ]  # fmt: skip
    assert {row["verdict"] for row in found.values()} == {"not tested"}
    assert all(row["evidence"] for row in found.values())


def test_an_added_hypothesis_is_in_table_page_latex_and_docs(tmp_path, monkeypatch):
    monkeypatch.setitem(CLAIMS, "H5", H5)
    bundles = {"C0": (), "R": ("ROLE",)}
    rows = [
        make_row(item=f"{k}", condition=name, operators=own, score=0.3 * len(own) + 0.01 * (k % 3))
        for k in range(12)
        for name, own in bundles.items()
    ]
    log = write_log(tmp_path / "runs" / "study.jsonl", rows)
    files = build_report([log], tmp_path, plots=False, formats=("html", "md", "latex"))
    # One task, so the sentence is about it and no other.
    told = "H5: a role raises the score (within ±0.05), on agnews_json (a general claim needs 3 tasks)."
    with (tmp_path / "tables" / "hypotheses.csv").open(encoding="utf-8", newline="") as table:
        found = {row["id"]: row for row in csv.DictReader(table)}["H5"]
    assert (found["statement"], found["verdict"], float(found["effect"])) == (told, "supported", 0.3)
    pages = {path.name: path.read_text(encoding="utf-8") for path in files.reports}
    assert told in pages["index.html"]
    assert told.removeprefix("H5: ").replace("_", "\\_") in pages["report.md"]
    assert "H5 & supported" in pages["hypotheses.tex"]
    rows_of_docs = runpy.run_path(str(SCRIPT))["hypothesis_rows"]()
    assert (
        "| H5 | a role raises the score (within ±`analysis.scale_bound`) | score with ROLE less without it |\n"
        in rows_of_docs
    )


def test_without_what_it_needs_an_added_hypothesis_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(CLAIMS, "H5", H5)
    found = findings_of(tmp_path, [make_row(item=f"{k}") for k in range(3)])["H5"]
    assert (found["verdict"], found["evidence"], found["cells"]) == (
        "not tested", "no condition with ROLE beside the one without.", 0,
    )  # fmt: skip
