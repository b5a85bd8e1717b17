"""Calls that work in copies of a folder, and what ends them: no row is lost, and no copy is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcsuite.errors import Exit
from pcsuite.logging.log import iter_newest_rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and commands of POSIX")

AGENT = """#!/bin/sh
cat > /dev/null
echo $$ >> "$PIDS"
mkdir -p "deep/gr\u00fc\u00dfe"; echo x > "deep/gr\u00fc\u00dfe/file"; ln -s / root
if [ -e "$SLOW" ]; then sleep 60; fi
echo done
"""


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "AGENTS.md").write_text("# Rules\n- Be kind.\n- Be brief.\n")
    (tmp_path / "project" / "big").write_bytes(b"x" * 200_000)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "agent.sh").chmod(0o755)
    (tmp_path / "tasks.csv").write_text("task\n" + "".join(f"Do {n}\n" for n in range(14)))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def command(*more):
    words = [
        "ablate",
        "project/AGENTS.md",
        "--in",
        "project",
        "--target",
        "./agent.sh",
        "--data",
        "tasks.csv",
    ]
    words += [
        "--check",
        "test -f deep/*/file",
        "--reach",
        "off",
        "--design",
        "leave-one-out",
        "--no-controls",
    ]
    return [sys.executable, "-m", "pcsuite", *words, "--no-trim", "--margin", "0.4", *more]


def environment(desk):
    here = {"TMPDIR": str(desk / "temporary"), "PIDS": str(desk / "pids"), "SLOW": str(desk / "slow")}
    return os.environ | here


def start(desk):
    """A run whose agents hang, once some of them are under way."""
    (desk / "slow").touch()
    process = subprocess.Popen(
        command(), cwd=desk, env=environment(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(600):
        if (desk / "pids").exists() and (desk / "pids").read_text().strip():
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError("no agent was started")


def copies(desk):
    return list((desk / "temporary").rglob("AGENTS.md"))


def agents_are_gone(desk):
    for _ in range(200):
        running = [number for number in (desk / "pids").read_text().split() if _runs(int(number))]
        if not running:
            return True
        time.sleep(0.05)
    return False


def _runs(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def complete(desk):
    """The same command again, with agents that answer; its rows."""
    (desk / "slow").unlink()
    done = subprocess.run(
        command(), cwd=desk, env=environment(desk), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(iter_newest_rows(desk / "outputs" / "ablations" / "AGENTS" / "runs" / "AGENTS.jsonl"))


def test_ctrl_c_leaves_no_copy_and_no_agent(desk):
    process = start(desk)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert copies(desk) == []
    assert agents_are_gone(desk)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_after_a_kill_the_next_start_removes_what_was_left_and_goes_on(desk):
    process = start(desk)
    assert copies(desk)
    process.kill()
    process.wait()
    assert agents_are_gone(desk)
    rows = complete(desk)
    assert len(rows) == len({row.run_id for row in rows}) == 14 * 3
    assert all(row.metrics["task_score"] == 1.0 and not row.errors for row in rows)
    assert {file.path: file.change for file in rows[0].changed.files} == {
        "deep/grüße/file": "added",
        "root": "added",
    }
    assert copies(desk) == []
    assert list((desk / "temporary").glob("pcsuite-folders-*/*")) == []


def test_a_full_disk_is_a_failed_row_with_one_clear_line(desk):
    done = subprocess.run(
        # No file larger than this: what a full disk does to the copy of the large file.
        ["sh", "-c", 'ulimit -f 200; exec "$@"', "sh", *command("--limit", "14")],
        cwd=desk,
        env=environment(desk),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == Exit.FAILED_ROWS
    assert "Traceback" not in done.stderr
    rows = list(iter_newest_rows(desk / "outputs" / "ablations" / "AGENTS" / "runs" / "AGENTS.jsonl"))
    assert len(rows) == 14 * 3
    for row in rows:
        (error,) = row.errors
        assert error.startswith("no copy of ")
        assert "File too large" in error
        assert row.outcome == "failed"
    assert copies(desk) == []
