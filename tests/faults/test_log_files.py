"""Attacks on the files of a log: another run's files, a log taken away, a lock taken away."""

import errno
import gzip
import logging

import pytest

from pcsuite.errors import LogError, RunLockedError
from pcsuite.logging.log import ResumeIndex, RunLog, RunPaths, iter_rows, read_prompts
from pcsuite.logging.segments import Rotation, closed_segments, log_segments
from support.rows import make_row

TINY = Rotation(limit_bytes=1)
"""Every row closes a file."""


def items(path):
    return [row.task.item_id for row in iter_rows(path)]


# One run deletes another's log.


@pytest.mark.parametrize(
    "name", ["sweep.2025", "sweep.0001", "sweep.0001.jsonl", "sweep.old-1", "sweep-2025"]
)
def test_a_run_leaves_the_log_of_another_alone(tmp_path, name):
    other = RunPaths.of(tmp_path, name)
    with RunLog(other) as live:
        live.append(make_row(item="theirs"), "their prompt")
        with RunLog(RunPaths.of(tmp_path, "sweep"), rotation=TINY) as log:
            assert len(log.index) == 0
            log.append(make_row(item="ours"))
        live.append(make_row(item="theirs too"))
    assert items(other.log) == ["theirs", "theirs too"]
    assert items(RunPaths.of(tmp_path, "sweep").log) == ["ours"]


def test_readers_take_no_other_runs_rows(tmp_path):
    with RunLog(RunPaths.of(tmp_path, "sweep")) as log:
        log.append(make_row(item="ours"))
    with RunLog(RunPaths.of(tmp_path, "sweep.2025"), rotation=TINY) as log:
        log.append(make_row(item="theirs"))
    gzipped = tmp_path / "runs" / "sweep.0001.jsonl.gz"  # somebody's own archive of a run of that name
    gzipped.write_bytes(gzip.compress(b"not a row\n"))
    ours = RunPaths.of(tmp_path, "sweep").log
    assert [segment.path.name for segment in log_segments(ours)] == ["sweep.jsonl"]
    assert ResumeIndex.read(ours).rows == 1
    assert items(ours) == ["ours"]
    with RunLog(RunPaths.of(tmp_path, "sweep"), overwrite=True):
        pass
    assert gzipped.exists()
    assert items(RunPaths.of(tmp_path, "sweep.2025").log) == ["theirs"]


def test_overwriting_never_takes_a_name_that_is_taken(tmp_path):
    for item in ("first", "second", "third"):
        with RunLog(RunPaths.of(tmp_path, "r"), overwrite=True, rotation=TINY) as log:
            log.append(make_row(item=item), f"prompt {item}")
        RunPaths.of(tmp_path, "r").log.with_suffix(".manifest.json").write_text(item)
    for number, item in ((1, "first"), (2, "second")):
        aside = RunPaths.of(tmp_path, f"r.old-{number}")
        assert items(aside.log) == [item]
        [row] = iter_rows(aside.log)
        assert read_prompts(aside.prompts, [row.prompt.prompt_hash])
        assert aside.log.with_suffix(".manifest.json").read_text() == item


# A log deleted or replaced while it is written.


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved", "folder deleted"])
def test_a_log_taken_away_goes_on_in_a_rescue_file(tmp_path, caplog, how):
    paths = RunPaths.of(tmp_path, "r")
    with (
        pytest.raises(LogError, match=r"all its rows are in .*r~rescue\.jsonl.*--repair"),
        RunLog(paths) as log,
    ):
        log.append(make_row(item="a"), "prompt a")
        log.sync()
        log.append(make_row(item="b"), "prompt b")
        if how == "replaced":
            paths.log.with_name("copy").write_bytes(paths.log.read_bytes()[:10])
            paths.log.with_name("copy").replace(paths.log)
        elif how == "moved":
            paths.log.rename(paths.log.with_name("moved.jsonl"))
        else:
            paths.log.unlink()
        if how == "folder deleted":
            paths.prompts.unlink()
            paths.log.parent.rmdir()
        log.append(make_row(item="c"), "prompt c")
        with caplog.at_level(logging.WARNING, "pcsuite"):
            log.sync()
        assert "goes on in" in caplog.text
        log.append(make_row(item="d"), "prompt d")
    assert items(paths.rescue.log) == ["a", "b", "c", "d"]
    if how == "folder deleted":
        hashes = {row.prompt.prompt_hash for row in iter_rows(paths.rescue.log)}
        assert set(read_prompts(paths.rescue.prompts, hashes).values()) == {
            f"prompt {name}" for name in "abcd"
        }
    with pytest.raises(LogError, match="rows of a session whose log was deleted or replaced"), RunLog(paths):
        pass


def test_a_log_taken_away_at_the_very_end_is_noticed_too(tmp_path):
    paths = RunPaths.of(tmp_path, "r")
    with pytest.raises(LogError, match="was deleted or replaced"), RunLog(paths) as log:
        log.append(make_row(item="a"))
        log.sync()
        paths.log.unlink()
    assert items(paths.rescue.log) == ["a"]


def test_a_log_taken_away_before_it_is_rotated_does_not_make_a_part_of_a_stranger(tmp_path):
    paths = RunPaths.of(tmp_path, "r")
    with (
        pytest.raises(LogError, match="was deleted or replaced"),
        RunLog(paths, rotation=Rotation(5000)) as log,
    ):
        log.append(make_row(item="a"))
        paths.log.unlink()
        paths.log.write_bytes(b"a stranger's\n")
        for name in "bcdefgh":
            log.append(make_row(item=name))
    assert closed_segments(paths.log) == []
    assert paths.log.read_bytes() == b"a stranger's\n"
    assert items(paths.rescue.log) == list("abcdefgh")


def test_a_log_cut_by_another_program_ends_the_run_and_the_rows_run_again(tmp_path):
    paths = RunPaths.of(tmp_path, "r")
    with (
        pytest.raises(LogError, match=r"another program has cut it from \d+ to 0 bytes"),
        RunLog(paths) as log,
    ):
        log.append(make_row(item="a"))
        log.sync()
        paths.log.write_bytes(b"")
        log.sync()
    with RunLog(paths) as log:
        assert make_row(item="a").run_id not in log.index


# The lock.


def test_no_file_beside_the_log_holds_its_lock(tmp_path):
    paths = RunPaths.of(tmp_path, "r")
    with RunLog(paths, rotation=TINY) as log:
        log.append(make_row(item="a"))
        for path in paths.log.parent.iterdir():
            if (
                path not in (paths.log, paths.prompts) and "~" not in path.name
            ):  # but for its own closed files
                path.unlink()
        with pytest.raises(RunLockedError, match=r"in use by process \d+"), RunLog(paths, rotation=TINY):
            pass
        log.append(make_row(item="b"))
        with pytest.raises(RunLockedError), RunLog(paths, overwrite=True):
            pass
    assert items(paths.log) == ["a", "b"]


def test_a_second_process_repairs_nothing_that_the_first_is_writing(tmp_path):
    paths = RunPaths.of(tmp_path, "r")
    with RunLog(paths) as log:
        log.append(make_row(item="a"))
        with paths.log.open("ab") as stream:
            stream.write(b'{"half of a line')
        size = paths.log.stat().st_size
        with pytest.raises(RunLockedError), RunLog(paths):
            pass
        assert paths.log.stat().st_size == size


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, caplog, number):
    fcntl = pytest.importorskip("fcntl")

    def no_locks(descriptor, operation):
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING, "pcsuite"), RunLog(RunPaths.of(tmp_path, "r")) as log:
        log.append(make_row(item="a"))
    assert "knows no locks" in caplog.text
    assert items(RunPaths.of(tmp_path, "r").log) == ["a"]
