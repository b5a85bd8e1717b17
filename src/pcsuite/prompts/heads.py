"""Headings, and heads of tables, and which blocks stand below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pcsuite.prompts.sources import PromptText
from pcsuite.prompts.splitting import (
    CLOSES_BLOCK,
    CLOSES_EXAMPLES,
    HEADS_SECTIONS,
    HEADS_TABLE,
    OPENS_BLOCK,
    OPENS_EXAMPLES,
    heading_levels,
    without_marks,
)

if TYPE_CHECKING:
    from pcsuite.prompts.blocks import PromptBlock

HEADS = (OPENS_BLOCK, OPENS_EXAMPLES, HEADS_SECTIONS, HEADS_TABLE)
"""Why a heading, or the head of a table, is kept: for what stands below it."""
_TABLE_LEVEL = 8
"""The head of a table is below every heading."""


def with_empty_heads(
    texts: Sequence[PromptText], blocks: Sequence[PromptBlock], dropped: Iterable[str]
) -> set[str]:
    """The names of the dropped blocks, and of the heads of which then nothing below is left."""
    gone = set(dropped)
    for number, text in enumerate(texts if gone else ()):
        heads = heading_levels(text.text)
        members = [
            block for block in blocks if block.source and [span[0] for span in block.spans[:1]] == [number]
        ]
        levels = [_level(block, text.text, heads) for block in members]
        for at in reversed(range(len(members))):  # those inside a section before its own
            block, level = members[at], levels[at]
            if block.pinned not in HEADS or level is None or not _is_head(block, text.text, heads):
                continue
            below = list[str]()
            for other, its_level in zip(members[at + 1 :], levels[at + 1 :], strict=True):
                if not _below(other, its_level, level):
                    break
                below.append(other.name)
            if below and gone.issuperset(below):
                gone.add(block.name)
    return gone


def _level(block: PromptBlock, text: str, heads: Sequence[tuple[int, int, int]]) -> int | None:
    """The level of the heading that a block of a text begins with; ``None`` where it begins with none."""
    if block.pinned == HEADS_TABLE:
        return _TABLE_LEVEL
    _, start, end = block.spans[0]
    first = next((head for head in heads if start <= head[0] < end), None)
    return None if first is None or without_marks(text[start : first[0]]).strip() else first[2]


def _is_head(block: PromptBlock, text: str, heads: Sequence[tuple[int, int, int]]) -> bool:
    """Whether a block is nothing but headings, or the head of a table: a tag, say, is closed by another block."""
    if block.pinned == HEADS_TABLE:
        return True
    _, start, end = block.spans[0]
    words = text[start:end]
    for first, last, _ in reversed([head for head in heads if start <= head[0] < end]):
        words = words[: first - start] + words[last - start :]
    return not without_marks(words).strip()


def _below(block: PromptBlock, level: int | None, head: int) -> bool:
    """Whether a block goes on with what stands below a heading, or the head of a table, of a level before it."""
    if head == _TABLE_LEVEL and block.kind != "row":
        return False
    return (level is None or level > head) and block.pinned not in (CLOSES_BLOCK, CLOSES_EXAMPLES)
