"""The study's page: it is what its tables say, and they are what the items' scores say."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

pytest.importorskip("duckdb")
from pcsuite.reporting.build import build_report
from support.synthetic_log import make_row, write_log

study_page = pytest.importorskip("study_page")
recompute_study = pytest.importorskip("recompute_study")
study_tables = pytest.importorskip("study_tables")
FOLDER, ROOT = study_page.FOLDER, study_page.ROOT
TEMPLATES = (FOLDER / "page.in", FOLDER / "findings.in")


@pytest.fixture(scope="module")
def written():
    """The pages as the script writes them."""
    return study_page.pages(FOLDER)


@pytest.mark.slow
def test_the_pages_are_what_the_tables_say(written):
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.slow
def test_a_script_that_shares_nothing_with_the_package_gives_every_number():
    """It compares all that stands in the places of the templates, which are the only numbers (the test below)."""
    assert recompute_study.differences() == []
    assert recompute_study.wrong_words() == []
    source = (ROOT / "scripts" / "recompute_study.py").read_text(encoding="utf-8")
    imported = {
        line.split()[1].partition(".")[0] for line in source.splitlines() if re.match(r"(from|import) ", line)
    }
    assert imported <= set(sys.stdlib_module_names)


@pytest.mark.slow
def test_a_number_that_is_changed_on_the_page_is_found(tmp_path, monkeypatch):
    """One figure of a sentence, one cell of a table, one limit, one number without a place in the template."""
    page, mine = (FOLDER / "README.md").read_text(encoding="utf-8"), recompute_study.recomputed()
    monkeypatch.setattr(recompute_study, "recomputed", lambda: mine)
    monkeypatch.setattr(recompute_study, "FOLDER", tmp_path)
    for template in TEMPLATES:
        shutil.copyfile(template, tmp_path / template.name)

    def found(old, new):
        assert old in page
        (tmp_path / "README.md").write_text(page.replace(old, new, 1), encoding="utf-8")
        return recompute_study.differences()

    assert found("Taken out", "Taken out") == []
    assert found("; 7 hold only the", "; 8 hold only the")[0].startswith("again_fresh:")
    with pytest.raises(ValueError, match="two values"):
        found("Of the other 295, 161 hold", "Of the other 296, 161 hold")
    row = "| C2 − C1 | 5 | 11 | 20 | 44 | 80 |"
    assert found(row, row.replace("20 | 44", "21 | 43"))[0].startswith("outcomes:")
    assert found("[+0.43, +0.58]", "[+0.40, +0.58]")[0].startswith("csqa_strict:")
    with pytest.raises(ValueError, match="goes on otherwise"):
        found("both sides score below 0.02.", "both sides score below 0.03.")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_number_of_a_result_is_written_by_hand(template):
    """What is left of a template's digits are names (conditions, models, tasks), settings and addresses."""
    text = template.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|\{\w+\}", " ", text, flags=re.DOTALL)
    names = (
        r"\b[CS]\d[RL]?\b|\bD[01]\b|\bH\d\w?\b|\bP3\b|\bF1\b|\bGSM8K\b|CoNLL-2003|SmolLM2(?:-135M)?|Gemma-3-270m"
        r"|Qwen2\.5-Coder-0\.5B|\b[01]\.5B\b|November 2026|sha256|bfloat16"
    )
    settings = r"95 % limits|α = 0\.05|temperature 0\.7|below 0\.02|200 (?:test )?items|of 10 tasks|^\d\. "
    # What the old page said, in quotation marks, and what happened to it.
    quoted = r'"Lower in 0"|side of 0\.'
    left = re.findall(r"\S*\d\S*", re.sub(f"{names}|{settings}|{quoted}", " ", text, flags=re.MULTILINE))
    assert left == []


def test_the_published_scores_give_the_registered_outcomes():
    """Exact tests and Holm of the script that shares nothing with the package, against what the report said."""
    scores = recompute_study.Scores("item_scores.csv.gz")
    rows = recompute_study.rows_of("registration.csv")
    assert len(rows) == 568
    found = {}
    for row in rows:
        cell = tuple(row[name] for name in ("task", "model", "decoding", "condition"))
        found[(*cell, row["baseline"])] = recompute_study.Difference(scores, cell, row["baseline"])
    corrected = {}
    for task in recompute_study.TASKS:
        corrected |= recompute_study.holm({key: d.p for key, d in found.items() if key[0] == task})
    for row, (key, difference) in zip(rows, found.items(), strict=True):
        assert difference.value == pytest.approx(float(row["delta"]), abs=1e-9)
        said = "not shown" if row["outcome"] != "holds" else "up" if float(row["delta"]) > 0 else "down"
        assert difference.held(corrected[key]) == said
    live = [key for key, difference in found.items() if difference.live]
    assert len(live) == 295
    assert sum(found[key].held(corrected[key]) != "not shown" for key in live) == 161


def test_sign_flips_are_exact():
    assert recompute_study.sign_flip([1, 1, 1, 0]) == pytest.approx(2 / 8)
    assert recompute_study.sign_flip([1 / 3, 2 / 3]) == pytest.approx(2 / 4)
    assert recompute_study.sign_flip([1, -1 / 3]) == pytest.approx(1.0)
    assert recompute_study.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )
    assert recompute_study.t_quantile(23) == pytest.approx(2.0687, abs=1e-4)


def test_the_study_is_as_large_as_it_says_and_within_its_bounds():
    counted = {row["part"]: int(row["rows"]) for row in recompute_study.rows_of("rows.csv")}
    for part, name in (("study", "item_scores.csv.gz"), ("replication", "replication_scores.csv.gz")):
        assert recompute_study.Scores(name).rows == counted[part]
    assert sum(counted.values()) == 494_432
    assert (FOLDER / "report.html").stat().st_size < 3_000_000
    assert sum(path.stat().st_size for path in (FOLDER / "tables").iterdir()) < 5_000_000
    assert '<section id="rows">' not in (FOLDER / "report.html").read_text(encoding="utf-8")


def test_what_was_asked_again_are_other_items():
    first, again = (
        {(cell[0], item) for cell, items in recompute_study.Scores(name).cells.items() for item in items}
        for name in ("item_scores.csv.gz", "replication_scores.csv.gz")
    )
    assert len(again) == 1800
    assert not first & again


def test_the_second_look_asked_items_of_the_study_and_publishes_no_text():
    with (FOLDER / "second_look" / "item_scores.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    asked = {
        item for cell, items in recompute_study.Scores("item_scores.csv.gz").cells.items() for item in items
    }
    assert {row["item"] for row in rows} <= asked
    assert {row["answer"] for row in rows} <= {"", "ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}


def test_the_readme_has_three_findings_at_most_each_with_something_to_do():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    findings = readme.partition(study_page.MARKS[0])[2].partition(study_page.MARKS[1])[0]
    told = findings.split("\n- ")[1:]
    assert 1 <= len(told) <= 3
    assert all(finding.startswith("**") for finding in told)


def test_the_readme_is_read_in_three_minutes_and_says_first_what_it_is():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) < 700
    _, first, command, picture = readme.split("\n\n")[:4]
    assert first.startswith("Which parts of your prompt help")
    assert "pcsuite ablate my_prompt.md --data my_table.csv\n" in command
    assert picture.startswith("![")


@pytest.mark.slow
def test_what_is_published_quotes_no_item_and_has_effects_on_the_score_alone(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=name, score=float(k % 3 == 0 or name == "C3"), text=f"quoted {k}")
        for name in ("C0", "C2", "C3")
        for k in range(12)
    ]
    log = write_log(tmp_path / "runs" / "a.jsonl", rows, prompts=True)
    page = build_report([log], tmp_path, plots=False).index
    assert "quoted" in page.read_text(encoding="utf-8")
    study_tables.publish(page, tmp_path / "published.html")
    text = (tmp_path / "published.html").read_text(encoding="utf-8")
    assert "quoted" not in text
    data = re.search(r'id="effects-table"[^>]*><script[^>]*>(.*?)</script>', text, re.DOTALL)
    table = json.loads(data[1])
    column = [label for label, *_ in table["columns"]].index("metric")
    assert {row[column] for row in table["rows"]} == {"score"}
    assert all(len(entry[3]) == len(table["rows"]) for entry in table["filters"])
