"""The audit of a log: every kind of damage is named, and a repair loses nothing that is sound."""

import gzip
import json

import pytest

from pcsuite.cli import main
from pcsuite.errors import Exit, LogError, RunLockedError
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.log import RunLog, RunPaths, iter_rows, newest_rows, read_prompts
from pcsuite.logging.row import encode_row, line_is_sound
from pcsuite.logging.segments import Rotation, closed_segments
from support.rows import make_row


@pytest.fixture
def paths(tmp_path):
    return RunPaths.of(tmp_path, "r")


def write(paths, items, rotation=None):
    with RunLog(paths, rotation=rotation or Rotation()) as log:
        for item in items:
            log.append(make_row(item=item), f"{item}|C0|0")


def items_of(path):
    return [row.task.item_id for row in iter_rows(path)]


def put(paths, line, index=1):
    """Put a line into the log."""
    lines = paths.log.read_bytes().splitlines(keepends=True)
    lines.insert(index, line)
    paths.log.write_bytes(b"".join(lines))


def test_every_row_has_a_checksum_and_old_rows_may_lack_it():
    line = encode_row(make_row(item="a")).rstrip(b"\n")
    assert line_is_sound(line) is True
    assert line_is_sound(line.replace(b'"a"', b'"b"', 1)) is False
    old = json.dumps({key: value for key, value in json.loads(line).items() if key != "checksum"}).encode()
    assert line_is_sound(old) is None


def test_a_sound_log(paths, capsys):
    write(paths, "abc")
    audit = audit_log(paths)
    assert (audit.problems, audit.rows, audit.run_ids, audit.unchecked) == ([], 3, 3, 0)
    assert main(["log", "check", str(paths.log)]) == Exit.DONE
    assert main(["log", "check", "r", "--output-dir", str(paths.log.parents[1])]) == Exit.DONE
    assert "nothing is wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("foreign", b"hello\n"),
        ("foreign", b"\n"),
        ("foreign", b'{"a": 1}\n'),
        ("foreign", b"\xff\xfe\n"),
        ("foreign", b"[" * 3000 + b"\n"),
        ("torn", encode_row(make_row(item="x"))[:200] + b"\n"),
        ("altered", encode_row(make_row(item="x")).replace(b"2026", b"2027", 1)),
        ("doubled", encode_row(make_row(item="a"))),
        ("doubled", encode_row(make_row(item="a", text="another answer"))),
    ],
)
def test_each_kind_of_damage_is_named_and_mended(paths, capsys, kind, line):
    write(paths, "abc")
    put(paths, line)
    before = paths.log.read_bytes()
    audit = audit_log(paths)
    assert audit.counts[kind] == 1
    assert audit.damaged[kind] == ["r.jsonl:2"]
    assert main(["log", "check", str(paths.log)]) == Exit.BELOW_GATE
    assert paths.log.read_bytes() == before
    assert main(["log", "check", str(paths.log), "--repair"]) == Exit.DONE
    assert "r.old-1.jsonl" in capsys.readouterr().out
    assert items_of(paths.log) == ["a", "b", "c"]
    assert paths.log.with_suffix(".old-1.jsonl").read_bytes() == before
    assert audit_log(paths).problems == []


def test_a_torn_end(paths):
    write(paths, "abc")
    paths.log.write_bytes(paths.log.read_bytes()[:-30])
    assert audit_log(paths).counts["torn"] == 1
    repair_log(paths)
    assert items_of(paths.log) == ["a", "b"]
    with RunLog(paths) as log:
        assert make_row(item="c").run_id not in log.index


def test_rows_scored_anew_and_rows_after_a_failure_are_no_doubles(paths):
    with RunLog(paths) as log:
        log.append(make_row(item="a", errors=("503",)), "a|C0|0")
        log.append(make_row(item="a"), "a|C0|0")
        log.append(make_row(item="a", metrics={"task_score": 0.25}), "a|C0|0")
    audit = audit_log(paths)
    assert (audit.problems, audit.rows, audit.run_ids) == ([], 3, 1)


def test_prompts_without_text(paths):
    write(paths, "abc")
    store = paths.prompts.read_bytes().splitlines(keepends=True)
    paths.prompts.write_bytes(store[0] + store[1][:70] + b"AAAA\n")
    assert audit_log(paths).prompts_missing == 2


def test_rows_missing_against_the_plan(paths):
    write(paths, "ab")
    wanted = {make_row(item=item).run_id for item in "abcd"}
    assert audit_log(paths, wanted).rows_missing == 2
    paths.log.with_suffix(".manifest.json").write_text('{"planned_rows": 5}')
    assert audit_log(paths).rows_missing == 3
    assert audit_log(paths).problems == []


def test_closed_files_are_read_and_a_damaged_one_is_named(paths):
    write(paths, "abcdef", Rotation(limit_bytes=3000))
    first, *_ = closed_segments(paths.log)
    raw = first.path.read_bytes()
    first.path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(LogError, match="is damaged .*--repair"):
        list(iter_rows(paths.log))
    audit = audit_log(paths)
    assert len(audit.broken_files) == 1
    repair_log(paths)
    assert set(items_of(paths.log)) <= set("abcdef")
    assert "f" in items_of(paths.log)
    assert closed_segments(paths.log) == []
    kept = closed_segments(paths.log.with_suffix(".old-1.jsonl"))
    assert kept[0].path.read_bytes() == raw[: len(raw) // 2]
    with pytest.raises(EOFError):
        gzip.decompress(kept[0].path.read_bytes())


@pytest.mark.parametrize("gone", [True, False])
def test_rescued_rows_are_put_back(paths, gone):
    with pytest.raises(LogError, match="--repair"), RunLog(paths) as log:  # noqa: PT012  while it is open
        log.append(make_row(item="a"), "a|C0|0")
        log.sync()
        copy = paths.log.read_bytes()
        paths.log.unlink()
        paths.prompts.unlink()
        if not gone:
            paths.log.write_bytes(copy)
        log.append(make_row(item="b"), "b|C0|0")
    assert main(["log", "check", str(paths.log)]) == Exit.BELOW_GATE
    assert main(["log", "check", str(paths.log), "--repair"]) == Exit.DONE
    assert items_of(paths.log) == ["a", "b"]
    hashes = [row.prompt.prompt_hash for row in newest_rows(paths.log)]
    assert sorted(read_prompts(paths.prompts, hashes).values()) == ["a|C0|0", "b|C0|0"]
    with RunLog(paths) as log:
        assert len(log.index) == 2


def test_a_log_that_is_written_is_not_repaired(paths):
    with RunLog(paths) as log:
        log.append(make_row(item="a"))
        assert audit_log(paths).rows == 1
        with pytest.raises(RunLockedError):
            repair_log(paths)


def test_a_log_that_is_not_there(paths, capsys):
    assert main(["log", "check", str(paths.log)]) == Exit.BAD_INPUT
    assert "no such log" in capsys.readouterr().err
    assert not paths.log.exists()
