"""The files of a log: closed segments, the live one, and what a kill between two steps leaves."""

import gzip
from pathlib import Path

import pytest

from pcsuite.config.profile import RunSection
from pcsuite.errors import ConfigError, LogError
from pcsuite.logging.log import ResumeIndex, RunLog, RunPaths, iter_newest_rows, iter_rows, newest_rows
from pcsuite.logging.segments import (
    Rotation,
    closed_segments,
    compress_segment,
    find_log,
    log_exists,
    log_segments,
    read_log_lines,
    run_names,
)
from support.rows import make_row

SMALL = Rotation(limit_bytes=3000)
"""Two or three rows a file."""


@pytest.fixture
def paths(tmp_path):
    return RunPaths.of(tmp_path, "r")


def write(paths, items, rotation=SMALL):
    with RunLog(paths, rotation=rotation) as log:
        for item in items:
            log.append(make_row(item=item), f"prompt {item}")


def items_of(rows):
    return [row.task.item_id for row in rows]


NAMES = [f"i{number:02d}" for number in range(12)]


def test_closed_files_and_the_live_one_are_the_log(paths):
    write(paths, NAMES)
    closed = closed_segments(paths.log)
    assert [segment.path.name for segment in closed[:2]] == ["r~0001.jsonl.gz", "r~0002.jsonl.gz"]
    assert [segment.number for segment in closed] == list(range(1, len(closed) + 1))
    assert all(segment.raw_bytes() >= 3000 for segment in closed)
    assert items_of(iter_rows(paths.log)) == NAMES
    whole = (
        b"".join(gzip.decompress(segment.path.read_bytes()) for segment in closed) + paths.log.read_bytes()
    )
    assert [line + b"\n" for line in read_log_lines(paths.log)] == whole.splitlines(keepends=True)


def test_a_rotated_run_goes_on_where_it_ended(paths):
    write(paths, NAMES[:7])
    before = len(closed_segments(paths.log))
    with RunLog(paths, rotation=SMALL) as log:
        assert all(make_row(item=item).run_id in log.index for item in NAMES[:7])
        assert make_row(item="i07").run_id not in log.index
        assert len(log.index) == 7
    write(paths, NAMES[7:])
    assert len(closed_segments(paths.log)) > before
    assert items_of(newest_rows(paths.log)) == NAMES


def test_the_newest_row_counts_over_files(paths):
    with RunLog(paths, rotation=SMALL) as log:
        log.append(make_row(item="a", errors=("500",)))
        for item in NAMES:
            log.append(make_row(item=item))
        log.append(make_row(item="a"))
    assert len(closed_segments(paths.log)) >= 2
    index = ResumeIndex.read(paths.log)
    assert index.failed == 0
    assert len(index) == len(NAMES) + 1
    assert items_of(iter_newest_rows(paths.log)) == [*NAMES, "a"]
    assert all(not row.errors for row in iter_newest_rows(paths.log))


def test_rows_appended_while_reading_are_not_seen_and_do_no_harm(paths):
    write(paths, NAMES[:6])
    seen = []
    with RunLog(paths, rotation=SMALL) as log:
        for row in iter_newest_rows(paths.log):
            seen.append(row.task.item_id)
            log.append(make_row(item=f"new-{row.task.item_id}"))
    assert seen == NAMES[:6]
    assert sorted(items_of(newest_rows(paths.log))) == sorted([*NAMES[:6], *(f"new-{n}" for n in NAMES[:6])])


def test_what_a_killed_process_left_half_done_is_finished(paths):
    write(paths, NAMES)
    first, second, *_ = closed_segments(paths.log)
    # Killed while the second file was being compressed, and after the first was but before it was removed.
    raw = gzip.decompress(second.path.read_bytes())
    second.path.with_suffix("").write_bytes(raw)
    (second.path.parent / (second.path.name + ".partial")).write_bytes(second.path.read_bytes()[:50])
    second.path.unlink()
    first.path.with_suffix("").write_bytes(gzip.decompress(first.path.read_bytes()))
    assert items_of(iter_rows(paths.log)) == NAMES
    assert [segment.compressed for segment in closed_segments(paths.log)][:2] == [False, False]
    with RunLog(paths, rotation=SMALL) as log:
        assert len(log.index) == len(NAMES)
    assert all(segment.compressed for segment in closed_segments(paths.log))
    assert not list(paths.log.parent.glob("*.partial"))
    assert items_of(iter_rows(paths.log)) == NAMES


def test_killed_between_closing_a_file_and_opening_the_next(paths):
    write(paths, NAMES)
    live = paths.log.read_bytes()
    paths.log.unlink()
    kept = NAMES[: len(NAMES) - live.count(b"\n")]
    assert log_exists(paths.log)
    assert items_of(iter_rows(paths.log)) == kept
    with RunLog(paths, rotation=SMALL) as log:
        assert len(log.index) == len(kept)


def test_closed_files_may_stay_plain(paths):
    write(paths, NAMES, Rotation(limit_bytes=3000, compress=False))
    assert {segment.path.suffix for segment in closed_segments(paths.log)} == {".jsonl"}
    assert items_of(iter_rows(paths.log)) == NAMES


def test_without_rotation_there_is_one_file(paths):
    write(paths, NAMES, Rotation())
    assert [segment.path for segment in log_segments(paths.log)] == [paths.log]


def test_overwrite_sets_every_file_aside(paths):
    write(paths, NAMES)
    with RunLog(paths, overwrite=True, rotation=SMALL) as log:
        assert len(log.index) == 0
    assert closed_segments(paths.log) == []
    assert items_of(iter_rows(paths.log.with_suffix(".old-1.jsonl"))) == NAMES


def test_other_runs_with_a_longer_name_are_not_part_of_it(paths):
    write(paths, NAMES[:2], Rotation())
    for name in ("r.extra~0001.jsonl.gz", "r~0001.jsonl.bak", "rr~0001.jsonl", "r~001.jsonl", "r.prompts.z"):
        (paths.log.parent / name).write_bytes(b"x")
    assert log_segments(paths.log)[0].path == paths.log
    assert len(log_segments(paths.log)) == 1


def test_a_file_that_cannot_be_closed_is_told_and_loses_no_row(paths, monkeypatch):
    nowhere = paths.log.parent / "missing" / "r~0001.jsonl"
    monkeypatch.setattr("pcsuite.logging.segments.closed_path", lambda log, number: nowhere)
    with pytest.raises(LogError, match="cannot be rotated"):
        write(paths, ["a"], Rotation(limit_bytes=1))
    assert items_of(iter_rows(paths.log)) == ["a"]


def test_compression_that_fails_keeps_the_plain_file_and_is_told(paths, monkeypatch):
    def full_disk(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pcsuite.logging.segments.compress_segment", full_disk)
    with pytest.raises(LogError, match="cannot be compressed"):
        write(paths, NAMES)
    assert items_of(iter_rows(paths.log)) == NAMES
    monkeypatch.undo()
    with RunLog(paths, rotation=SMALL):
        pass
    assert all(segment.compressed for segment in closed_segments(paths.log))


def test_a_compressed_file_says_its_length(tmp_path):
    path = tmp_path / "r~0001.jsonl"
    path.write_bytes(b"x" * 100_000)
    compress_segment(path)
    [segment] = closed_segments(tmp_path / "r.jsonl")
    assert (segment.raw_bytes(), segment.compressed, path.exists()) == (100_000, True, False)
    with segment.open() as stream:
        assert stream.read() == b"x" * 100_000


def test_the_profile_says_when_to_rotate():
    assert Rotation.of(RunSection(name="r")) == Rotation(None, True)
    assert Rotation.of(RunSection(name="r", rotate_log_mb=2, compress_log=False)) == Rotation(2 << 20, False)


def test_a_log_by_file_or_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Path("outputs") / "runs" / "mine.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    assert find_log(Path("mine")) == find_log("mine") == find_log(log) == log
    assert run_names() == ["mine"]
    with pytest.raises(
        ConfigError, match=r"mime: no file and no run in outputs/runs \(did you mean 'mine'\?\)"
    ):
        find_log("mime")
    with pytest.raises(ConfigError, match="gone/x.jsonl: no such log"):
        find_log("gone/x.jsonl")


def test_a_folder_of_the_runs_name_is_not_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "outputs" / "runs" / "mine.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("")
    (tmp_path / "mine").mkdir()
    assert find_log("mine") == Path("outputs/runs/mine.jsonl")
    for folder in (".", "outputs/runs", "outputs"):
        with pytest.raises(ConfigError, match=r"is a folder, not the log of a run \(name a run: mine\)"):
            find_log(folder)


@pytest.mark.parametrize("name", ["mine.yaml", "mine.YML"])
def test_a_profile_is_not_taken_for_a_log(tmp_path, name):
    profile = tmp_path / name
    profile.write_text('version: "1.0"\n')
    with pytest.raises(ConfigError, match=r"is not the log of a run \(a profile goes with --config"):
        find_log(profile, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
