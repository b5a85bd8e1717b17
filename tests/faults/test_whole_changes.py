"""Attacks on files that change together: full disks and kills at every step of overwriting, repairing and reporting."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from pcsuite._util import changes, files
from pcsuite._util.changes import settle_changes
from pcsuite._util.files import replace_atomically
from pcsuite.cli import main
from pcsuite.errors import LogError, PcsuiteError
from pcsuite.logging.audit import repair_log
from pcsuite.logging.log import RunLog, RunPaths, iter_rows, read_prompts
from pcsuite.logging.segments import Rotation, log_segments
from pcsuite.reporting.build import build_report
from support.failing_steps import FailingSystem, disk_full
from support.fault_injection import InjectedFaults
from support.forked_cli import ForkedCli
from support.profiles import write_profile
from support.rows import make_row

TINY = Rotation(limit_bytes=1, compress=False)
"""Every row closes a file."""
ITEMS = [f"i{number}" for number in range(5)]
MOST_STEPS = 60


def rotated_log(folder):
    paths = RunPaths.of(folder, "t")
    with RunLog(paths, rotation=TINY) as log:
        for item in ITEMS:
            log.append(make_row(item=item), f"prompt of {item}")
    return paths


def whole(log):
    """The rows of a log and how many of its prompts are there."""
    rows = list(iter_rows(log)) if log_segments(log) else []
    prompts = read_prompts(RunPaths.beside(log).prompts, {row.prompt.prompt_hash for row in rows})
    return [row.task.item_id for row in rows], len(prompts)


def test_overwriting_a_rotated_log_with_a_full_disk_at_any_step(tmp_path, monkeypatch):
    outcomes = []
    for step in range(1, MOST_STEPS):
        paths = rotated_log(tmp_path / str(step))
        aside = paths.log.with_name("t.old-1.jsonl")
        system = FailingSystem(step, disk_full)
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", system)
            with suppress(LogError), RunLog(paths, overwrite=True) as log:
                assert len(log.index) == 0
        state = whole(paths.log), whole(aside)
        assert state in (((ITEMS, 5), ([], 0)), (([], 0), (ITEMS, 5))), f"step {step}: {state}"
        outcomes.append(not state[0][0])
        if system.calls < step:
            break
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert outcomes[-1]
    assert step > 10


OVERWRITTEN = """
import sys
sys.path.insert(0, sys.argv[3])
from support.failing_steps import kill_at
from pcsuite.logging.log import RunLog, RunPaths
kill_at(int(sys.argv[2]))
with RunLog(RunPaths.of(sys.argv[1], "t"), overwrite=True):
    pass
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_overwriting_a_rotated_log_killed_in_the_middle(tmp_path):
    outcomes = []
    for step in (
        2,
        7,
        9,
        11,
        14,
        17,
    ):  # of 18: the seven moves are noted, then the last line, then they are made
        paths = rotated_log(tmp_path / str(step))
        words = [sys.executable, "-c", OVERWRITTEN, str(tmp_path / str(step)), str(step)]
        ended = subprocess.run([*words, str(Path(__file__).parents[1])], check=False)
        assert ended.returncode == -signal.SIGKILL, step
        with RunLog(paths) as log:  # an ordinary start, without --overwrite
            known = len(log.index)
        aside = whole(paths.log.with_name("t.old-1.jsonl"))
        assert (known, aside) in ((5, ([], 0)), (0, (ITEMS, 5))), f"step {step}"
        outcomes.append(known)
        assert not list(paths.log.parent.glob(".*"))
    assert set(outcomes) == {0, 5}


def test_repairing_with_a_full_disk_at_any_step(tmp_path, monkeypatch):
    outcomes = []
    for step in range(1, MOST_STEPS):
        paths = rotated_log(tmp_path / str(step))
        segments = log_segments(paths.log)
        segments[2].path.write_bytes(b"scribbled over\n")
        sound = [item for item in ITEMS if item != ITEMS[2]]
        system = FailingSystem(step, disk_full)
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", system)
            with suppress(LogError):
                repair_log(paths)
        parts = len(log_segments(paths.log))
        kept = log_segments(paths.log.with_name("t.old-1.jsonl"))
        assert whole_but_damaged(paths.log) == sound, f"step {step}"
        assert (parts, len(kept)) in ((6, 0), (5, 0), (1, 6), (1, 5)), f"step {step}: {parts}, {len(kept)}"
        assert not list(paths.log.parent.glob("*.partial"))
        outcomes.append(parts == 1)
        if system.calls < step:
            break
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert outcomes[-1]


def whole_but_damaged(log):
    rows = []
    for segment in log_segments(log):
        if segment.path.read_bytes() != b"scribbled over\n":
            rows += [row.task.item_id for row in iter_rows(segment.path) if segment.path.stat().st_size]
    return rows


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    assert main(["run", "--quiet", "--config", str(write_profile(folder, items=3))]) == 0
    return folder


def files_of(output):
    return {
        path.relative_to(output).as_posix(): path.read_bytes()
        for kind in ("reports", "tables", "plots")
        for path in (output / kind / "t").glob("*")
        if path.is_file() and path.name not in ("cache_report.md", "runs.parquet", "runs_dotted.sql")
    }


@pytest.mark.slow
def test_a_report_with_a_full_disk_at_any_step(reported, tmp_path):
    """The report before it stays whole; the next one is whole; no table of one stands beside a page of the other."""
    log = reported / "outputs" / "runs" / "t.jsonl"
    build_report([log], tmp_path, title="first", plots=False)
    first = files_of(tmp_path)
    build_report([log], tmp_path / "calm", title="second", plots=False)
    second = files_of(tmp_path / "calm")
    assert first["reports/t/index.html"] != second["reports/t/index.html"]
    with InjectedFaults(tmp_path / "counted") as faults:
        build_report([log], tmp_path / "counted", title="second", plots=False)
    count = len(faults.operations)
    assert count > 60
    spread = [*range(1, count, count // 6), *range(count - 8, count + 1, 3)]
    seen = Counter()
    for step in spread:
        with InjectedFaults(tmp_path, step, errno.ENOSPC), suppress(PcsuiteError, OSError):
            build_report([log], tmp_path, title="second", plots=False)
        # What the next command does before it looks at anything.
        settle_changes(tmp_path / "tables" / "t" / ".parts" / "report.changes", root=tmp_path)
        now = files_of(tmp_path)
        page = now["reports/t/index.html"]
        assert page in (first["reports/t/index.html"], second["reports/t/index.html"]), f"step {step}"
        if page == first["reports/t/index.html"]:
            assert now == first, f"step {step}: {sorted(n for n in now if now[n] != first.get(n))}"
        seen[page == first["reports/t/index.html"]] += 1
        build_report([log], tmp_path, title="first", plots=False)
        assert files_of(tmp_path) == first, f"after step {step}"
    assert seen[True] > 2
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_two_reports_at_once_take_turns(reported):
    config = str(reported / "profile.yaml")
    words = [sys.executable, "-m", "pcsuite", "report", "--no-plots", "--config", config]
    several = [
        subprocess.Popen(
            [*words, "--title", f"number {n}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    ends = [one.communicate() for one in several]
    assert [one.returncode for one in several] == [0, 0, 0], ends
    assert any("waiting: " in error for _, error in ends), "they did not meet"
    assert not any("Error" in error for _, error in ends)


def test_temporary_files_of_dead_processes_are_swept(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / f".other.json.{gone.pid}.tmp"
    alive = tmp_path / f".other.json.{os.getppid()}.tmp"
    theirs = tmp_path / ".notes.tmp"
    for path in (dead, alive, theirs):
        path.write_text("half")
    replace_atomically(tmp_path / "manifest.json", "{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [alive.name, theirs.name, "manifest.json"]
    )


def test_a_lock_that_is_waited_for_is_told_once(tmp_path):
    told = []
    lock = tmp_path / "report.lock"
    entered = threading.Event()

    def second():
        with files.file_lock(lock, waiting=told.append):
            entered.set()

    with files.file_lock(lock):
        waiter = threading.Thread(target=second)
        waiter.start()
        time.sleep(0.2)
        assert not entered.is_set()
    waiter.join(5)
    assert entered.is_set()
    assert told == [f" by process {os.getpid()}"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_run_killed_while_it_overwrites_goes_on_whole(tmp_path):
    profile = str(write_profile(tmp_path, items=3, run={"rotate_log_mb": 0.004, "compress_log": False}))
    profile_words = ["run", "--quiet", "--config", profile]
    with ForkedCli() as cli:
        cli.start(tmp_path / "out.txt", *profile_words)
        assert cli.wait() == 0
        log = tmp_path / "outputs" / "runs" / "t.jsonl"
        planned = sorted(row.run_id for row in iter_rows(log))
        cli.start(tmp_path / "out.txt", "@support.failing_steps:kill_at:16", *profile_words, "--overwrite")
        assert cli.wait() == -signal.SIGKILL, (tmp_path / "out.txt").read_text()
        cli.start(tmp_path / "out.txt", *profile_words)
        assert cli.wait() == 0, (tmp_path / "out.txt").read_text()
    assert sorted(row.run_id for row in iter_rows(log)) == planned
    kept = log.with_name("t.old-1.jsonl")
    assert not log_segments(kept) or sorted(row.run_id for row in iter_rows(kept)) == planned
