"""The golden run's comparison: what counts as equal, and how a difference is told."""

import json

import golden
import pytest


@pytest.fixture
def folders(tmp_path):
    """Two golden folders that hold nothing yet."""
    pair = tmp_path / "old", tmp_path / "new"
    for folder in pair:
        (folder / "runs").mkdir(parents=True)
    return pair


def write(folders, name, old, new):
    for folder, text in zip(folders, (old, new), strict=True):
        (folder / name).write_text(text)


def row(**changes):
    values = {
        "run_id": "a",
        "kind": "main",
        "timestamp_utc": "2026-01-01",
        "checksum": "1",
        "metrics": {"task_score": 0.5},
    }
    return json.dumps(values | changes) + "\n"


def test_rows_that_differ_in_time_and_version_alone_are_equal(folders, capsys):
    write(
        folders,
        "runs/t.jsonl",
        row(pcsuite_version="0.1.0"),
        row(timestamp_utc="2027-07-07", checksum="2", cluster=None),
    )
    assert golden.diff(*folders) == 0
    words = capsys.readouterr().out
    assert "1 rows equal" in words
    assert "fields and columns only in new:\n    runs/*.jsonl: cluster (1)" in words


def test_a_score_that_moved_and_a_row_that_is_gone_are_told(folders, capsys):
    before = row() + row(run_id="b") + row(run_id="c")
    after = row() + row(run_id="b", metrics={"task_score": 0.75})
    write(folders, "runs/t.jsonl", before, after)
    assert golden.diff(*folders) == 1
    words = capsys.readouterr().out
    assert "runs/t.jsonl: 1 equal, 1 different, 1 only in old, 0 only in new" in words
    assert "row b: metrics.task_score: 0.5 → 0.75" in words


def test_the_newest_row_of_a_run_id_counts(folders):
    write(folders, "runs/t.jsonl", row(metrics={"task_score": 0}) + row(), row())
    assert golden.diff(*folders) == 0


def test_cells_are_compared_to_the_ninth_digit_and_columns_of_one_side_listed(folders, capsys):
    write(
        folders,
        "effects.csv",
        "task,delta\na,0.1\nb,0.2\n",
        "task,delta,low\na,0.1000000000001,0\nb,0.2001,0\n",
    )
    assert golden.diff(*folders) == 1
    words = capsys.readouterr().out
    assert "effects.csv: 3 equal, 1 different, 0 only in old, 0 only in new" in words
    assert "delta: '0.2' → '0.2001' in ['b', '0.2']" in words
    assert "effects.csv: low (1)" in words


def test_a_row_that_is_put_in_does_not_make_those_after_it_differ(folders, capsys):
    write(folders, "effects.csv", "task,delta\na,1\nc,3\n", "task,delta\na,1\nb,2\nc,3\n")
    assert golden.diff(*folders) == 1
    assert "effects.csv: 4 equal, 0 different, 0 only in old, 1 only in new" in capsys.readouterr().out


def test_texts_are_compared_with_durations_and_folders_masked(folders, capsys):
    old = f"8 rows in 4.3 s\nlog: {folders[0]}/t.jsonl\nbetter\n"
    new = f"8 rows in 12 s\nlog: {folders[1]}/t.jsonl\nworse\n"
    write(folders, "said.txt", old, new)
    assert golden.diff(*folders) == 1
    assert (
        "said.txt: 2 equal, 1 different, 0 only in old, 0 only in new\n    - better\n    + worse"
        in capsys.readouterr().out
    )


def test_a_page_that_one_side_does_not_write_is_told(folders, capsys):
    (folders[0] / "index.html").write_text("<p>")
    assert golden.diff(*folders) == 1
    assert "index.html: only in old" in capsys.readouterr().out


def test_every_step_has_a_name_of_its_own_and_known_words():
    steps = list(golden.steps())
    names = [name for name, _ in steps if name != "prepare"]
    assert len(names) == len(set(names)) > 50
    assert {words[-1] for name, words in steps if name == "prepare"} == set(golden.PREPARE)
    assert dict(steps)["gate_worse"][-2:] == ["--golden", "0"]
