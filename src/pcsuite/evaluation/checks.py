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
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import BaseModel

from pcsuite._util import signals
from pcsuite._util.children import Child
from pcsuite._util.processes import child_environment
from pcsuite._util.secrets import redacted_end
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
OUTPUT_KEPT = 4_000
"""Characters of the end of a check's output that a row keeps."""


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
    document = {"id": item.item_id, "input": item.input_text, "item": values, "output": answer.text}
    words = json.dumps(document, default=str).encode()
    return {name: await run_check(check, folder, words) for name, check in checks.items()}


async def run_check(check: CheckSpec, folder: str | Path, words: bytes = b"") -> CheckResult:
    """Run one check, with ``words`` on its standard input; all that it started is gone afterwards."""
    children: list[Child] = []
    running = asyncio.ensure_future(asyncio.to_thread(_run, check, Path(folder), words, children.append))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        for child in children:
            child.cancel()
        await asyncio.gather(running, return_exceptions=True)  # the folder may go only then
        raise


def _run(check: CheckSpec, folder: Path, words: bytes, started: Callable[[Child], object]) -> CheckResult:
    cut = not check.network and can_cut_network()
    limits = [str(check.memory_limit_mb << 20), "1" if cut else "0"]
    program = [sys.executable, "-I", "-S", str(SCRIPT), *limits, check.command]
    try:
        child = Child(program, folder, environment=child_environment(_ENVIRONMENT))
    except OSError as error:
        raise EngineError(
            f"check '{check.command}' could not be started: {error.strerror or error}"
        ) from error
    started(child)
    signals.before_exit.append(child.cancel)
    try:
        # What it prints comes as standard error, of which the end is kept, however much there is.
        reply = child.talk(words, seconds=check.time_limit_s, most_bytes=0, keep_errors=4 * OUTPUT_KEPT)
    finally:
        signals.before_exit.remove(child.cancel)
        child.close()
    seconds, output = round(reply.seconds, 3), redacted_end(reply.errors, OUTPUT_KEPT, kept=4 * OUTPUT_KEPT)
    if reply.end == "time":
        why = f"check ran out of time ({check.time_limit_s:g} s)"
        return CheckResult(False, None, seconds, output, why, network=not cut, block=check.block)
    if reply.end != "ended":
        raise EngineError(f"check '{check.command}' was stopped", retryable=True)
    return CheckResult(reply.status == 0, reply.status, seconds, output, network=not cut, block=check.block)


@lru_cache(maxsize=1)
def can_cut_network() -> bool:
    """Whether this system lets a check run without a network; where not, that is warned of, once."""
    with suppress(OSError, subprocess.SubprocessError):
        probe = [sys.executable, "-I", "-S", str(SCRIPT), "0", "1"]
        if (
            subprocess.run(
                probe, capture_output=True, timeout=30, check=False, env=child_environment()
            ).returncode
            == 0
        ):
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
