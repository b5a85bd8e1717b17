"""Lines and pieces of a text: what every way of splitting works on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
LIKE_A_VARIABLE = re.compile(r"\{\{|\{%|\$\{|<<\w|\{\w+\}|%\(\w|(?<![\w$])\$[A-Za-z_]")
"""Something like a variable, of any style: what holds it is the item that is asked, or shows a part of it."""
Line = tuple[str, bool]
"""A line with its end, and whether it stands in fenced code."""


class Piece(NamedTuple):
    """A stretch of text that the split made a block, and what to call it."""

    text: str
    title: str
    kind: str
    pinned: str = ""
    line: int = 0
    """Of the file, where the lines of the text are not the file's; 0 where they are counted."""


def lines_of(text: str) -> list[Line]:
    """Lines with their ends, each with whether it stands in fenced code."""
    tagged: list[Line] = []
    fence = ""
    for line in _LINE.findall(text):
        match = _FENCE.match(line)
        if fence:
            tagged.append((line, True))
            if match and match.group(1)[0] == fence[0] and len(match.group(1)) >= len(fence):
                fence = ""
        else:
            fence = match.group(1) if match else ""
            tagged.append((line, bool(match)))
    if fence:  # never closed: a stray mark, not code
        start = max(i for i, (line, _) in enumerate(tagged) if _FENCE.match(line) and tagged[i][1])
        opened = next(
            (i for i in range(start, -1, -1) if tagged[i][1] and (i == 0 or not tagged[i - 1][1])), start
        )
        tagged = tagged[:opened] + [(line, False) for line, _ in tagged[opened:]]
    return tagged


def code_spans(text: str) -> list[tuple[int, int]]:
    """Where code stands in a text: fenced, or between backticks on a line.

    >>> code_spans("say `x` now")
    [(4, 7)]
    """
    spans, position = [], 0
    for line, fenced in lines_of(text):
        if fenced:
            spans.append((position, position + len(line)))
        else:
            spans += [
                (position + match.start(), position + match.end()) for match in _INLINE_CODE.finditer(line)
            ]
        position += len(line)
    return spans


_INLINE_CODE = re.compile(r"(`+)(?!`)[^\r\n]+?(?<!`)\1(?!`)")


def by_paragraphs(lines: Sequence[Line]) -> list[Piece]:
    """Pieces that blank lines part; a blank line in fenced code parts nothing."""
    pieces: list[Piece] = []
    current, ended = "", False
    for line, fenced in lines:
        if ended and (line.strip() or fenced):
            pieces.append(Piece(current, "", "paragraph"))
            current, ended = "", False
        current += line
        ended = ended or (not fenced and not line.strip() and bool(current.strip()))
    if current:
        pieces.append(Piece(current, "", "paragraph"))
    return blank_ends(pieces)


def blank_ends(pieces: list[Piece]) -> list[Piece]:
    """Pieces of white space only are joined to the piece before, or at the front to the one after."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and (not piece.text.strip() or not joined[-1].text.strip()):
            before = joined.pop()
            named = piece if piece.text.strip() else before
            joined.append(named._replace(text=before.text + piece.text))
        else:
            joined.append(piece)
    return joined
