"""PromptBench behind a JSON-lines worker in its own environment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite.errors import IntegrationError
from pcsuite.integrations import promptbench_worker
from pcsuite.integrations.catalogue import PROMPTBENCH
from pcsuite.integrations.environments import environment_python, environment_variables

ATTACKS = ("deepwordbug", "checklist", "stresstest", "semantic")
"""Attacks that need nothing from the network."""
PREFIX = "promptbench:"
"""What the kinds of these attacks begin with in profiles and in the log."""
_LINE_BYTES = 1 << 22
_START_SECONDS = 300.0

Scorer = Callable[[str], Awaitable[float]]


class AttackNotApplicableError(IntegrationError):
    """The attack has nothing to do on this prompt."""


@dataclass(frozen=True, slots=True)
class AttackRequest:
    """What is attacked, and how hard."""

    attack: str
    text: str
    protected: tuple[str, ...]
    """Words that stay as they are."""
    seed: int
    budget: int
    """Most scores that may be asked for."""
    instruction: str = ""
    """The part of the text that ``semantic`` replaces."""
    dataset: str = ""
    """The data set whose canned prompts ``semantic`` uses."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the wire."""
        return {name: getattr(self, name) for name in self.__slots__} | {"protected": list(self.protected)}


class PromptBenchWorker:
    """One PromptBench process, kept alive between attacks: it takes seconds to start."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def attack(self, request: AttackRequest, score: Scorer) -> dict[str, Any]:
        """Run one attack, answering its questions by ``score``; returns what the worker reports."""
        process = await self._started()
        await self._send(request.as_dict())
        while True:
            message = await self._receive(process)
            if "ask" in message:
                await self._send({"score": await score(message["ask"])})
            elif "done" in message:
                return dict(message["done"])
            elif "not_applicable" in message:
                raise AttackNotApplicableError(str(message["not_applicable"]))
            else:
                raise IntegrationError(
                    f"PromptBench {request.attack}: {message.get('error', 'no reason given')}"
                )

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), timeout=5)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            python = environment_python(PROMPTBENCH)
            self._process = await asyncio.create_subprocess_exec(
                str(python),
                "-I",  # this folder must not be on the path: it holds a promptbench.py of our own
                str(Path(promptbench_worker.__file__)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment_variables(PROMPTBENCH),
                limit=_LINE_BYTES,
            )
            await asyncio.wait_for(self._receive(self._process), _START_SECONDS)
        return self._process

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise IntegrationError(
                "the PromptBench worker has died", hint=f"{PROMPTBENCH.command} --force"
            ) from error

    async def _receive(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise IntegrationError(
                f"the PromptBench worker ended with status {await process.wait()}",
                hint=f"{PROMPTBENCH.command} --force",
            )
        return dict(json.loads(line))
