import csv
import json

import duckdb
import pytest

from pcsuite.analysis.load.parts import LogParts
from pcsuite.analysis.load.runs import RunTables
from pcsuite.errors import AnalysisError, LogError
from pcsuite.logging.row import encode_row
from support.synthetic_log import Design, design_rows, make_row, write_log


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_rows_come_out_as_they_went_in(tmp_path):
    row = make_row(item="x7", condition="C3", text='{"label": "Sports"}', answer="Sports", score=0.25, seed=3)
    log = write_log(tmp_path / "runs" / "a.jsonl", [row])
    with RunTables([log], tmp_path / "tables") as tables:
        names = (
            "run_id, item_id, condition_id, operators, text, answer, metric_task_score, seed, total_tokens"
        )
        assert tables.query(f"SELECT {names} FROM runs") == [
            (
                row.run_id,
                "x7",
                "C3",
                "ROLE+GOAL+CONSTRAINTS+ABSTAIN+SCHEMA",
                '{"label": "Sports"}',
                "Sports",
                0.25,
                3,
                120,
            )
        ]
    # All rows: a result left half read keeps the one connection of this process from the tests after it.
    stored = duckdb.execute(f"SELECT count(*) FROM '{tmp_path / 'tables' / 'runs.parquet'}'").fetchall()
    assert stored == [(1,)]


def test_the_newest_row_of_a_key_counts(tmp_path):
    rows = [make_row(item="a", score=0.0), make_row(item="b", score=0.5), make_row(item="a", score=1.0)]
    log = write_log(tmp_path / "runs" / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        found = tables.query("SELECT item_id, metric_task_score FROM runs ORDER BY item_id")
        assert found == [("a", 1.0), ("b", 0.5)]
        assert tables.loaded.superseded == 1


def test_a_new_error_row_replaces_an_answer(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(score=1.0), make_row(errors=["timeout"])])
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.query("SELECT n_errors, errors, text FROM runs") == [(1, "timeout", None)]


def test_malformed_lines_are_counted_and_named(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a")])
    with log.open("ab") as stream:
        stream.write(b'{"run_id": "torn in the mid\n')
        stream.write(encode_row(make_row(item="b")))
        stream.write(b'[1, 2]\n{"run_id": "no task"}\n\n')
        stream.write(encode_row(make_row(item="c")))
        stream.write(b'{"run_id": "unfin')
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.query("SELECT item_id FROM runs ORDER BY item_id") == [("a",), ("b",), ("c",)]
        assert tables.loaded.malformed_count == 3
        assert tables.loaded.malformed == {"a.jsonl": [2, 4, 5]}
        assert tables.loaded.torn == ["a.jsonl"]


def test_a_whole_last_line_without_newline_counts(tmp_path):
    log = tmp_path / "a.jsonl"
    log.write_bytes(encode_row(make_row(item="a")).rstrip(b"\n"))
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.loaded.rows == 1
        assert tables.loaded.torn == []


def test_metrics_differ_by_task_and_appear_late(tmp_path):
    early = [make_row(item=f"i{k}") for k in range(50)]
    late = make_row(
        task="ner", item="z", metrics={"tp": 2, "note": "nan", "flag": True, "odd name.x": 1.5, "none": None}
    )
    log = write_log(tmp_path / "a.jsonl", [*early, late])
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.metrics["tp"] == "number"
        assert tables.metrics["note"] == "text"
        row = tables.query(
            'SELECT metric_tp, metric_note, metric_flag, "metric_odd name.x", metric_none FROM runs'
            " WHERE item_id = 'z'"
        )
        assert row == [(2.0, "nan", 1.0, 1.5, None)]
        assert tables.query("SELECT count(*) FROM runs WHERE metric_tp IS NULL") == [(50,)]


@pytest.mark.slow
def test_only_new_bytes_are_converted(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a")])
    first = log.stat().st_size
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.loaded.converted_bytes == first
    write_log(log, [make_row(item="b"), make_row(item="a", score=0.0)])
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.loaded.converted_bytes == log.stat().st_size - first
        assert tables.query("SELECT item_id, metric_task_score FROM runs ORDER BY item_id") == [
            ("a", 0.0),
            ("b", 1.0),
        ]
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.loaded.converted_bytes == 0
        assert tables.query("SELECT count(*) FROM runs") == [(2,)]


@pytest.mark.slow
def test_a_replaced_log_is_converted_anew(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a"), make_row(item="b")])
    with RunTables([log], tmp_path / "tables"):
        pass
    log.unlink()
    write_log(log, [make_row(item="x"), make_row(item="y"), make_row(item="z")])
    with RunTables([log], tmp_path / "tables") as tables:
        assert tables.query("SELECT item_id FROM runs ORDER BY item_id") == [("x",), ("y",), ("z",)]


@pytest.mark.slow
def test_parts_split_at_line_ends(tmp_path):
    rows = list(design_rows(Design(items=4)))
    log = write_log(tmp_path / "a.jsonl", rows)
    parts = LogParts(log, tmp_path / "parts")
    state = parts.update(duckdb.connect(), part_bytes=5000)
    assert len(state.parts) > 3
    assert state.rows == len(rows) == state.lines
    assert state.consumed == log.stat().st_size
    listed = ", ".join(f"'{file}'" for file in parts.files)
    ids = duckdb.execute(f"SELECT run_id FROM read_parquet([{listed}])").fetchall()
    assert [run_id for (run_id,) in ids] == [row.run_id for row in rows]


def test_several_logs_are_read_together(tmp_path):
    first = write_log(tmp_path / "a.jsonl", [make_row(item="a", score=0.0)])
    second = write_log(tmp_path / "b.jsonl", [make_row(item="a", score=1.0), make_row(item="b")])
    with RunTables([first, second], tmp_path / "tables") as tables:
        assert tables.query("SELECT item_id, metric_task_score FROM runs ORDER BY item_id") == [
            ("a", 1.0),
            ("b", 1.0),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx"])
def test_csv_cells_are_no_formulas(tmp_path, text):
    log = write_log(tmp_path / "a.jsonl", [make_row(text=text, answer=text)])
    with RunTables([log], tmp_path / "tables") as tables:
        (row,) = read_csv(tables.write_csv())
    assert row["text"] == row["answer"] == "'" + text
    assert row["metric_task_score"] == "1.0"


def test_csv_keeps_negative_numbers_and_awkward_text(tmp_path):
    text = 'a "quoted", two\nlines; </textarea><script>'
    log = write_log(tmp_path / "a.jsonl", [make_row(text=text, metrics={"gain": -0.5})])
    with RunTables([log], tmp_path / "tables") as tables:
        (row,) = read_csv(tables.write_csv())
    assert row["text"] == text
    assert float(row["metric_gain"]) == -0.5


def test_missing_and_empty_logs_are_errors(tmp_path):
    with pytest.raises(LogError, match="no such log"), RunTables([tmp_path / "no.jsonl"], tmp_path / "t"):
        pass
    empty = tmp_path / "empty.jsonl"
    empty.write_text("not json\n")
    with pytest.raises(AnalysisError, match="no readable row"), RunTables([empty], tmp_path / "t"):
        pass


def test_the_manifest_of_parts_survives_as_json(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row()])
    with RunTables([log], tmp_path / "tables"):
        pass
    (manifest,) = (tmp_path / "tables" / ".parts").glob("a-*/manifest.json")
    assert json.loads(manifest.read_text())["lines"] == 1
