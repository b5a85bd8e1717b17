"""HELM's scenarios by name, and its commands as child processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite._util.files import sha256_file
from pcsuite.errors import ConfigError, DataError, IntegrationError
from pcsuite.integrations.environments import HELM, environment_python, environment_variables

# HELM's scenarios: how they are named, which task of ours they share a benchmark with, where their data goes.


SCENARIOS_FOLDER = "scenarios"
"""Folder of HELM's output where it looks for data before it fetches any."""
MMLU_SPLITS = ("dev", "val", "test")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One HELM run entry without its model: ``truthful_qa:task=mc_single``."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """As HELM writes it."""
        listed = ",".join(f"{key}={value}" for key, value in self.arguments.items())
        return f"{self.name}:{listed}" if listed else self.name

    def for_model(self, model: str, deployment: str) -> str:
        """The run entry for a model. HELM wants ``model`` beside ``model_deployment``."""
        more = f"model={model}" + ("" if deployment == model else f",model_deployment={deployment}")
        return f"{self.entry},{more}" if self.arguments else f"{self.name}:{more}"


def parse_scenarios(text: str | Iterable[str]) -> list[Scenario]:
    """Scenarios from a list, or from text with commas both between entries and between an entry's arguments.

    A piece such as ``method=x`` can only go on with the entry before it.
    """
    entries: list[str] = []
    pieces = (
        text.split(",") if isinstance(text, str) else [part for entry in text for part in entry.split(",")]
    )
    for piece in (piece.strip() for piece in pieces):
        if piece and entries and "=" in piece and ":" not in piece:
            entries[-1] += ("," if ":" in entries[-1] else ":") + piece
        elif piece:
            entries.append(piece)
    return [_scenario(entry) for entry in dict.fromkeys(entries)]


def _scenario(entry: str) -> Scenario:
    name, _, rest = entry.partition(":")
    arguments: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, sep, value = part.partition("=")
        if not sep or not key or not value:
            raise ConfigError(f"scenario '{entry}': '{part}' is not KEY=VALUE")
        if key in ("model", "model_deployment"):
            raise ConfigError(f"scenario '{entry}': models are chosen by --models, not in the scenario")
        arguments[key] = value
    if name == "truthful_qa":
        arguments.setdefault("task", "mc_single")
    if name == "mmlu" and "subject" not in arguments:
        raise ConfigError("scenario 'mmlu' needs a subject", hint="for example mmlu:subject=econometrics")
    return Scenario(name, arguments)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file HELM reads, and where published copies of it may stand in the user's folder."""

    target: str
    """Below HELM's ``scenarios`` folder."""
    places: tuple[str, ...]


def data_files(scenario: Scenario) -> tuple[DataFile, ...]:
    """What a scenario needs locally; nothing for scenarios whose data HELM fetches itself."""
    if scenario.name == "truthful_qa":
        name = "TruthfulQA.csv"
        places = (f"truthfulqa/v1/{name}", f"truthfulqa/{name}", f"truthful_qa/{name}", f"v1/{name}", name)
        return (DataFile(f"truthful_qa/data/{name}", places),)
    if scenario.name == "gsm":
        return tuple(
            DataFile(
                f"gsm/gsm_data_{split}", (f"gsm8k/{split}.jsonl", f"gsm/{split}.jsonl", f"{split}.jsonl")
            )
            for split in ("train", "test")
        )
    if scenario.name == "mmlu":
        files = []
        for split in MMLU_SPLITS:
            name = f"{split}/{scenario.arguments['subject']}_{split}.csv"
            found = (f"mmlu/data/{name}", f"mmlu/{name}", f"data/{name}", name)
            files.append(DataFile(f"mmlu/data/{name}", found))
        return tuple(files)
    return ()


def place_data(scenarios: Iterable[Scenario], data_dir: Path | None, output: Path) -> str:
    """Put the scenarios' files where HELM looks, and return a hash of them.

    Files that HELM's folder has already stay; those of ``data_dir`` replace them.
    """
    digest = hashlib.sha256()
    for scenario in scenarios:
        for wanted in data_files(scenario):
            target = output / SCENARIOS_FOLDER / wanted.target
            source = _source(wanted, data_dir)
            if source is not None:
                _copy(source, target)
            if not target.is_file():
                raise _missing(scenario, wanted, data_dir)
            digest.update(wanted.target.encode())
            digest.update(bytes.fromhex(sha256_file(target)))
    return digest.hexdigest()


def _source(wanted: DataFile, data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    return next((data_dir / place for place in wanted.places if (data_dir / place).is_file()), None)


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise DataError(
            f"{source} cannot be placed for HELM at {target}: {error.strerror or error}"
        ) from error


def _missing(scenario: Scenario, wanted: DataFile, data_dir: Path | None) -> DataError:
    name = Path(wanted.places[-1]).name
    if data_dir is None:
        return DataError(
            f"scenario '{scenario.entry}' needs {name}, and no folder with published files was named",
            hint="give --data DIR, or integrations.helm.data_dir",
        )
    return DataError(
        f"scenario '{scenario.entry}': {data_dir} has no {name}",
        hint="looked for " + ", ".join(wanted.places),
    )


# HELM's commands as child processes: started in a group of their own, read line by line, stopped whole.


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
