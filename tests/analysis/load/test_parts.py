"""The log as Parquet parts: rotated logs, running runs, the same digits every time."""

import duckdb
import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.parts import LogParts
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import found_metrics
from pcsuite.errors import LogError
from pcsuite.logging.row import encode_row
from pcsuite.logging.segments import closed_path, compress_segment
from support.synthetic_log import Design, design_rows, make_row, write_log


def close(log, number, *, compress=True):
    """Rotate a log by hand."""
    log.rename(closed_path(log, number))
    if compress:
        compress_segment(closed_path(log, number))


def ids(tables):
    return [run_id for (run_id,) in tables.query("SELECT run_id FROM runs")]


@pytest.mark.slow
def test_a_rotated_log_is_one_log(tmp_path):
    rows = list(design_rows(Design(items=6)))
    log, plain = tmp_path / "a.jsonl", write_log(tmp_path / "plain.jsonl", rows)
    write_log(log, rows[:20])
    close(log, 1)
    write_log(log, rows[20:30])
    close(log, 2, compress=False)
    write_log(log, rows[30:])
    with RunTables([log], tmp_path / "t1") as rotated, RunTables([plain], tmp_path / "t2") as whole:
        assert ids(rotated) == [row.run_id for row in rows]
        assert rotated.loaded.converted_bytes == plain.stat().st_size
        assert rotated.query("SELECT * FROM runs") == whole.query("SELECT * FROM runs")
        assert rotated.write_csv().read_bytes() == whole.write_csv().read_bytes()


@pytest.mark.slow
def test_rotation_between_reports_converts_nothing_twice(tmp_path):
    rows = list(design_rows(Design(items=6)))
    log = write_log(tmp_path / "a.jsonl", rows[:20])
    first = log.stat().st_size
    with RunTables([log], tmp_path / "t"):
        pass
    write_log(log, rows[20:25])
    close(log, 1)
    write_log(log, rows[25:])
    with RunTables([log], tmp_path / "t") as tables:
        assert ids(tables) == [row.run_id for row in rows]
        assert tables.loaded.rows == len(rows)
        assert tables.loaded.superseded == 0
        raw = sum(len(encode_row(row)) for row in rows)
        assert tables.loaded.converted_bytes == raw - first
    close(log, 2)
    with RunTables([log], tmp_path / "t") as tables:
        assert (tables.loaded.converted_bytes, len(ids(tables))) == (0, len(rows))


@pytest.mark.slow
def test_a_replaced_closed_file_is_noticed(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a"), make_row(item="b")])
    close(log, 1)
    with RunTables([log], tmp_path / "t") as tables:
        assert len(ids(tables)) == 2
    closed_path(log, 1).with_suffix(".jsonl.gz").unlink()
    write_log(log, [make_row(item="a"), make_row(item="c"), make_row(item="d")])
    close(log, 1)
    with RunTables([log], tmp_path / "t") as tables:
        assert tables.query("SELECT item_id FROM runs ORDER BY ALL") == [("a",), ("c",), ("d",)]


@pytest.mark.slow
def test_lines_are_numbered_over_files(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a"), make_row(item="b")])
    close(log, 1)
    log.write_bytes(b"\n" + b"damaged\n" + encode_row(make_row(item="c")) + b'{"run_id": "torn')
    with RunTables([log], tmp_path / "t") as tables:
        assert tables.loaded.malformed == {"a.jsonl": [4]}
        assert tables.loaded.malformed_count == 1
        assert tables.loaded.torn == ["a.jsonl"]
        assert tables.loaded.rows == 3
    with log.open("ab") as stream:
        stream.write(b'"}\n' + encode_row(make_row(item="d")))
    with RunTables([log], tmp_path / "t") as tables:
        assert tables.loaded.malformed == {"a.jsonl": [4, 6]}
        assert tables.loaded.rows == 4


def test_what_a_run_writes_meanwhile_waits_for_the_next_report(tmp_path, monkeypatch):
    rows = [make_row(item=f"i{k}") for k in range(6)]
    log = write_log(tmp_path / "a.jsonl", rows[:3])
    parts = LogParts(log, tmp_path / "parts")
    plain = parts._write_part

    def while_the_run_goes_on(*arguments):
        if log.stat().st_size == sum(len(encode_row(row)) for row in rows[:3]):
            with log.open("ab") as stream:
                stream.write(encode_row(rows[3]) + encode_row(rows[4])[:100])
        return plain(*arguments)

    monkeypatch.setattr(parts, "_write_part", while_the_run_goes_on)
    state = parts.update(duckdb.connect())
    assert (state.rows, state.malformed_count) == (3, 0)
    with log.open("ab") as stream:
        stream.write(encode_row(rows[4])[100:] + encode_row(rows[5]))
    state = parts.update(duckdb.connect())
    assert (state.rows, state.malformed_count) == (6, 0)


@pytest.mark.slow
def test_a_single_part_is_the_table_and_a_changed_table_is_made_anew(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [make_row(item="a"), make_row(item="b")])
    target = tmp_path / "t" / "runs.parquet"
    with RunTables([log], tmp_path / "t"):
        pass
    assert target.stat().st_nlink == 2
    with target.open("r+b") as stream:
        stream.write(b"spoilt")
    with RunTables([log], tmp_path / "t") as tables:
        assert len(ids(tables)) == 2


@pytest.mark.slow
def test_a_metric_that_only_one_row_has_gets_its_column(tmp_path):
    """The columns are guessed from a sample of lines; a guess that misses must not lose the metric."""
    rows = [make_row(item=f"i{k:05d}", text="x" * 4000) for k in range(2000)]
    rows[1013] = make_row(
        item="i01013", text="x" * 4000, metrics={"task_score": 1.0, "rare": 7, "word": "nan"}
    )
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "t") as tables:
        assert tables.metrics["rare"] == "number"
        assert tables.metrics["word"] == "text"
        assert tables.query(
            "SELECT item_id, metric_rare, metric_word FROM runs WHERE metric_rare IS NOT NULL"
        ) == [("i01013", 7.0, "nan")]


@pytest.mark.parametrize(
    ("metrics", "kinds"),
    [
        ('{"a": 1, "b": true, "c": null}', {"a": "number", "b": "number", "c": "number"}),
        ('{"a":"x"}', {"a": "text"}),
        ('{"a" : [1], "b" : {"c": 2}}', {"a": "text", "b": "text"}),
        ("{}", {}),
    ],
)
def test_kinds_of_metrics(metrics, kinds):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows AS SELECT ?::JSON AS metrics", [metrics])
    assert found_metrics(connection, "rows") == kinds


@pytest.mark.slow
def test_sums_do_not_depend_on_threads(tmp_path, monkeypatch):
    """Thirds do not add up to the same digits in every order."""
    rows = [
        make_row(item=f"i{item}", seed=seed, decoding="D1", score=((item * 7 + seed * 3) % 11) / 11)
        for seed in range(12)
        for item in range(400)
    ]
    log = write_log(tmp_path / "a.jsonl", rows)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        with RunTables([log], tmp_path / f"t{cores}") as tables:
            [cell] = item_scores(tables).cells.values()
            found.append(cell.values["score"].tolist())
    assert found[0] == found[1]
    by_item = {}
    for row in rows:
        by_item[row.task.item_id] = by_item.get(row.task.item_id, 0.0) + row.metrics["task_score"]
    assert sorted(found[0]) == sorted(total / 12 for total in by_item.values())


def test_the_beginning_alone_ends_with_a_whole_row(tmp_path):
    log = write_log(tmp_path / "run.jsonl", [make_row(item=f"item-{number}") for number in range(10)])
    size = log.stat().st_size
    with RunTables([log], tmp_path / "tables", beginning=size // 2 + 5) as tables:
        assert tables.query("SELECT item_id FROM runs") == [(f"item-{number}",) for number in range(5)]
        assert tables.loaded.share == 0.5
        assert tables.loaded.torn == []
    with RunTables([log], tmp_path / "tables") as tables:
        assert (tables.loaded.rows, tables.loaded.share) == (10, 1.0)


def test_no_log_at_all(tmp_path):
    with pytest.raises(LogError, match="no such log"):
        LogParts(tmp_path / "a.jsonl", tmp_path / "p").update(duckdb.connect())
