"""Attacked prompts: the text an attack may change, the store of what was found, and the worker that attacks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.errors import IntegrationError, LogError
from pcsuite.integrations.environments import PROMPTBENCH, environment_python, environment_variables
from pcsuite.integrations.promptbench import worker as promptbench_worker
from pcsuite.logging.log import RunPaths
from pcsuite.logging.row import PerturbationRef
from pcsuite.logging.segments import Beside
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.prompt import PromptTree

ATTACKS = ("deepwordbug", "checklist", "stresstest", "semantic")
"""Attacks that need nothing from the network."""
PREFIX = "promptbench:"
"""What the kinds of these attacks begin with in profiles and in the log."""
SEPARATOR = "\n\n~~~\n\n"
"""Between the parts of an attacked text; it has no letter, so word attacks leave it alone."""
_LITERAL = re.compile(r'"[^"\n]+"|\{[^\n]*\}|\[[^\n]*\]|####|\b[A-Z][A-Z_]+\b|\b[A-Z]\b')
_WORD = re.compile(r"\w+")
_PROTOCOL = ("Action", "Observation", "Final", "Answer", "search", "JSON")
_LINE_BYTES = 1 << 22
_START_SECONDS = 300.0
_REINSTALL = f"{PROMPTBENCH.command} --force"

Scorer = Callable[[str], Awaitable[float]]
"""Gives the score of a changed text, 0 to 1."""


def attackable_parts(tree: PromptTree, ctx: PromptContext) -> list[str]:
    """Instruction and blocks, without what must stay verbatim: the schema, exemplars, the input.

    The instruction comes first; :func:`with_parts` puts changed parts back.
    """
    return [tree.instruction, *(tree.blocks[index].text for index in _attackable(tree, ctx))]


def with_parts(tree: PromptTree, ctx: PromptContext, parts: Sequence[str]) -> PromptTree:
    """The prompt with its attackable parts replaced, in the order of :func:`attackable_parts`.

    Raises :class:`ValueError` where there are more or fewer of them than the prompt has.
    """
    indices = _attackable(tree, ctx)
    if len(parts) != len(indices) + 1:
        raise ValueError(f"{len(parts)} parts given, the prompt has {len(indices) + 1}")
    blocks = list(tree.blocks)
    for index, text in zip(indices, parts[1:], strict=True):
        blocks[index] = replace(blocks[index], text=text)
    return replace(tree, instruction=parts[0], blocks=tuple(blocks))


def protected_words(tree: PromptTree, ctx: PromptContext) -> tuple[str, ...]:
    """Words of schema, labels, field names, formats and protocol lines, sorted.

    An attack leaves them as they are, so that the task stays solvable.
    """
    literals = [match for part in attackable_parts(tree, ctx) for match in _LITERAL.findall(part)]
    sources = [ctx.schema_text, *literals, *_PROTOCOL, ctx.final_answer_format, ctx.abstain]
    return tuple(sorted({word for source in sources for word in _WORD.findall(source)}))


def keeps_literals(original: str, changed: str, protected: Sequence[str]) -> bool:
    """Whether a reworded part still has every quoted text, label, field name and format of the original.

    ``protected`` are the words of :func:`protected_words`, of which those in the original must stay.
    """
    words, changed_words = set(_WORD.findall(original)), set(_WORD.findall(changed))
    return (
        all(text in changed for text in _LITERAL.findall(original))
        and words & set(protected) <= changed_words
    )


def _attackable(tree: PromptTree, ctx: PromptContext) -> list[int]:
    return [
        index
        for index, block in enumerate(tree.blocks)
        if block.slot != "fewshot" and not (ctx.schema_text and ctx.schema_text in block.text)
    ]


class AttackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attacked prompt and how it was found."""

    attack: str
    task: str
    model: str
    condition: str
    parts: list[str]
    """The attacked parts of the prompt."""
    original: list[str]
    """The same parts before."""
    original_score: float | None = None
    attacked_score: float | None = None
    """Scores on the items of the search (never the scored ones); ``None`` where nothing was searched."""
    queries: int
    budget: int
    seed: int
    ranking: str = "none"
    """How deepwordbug ranked the words: ``unk`` by asking, ``random`` where the budget was too small."""
    search_items: list[str] = []
    version: str
    """Of PromptBench, or the model that wrote a paraphrase."""
    perturbation: PerturbationRef


class AttackStore:
    """The file of attacked prompts of a run, so that each is searched once, also after a kill.

    Raises :class:`~pcsuite.errors.LogError` where the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, AttackRecord] = {}
        if path.exists():
            try:
                self.records = msgspec.json.decode(path.read_bytes(), type=dict[str, AttackRecord])
            except (OSError, msgspec.MsgspecError) as error:
                why = f"{path}: attacked prompts cannot be read ({error})"
                raise LogError(why, hint="move the file away to search anew") from error

    @classmethod
    def of(cls, paths: RunPaths) -> AttackStore:
        """``<run>.attacks.json`` beside the log."""
        return cls(Beside.ATTACKS.of(paths.log))

    def put(self, key: str, record: AttackRecord) -> None:
        """Add a record; the file is replaced whole.

        ``key`` is a hash of all that the search rests on.
        """
        self.records[key] = record
        content: Any = msgspec.json.format(msgspec.json.encode(self.records), indent=1)
        with write_errors(LogError, self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(self.path, content + b"\n")


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


class PromptBenchWorker:
    """One PromptBench process, kept alive between attacks: it takes seconds to start."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def attack(self, request: AttackRequest, score: Scorer) -> dict[str, Any]:
        """Run one attack, answering its questions by ``score``; returns what ``worker.run_attack`` reports.

        Raises :class:`AttackNotApplicableError` where the attack has nothing to do on this text, and
        :class:`~pcsuite.errors.IntegrationError` where PromptBench fails or its process has died.
        """
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                str(environment_python(PROMPTBENCH)),
                "-I",  # no folder of ours on its path
                str(Path(promptbench_worker.__file__)),
                stdin=pipe,
                stdout=pipe,
                # PromptBench prints much, and a pipe that nobody reads would stop it when full.
                stderr=asyncio.subprocess.DEVNULL,
                env=environment_variables(PROMPTBENCH),
                limit=_LINE_BYTES,
            )
            await asyncio.wait_for(self._receive(self._process), _START_SECONDS)
        process = self._process
        await self._send(process, asdict(request))
        while True:
            message = await self._receive(process)
            if "ask" in message:
                await self._send(process, {"score": await score(message["ask"])})
            elif "done" in message:
                return dict(message["done"])
            elif "not_applicable" in message:
                raise AttackNotApplicableError(str(message["not_applicable"]))
            else:
                raise IntegrationError(
                    f"PromptBench {request.attack}: {message.get('error', 'no reason given')}"
                )

    async def aclose(self) -> None:
        """End the process, by closing its input and killing it where it does not end within 5 seconds.

        A worker that was never started, or has ended, is nothing to end. It may be called twice.
        """
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

    async def _send(self, process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise IntegrationError("the PromptBench worker has died", hint=_REINSTALL) from error

    async def _receive(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            status = await process.wait()
            raise IntegrationError(f"the PromptBench worker ended with status {status}", hint=_REINSTALL)
        return dict(json.loads(line))
