"""HELM's commands as child processes: started in a group of their own, read line by line, stopped whole."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite.errors import IntegrationError
from pcsuite.integrations.catalogue import HELM
from pcsuite.integrations.environments import environment_python, environment_variables

STOP_SECONDS = 10.0
"""How long a process that was asked to end is waited for before it is killed."""
_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ [A-Z]+ +(?P<text>.*)$")
_COUNT = re.compile(r"^\d+ entries produced (\d+) run specs$")
_BEGIN = re.compile(r"^Running (?P<name>.+) \{$")
_REQUESTS = re.compile(r"^(\d+) requests$")
_FAILED = re.compile(r"^Error when running (?P<name>.+):$")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b.*$")
_LONGEST_REASON = 300

Report = Callable[[str], None]


@dataclass(slots=True)
class HelmProgress:
    """What ``helm-run`` has said so far; fed with its log, line by line."""

    report: Report
    total: int = 0
    requests: int = 0
    """Requests of the run in progress."""
    answered: int = 0
    """How many of them a server of ours has answered."""
    started: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """Reason of every run that failed."""
    last_exception: str = ""
    _failing: str = ""

    def feed(self, line: str) -> None:
        """Take one line of the log."""
        logged = _LOGGED.match(line)
        text = (logged["text"] if logged else line).strip()
        if logged:
            self._failing = ""
        if logged and (found := _COUNT.match(text)):
            self.total = int(found[1])
        elif logged and (found := _BEGIN.match(text)):
            self.started.append(found["name"])
            self.requests = self.answered = 0
            self.report(f"{len(self.started)}/{self.total} {found['name']}")
        elif logged and self.started and (found := _REQUESTS.match(text)):
            self.requests = int(found[1])
            self.report(f"  {self.requests} requests")
        elif logged and (found := _FAILED.match(text)):
            self._failing = found["name"]
            self.failures[self._failing] = "HELM gave no reason"
        elif not logged and line[:1].strip() and _EXCEPTION.match(text):
            self.last_exception = reason_of(text)
            if self._failing:
                # The last exception of a chain is the one that ended the run.
                self.failures[self._failing] = self.last_exception

    @property
    def unfinished(self) -> str | None:
        """The run in progress, where the log ended in the midst of one."""
        return self.started[-1] if self.started and self.started[-1] not in self.failures else None


def reason_of(text: str) -> str:
    """An exception's last line for people: without its module, and without the request that HELM appends."""
    kind, sep, message = text.partition(" Request: Request(")[0].partition(":")
    shown = kind.rsplit(".", 1)[-1] + sep + message
    return shown if len(shown) <= _LONGEST_REASON else shown[: _LONGEST_REASON - 1] + "…"


def run_tool(command: str, arguments: Sequence[str], log: Path, feed: Callable[[str], None]) -> int:
    """Run one of HELM's commands to its end, its output into ``log`` and to ``feed``; returns its status.

    Whatever ends the wait, an interrupt included, the process and its children are gone afterwards.
    """
    python = environment_python(HELM)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            log.open("a", encoding="utf-8") as kept,
            _ended_by_signal(),
            _started(python, command, arguments) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                feed(line.rstrip("\n"))
            return process.wait()
    except OSError as error:
        raise IntegrationError(f"{command} cannot be run: {error.strerror or error}") from error


@contextlib.contextmanager
def _started(python: Path, command: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(python), str(python.with_name(command)), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=_variables(),
        start_new_session=True,  # a group of its own, which can be ended as a whole
    )
    try:
        yield process
    finally:
        _end(process)
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Let a request to terminate unwind as an interrupt does, so that what was started is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end(process: subprocess.Popen[str]) -> None:
    """End the process group, first by asking."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def _variables() -> dict[str, str]:
    """HELM's environment; a proxy must not stand between it and a server on loopback."""
    variables = environment_variables(HELM) | {"PYTHONUNBUFFERED": "1"}
    direct = ",".join(filter(None, (variables.get("NO_PROXY"), "127.0.0.1", "localhost")))
    return variables | {"NO_PROXY": direct, "no_proxy": direct}
