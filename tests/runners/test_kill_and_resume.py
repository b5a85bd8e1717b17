"""Runs that are killed, doubled or out of disk lose nothing and repeat nothing."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcsuite.logging.log import iter_rows
from support.forked_cli import ForkedCli
from support.profiles import SIMULATED, write_profile

ROWS = 40 * 3 * 5
COMMAND = [sys.executable, "-m", "pcsuite.cli", "run", "--quiet", "--config"]


@pytest.fixture
def profile(tmp_path):
    return profile_with(tmp_path, latency_ms=30)


def profile_with(tmp_path, *, latency_ms):
    slow = {"sim": SIMULATED | {"latency_ms": latency_ms}}
    return write_profile(
        tmp_path,
        slow,
        items=40,
        repro={
            "max_inflight": 8,
            "seeds": {"D0": [0], "D1": [1, 2, 3, 4]},
            "seeds_per_task": {"default": 4},
        },
    )


def start(profile, **options):
    return subprocess.Popen(
        [*COMMAND, str(profile)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def finish(profile):
    process = start(profile)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def content(log):
    rows = list(iter_rows(log))
    return {row.run_id: (row.generation.text, row.metrics) for row in rows if not row.errors}, len(rows)


def lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_twenty_kills_end_with_the_rows_of_an_undisturbed_run(profile, tmp_path):
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    finish(profile)
    undisturbed, count = content(log)
    assert count == len(undisturbed) == ROWS
    for file in log.parent.iterdir():
        file.unlink()
    rng = random.Random(20)
    with ForkedCli() as cli:
        for moment in sorted(rng.sample(range(ROWS - 80), 20)):
            process_id = cli.start(tmp_path / "output.txt", "run", "--quiet", "--config", str(profile))
            deadline = time.monotonic() + 120
            while lines(log) < moment:
                assert time.monotonic() < deadline, (tmp_path / "output.txt").read_text()
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.03))
            os.kill(process_id, signal.SIGKILL)
            assert cli.wait() == -signal.SIGKILL
    assert 0 < lines(log) < ROWS
    finish(profile)
    resumed, count = content(log)
    assert resumed == undisturbed
    assert count == ROWS


def test_a_second_process_on_the_same_run_is_refused(tmp_path):
    profile = profile_with(tmp_path, latency_ms=400)  # long enough for the second to start beside it
    first = start(profile)
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    while not lines(log):
        time.sleep(0.01)
    second = start(profile)
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"in use by process {first.pid}" in output
    assert len(output.strip().splitlines()) == 1
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    finish(profile_with(tmp_path, latency_ms=0))
    assert {row.errors == [] for row in iter_rows(log)} == {True}


def test_a_full_disk_ends_in_a_clear_error_and_a_log_that_resumes(profile, tmp_path):
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    process = start(profile, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "cannot be written (File too large)" in output
    assert "run the same command again" in output
    assert len(output.strip().splitlines()) == 1
    kept, count = content(log)
    assert 0 < count == len(kept) < ROWS
    assert log.read_bytes().endswith(b"\n")
    finish(profile)
    resumed, count = content(log)
    assert len(resumed) == count == ROWS
    assert kept.items() <= resumed.items()


def test_interrupt_keeps_finished_rows(profile, tmp_path):
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    # A background job starts with interrupts ignored, and its children inherit that.
    process = start(profile, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while lines(log) < 20:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished work is kept" in output
    assert "Traceback" not in output
    assert lines(log) >= 20
