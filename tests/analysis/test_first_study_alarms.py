"""What the first study told as findings is warned of: each alarm on rows like its own, and on its own scores.

The rows (`docs/studies/2026-11-small-models/second_look/rows.jsonl.gz`) are answers of a small model to the study's
conditions on the bundled sample items; the item scores are those that the study published.
"""

import csv
import gzip
import io
import re
from pathlib import Path

import pytest

from pcsuite.analysis.analyse import analyse_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.reporting.build import build_report
from support.synthetic_log import make_row, write_log

STUDY = Path(__file__).resolve().parents[2] / "docs" / "studies" / "2026-11-small-models"
LADDER = ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "EXEMPLARS")
BUNDLES = {
    "C0": (),
    "C1": LADDER[:2],
    "C2": LADDER[:4],
    "C3": LADDER[:5],
    "C4": LADDER[:6],
    "C5": LADDER,
    "C5-CHECKS": (*LADDER[:5], "EXEMPLARS"),
    "S2": ("ROLE", "GOAL", "SHAM_RULES"),
    "S4": (*LADDER[:5], "SHAM_CHECKS"),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows_log(tmp_path_factory):
    """The stored answers as a run."""
    folder = tmp_path_factory.mktemp("rows")
    for ending in ("jsonl", "manifest.json"):
        packed = STUDY / "second_look" / f"rows.{ending}.gz"
        (folder / f"rows.{ending}").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "rows.jsonl"


@pytest.fixture(scope="module")
def study_log(tmp_path_factory):
    """Rows with the study's own scores, item by item, of the conditions that its findings were about."""
    told = {
        ("trec", "qwen2.5-coder-1.5b"),
        ("agnews_json", "qwen2.5-coder-1.5b"),
        ("csqa_json", "qwen2.5-coder-0.5b"),
    }
    packed = (STUDY / "tables" / "item_scores.csv.gz").read_bytes()
    rows = [
        make_row(
            provider="hf",
            task=row["task"],
            model=row["model"],
            condition=row["condition"],
            operators=BUNDLES[row["condition"]],
            item=row["item"],
            score=float(row["score"]),
            answer=row["item"] if float(row["readable"]) else None,
        )
        for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
        if row["decoding"] == "D0" and (row["task"], row["model"]) in told and row["condition"] in BUNDLES
    ]
    return write_log(tmp_path_factory.mktemp("study") / "study.jsonl", rows)


def alarms_of(log, folder):
    with RunTables([log], folder / "tables") as tables:
        found = {}
        for alarm in analyse_scores(tables).alarms:
            found.setdefault(alarm.kind, []).append(alarm.text)
    return found


def test_constant_answers_are_warned_of(rows_log, tmp_path):
    (text,) = [t for t in alarms_of(rows_log, tmp_path)["nearly constant"] if " boolq " in t]
    assert text.startswith(
        "Nearly constant: C6 on boolq × smollm2-135m: all of the answers that could be read are “yes”"
    )


def test_strict_and_lenient_reading_are_told_apart(rows_log, tmp_path):
    (text,) = alarms_of(rows_log, tmp_path)["form"]
    assert re.match(
        r"Strict and lenient reading disagree on \d+ effects?: what changed is the form of the", text
    )


def test_comparisons_of_nothing_with_nothing_are_counted_out(rows_log, study_log, tmp_path):
    (of_rows,) = alarms_of(rows_log, tmp_path / "rows")["both at the floor"]
    assert "trec × smollm2-135m" in of_rows
    # CommonsenseQA at 0.5B: C0 to C2 read strictly
    (of_study,) = alarms_of(study_log, tmp_path / "study")["both at the floor"]
    assert "csqa_json × qwen2.5-coder-0.5b" in of_study


def test_a_sham_that_scores_best_is_named(study_log, tmp_path):
    (text,) = alarms_of(study_log, tmp_path)["sham is best"]
    assert text.startswith(
        "The best condition is a sham: S4 scores 0.71 on agnews_json × qwen2.5-coder-1.5b × D0"
    )


def test_a_share_of_a_combination_is_none_of_the_checklist(study_log, tmp_path):
    texts = alarms_of(study_log, tmp_path)["interaction"]
    (text,) = [t for t in texts if "VERIFIER" in t and " trec × qwen2.5-coder-1.5b " in t]
    assert text.startswith(
        "Effects do not add up: VERIFIER changes the score by -0.41 from C5-CHECKS to C5 and -0.11 from C3 to C4 on"
    )


def test_the_first_screen_says_in_words_what_is_folded(rows_log, study_log, tmp_path):
    page = build_report([rows_log], tmp_path / "rows", plots=False).index.read_text(encoding="utf-8")
    (line,) = re.findall(r"<summary>\d+ more alarms?: ([^<]*)</summary>", page)
    assert {"the same answer whatever the item", "the form changed, not the answers"} <= set(line.split("; "))
    page = build_report([study_log], tmp_path / "study", plots=False).index.read_text(encoding="utf-8")
    first = page.partition("more alarm")[0]
    (line,) = re.findall(r"<summary>\d+ more alarms?: ([^<]*)</summary>", page)
    for words, sentence in (
        ("a sham scores best", "The best condition is a sham"),
        ("effects that do not add up", "Effects do not add up"),
        ("comparisons of nothing with nothing", "can show nothing"),
    ):
        assert words in line or sentence in first
