"""Checks: commands that look at the folder a call worked in; a check holds where its command ends with status 0.

They run after the answer, in the call's own copy of the folder (:mod:`pcsuite.engines.targets.workspaces`), one after
the other, each with limits of its own: time, memory of each process, all that it starts ended with it, no network where
the system lets us cut it. That keeps an honest check from running away. It is no sandbox: a check reads and writes what
its user can. What became of each check stands in the row, so that scoring anew needs no folder.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import BaseModel

from pcsuite._util import signals
from pcsuite._util.processes import child_environment
from pcsuite.config.definitions import CheckSpec, Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError, EngineError
from pcsuite.evaluation.base import Answer, CheckResult, Evaluation, Evaluator, Parsed, conclude

_LOGGER = logging.getLogger("pcsuite")
SCRIPT = Path(__file__).parents[1] / "_util" / "_limited.py"
_ENVIRONMENT = (
    "VIRTUAL_ENV", "CONDA_", "PYTHONPATH", "PYTHONHASHSEED", "NODE_PATH", "CARGO_HOME", "RUSTUP_HOME", "GOPATH",
    "GOCACHE", "GOFLAGS", "JAVA_HOME", "GEM_HOME", "GEM_PATH",
)  # fmt: skip
"""What of our environment a check gets beside the usual: where languages find their packages. No keys."""
OUTPUT_CHARACTERS = 4_000
"""Of a check's output, half from its beginning and half from its end."""
_AFTER_END_S = 1.0
"""What may still be read after the command has ended, from processes that it left behind."""
_BLOCK = 1 << 16
_running: set[int] = set()
"""Process groups of checks that are under way."""


def not_run(checks: Mapping[str, CheckSpec], why: str) -> dict[str, CheckResult]:
    """What became of checks that were not run: none holds."""
    return {
        name: CheckResult(False, why=f"not run: {why}", block=check.block) for name, check in checks.items()
    }


async def run_checks(
    checks: Mapping[str, CheckSpec], folder: str | Path, item: Item, answer: Answer
) -> dict[str, CheckResult]:
    """Run checks in a folder, in their order, and say what became of each.

    Each gets the item (``id``, ``input``, its columns and truth as ``item``) and the answer (``output``) as JSON on
    standard input. Raises ``EngineError`` where one cannot be started at all.
    """
    values = {**item.attributes, **item.columns, **item.truth}
    given = {"id": item.item_id, "input": item.input_text, "item": values, "output": answer.text}
    words = json.dumps(given, default=str).encode()
    return {name: await run_check(check, folder, words) for name, check in checks.items()}


async def run_check(check: CheckSpec, folder: str | Path, words: bytes = b"") -> CheckResult:
    """Run one check, with ``words`` on its standard input; all that it started is gone afterwards."""
    cut = not check.network and can_cut_network()
    arguments = [str(check.memory_limit_mb << 20), "1" if cut else "0", check.command]
    started = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SCRIPT), *arguments),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=child_environment(_ENVIRONMENT),
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(
            f"check '{check.command}' could not be started: {error.strerror or error}"
        ) from error
    _running.add(process.pid)
    output = _Output()
    feeding = asyncio.ensure_future(_feed(process, words))
    reading = asyncio.ensure_future(output.read(process))
    try:
        await asyncio.wait_for(_ended(process), check.time_limit_s)
        why = ""
    except asyncio.TimeoutError:
        why = f"check ran out of time ({check.time_limit_s:g} s)"
    finally:
        _end_group(process.pid)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading), _AFTER_END_S)
        for task in (feeding, reading):
            task.cancel()
        await asyncio.gather(feeding, reading, return_exceptions=True)
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()
        _running.discard(process.pid)
    status = None if why else process.returncode
    seconds = round(time.monotonic() - started, 3)
    return CheckResult(status == 0, status, seconds, output.text(), why, network=not cut, block=check.block)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for a process itself: asyncio's own wait is also for all who hold its output, such as a server it left."""
    pause = 0.002
    while process.returncode is None:
        await asyncio.sleep(pause)
        pause = min(0.05, pause * 1.5)


async def _feed(process: asyncio.subprocess.Process, words: bytes) -> None:
    """Write a check's input; one that reads none is none the worse for it."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(words)
        await process.stdin.drain()
    process.stdin.close()


class _Output:
    """The beginning and the end of what a process prints; the rest is read and forgotten."""

    def __init__(self) -> None:
        self._most = OUTPUT_CHARACTERS // 2
        self._head, self._tail, self._size = b"", b"", 0

    async def read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while block := await process.stdout.read(_BLOCK):
            self._size += len(block)
            room = max(0, self._most - len(self._head))
            self._head += block[:room]
            self._tail = (self._tail + block[room:])[-self._most :]

    def text(self) -> str:
        left_out = self._size - len(self._head) - len(self._tail)
        middle = f"\n… {left_out:,} bytes left out …\n".encode() if left_out else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


def _end_group(number: int) -> None:
    with suppress(OSError):
        os.killpg(number, signal.SIGKILL)


def _end_all() -> None:
    for number in list(_running):
        _end_group(number)


signals.before_exit.append(_end_all)


@lru_cache(maxsize=1)
def can_cut_network() -> bool:
    """Whether this system lets a check run without a network; where not, that is warned of, once."""
    with suppress(OSError, subprocess.SubprocessError):
        probe = [sys.executable, "-I", "-S", str(SCRIPT), "0", "1"]
        if subprocess.run(probe, capture_output=True, timeout=30, check=False).returncode == 0:
            return True
    _LOGGER.warning("checks can reach the network: this system does not let us cut it")
    return False


class CheckOptions(Definition):
    """Options of the evaluator ``check``: none; its commands are the task's ``checks``."""


class CheckEvaluator(Evaluator):
    """Scores by the task's checks: 1 where all of them hold that are of no single block, else 0."""

    Options: ClassVar[type[BaseModel]] = CheckOptions

    def check(self, item: Item) -> None:
        """Any item will do: what is right, the commands know."""

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        """Score by what became of the checks; raises ``DataError`` where none was run.

        The canonical answer is the text, of an answer without words what was changed.
        """
        scoring = [result for result in answer.checks.values() if not result.block]
        if not scoring:
            raise DataError(
                f"item '{item.item_id}': no check was run",
                hint="the evaluator check goes with a task's checks and a folder",
            )
        parsed = Parsed(answer=told(answer))
        for name, result in answer.checks.items():
            if not result.passed:
                parsed.parse_errors.append(f"{name}: {said(result)}")
        passed = all(result.passed for result in scoring)
        return conclude(parsed, answer, score=float(passed), exact_match=passed)

    def gold_answer(self, item: Item) -> str:
        """Nobody knows one: what is right shows in the folder."""
        raise DataError(f"item '{item.item_id}': a task that is checked by commands has no gold answer")

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """Words, which no check looks at."""
        return "nothing was done"


def said(result: CheckResult) -> str:
    """What became of a check in words.

    >>> said(CheckResult(False, 2)), said(CheckResult(True, 0)), said(CheckResult(False, -11))
    ('exit status 2', 'exit status 0', 'ended by signal 11')
    """
    if result.status is None:
        return result.why
    return f"ended by signal {-result.status}" if result.status < 0 else f"exit status {result.status}"


def told(answer: Answer) -> str:
    """An answer's words for votes and counts; of one without words what it changed.

    >>> told(Answer("  Done. ")), told(Answer(""))
    ('done.', 'nothing was changed')
    """
    text = " ".join(answer.text.split()).casefold()[:_LONGEST]
    if text:
        return text
    paths = answer.changed.paths if answer.changed is not None else {}
    words: Sequence[str] = [f"{change} {path}" for path, change in paths.items()]
    return ", ".join(words)[:_LONGEST] or "nothing was changed"


_LONGEST = 2_000
