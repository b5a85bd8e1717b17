"""Rules files of agents and editors: ``AGENTS.md``, ``CLAUDE.md``, ``.cursorrules``, ``*.mdc``, ``SKILL.md``.

They are no templates: they stand as they are before whatever is asked, so the file is the system's message and the item
the user's. Every item of a list is a rule and a block of its own; a heading above them stays as long as anything below
it does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pcsuite.prompts.pieces import Piece
from pcsuite.prompts.sources import PromptText, TextSource
from pcsuite.prompts.splitting import OPENS_BLOCK, split_inside, split_text, without_marks
from pcsuite.prompts.variables import variables

_RULES_FILE = re.compile(
    r"(?:agents|claude|gemini)(?:\.(?:local|override))?\.md|skill\.md|\.(?:cursor|windsurf|cline)rules|.*\.mdc"
    r"|copilot-instructions\.md|.*\.instructions\.md",
    re.IGNORECASE,
)


def is_rules_file(name: str) -> bool:
    """Whether agents and editors read a file of this name as their rules.

    >>> is_rules_file("AGENTS.md"), is_rules_file(".cursorrules"), is_rules_file("triage.md")
    (True, True, False)
    """
    return _RULES_FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class RulesSource(TextSource):
    """A rules file; front matter is kept out, as of any text."""

    @staticmethod
    def fits(original: str) -> bool:
        """Whether a file's text is rules: it has words, and no variable such as ``{{ input }}`` outside of code."""
        outside_code = (one for one in variables(original) if not one.in_code)
        return bool(original.strip()) and not any(
            one.style in ("double", "statement") for one in outside_code
        )

    @cached_property
    def _rules(self) -> tuple[PromptText, ...]:
        (text,) = super().texts
        if without_marks(text.text) != text.text:
            return (text,)
        pieces, words = split_text(text.text, "auto")
        parts = [_standing(part) for part in _single_rules(pieces)]
        count = sum(part.kind == "item" for part in parts)
        if parts != pieces:
            words += f" and their {count} list items"
        return (text._replace(parts=tuple(parts), parted=words),)

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The text below the front matter, each rule a part."""
        return self._rules

    @property
    def to_the_letter(self) -> bool:
        """Rules are no template: what looks like a variable is meant as it is written."""
        return True


def _single_rules(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of which those that hold a list are taken apart at its items."""
    return [part for piece in pieces for part in _single(piece)]


def _standing(piece: Piece) -> Piece:
    """A heading alone, above the first of several rules, stays: it says nothing that could be followed."""
    if piece.pinned or not _HEADING_ALONE.fullmatch(piece.text):
        return piece
    title = piece.text.strip().lstrip("#").strip()
    return piece._replace(title=f"{title} heading", kind="heading", pinned=OPENS_BLOCK)


_HEADING_ALONE = re.compile(r"\s*#{1,6}[ \t][^\r\n]*\s*")


def _single(piece: Piece) -> list[Piece]:
    if piece.pinned or piece.kind not in ("heading", "paragraph"):
        return [piece]
    inside = split_inside(piece.text, "auto")
    if len(inside) < 2:
        return [piece]
    parts = _single_rules(inside)
    if not any(part.kind in ("item", "row") for part in parts):
        return [piece]
    named = (
        part._replace(title=f"{piece.title} heading") if part.title == "heading" else part for part in parts
    )
    return list(named)
