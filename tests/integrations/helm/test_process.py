"""Child processes of HELM's environment: read to the end, and gone whatever ends the wait."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pcsuite.errors import IntegrationError
from pcsuite.integrations.helm import process as helm_process
from pcsuite.integrations.helm.process import run_tool

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Stands in for HELM's environment: a folder with an interpreter and one command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(helm_process, "environment_python", lambda tool: python)
    monkeypatch.setattr(helm_process, "STOP_SECONDS", 0.5)

    def write(code):
        (folder / "helm-run").write_text(code, encoding="utf-8")
        return tmp_path / "logs" / "helm.log"

    return write


def test_words_are_kept_and_told_and_the_status_is_returned(tool, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.org")
    log = tool(
        "import os, sys; print(os.environ['NO_PROXY']); print(sys.argv[1], file=sys.stderr); sys.exit(3)"
    )
    told = []
    assert run_tool("helm-run", ["x y"], log, told.append) == 3
    assert sorted(told) == ["example.org,127.0.0.1,localhost", "x y"]
    assert sorted(log.read_text().splitlines()) == sorted(told)


@pytest.mark.parametrize("ending", ["interrupt", "terminate"])
def test_whatever_ends_the_wait_ends_the_whole_group(tool, ending):
    log = tool(STUBBORN)
    started = []

    def feed(line):
        started.extend(int(number) for number in line.split())
        if ending == "interrupt":
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt if ending == "interrupt" else SystemExit) as raised:
        run_tool("helm-run", [], log, feed)
    if ending == "terminate":
        assert raised.value.code == 143
    assert len(started) == 2
    deadline = time.monotonic() + 60
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, started))
    assert signal.getsignal(signal.SIGTERM) is before


def alive(number):
    """Whether a process still does anything; an orphan may wait for a while to be collected."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_log_that_cannot_be_written_is_one_line(tool, tmp_path):
    tool("print(1)")
    (tmp_path / "file").write_text("")
    with pytest.raises(IntegrationError, match="helm-run cannot be run: "):
        run_tool("helm-run", [], tmp_path / "file" / "helm.log", print)
