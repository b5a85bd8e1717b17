"""A prompt in its file: which texts of it a model gets, and the file with less of them, in its own form.

A source is a value. It knows its texts (one, or the messages of a chat) and writes itself with parts of them left out;
:mod:`pcsuite.prompts.blocks` says which parts there are. Here is what every source is, and the plainest: a text. YAML
and JSON are in :mod:`pcsuite.prompts.documents`, tools in :mod:`pcsuite.prompts.tools`, rules of agents in
:mod:`pcsuite.prompts.rules`, programs in :mod:`pcsuite.prompts.code_files`;
:mod:`pcsuite.prompts.reading` tells which of them a file is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pcsuite.config.yaml_source import load_yaml
from pcsuite.errors import ConfigError
from pcsuite.prompts.pieces import Piece
from pcsuite.prompts.variables import Braces

Span = tuple[int, int]
"""From one character of a text to before another."""
Kept = Mapping[int, Sequence[Span]]
"""By the number of a text: what is kept of it, in order."""
_FRONT_MATTER = re.compile(
    r"---[ \t]*(\r\n|\n|\r)(.*?)(?:\r\n|\n|\r)(?:---|\.\.\.)[ \t]*(?:(?:\r\n|\n|\r)\s*|\Z)", re.S
)
_TOML_FRONT = re.compile(
    r"\+\+\+[ \t]*(\r\n|\n|\r)(.*?)(?:\r\n|\n|\r)\+\+\+[ \t]*(?:(?:\r\n|\n|\r)\s*|\Z)", re.S
)
_FIELD_LINE = re.compile(r"[A-Za-z][\w-]*:(?:[ \t].*)?\Z|[ \t]+\S.*\Z|-[ \t].*\Z|#.*\Z|[ \t]*\Z")


class PromptText(NamedTuple):
    """A text that a model gets."""

    text: str
    role: str = ""
    """Of a chat: who says it."""
    line: int = 1
    """Line of the file on which it begins."""
    block: str = ""
    """Name of the block that it belongs to as a whole, where the file says so."""
    inline: bool = False
    """Whether its line ends are escapes, so that all of it stands on one line of the file."""
    holes: tuple[tuple[int, str], ...] = ()
    """Of a program's text: what is put in when it runs, from which character on, as it is written."""
    parts: tuple[Piece, ...] = ()
    """How it is split unless a way is asked for, where the file's form says it; joined they are the text."""
    parted: str = ""
    """What these parts are, in words."""


@dataclass(frozen=True)
class PromptSource(ABC):
    """A prompt's file and its texts."""

    original: str
    """The file, without the byte-order mark of an editor."""
    suffix: str
    """Ending of the file's name, with its dot."""

    @property
    @abstractmethod
    def texts(self) -> tuple[PromptText, ...]:
        """What a model gets, in order: one text, or the messages of a chat."""

    @property
    def braces(self) -> Braces:
        """What the file says of its braces."""
        return ""

    @property
    def front(self) -> str:
        """What stands before the text and is not sent."""
        return ""

    @property
    def to_the_letter(self) -> bool:
        """Whether it is no template: nothing in it is a variable, and the item is a message of its own."""
        return False

    @property
    def is_chat(self) -> bool:
        """Whether the texts are messages."""
        return any(text.role for text in self.texts)

    def written(self, kept: Kept) -> str:
        """The file with only what is kept of its texts; a message of which nothing is kept goes.

        Reading it again gives exactly what is kept: a ``PromptError`` where the file's form cannot say that.
        """
        whole = {number: [(0, len(text.text))] for number, text in enumerate(self.texts)}
        if all(_joined(text.text, kept.get(n, ())) == text.text for n, text in enumerate(self.texts)):
            return self.original
        assert kept.keys() <= whole.keys(), "every number is that of a text"
        return self._written(kept)

    @abstractmethod
    def _written(self, kept: Kept) -> str: ...

    def remaining(self, kept: Kept) -> list[str]:
        """The texts with only what is kept of each; those of a chat of which nothing is kept are left out."""
        texts = [_joined(text.text, kept.get(number, ())) for number, text in enumerate(self.texts)]
        return [text for text in texts if text] if self.is_chat else texts


def _joined(text: str, spans: Sequence[Span]) -> str:
    return "".join(text[first:last] for first, last in spans)


@dataclass(frozen=True)
class TextSource(PromptSource):
    """A file that is the prompt: Markdown, XML-like tags, anything; front matter (YAML, TOML) is kept out."""

    @property
    def front(self) -> str:
        """The front matter with the blank lines below it; empty where there is none."""
        for pattern in (_FRONT_MATTER, _TOML_FRONT):
            match = pattern.match(self.original)
            if match is None or match.end() >= len(self.original):
                continue
            if pattern is _TOML_FRONT:
                return match.group()
            try:
                fields = load_yaml(match.group(2), "front matter")
            except ConfigError:
                # Editors of rules write what YAML does not take: globs: **/*.py, or a colon within a text.
                if all(map(_FIELD_LINE.match, match.group(2).splitlines())):
                    return match.group()
                continue
            if isinstance(fields, dict) and all(isinstance(key, str) for key in fields):
                return match.group()
        return ""

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The text below the front matter."""
        front = self.front
        line = 1 + len(re.findall(r"\r\n|\n|\r", front))
        return (PromptText(self.original[len(front) :], line=line),)

    def _written(self, kept: Kept) -> str:
        return self.front + self.remaining(kept)[0]


class PromptFile(NamedTuple):
    """Where a prompt is: a file, and the name of one of the prompts in it, where it has several."""

    path: Path
    name: str = ""

    @classmethod
    def of(cls, reference: str | Path) -> PromptFile:
        """What ``app.py:SYSTEM_PROMPT`` or ``triage.md`` means; a file that is called so goes before.

        >>> PromptFile.of("app.py:SYSTEM_PROMPT")
        PromptFile(path=PosixPath('app.py'), name='SYSTEM_PROMPT')
        """
        path = Path(reference)
        file, separator, name = str(reference).rpartition(":")
        if not separator or path.exists() or not name or re.search(r"[/\\]", name) or len(file) < 2:
            return cls(path)
        return cls(Path(file), name)

    @property
    def run_name(self) -> str:
        """A name for runs of it, made of letters, digits, ``.``, ``_`` and ``-``."""
        words = self.path.stem + (f"-{self.name}" if self.name else "")
        return re.sub(r"[^A-Za-z0-9._-]", "-", words).lstrip("._-") or "prompt"
