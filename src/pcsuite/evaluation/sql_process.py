"""Strangers' SQL in a process of its own, which has a time and a memory limit and is killed where it keeps neither.

SQLite looks at a clock between the steps of a query, not inside a function: ``replace(hex(zeroblob(4000000)), …)`` runs
for as long as it likes, and nothing within the process can stop it. The process is reused from query to query.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite._util.processes import child_environment

Value = int | float | str | bytes | None
Row = tuple[Value, ...]
WORKER = Path(__file__).with_name("_sql_worker.py")
MOST_MEMORY = 1 << 30
"""Bytes of address space of the process, its interpreter included."""
_GRACE_S = 0.5
"""What a query may take beyond its time before its process is killed: SQLite stops most by itself."""
_START_S = 30.0
_BLOCK_BYTES = 1 << 16


class QueryRefusedError(Exception):
    """A query was refused, failed, ran too long or returned too much."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may take."""

    seconds: float
    rows: int


def run_query(database: Path, query: str, limits: QueryLimits) -> tuple[Row, ...]:
    """Rows of one reading query; :class:`QueryRefusedError` says why there are none.

    The query is a stranger's: the file is opened read-only in another process, anything but reading is refused, time,
    memory and result are bounded. Floats are rounded to 10 significant digits, because the order of summation may
    change the last ones.
    """
    reply = _shared_process().ask(
        {
            "database": f"{database.resolve().as_uri()}?mode=ro",
            "query": query,
            "seconds": limits.seconds,
            "rows": limits.rows,
        },
        limits.seconds,
    )
    if "rows" not in reply:
        raise QueryRefusedError(str(reply.get("refused", "the query's process gave no answer")))
    return tuple(
        tuple(base64.b64decode(value["b"]) if isinstance(value, dict) else value for value in row)
        for row in reply["rows"]
    )


class QueryProcess:
    """One child process, started when it is first asked and again after it was killed; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """How often a process was started."""

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The worker's answer; a query that takes longer than ``seconds`` costs the process its life."""
        with self._lock:
            fresh = self._process is None or self._process.poll() is not None
            process = self._started() if fresh else self._process
            assert process is not None
            try:
                # Lone surrogates, which models write, are escaped: SQLite then finds a syntax error.
                return self._exchange(process, json.dumps(question).encode() + b"\n", seconds, fresh=fresh)
            except BaseException:  # an interrupt too: what it was doing must not go on
                self.close()
                raise

    def close(self) -> None:
        """End the process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        self.close()
        self.starts += 1
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WORKER), str(MOST_MEMORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for us; the child ends with its input
        )
        return self._process

    def _exchange(
        self, process: subprocess.Popen[bytes], line: bytes, seconds: float, *, fresh: bool
    ) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds + _GRACE_S + (_START_S if fresh else 0.0)
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            self.close()
            return {"refused": "the query's process has died"}
        answer = bytearray()
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready = left > 0 and bool(select.select([process.stdout], [], [], left)[0])
            if not ready:
                self.close()
                return {"refused": f"stopped after {seconds:g} s"}
            block = os.read(process.stdout.fileno(), _BLOCK_BYTES)
            if not block:
                status = process.wait()
                self.close()
                return {
                    "refused": f"the query ended its process (status {status}): out of memory, most likely"
                }
            answer += block
        reply: dict[str, Any] = json.loads(answer)
        return reply


_processes: dict[int, QueryProcess] = {}


def _shared_process() -> QueryProcess:
    """The process that queries of this interpreter share; a forked child starts its own."""
    return _processes.setdefault(os.getpid(), QueryProcess())


def close_shared_process() -> None:
    """End the process that queries of this interpreter share; the next query starts another."""
    process = _processes.pop(os.getpid(), None)
    if process is not None:
        process.close()


atexit.register(close_shared_process)
