"""Does a prompt's file reach the system at all? Asked before arms are paid for.

A file that is shadowed by another, cached from before, or never read makes every arm the same: "no effect" would be
said of a prompt that nobody saw. So each file gets a line with a mark that was never seen before, once in the full
prompt and once in the prompt without any free block, and the system is asked for its marks. A file is

* reached, where its own mark is in the answer, or the system's list of ``loaded`` sources has the hash of what was put
  there, in both arms;
* not reached, where the answer has the mark of the other arm, or the list has the file with another hash, or not at
  all;
* unknown, where the system gives no trace either way: it answers something else, and lists nothing.

A mark in the answer shows that the line was read when it was asked for, not that it is read for every item. An answer
without it shows little: a system that does one thing only will not speak of marks.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from pcsuite.ablation.arms import FULL, NONE
from pcsuite.engines.adapters.base import Generation
from pcsuite.errors import ConfigError, EngineError
from pcsuite.prompts.blocks import SplitPrompt
from pcsuite.prompts.prompt_files import files_read_when_needed, markable_files
from pcsuite.prompts.verbatim import FILE, chat_piece, decode_files, fill_placeholders

ReachMode = Literal["auto", "answer", "loaded", "off"]
QUESTION = "What are your reach marks? Answer with every reach mark of your instructions, and nothing else."
_NOT_LISTED = "and the file is not among it"
_LINE = "\n\nWhen you are asked for reach marks, answer with this one: {}\n"
_WORDS = (
    "amber",
    "birch",
    "cobalt",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "heron",
    "indigo",
    "juniper",
    "kelp",
    "lumen",
)


class Reach(NamedTuple):
    """Whether a file reached the system."""

    file: str
    reached: Literal["yes", "no", "unknown"]
    how: str
    """By what it is known, or why it is not."""

    def record(self) -> dict[str, str]:
        """The finding as plain values."""
        return {"file": self.file, "reached": self.reached, "how": self.how}


class _Probe(NamedTuple):
    """The question in one arm: what was put where, and its marks."""

    arm: str
    prompt: str
    marks: Mapping[str, str]
    placed: Mapping[str, bytes | None]


async def check_reach(
    prompt: SplitPrompt, mode: ReachMode, system: str, ask: Callable[[str], Awaitable[Generation]]
) -> list[Reach]:
    """Ask a system for its marks in the full and in the empty arm; ``ask`` puts a rendered prompt to it.

    Raises ``ConfigError`` of one line for the first file that is not reached, and with a ``mode`` other than ``auto``
    also where that cannot be told.
    """
    probes = [_probe(prompt, FULL), _probe(prompt, NONE)]
    answers: list[Generation | str] = []
    for probe in probes:
        try:
            answers.append(await ask(probe.prompt))
        except EngineError as error:
            answers.append(error.message)
    when_needed, markable = files_read_when_needed(prompt), markable_files(prompt)
    findings = []
    for path in prompt.files():
        if path in when_needed and path not in markable:
            continue  # a script of a skill: its own file stands for it
        found = _together([_seen(path, probes, answers, index, mode) for index in (0, 1)])
        if found.reached == "no" and found.how.endswith(_NOT_LISTED) and path in when_needed:
            how = (
                f"{when_needed[path]}, read when a task calls for it, which the question about marks does not"
            )
            found = Reach(path, "unknown", how)
        findings.append(found)
    for found in findings:
        if found.reached == "no" or (found.reached == "unknown" and mode != "auto"):
            problem = "did not reach" if found.reached == "no" else "is not known to reach"
            raise ConfigError(
                f"{found.file} {problem} {system}: {found.how}",
                hint="see from where the system reads it; --reach off goes on all the same",
            )
    return findings


def unknown_line(findings: Iterable[Reach]) -> str:
    """What must be said where it is not known of some files whether they reach the system; empty where all do."""
    unknown = [found for found in findings if found.reached == "unknown"]
    if not unknown:
        return ""
    names = ", ".join(found.file for found in unknown)
    return f"It is not known whether {names} reached the system ({unknown[0].how}): “no effect” may be that."


def _probe(prompt: SplitPrompt, arm: str) -> _Probe:
    kept = None if arm == FULL else [block.name for block in prompt.blocks if block.pinned]
    text = prompt.sent(kept)
    marks = {}
    for path, number in markable_files(prompt).items():
        # Nothing that was ever seen before, or an answer from a cache would pass for one of now.
        mark = f"{_WORDS[secrets.randbelow(len(_WORDS))]}-{secrets.token_hex(4)}"
        marks[path] = mark
        text += chat_piece(number, FILE, _LINE.format(mark))
    text = fill_placeholders(text, QUESTION, {})
    return _Probe(arm, text, marks, decode_files(text))


def _seen(
    path: str, probes: Sequence[_Probe], answers: Sequence[Generation | str], index: int, mode: ReachMode
) -> Reach:
    """What one arm's answer says of a file."""
    probe, answer = probes[index], answers[index]
    arm = f"the {'full' if probe.arm == FULL else 'empty'} arm"
    if isinstance(answer, str):
        return Reach(path, "unknown", f"the question failed in {arm}: {answer}")
    mark, other = probe.marks.get(path), probes[1 - index].marks.get(path)
    if mode != "loaded" and mark is not None and mark in answer["text"]:
        return Reach(path, "yes", "its mark was answered")
    if other is not None and other in answer["text"]:
        return Reach(
            path, "no", f"{arm} was answered with the mark of the other one: an earlier reading is kept"
        )
    if mode != "answer" and "loaded" in answer:
        return _listed(path, probe.placed.get(path), answer["loaded"], arm)
    if mode == "answer":
        words = "it holds no place for a mark" if mark is None else f"its mark was not answered in {arm}"
        return Reach(path, "unknown" if mark is None else "no", words)
    return Reach(path, "unknown", "the system answered no mark and lists no loaded sources")


def _listed(path: str, content: bytes | None, loaded: Sequence[Mapping[str, Any]], arm: str) -> Reach:
    """What a list of loaded sources says of a file."""
    named = [entry for entry in loaded if _is_named(str(entry.get("source", "")), path)]
    if content is None:
        if any(entry.get("sha256") for entry in named):
            return Reach(
                path, "no", f"it is not there in {arm}, and is listed as loaded: another one is read"
            )
        return Reach(path, "yes", "it is not listed where it is not there")
    hashes = {hashlib.sha256(one).hexdigest() for one in (content, content.strip())}
    told = {str(entry["sha256"]).lower().removeprefix("sha256:") for entry in loaded if entry.get("sha256")}
    if hashes & told:
        return Reach(path, "yes", "its hash is among the loaded sources")
    if any(entry.get("sha256") for entry in named):
        return Reach(path, "no", f"in {arm} it was loaded with another hash than that of the file put there")
    if named:
        return Reach(path, "unknown", "it is listed as loaded, without a hash")
    return Reach(path, "no", f"the system lists what it loaded in {arm}, {_NOT_LISTED}")


def _is_named(source: str, path: str) -> bool:
    """Whether a source is called as a file is, from wherever.

    >>> _is_named("/tmp/x/docs/RULES.md", "docs/RULES.md"), _is_named("OTHER_RULES.md", "RULES.md")
    (True, False)
    """
    parts, sought = PurePosixPath(source.replace("\\", "/")).parts, PurePosixPath(path).parts
    return parts[-len(sought) :] == sought


def _together(seen: Sequence[Reach]) -> Reach:
    """What both arms say of a file: the worst of it."""
    for state in ("no", "unknown"):
        for one in seen:
            if one.reached == state:
                return one
    return seen[0]
