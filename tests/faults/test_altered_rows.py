"""Rows that a hand, a program or a disk changed: every reader leaves them out and counts them."""

import json
import re

import pytest

from pcsuite.analysis.load.parts import LogParts
from pcsuite.analysis.load.runs import RunTables
from pcsuite.cli import main
from pcsuite.errors import Exit
from pcsuite.logging.log import ResumeIndex, RunLog, RunPaths, iter_newest_rows, iter_rows, newest_rows
from pcsuite.logging.scored_rows import LoggedScores
from pcsuite.logging.segments import Rotation, closed_path, compress_segment
from pcsuite.view.data import OpenRun
from pcsuite.view.runs import list_runs, sum_log
from support.profiles import SIMULATED, write_profile
from support.rows import make_row

TEN = range(3, 23, 2)
"""Indices of the rows that are changed."""


def by_hand(line):
    """In an editor: one figure of the line."""
    return line.replace(b'"task_score":0.25', b'"task_score":1.0')


def by_program(line):
    """Read and written anew by another program, with blanks that ours does not write."""
    values = json.loads(line)
    values["metrics"]["task_score"] = 1.0
    return json.dumps(values).encode()


def alter(log, change=by_hand, indices=TEN):
    lines = log.read_bytes().split(b"\n")
    for index in indices:
        lines[index] = change(lines[index])
    log.write_bytes(b"\n".join(lines))


@pytest.fixture
def paths(tmp_path):
    paths = RunPaths.of(tmp_path, "run")
    with RunLog(paths) as log:
        for number in range(40):
            log.append(make_row(item=f"i{number:02d}", metrics={"task_score": 0.25}), f"prompt {number}")
    return paths


@pytest.mark.parametrize("change", [by_hand, by_program])
def test_no_reader_takes_altered_rows_for_true(paths, tmp_path, caplog, change):
    alter(paths.log, change)
    altered = {f"i{number:02d}" for number in TEN}
    readers = {
        "rows": [row.task.item_id for row in iter_rows(paths.log)],
        "newest": [row.task.item_id for row in newest_rows(paths.log)],
        "twice": [row.task.item_id for row in iter_newest_rows(paths.log)],
    }
    with RunTables([paths.log], tmp_path / "tables") as tables:
        readers["tables"] = [item for (item,) in tables.query("SELECT item_id FROM runs")]
        assert tables.query("SELECT DISTINCT metric_task_score FROM runs") == [(0.25,)]
        assert (tables.loaded.altered_count, tables.loaded.malformed_count) == (10, 0)
        assert tables.loaded.altered == {"run.jsonl": [index + 1 for index in TEN]}
        assert tables.loaded.lines == 40
    for reader, items in readers.items():
        assert len(items) == 30, reader
        assert not altered & set(items), reader
    assert caplog.text.count("10 rows are not as written") == len(readers)
    scores = LoggedScores()
    for index in (ResumeIndex.read(paths.log), ResumeIndex.read(paths.log, scores.take)):
        assert (index.rows, index.altered_count, index.malformed_count) == (30, 10, 0)
        assert index.altered == [number + 1 for number in TEN]
        assert make_row(item="i03").run_id not in index
        assert make_row(item="i04").run_id in index
    assert set(scores.values.values()) == {0.25}
    (entry,) = list_runs(tmp_path)
    assert (sum_log(entry).rows, sum_log(entry).score) == (30, 0.25)
    run = OpenRun(entry, tmp_path / "view")
    assert run.altered_rows == 10
    assert run.logged([make_row(item=name).run_id for name in ("i03", "i04")]).keys() == {
        make_row(item="i04").run_id
    }
    run.close()


def test_a_log_that_is_changed_after_it_was_read_is_read_again(paths, tmp_path):
    for changed, expected in (((), 40), ((5,), 39), ((5, 7), 38)):
        alter(paths.log, indices=changed[-1:])
        with RunTables([paths.log], tmp_path / "tables") as tables:
            assert tables.loaded.rows == expected
            assert tables.loaded.altered_count == len(changed)
    with RunTables([paths.log], tmp_path / "tables") as tables:
        assert tables.loaded.converted_bytes == 0  # nothing was touched since
    with RunLog(paths) as log:  # a run that goes on asks for them again
        for name in ("i05", "i07"):
            assert make_row(item=name).run_id not in log.index
            log.append(make_row(item=name, metrics={"task_score": 0.25}))
    with RunTables([paths.log], tmp_path / "tables") as tables:
        assert (tables.loaded.rows, tables.loaded.altered_count) == (40, 2)


@pytest.mark.parametrize("compress", [False, True])
def test_a_closed_part_is_verified_as_well_and_what_grows_is_not_read_anew(paths, tmp_path, compress):
    import duckdb

    def update():
        parts = LogParts(paths.log, tmp_path / "parts")
        with duckdb.connect() as connection:
            return parts.update(connection), parts.converted_bytes

    assert update()[0].rows == 40
    closed = closed_path(paths.log, 1)
    paths.log.rename(closed)
    if compress:
        compress_segment(closed)
    with RunLog(paths, rotation=Rotation(compress=compress)) as log:
        log.append(make_row(item="later"))
    state, converted = update()
    assert (state.rows, state.altered_count) == (41, 0)
    assert converted == paths.log.stat().st_size  # what was there is verified, and not converted again
    if compress:
        import gzip

        packed = closed.with_name(closed.name + ".gz")
        closed.write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    alter(closed)
    if compress:
        compress_segment(closed)
    state, _ = update()
    assert (state.rows, state.altered_count) == (31, 10)
    assert state.altered == [number + 1 for number in TEN]


def test_report_says_what_it_left_out_and_the_run_asks_again(tmp_path, capsys):
    profile = write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0", "C3"), regimes=("D0",), items=12)
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    sound = log.read_bytes()
    flipped = re.sub(rb'"task_score":0\.0', b'"task_score":1.0', sound)
    changed = sum(a != b for a, b in zip(sound.split(b"\n"), flipped.split(b"\n"), strict=True))
    assert changed >= 3
    log.write_bytes(flipped)
    capsys.readouterr()
    assert main(["report", "--no-plots", "--config", str(profile)]) == Exit.DONE
    assert f"{changed} rows are not as written (the checksum differs; line" in capsys.readouterr().err
    page = (tmp_path / "outputs" / "reports" / "t" / "index.html").read_text(encoding="utf-8")
    assert f"{changed} rows of the log left out: not as written" in page
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    assert "counted as not there" in capsys.readouterr().err
    before = {row["run_id"]: row["metrics"]["task_score"] for row in map(json.loads, sound.splitlines())}
    assert {row.run_id: row.metrics["task_score"] for row in newest_rows(log)} == before
