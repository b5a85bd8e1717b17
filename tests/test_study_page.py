"""The study's page: it is what its tables say, and they are what the items' scores say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

pytest.importorskip("duckdb")
from pcsuite.reporting.build import build_report
from support.synthetic_log import make_row, write_log

study_page = pytest.importorskip("study_page")
TABLES = study_page.FOLDER / "tables"
LARGE = "qwen2.5-coder-1.5b"


@pytest.fixture(scope="module")
def tables():
    return study_page.Tables(TABLES)


@pytest.mark.slow
def test_the_page_is_what_the_tables_say():
    assert (study_page.FOLDER / "README.md").read_text(encoding="utf-8") == study_page.page(TABLES)


def test_verdicts_that_rest_on_two_yardsticks_are_withdrawn_with_the_reason():
    lines = (study_page.FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:3] for line in lines if " | " in line}
    assert [rows[name] for name in ("H3", "H3L", "P3")] == [["withdrawn", "–"]] * 3
    assert rows["H1V"] == ["contradicted", "+0.03 [+0.03, +0.03]"]
    assert any(line.startswith("**Withdrawn**: H3, H3L and P3.") for line in lines)


@pytest.mark.parametrize(
    ("task", "condition", "baseline"),
    [("trec", "C5", "C5-CHECKS"), ("csqa_json", "C3", "C2"), ("svamp", "C2", "S2"), ("boolq", "C6", "C4")],
)
def test_effects_are_the_mean_differences_of_the_items(tables, task, condition, baseline):
    ((difference, items),) = tables.sql(
        "select avg(a.score - b.score), count(*) from items a join items b using (task, model, decoding, item)"
        f" where task = '{task}' and model = '{LARGE}' and decoding = 'D0'"
        f" and a.condition = '{condition}' and b.condition = '{baseline}'"
    )
    row = tables.effects[task, LARGE, "D0", condition, baseline]
    assert items == int(row["n_items"]) == 200
    assert difference == pytest.approx(float(row["delta"]), abs=1e-9)
    assert float(row["delta_low"]) < difference < float(row["delta_high"])
    assert study_page.signed(difference) in (study_page.FOLDER / "README.md").read_text(encoding="utf-8") or (
        condition == "C6"
    )


def test_micro_f1_is_pooled_from_the_items_counts(tables):
    ((f1,),) = tables.sql(
        "select 2 * sum(tp) / (2 * sum(tp) + sum(fp) + sum(fn)) from items where task = 'conll03_ner_json'"
        f" and model = '{LARGE}' and decoding = 'D0' and condition = 'C3'"
    )
    assert f1 == pytest.approx(
        float(tables.summary["conll03_ner_json", LARGE, "D0", "C3"]["score"]), abs=1e-9
    )


def test_the_study_is_as_large_as_it_says_and_within_its_bounds(tables):
    counted = {row["part"]: int(row["rows"]) for row in tables.rows("rows")}
    for part, name in (("study", "items"), ("replication", "again")):
        assert tables.sql(f"select sum(replicates) from {name}") == [(counted[part],)]
    assert sum(counted.values()) == 494_432
    assert (study_page.FOLDER / "report.html").stat().st_size < 3_000_000
    assert sum(path.stat().st_size for path in TABLES.iterdir()) < 5_000_000
    assert '<section id="rows">' not in (study_page.FOLDER / "report.html").read_text(encoding="utf-8")


def test_what_was_asked_again_are_other_items_and_the_effects_are_theirs(tables):
    shared = "select count(*) from (select distinct task, item from again) semi join items using (task, item)"
    assert tables.sql(shared) == [(0,)]
    ((difference, items),) = tables.sql(
        "select avg(a.score - b.score), count(*) from again a join again b using (task, model, decoding, item)"
        f" where task = 'trec' and model = '{LARGE}' and a.condition = 'C5' and b.condition = 'C5-CHECKS'"
    )
    (row,) = (
        row
        for row in tables.rows("replication_effects")
        if (row["task"], row["model"], row["condition"]) == ("trec", LARGE, "C5")
    )
    assert items == int(row["n_items"]) == 200
    assert difference == pytest.approx(float(row["delta"]), abs=1e-9)
    assert study_page.figure(row["delta"], row["delta_low"], row["delta_high"]) in (
        study_page.FOLDER / "README.md"
    ).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_readme_says_what_the_page_says():
    root = study_page.FOLDER.parents[2]
    readme = (root / "README.md").read_text(encoding="utf-8")
    lines = " ".join(readme.split("**What we found with it**")[1].split("\n## ")[0].split())
    page = " ".join(study_page.page(TABLES).split())
    findings = lines.split(" - ")[1:]
    assert len(findings) <= 3
    levels = re.findall(r"\d\.\d\d(?:–\d\.\d\d)?", lines)
    assert len(levels) == 4
    # Each with the words it stands among on the page.
    raised, cells = re.search(r"the score rose in (\d+) of (\d+) cells", lines).groups()
    assert f"raises the score in {raised} of {cells} cells" in page
    class_score, majority = re.search(r"AG News (\S+) against (0\.\d\d)", lines).groups()
    assert f"AG News {class_score} (most frequent class {majority})" in page
    clean, attacked = re.search(r"AG News from (\S+) to (\S+) under all four", lines).groups()
    assert f"takes the score from {clean} to {attacked} in the four conditions attacked" in page
    again, held = re.search(r"of (\d+) asked again on other items (\d+) hold again", lines).groups()
    assert (
        f"Of the {again} contrasts that held and could be asked again, **{held} hold again**, {again} have"
        in page
    )


def test_the_readme_is_read_in_three_minutes_and_says_first_what_it_is():
    readme = (study_page.FOLDER.parents[2] / "README.md").read_text(encoding="utf-8")
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
    study_page.publish(page, tmp_path / "published.html")
    text = (tmp_path / "published.html").read_text(encoding="utf-8")
    assert "quoted" not in text
    data = re.search(r'id="effects-table"[^>]*><script[^>]*>(.*?)</script>', text, re.DOTALL)
    table = json.loads(data[1])
    column = [label for label, *_ in table["columns"]].index("metric")
    assert {row[column] for row in table["rows"]} == {"score"}
    assert all(len(entry[3]) == len(table["rows"]) for entry in table["filters"])
