"""Attacks on how a command ends: signals at bad moments, a reader that goes away, a main thread that is held up."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from pcsuite.errors import Exit
from support.own_task import write_own_profile
from support.profiles import SIMULATED, write_profile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]
SLOW = {"sim": {**SIMULATED, "latency_ms": 400}}


def started(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "pcsuite", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def until_rows(log, least=1):
    for _ in range(600):
        if log.exists() and log.read_bytes().count(b"\n") >= least:
            return
        time.sleep(0.05)
    raise AssertionError("the run has not begun")


@pytest.mark.parametrize(
    ("name", "status"),
    [("SIGTERM", Exit.TERMINATED), ("SIGHUP", Exit.HUNG_UP), ("SIGINT", Exit.INTERRUPTED)],
)
def test_a_signal_ends_a_run_with_a_line_and_the_command_to_go_on(tmp_path, name, status):
    profile = str(write_profile(tmp_path, SLOW, items=40, repro={"max_inflight": 2}))
    process = started("run", "--quiet", "--overwrite", "--config", profile)
    try:
        until_rows(tmp_path / "outputs" / "runs" / "t.jsonl")
        sent = time.monotonic()
        process.send_signal(getattr(signal, name))
        _, told = process.communicate(timeout=10)
        assert time.monotonic() - sent < 3
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == status == 128 + getattr(signal, name)
    line = told.splitlines()[-1]
    if name == "SIGINT":
        assert line == (
            "pcsuite: interrupted; finished work is kept, the same command without --overwrite goes on from here"
        )
    else:
        assert line == (
            f"pcsuite: ended by {name}; finished work is kept; to go on: pcsuite run --quiet --config {profile}"
        )
    assert "Traceback" not in told


BLOCKED = """
import sys, threading, time
from pcsuite import cli
from pcsuite._util import loops, signals
signals.RAISE_S, signals.EXIT_S = 1.0, 2.0

def execute_list(args):
    async def hold():
        print("holding", flush=True)
        WAY
    return loops.run_blocking(hold())

import pcsuite.commands.listing as listing
listing.execute_list = execute_list
sys.argv = ["pcsuite", "list", "tasks"]
sys.exit(cli.main())
"""
STUBBORN = "while True:\n            try:\n                time.sleep(60)\n            except BaseException:\n                pass"


@pytest.mark.parametrize(
    ("way", "most_seconds"),
    [
        ("import asyncio; await asyncio.sleep(60)", 1.0),
        ("time.sleep(60)", 2.0),  # the loop is held up: raised in the main thread after a while
        (STUBBORN, 3.5),  # and whoever swallows that is ended
        (
            "threading.Thread(target=time.sleep, args=(60,)).start(); import asyncio; await asyncio.sleep(60)",
            3.5,
        ),
    ],
    ids=["waiting", "held up", "stubborn", "a thread that is waited for"],
)
def test_the_first_interrupt_is_enough_whatever_holds_the_process_up(way, most_seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED.replace("WAY", way)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "holding\n"
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        first = process.stderr.readline()
        answered = time.monotonic() - sent
        _, told = process.communicate(timeout=20)
        took = time.monotonic() - sent
    finally:
        process.kill()
        process.communicate()
    assert answered < 1.0, first
    assert took < most_seconds + 1.5, "the machine may be busy"
    assert process.returncode == Exit.INTERRUPTED
    assert "finished work is kept" in first + told


def test_a_signal_that_nohup_ignores_stays_ignored(tmp_path):
    profile = str(write_profile(tmp_path, {"sim": {**SIMULATED, "latency_ms": 100}}, items=4))
    process = started(
        "run", "--quiet", "--config", profile, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    try:
        until_rows(tmp_path / "outputs" / "runs" / "t.jsonl")
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == Exit.DONE


@pytest.mark.parametrize("words", [("list", "conditions"), ("list", "tasks", "--json"), ("run", "--config")])
def test_a_reader_that_goes_away_has_a_status_of_its_own(tmp_path, words):
    if words[0] == "run":
        words = (*words, str(write_profile(tmp_path, items=2)))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "pcsuite", *words],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == Exit.OUTPUT_CLOSED == 141
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if words[0] == "run":
        with contextlib.suppress(FileNotFoundError):
            assert (tmp_path / "outputs" / "runs" / "t.jsonl").read_bytes().endswith(b"\n")


def test_an_interrupt_while_a_worker_is_being_started(tmp_path):
    """The moment at which it used to be lost: the process that hangs is born after the pool was closed."""
    profile = write_own_profile(tmp_path, count=6)
    (tmp_path / "my_scorer.py").write_text(
        "import time\n"
        "time.sleep(0.6)  # loading takes its time\n"
        "calls = 0\n"
        "def score(answer, item):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    while calls > 1:  # the first is the one that a plan looks at\n"
        "        time.sleep(1)\n"
        "    return True\n"
    )
    tasks = (tmp_path / "tasks.yaml").read_text()
    (tmp_path / "tasks.yaml").write_text(tasks + "    evaluator_options: {time_limit_s: 120}\n")
    for pause in (0.0, 0.3, 0.7):
        log = tmp_path / "outputs" / "runs" / "own.jsonl"
        log.unlink(missing_ok=True)  # it says when the run has begun
        process = started("run", "--quiet", "--overwrite", "--config", str(profile))
        try:
            for _ in range(600):
                if log.exists():
                    break
                time.sleep(0.02)
            time.sleep(pause)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=30)
            took = time.monotonic() - sent
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == Exit.INTERRUPTED, told
        assert took < 6, told
        assert "Traceback" not in told
