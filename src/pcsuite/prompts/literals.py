"""String literals of a program: texts whose characters know which characters of the file they come from.

So leaving out a part of a prompt leaves out exactly its characters of the file. Python's are read in
:mod:`pcsuite.prompts.python_literals`, those of TypeScript and JavaScript in :mod:`pcsuite.prompts.script_literals`.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.verbatim import ROLES

ROLE_WORDS = {
    "system": "system", "developer": "developer", "user": "user", "human": "user", "assistant": "assistant",
    "ai": "assistant", "tool": "tool",
}  # fmt: skip
"""Roles by the words that code has for them."""
COMPUTED = "it is computed when the program runs, and no program is run here"
_LISTED = 6
_LONG = 60
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Character(NamedTuple):
    """A character of a text, and where the file has it."""

    text: str
    start: int
    end: int
    literal: int
    """Where the literal begins that it stands in."""
    hole: int = -1
    """Where the replacement field begins that it is written in; -1 for a character of the text itself."""


@dataclass(frozen=True)
class Literal:
    """A text of a program."""

    characters: tuple[Character, ...]

    @cached_property
    def text(self) -> str:
        """What it says."""
        return "".join(one.text for one in self.characters)

    def __add__(self, other: Literal) -> Literal:
        return Literal(self.characters + other.characters)

    @property
    def holes(self) -> tuple[tuple[int, str], ...]:
        """What the program puts in when it runs: from which character on, and as it is written."""
        starts = [
            index
            for index, one in enumerate(self.characters)
            if one.hole >= 0 and (index == 0 or self.characters[index - 1].hole != one.hole)
        ]
        return tuple(
            (
                start,
                "".join(
                    one.text for one in self.characters[start:] if one.hole == self.characters[start].hole
                ),
            )
            for start in starts
        )

    def stripped(self, method: str = "strip") -> Literal:
        """The literal after ``.strip()``, ``.lstrip()`` or ``.rstrip()``."""
        start = len(self.text) - len(self.text.lstrip()) if method != "rstrip" else 0
        end = len(self.text.rstrip()) if method != "lstrip" else len(self.text)
        return Literal(self.characters[start:end])

    def dedented(self) -> Literal:
        """The literal after ``textwrap.dedent``."""
        lines, shorter_lines = _LINES.findall(self.text), _LINES.findall(textwrap.dedent(self.text))
        kept: list[Character] = []
        position = 0
        for line, shorter in itertools.zip_longest(
            lines, shorter_lines, fillvalue=""
        ):  # a last margin is no line
            dropped = len(line) - len(shorter)
            if (
                dropped
                and kept
                and (margin := self.characters[position + dropped - 1]).literal == kept[-1].literal
            ):
                kept[-1] = kept[-1]._replace(end=margin.end)
            kept += self.characters[position + dropped : position + len(line)]
            position += len(line)
        return Literal(tuple(kept))

    def cuts(self, kept: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans of the file that are cut so that only some spans of the text are left.

        What stands between two characters of a literal (a continued line, the margin that ``dedent`` takes) belongs to
        the first of them.
        """
        stays = {index for first, last in kept for index in range(first, last)}
        cuts: list[tuple[int, int]] = []
        for index, one in enumerate(self.characters):
            if index in stays:
                continue
            after = self.characters[index + 1] if index + 1 < len(self.characters) else None
            end = after.start if after is not None and after.literal == one.literal else one.end
            if cuts and cuts[-1][1] == one.start:
                cuts[-1] = (cuts[-1][0], end)
            else:
                cuts.append((one.start, end))
        return cuts


class CodeMessage(NamedTuple):
    """A text of a program's prompt."""

    literal: Literal
    line: int
    role: str = ""
    entry: tuple[int, int] | None = None
    """Of a message: what of the file is cut where nothing of it is kept."""


def message_role(word: str, number: int) -> str:
    """The role that a word of a program means; ``PromptError`` for an unknown one."""
    if word.casefold() not in ROLE_WORDS:
        raise PromptError(f"message {number} has the unknown role '{word}'", hint=did_you_mean(word, ROLES))
    return ROLE_WORDS[word.casefold()]


def is_likely_prompt(name: str, messages: Sequence[CodeMessage]) -> bool:
    """Whether a name of a program looks like that of a prompt: by itself, or by a long text."""
    text = "".join(one.literal.text for one in messages)
    return "prompt" in name.casefold() or "\n" in text.strip() or len(text) >= _LONG


def no_such_name(name: str, texts: Sequence[str]) -> PromptError:
    """What is said where a program has no text of that name, or none is named."""
    if not texts:
        return PromptError("it has no text that could be a prompt", hint="a string that is given a name")
    listed = ", ".join(texts[:_LISTED]) + (", …" if len(texts) > _LISTED else "")
    if not name:
        return PromptError("which of its texts is the prompt?", hint=f"name it after a colon: {listed}")
    return PromptError(f"there is no '{name}' in it", hint=f"{did_you_mean(name, texts)} (it has {listed})")
