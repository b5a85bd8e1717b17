"""HELM's scenarios by name with the data they need, and its commands as child processes."""

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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite._util.files import sha256_file
from pcsuite.errors import ConfigError, DataError, IntegrationError
from pcsuite.integrations.environments import HELM, Report, environment_python, environment_variables

SCENARIOS_FOLDER = "scenarios"
"""Folder of HELM's output where it looks for data before it fetches any."""
STOP_SECONDS = 10.0
"""How long a process that was asked to end is waited for before it is killed."""
_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ [A-Z]+ +(?P<text>.*)$")
_COUNT = re.compile(r"^\d+ entries produced (\d+) run specs$")
_BEGIN = re.compile(r"^Running (?P<name>.+) \{$")
_REQUESTS = re.compile(r"^(\d+) requests$")
_FAILED = re.compile(r"^Error when running (?P<name>.+):$")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b.*$")
_LONGEST_REASON = 300
_ANSWERS_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One HELM run entry without its model: ``truthful_qa:task=mc_single``."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """As HELM writes it: ``name:key=value,key=value``.

        >>> Scenario("mmlu", {"subject": "anatomy"}).entry
        'mmlu:subject=anatomy'
        """
        listed = ",".join(f"{key}={value}" for key, value in self.arguments.items())
        return f"{self.name}:{listed}" if listed else self.name

    def for_model(self, model: str, deployment: str) -> str:
        """The run entry for a model. HELM wants ``model`` beside ``model_deployment``.

        The deployment is left out where it is called as the model is, as HELM's own are.
        """
        model_arguments = f"model={model}" + (
            "" if deployment == model else f",model_deployment={deployment}"
        )
        return f"{self.entry}{',' if self.arguments else ':'}{model_arguments}"


def parse_scenarios(text: str | Iterable[str]) -> list[Scenario]:
    """Scenarios from a list, or from text with commas both between entries and between an entry's arguments.

    A piece such as ``method=x`` can only go on with the entry before it. Raises
    :class:`~pcsuite.errors.ConfigError` for arguments that are not KEY=VALUE, name a model, or lack mmlu's subject.
    """
    entries: list[str] = []
    joined = text if isinstance(text, str) else ",".join(text)
    for piece in (piece.strip() for piece in joined.split(",")):
        if piece and entries and "=" in piece and ":" not in piece:
            entries[-1] += ("," if ":" in entries[-1] else ":") + piece
        elif piece:
            entries.append(piece)
    scenarios = []
    for entry in dict.fromkeys(entries):
        name, _, listed = entry.partition(":")
        arguments: dict[str, str] = {}
        for part in filter(None, listed.split(",")):
            key, _, value = part.partition("=")
            if not key or not value:
                raise ConfigError(f"scenario '{entry}': '{part}' is not KEY=VALUE")
            if key in ("model", "model_deployment"):
                raise ConfigError(f"scenario '{entry}': models are chosen by --models, not in the scenario")
            arguments[key] = value
        if name == "truthful_qa":
            arguments.setdefault("task", "mc_single")
        if name == "mmlu" and "subject" not in arguments:
            raise ConfigError("scenario 'mmlu' needs a subject", hint="for example mmlu:subject=econometrics")
        scenarios.append(Scenario(name, arguments))
    return scenarios


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file HELM reads, and where published copies of it may stand in the user's folder."""

    target: str
    """Below HELM's ``scenarios`` folder."""
    places: tuple[str, ...]


def data_files(scenario: Scenario) -> tuple[DataFile, ...]:
    """What a scenario needs locally; nothing for scenarios whose data HELM fetches itself.

    The places are tried in their order, in the layout that ``pcsuite export-datasets --from`` reads first.
    """

    def file(target: str, name: str, *folders: str) -> DataFile:
        return DataFile(target, (*(f"{folder}/{name}" for folder in folders), name))

    if scenario.name == "truthful_qa":
        name = "TruthfulQA.csv"
        return (file(f"truthful_qa/data/{name}", name, "truthfulqa/v1", "truthfulqa", "truthful_qa", "v1"),)
    if scenario.name == "gsm":
        return tuple(file(f"gsm/gsm_data_{s}", f"{s}.jsonl", "gsm8k", "gsm") for s in ("train", "test"))
    if scenario.name == "mmlu":
        names = [f"{split}/{scenario.arguments['subject']}_{split}.csv" for split in ("dev", "val", "test")]
        return tuple(file(f"mmlu/data/{name}", name, "mmlu/data", "mmlu", "data") for name in names)
    return ()


def copy_data(scenarios: Iterable[Scenario], data_dir: Path | None, output: Path) -> str:
    """Put the scenarios' files where HELM looks below ``output``, and return a hash of them (hex).

    Files that HELM's folder has already stay; those of ``data_dir`` replace them. Raises
    :class:`~pcsuite.errors.DataError` for a file that is in neither, or that cannot be copied.
    """
    digest = hashlib.sha256()
    for scenario in scenarios:
        for file in data_files(scenario):
            target = output / SCENARIOS_FOLDER / file.target
            for source in [data_dir / place for place in file.places] if data_dir is not None else []:
                if source.is_file():
                    try:
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(source, target)
                    except OSError as error:
                        why = error.strerror or error
                        raise DataError(f"{source} cannot be placed for HELM at {target}: {why}") from error
                    break
            if not target.is_file():
                name = Path(file.places[-1]).name
                if data_dir is None:
                    why = f"needs {name}, and no folder with published files was named"
                    hint = "give --data DIR, or integrations.helm.data_dir"
                    raise DataError(f"scenario '{scenario.entry}' {why}", hint=hint)
                looked = "looked for " + ", ".join(file.places)
                raise DataError(f"scenario '{scenario.entry}': {data_dir} has no {name}", hint=looked)
            digest.update(file.target.encode())
            digest.update(bytes.fromhex(sha256_file(target)))
    return digest.hexdigest()


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
    _reported_at: float = field(default_factory=time.monotonic)

    def feed(self, line: str) -> None:
        """Take one line of the log, without its line end; its meaning goes to ``report``.

        Lines that HELM did not log itself are looked through for the exception that ended a run.
        """
        logged = _LOGGED.match(line)
        text = (logged["text"] if logged else line).strip()
        if logged:
            self._failing = ""
        if logged and (match := _COUNT.match(text)):
            self.total = int(match[1])
        elif logged and (match := _BEGIN.match(text)):
            self.started.append(match["name"])
            self.requests = self.answered = 0
            self.report(f"{len(self.started)}/{self.total} {match['name']}")
        elif logged and self.started and (match := _REQUESTS.match(text)):
            self.requests = int(match[1])
            self.report(f"  {self.requests} requests")
        elif logged and (match := _FAILED.match(text)):
            self._failing = match["name"]
            self.failures[self._failing] = "HELM gave no reason"
        elif not logged and line[:1].strip() and _EXCEPTION.match(text):
            self.last_exception = reason_of(text)
            if self._failing:
                # The last exception of a chain is the one that ended the run.
                self.failures[self._failing] = self.last_exception

    def count_answer(self, model_id: str) -> None:
        """Count an answer of a served model, and tell the number every ten seconds."""
        self.answered += 1
        if time.monotonic() - self._reported_at > _ANSWERS_EVERY_S:
            self._reported_at = time.monotonic()
            self.report(f"  {self.answered}/{self.requests} answered by {model_id}")

    @property
    def unfinished(self) -> str | None:
        """The run in progress, where the log ended in the midst of one."""
        return self.started[-1] if self.started and self.started[-1] not in self.failures else None


def reason_of(text: str) -> str:
    """An exception's last line for people: without its module, and without the request that HELM appends.

    At most 300 characters.
    """
    kind, sep, message = text.partition(" Request: Request(")[0].partition(":")
    reason = kind.rsplit(".", 1)[-1] + sep + message
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


def run_tool(
    command: str,
    arguments: Sequence[str],
    log: Path,
    feed: Callable[[str], None],
    stop: threading.Event | None = None,
) -> int:
    """Run one of HELM's commands to its end, its output into ``log`` and to ``feed``; returns its status.

    ``command`` is a script of HELM's environment; ``feed`` gets every line without its end. Once ``stop`` is set, by
    another thread, the process is ended. Whatever ends the wait, an
    interrupt included, the process and its children are gone afterwards. Raises
    :class:`~pcsuite.errors.IntegrationError` where it cannot be started or its log not be written.
    """
    python = environment_python(HELM)
    # A proxy must not stand between HELM and a server on loopback.
    variables = environment_variables(HELM) | {"PYTHONUNBUFFERED": "1"}
    direct = ",".join(filter(None, (variables.get("NO_PROXY"), "127.0.0.1", "localhost")))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            log.open("a", encoding="utf-8") as log_file,
            _ended_by_signal(),
            _ended_with_its_group(
                subprocess.Popen(
                    [str(python), str(python.with_name(command)), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    env=variables | {"NO_PROXY": direct, "no_proxy": direct},
                    start_new_session=True,  # a group of its own, which can be ended as a whole
                )
            ) as process,
        ):
            assert process.stdout is not None
            if stop is not None:
                threading.Thread(target=_end_when, args=(stop, process), daemon=True).start()
            for line in process.stdout:
                log_file.write(line)
                feed(line.rstrip("\n"))
            return process.wait()
    except OSError as error:
        raise IntegrationError(f"{command} cannot be run: {error.strerror or error}") from error


def _end_when(stop: threading.Event, process: subprocess.Popen[str]) -> None:
    """Ask a process and its children to end as soon as ``stop`` is set, while it runs."""
    while process.poll() is None:
        if stop.wait(0.2):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            return


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


@contextlib.contextmanager
def _ended_with_its_group(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End the process and its children when the block ends, first by asking."""
    try:
        yield process
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
        if process.stdout is not None:
            process.stdout.close()
