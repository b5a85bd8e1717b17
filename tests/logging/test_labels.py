"""Gold labels beside a run: kept on the disk, read back, and wrong tables named by line."""

import csv
import io

import pytest

from pcsuite.errors import DataError, LogError
from pcsuite.logging.labels import (
    CANNOT_TELL,
    JudgeSample,
    Labels,
    LabelUnit,
    gold_verdict,
    read_sample,
    read_sheet,
    sheet_csv,
    unit_id,
    write_sample,
)
from pcsuite.logging.segments import Beside

UNITS = [
    LabelUnit("u1", "advice", "q1", "Open it.", run_ids=["r1"]),
    LabelUnit("u2", "pairs", "q1", "Mine.", "Control's.", "control", ["r2"]),
]


@pytest.fixture
def sample():
    return JudgeSample(
        "seed",
        "now",
        {"advice": ["q1"], "pairs": ["q1"]},
        {},
        {"advice": "pass_fail", "pairs": "pairwise"},
        {},
        UNITS,
    )


def test_a_sample_comes_back_as_it_was_written(tmp_path, sample):
    log = tmp_path / "t.jsonl"
    assert read_sample(log) is None
    write_sample(log, sample)
    assert read_sample(log) == sample
    Beside.JUDGE_SAMPLE.of(log).write_text("{")
    with pytest.raises(LogError, match="judge_sample.json: not a sample"):
        read_sample(log)


def test_the_newest_label_counts_and_an_empty_one_takes_it_away(tmp_path):
    labels = Labels(tmp_path / "t.jsonl")
    assert labels.read() == {}
    labels.add(UNITS[0], "pass_fail", "pass", "clear")
    labels.add(UNITS[0], "pass_fail", "fail")
    assert labels.read()["u1"].label == "fail"
    with labels.path.open("a") as stream:
        stream.write("no JSON\n")
    labels.add(UNITS[0], "pass_fail", "")
    assert labels.read() == {}


def test_words_that_are_no_labels_are_refused(tmp_path):
    labels = Labels(tmp_path / "t.jsonl")
    with pytest.raises(DataError, match="no label of the scale one_to_five"):
        labels.add(UNITS[0], "one_to_five", "6")
    with pytest.raises(DataError, match="at most 4000"):
        labels.add(UNITS[0], "pass_fail", "pass", "x" * 4001)
    with pytest.raises(LogError, match="cannot be written"):
        Labels(tmp_path / "nowhere" / "t.jsonl").add(UNITS[0], "pass_fail", "pass")


def test_a_pair_is_turned_back_by_the_order_shown():
    assert UNITS[1].shown == ("Control's.", "Mine.")
    assert gold_verdict(UNITS[1], "first") == "control"
    assert gold_verdict(UNITS[1], "second") == "answer"
    assert gold_verdict(UNITS[1], "tie") == "tie"
    assert gold_verdict(UNITS[0], "pass") == "pass"
    assert gold_verdict(UNITS[0], CANNOT_TELL) is None


def test_units_are_named_by_their_texts():
    assert unit_id("t", "i", "a") == unit_id("t", "i", "a", "")
    assert (
        len(
            {
                unit_id("t", "i", "a"),
                unit_id("t", "i", "b"),
                unit_id("t", "i", "a", "b"),
                unit_id("t", "ia", ""),
            }
        )
        == 4
    )


def test_the_sheet_is_blind_and_disarmed(sample):
    text = sheet_csv(sample, {("advice", "q1"): "=cmd()"}, {})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["label_id"] for row in rows] == ["u1", "u2"]
    assert rows[0]["input"] == "'=cmd()"
    assert (rows[1]["answer"], rows[1]["other_answer"]) == ("Control's.", "Mine.")
    assert rows[1]["allowed"] == "first | second | tie | cannot tell"
    assert "r1" not in text


def sheet(tmp_path, text):
    path = tmp_path / "gold.csv"
    path.write_text(text)
    return path


def test_labels_of_a_sheet(tmp_path, sample):
    path = sheet(tmp_path, "label_id,label\nu1, PASS \nu2,\n")
    assert read_sheet(path, sample) == {"u1": "pass"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line"),
        ("id,label\nu1,pass\n", "no column 'label_id'"),
        ("label_id,lable\nu1,pass\n", "no column 'label'.*did you mean 'lable'"),
        ("label_id,label\nu1,pass\nu9,pass\n", "line 3: 'u9' was not drawn"),
        ("label_id,label\nu1,good\n", "line 2: 'good' is no label here.*pass, fail"),
        ("label_id,label\nu1,pass\nu1,fail\n", "line 3: two labels for 'u1'"),
        ("label_id,label\nu1,\n", "no line has a label"),
        ("label_id,label\nu2,answer\n", "line 2: 'answer' is no label"),
    ],
)
def test_wrong_sheets_are_one_clear_line(tmp_path, sample, text, words):
    with pytest.raises(DataError, match=words) as caught:
        read_sheet(sheet(tmp_path, text), sample)
    assert "gold.csv" in str(caught.value)


def test_a_sheet_that_is_not_there(tmp_path, sample):
    with pytest.raises(DataError, match="not a readable CSV"):
        read_sheet(tmp_path / "none.csv", sample)


def test_a_sheet_that_a_spreadsheet_saved_with_semicolons(tmp_path, sample):
    path = tmp_path / "gold.csv"
    path.write_bytes(b"\xef\xbb\xbflabel_id;input;label\r\nu1;a, b;pass\r\nu2;c;\r\n")
    assert read_sheet(path, sample) == {"u1": "pass"}
