"""Checks: commands that look at the folder a call worked in, and what keeps them from running away."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcsuite._util.secrets import remember
from pcsuite.config.definitions import CheckSpec, TaskSpec
from pcsuite.data.items import Item
from pcsuite.engines.targets.changed import FileChange, FolderChanges
from pcsuite.errors import ConfigError, DataError
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer, CheckResult, score_answer
from pcsuite.evaluation.checks import SCRIPT, can_cut_network, not_run, run_check, run_checks, said

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX shell")
ITEM = Item("i1", "Add a test.", {"wanted": "yes"}, columns={"task": "Add a test."})


def checked(folder, command, **limits):
    return asyncio.run(run_check(CheckSpec(command=command, **limits), folder))


def is_gone(number):
    """Whether a process is gone within a moment, or waits as a zombie for a parent that asks for nobody."""
    for _ in range(200):
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except FileNotFoundError:
            return True
        if stat.rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return False


def test_status_0_holds_and_any_other_does_not(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    held = checked(tmp_path, "test -f a.txt && echo it is there")
    assert (held.passed, held.status, held.output) == (True, 0, "it is there\n")
    failed = checked(tmp_path, "echo no >&2; exit 3")
    assert (failed.passed, failed.status, failed.output) == (False, 3, "no\n")
    assert (checked(tmp_path, "kill -SEGV $$").status, said(checked(tmp_path, "kill -SEGV $$"))) == (
        -11,
        "ended by signal 11",
    )
    assert checked(tmp_path, "nothing-of-that-name").status == 127


def test_a_check_that_runs_out_of_time_is_ended_with_all_that_it_started(tmp_path):
    result = checked(tmp_path, "sleep 60 & echo $! > child; echo begun; sleep 60", time_limit_s=0.4)
    assert (result.passed, result.status, result.why) == (False, None, "check ran out of time (0.4 s)")
    assert result.output == "begun\n"
    assert is_gone(int((tmp_path / "child").read_text()))


def test_what_a_check_leaves_behind_holds_nobody_up_and_is_ended(tmp_path):
    started = time.monotonic()
    result = checked(tmp_path, "sleep 60 & echo $! > child; echo done")
    assert (result.passed, result.output) == (True, "done\n")
    assert time.monotonic() - started < 10
    assert is_gone(int((tmp_path / "child").read_text()))


def test_a_cancelled_check_is_ended(tmp_path):
    async def cancelled():
        task = asyncio.ensure_future(run_check(CheckSpec(command="echo $$ > pid; sleep 60"), tmp_path))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_the_end_of_the_output_is_kept(tmp_path):
    result = checked(tmp_path, "echo first; yes | head -c 3000000; echo last")
    assert result.output.endswith("y\nlast\n")
    assert len(result.output) == 4_000
    assert checked(tmp_path, r"printf 'a\377b'").output == "a\ufffdb"


def test_the_output_that_is_kept_does_not_begin_with_half_a_secret(tmp_path):
    secret = "Check-Output_Secret/0123456789+abc"
    remember(secret)
    (tmp_path / "settings").write_text(secret)
    for rest in (8, 20, 30):
        # What is shown, and what is kept to be looked through, begins in the midst of the secret.
        for most in (4_000, 16_000):
            words = f"cat settings; yes | tr -d '\\n' | head -c {most - rest}"
            assert secret[-8:] not in checked(tmp_path, words).output


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_memory_is_limited(tmp_path):
    command = f"{sys.executable} -c 'bytearray(400 << 20)'"
    assert checked(tmp_path, command).passed
    assert "MemoryError" in checked(tmp_path, command, memory_limit_mb=128).output


CONNECT = "import socket; socket.create_connection(('192.0.2.1', 9), 0.5)"
LOCAL = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"


def test_the_network_is_cut_and_the_loopback_stays(tmp_path):
    if not can_cut_network():
        pytest.skip("this system does not let us cut the network")
    result = checked(tmp_path, f'{sys.executable} -c "{CONNECT}"')
    assert not result.network
    assert "Network is unreachable" in result.output
    assert checked(tmp_path, f'{sys.executable} -c "{LOCAL}"').passed
    assert checked(tmp_path, "true", network=True).network


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0 or not Path("/usr/bin/python3").exists(),
    reason="only root can try as another user",
)
def test_the_network_is_cut_for_a_user_without_rights(tmp_path):
    tmp_path.chmod(0o755)
    probe = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-", str(1 << 30), "1", "id -u; cat /proc/net/dev | wc -l"],
        input=SCRIPT.read_text(),
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        extra_groups=[],
        check=False,
    )
    if probe.returncode in (126, 127):
        pytest.skip("this system lets no user cut the network, or has no python3 for all")
    assert probe.stderr.split() == ["65534", "3"]  # itself still, with the loopback alone


def test_a_check_gets_the_item_and_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    checks = {"input": CheckSpec(command="cat"), "environment": CheckSpec(command="env", block="rules")}
    results = asyncio.run(run_checks(checks, tmp_path, ITEM, Answer("Done.")))
    assert list(results) == ["input", "environment"]
    assert results["input"].output == (
        '{"id": "i1", "input": "Add a test.", "item": {"task": "Add a test.", "wanted": "yes"}, "output": "Done."}'
    )
    assert "secret" not in results["environment"].output
    assert (results["input"].block, results["environment"].block) == ("", "rules")


def scored(checks, text="", **more):
    return score_answer(build_evaluator("check"), ITEM, Answer(text, checks=checks, **more))


def test_the_score_is_whether_the_checks_of_the_task_hold():
    held, failed = CheckResult(True, 0), CheckResult(False, 2)
    of_block = CheckResult(False, 1, block="naming")
    assert scored({"check": held, "naming": of_block}).metrics["task_score"] == 1.0
    evaluation = scored({"check": held, "lint": failed})
    assert evaluation.metrics["task_score"] == 0.0
    assert evaluation.parsed.parse_errors == ["lint: exit status 2"]
    with pytest.raises(DataError, match="no check was run"):
        scored({"naming": of_block})


def test_an_answer_without_words_is_what_it_changed():
    held = {"check": CheckResult(True, 0)}
    changed = FolderChanges([FileChange("a.py", "modified"), FileChange("b.py", "added")])
    assert scored(held, changed=changed).parsed.answer == "modified a.py, added b.py"
    assert scored(held).parsed.answer == "nothing was changed"
    assert scored(held, "Done.").parsed.answer == "done."


def test_checks_that_were_not_run_do_not_hold():
    checks = {"check": CheckSpec(command="true"), "naming": CheckSpec(command="true", block="naming")}
    results = not_run(checks, "the call ran out of its time")
    assert [(one.passed, one.status, one.block) for one in results.values()] == [
        (False, None, ""),
        (False, None, "naming"),
    ]
    assert said(results["check"]) == "not run: the call ran out of its time"


def test_checks_of_a_task_are_texts_or_entries():
    task = {"kind": "reasoning", "dataset": "d", "evaluator": "check", "final_answer_format": "x"}
    spec = TaskSpec.model_validate(
        {**task, "checks": {"check": "pytest -q", "n": {"command": "x", "block": "b"}}}
    )
    assert spec.checks["check"] == CheckSpec(command="pytest -q", time_limit_s=300)
    assert spec.checks["n"].block == "b"
    assert "checks" not in TaskSpec.model_validate(task).model_dump()  # rows without checks keep their ids
    with pytest.raises(ConfigError, match="options of evaluator 'check'"):
        build_evaluator("check", {"command": "x"})
