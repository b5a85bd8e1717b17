"""A text split into pieces: at marks of ours, XML-like tags, headings, paragraphs, list items, sentences or lines.

The pieces joined are the text, byte for byte. Fenced code is never split; the white space between two pieces belongs to
the first of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from pcsuite.errors import PromptError

SplitMethod = Literal["auto", "headings", "tags", "paragraphs", "items", "sentences", "lines"]
SPLIT_METHODS: tuple[SplitMethod, ...] = get_args(SplitMethod)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_MARK = re.compile(r"[ \t]*<!--\s*block\s*:\s*([^,>]*?)\s*(,\s*keep\s*)?-->[ \t]*(?:\r\n|\n|\r)?\Z")
_MARK_END = re.compile(r"[ \t]*<!--\s*/block\s*-->[ \t]*(?:\r\n|\n|\r)?\Z")
_HEADING = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*(?:\r\n|\n|\r)?\Z")
_TAG = re.compile(r"[ \t]*<([A-Za-z_][\w.-]*)(?:\s[^<>]*)?>")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_SENTENCE_END = re.compile(
    r"""(?<![\s.])[.!?]+["'”’)\]*_`]*\s+(?=[^\sa-z])"""  # and what follows does not go on in lower case
    r"""|[。！？]+[”’」』）]*\s*(?=\S)"""
    r"""|(?:\r\n|\n|\r)(?=[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t])"""
)
_SHORTENED = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|cf|vs|etc|approx|Dr|Mr|Mrs|Ms|St|No|Nr|Fig)|^[ \t]*\d{1,3})\Z", re.M
)
"""What stands before a full stop that ends no sentence: a shortened word, an initial, the number of an item."""


class Piece(NamedTuple):
    """A stretch of text that the split made a block, and what to call it."""

    text: str
    title: str
    kind: str
    pinned: str = ""


def split_text(text: str, how: SplitMethod) -> tuple[list[Piece], str]:
    """Pieces of a text, and how it was split in words; marks in the text go before any method.

    ``auto`` takes tags, headings, paragraphs, items, sentences or lines, the first of these that the text has several
    of. Raises ``PromptError`` for a marked block that is empty or has no name.

    >>> [piece.text for piece in split_text("One.\\n\\nTwo.\\n", "auto")[0]]
    ['One.\\n\\n', 'Two.\\n']
    """
    lines = _lines(text)
    if any(_MARK.match(line) for line, fenced in lines if not fenced):
        return _by_marks(lines), "at its marks <!-- block: … -->"
    if how == "auto":
        tagged = _by_tags(lines)
        elements = sum(piece.kind == "tag" for piece in tagged)
        sections = _by_headings(lines)
        # One element among headed sections is an example or the input; two are the prompt's structure.
        if elements > 1 or (elements == 1 and len(tagged) > 1 and len(sections) == 1):
            return tagged, "at its tags"
        for method in ("headings", "paragraphs", "items", "sentences", "lines"):
            pieces = _METHODS[method](lines)
            # A line that begins in lower case goes on with the sentence of the one before.
            wrapped = method == "lines" and any(piece.text.lstrip()[:1].islower() for piece in pieces[1:])
            if len(pieces) > 1 and not wrapped:
                return pieces, f"at its {method}"
        return [Piece(text, "", "paragraph")], "not at all: it is one sentence"
    return _METHODS[how](lines), f"at its {how}"


def _lines(text: str) -> list[tuple[str, bool]]:
    """Lines with their ends, each with whether it stands in fenced code."""
    tagged: list[tuple[str, bool]] = []
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


def _by_marks(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    pieces: list[Piece] = []
    current, title, pinned, kind = "", "", "", "paragraph"
    for number, (line, fenced) in enumerate(lines, start=1):
        mark, end = (None, None) if fenced else (_MARK.match(line), _MARK_END.match(line))
        if mark is not None:
            if kind == "marked block" and not without_marks(current).strip():
                raise PromptError(
                    f"line {number}: block '{title}' is empty", hint="give it words or remove it"
                )
            if current.strip() or (pieces == [] and current):
                pieces.append(Piece(current, title, kind, pinned))
                current = ""
            title, pinned, kind = mark.group(1), "its mark says so" if mark.group(2) else "", "marked block"
            if not title:
                raise PromptError(f"line {number}: a mark without a name", hint="write <!-- block: name -->")
            current += line
        elif end is not None and kind == "marked block":
            pieces.append(Piece(current + line, title, kind, pinned))
            current, title, pinned, kind = "", "", "", "paragraph"
        else:
            current += line
    if kind == "marked block" and not without_marks(current).strip():
        raise PromptError(f"line {len(lines)}: block '{title}' is empty", hint="give it words or remove it")
    if current and (current.strip() or not pieces):
        pieces.append(Piece(current, title, kind, pinned))
    elif current:
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text + current)
    return _blank_ends(pieces)


def without_marks(text: str) -> str:
    """The text as a model gets it: lines that are our marks are left out, unless they stand in fenced code.

    >>> without_marks("<!-- block: tone -->\\nBe kind.\\n")
    'Be kind.\\n'
    """
    return "".join(
        line for line, fenced in _lines(text) if fenced or not (_MARK.match(line) or _MARK_END.match(line))
    )


def _by_tags(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    """Elements that begin at the start of a line, with what stands between them as paragraphs."""

    def element(index: int) -> tuple[int, str] | None:
        line, fenced = lines[index]
        opening = None if fenced else _TAG.match(line)
        end = _closing(lines, index, opening.group(1)) if opening else None
        return None if opening is None or end is None else (end + 1, opening.group(1))

    pieces = _elements(lines, "tag", element)
    if any(piece.kind == "tag" for piece in pieces):
        return pieces
    return [Piece("".join(line for line, _ in lines), "", "paragraph")]


def _elements(
    lines: Sequence[tuple[str, bool]], kind: str, element: Callable[[int], tuple[int, str] | None]
) -> list[Piece]:
    """Pieces of a kind with paragraphs between them.

    ``element`` says of a line's index where the piece that begins there ends and its title, ``None`` where none begins.
    """
    pieces: list[Piece] = []
    between: list[tuple[str, bool]] = []
    index = 0
    while index < len(lines):
        bounds = element(index)
        if bounds is None:
            between.append(lines[index])
            index += 1
            continue
        end, title = bounds
        text = "".join(line for line, _ in lines[index:end])
        pieces += [*_by_paragraphs(between), Piece(text, title, kind)]
        between, index = [], end
    return _blank_ends(pieces + _by_paragraphs(between))


def _closing(lines: Sequence[tuple[str, bool]], start: int, name: str) -> int | None:
    """The line on which the element that opens at ``start`` closes; nothing else may follow on that line."""
    tag = re.compile(rf"<(/?){re.escape(name)}(?:\s[^<>]*)?>")
    depth = 0
    for index in range(start, len(lines)):
        line, fenced = lines[index]
        for match in () if fenced else tag.finditer(line):
            depth += -1 if match.group(1) else 1
            if depth == 0:
                return index if not line[match.end() :].strip() else None
    return None


def _by_headings(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    """Sections of the highest level of heading that occurs twice (or at all); deeper headings stay inside."""
    heads = {
        index: match
        for index, (line, fenced) in enumerate(lines)
        if not fenced and (match := _HEADING.match(line))
    }
    levels = Counter(len(match.group(1)) for match in heads.values())
    if not levels:
        return [Piece("".join(line for line, _ in lines), "", "paragraph")]
    level = min((one for one, count in levels.items() if count > 1), default=max(levels))
    starts = [index for index, match in heads.items() if len(match.group(1)) <= level]
    edges = [0, *(index for index in starts if index), len(lines)]
    pieces = []
    for first, last in itertools.pairwise(edges):
        text = "".join(line for line, _ in lines[first:last])
        head = heads.get(first)
        pieces.append(Piece(text, (head.group(2) or "") if head else "", "heading" if head else "paragraph"))
    return _blank_ends(pieces)


def _by_paragraphs(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
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
    return _blank_ends(pieces)


def _by_items(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    """List items of the least indentation, each with its further lines; other text as paragraphs."""
    bullets = [_ITEM.match(line) if not fenced else None for line, fenced in lines]
    indents = [len(match.group(1).expandtabs(4)) for match in bullets if match]
    least = min(indents, default=0)

    def item(index: int) -> tuple[int, str] | None:
        match = bullets[index]
        if match is None or len(match.group(1).expandtabs(4)) > least:
            return None
        end = index + 1
        while end < len(lines):
            line, fenced = lines[end]
            indented = line[:1] in (" ", "\t") and bool(line.strip())
            after_blank = not lines[end - 1][0].strip()
            if bullets[end] is not None and (not indented or len(line) - len(line.lstrip()) <= least):
                break
            if not fenced and line.strip() and not indented and after_blank:
                break
            end += 1
        return end, ""

    return _elements(lines, "item", item)


def _by_sentences(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    """Sentences, which may go over several lines; paragraphs with fenced code stay whole."""
    pieces: list[Piece] = []
    for paragraph in _by_paragraphs(lines):
        text, start = paragraph.text, 0
        coded = any(fenced for _, fenced in _lines(text))
        for match in () if coded else _SENTENCE_END.finditer(text):
            if match[0][0] != "." or not _SHORTENED.search(text[start : match.start()]):
                pieces.append(Piece(text[start : match.end()], "", "sentence"))
                start = match.end()
        pieces.append(Piece(text[start:], "", "sentence" if not coded else "paragraph"))
    return _blank_ends(pieces)


def _by_lines(lines: Sequence[tuple[str, bool]]) -> list[Piece]:
    """Lines; those of fenced code stay together."""
    pieces = []
    for fenced, group in itertools.groupby(lines, key=lambda entry: entry[1]):
        texts = [line for line, _ in group]
        pieces += [Piece(text, "", "line") for text in (["".join(texts)] if fenced else texts)]
    return _blank_ends(pieces)


def _blank_ends(pieces: list[Piece]) -> list[Piece]:
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


_METHODS: Mapping[str, Callable[[Sequence[tuple[str, bool]]], list[Piece]]] = {
    "tags": _by_tags,
    "headings": _by_headings,
    "paragraphs": _by_paragraphs,
    "items": _by_items,
    "sentences": _by_sentences,
    "lines": _by_lines,
}


def split_inside(text: str, how: SplitMethod) -> list[Piece]:
    """Pieces of one block; its own heading, mark or tags are pinned pieces of their own.

    Joined they are the block. A block that cannot be split is one piece.
    """
    lines = _lines(text)
    front: list[Piece] = []
    back: list[Piece] = []
    while lines and not lines[0][1] and (_MARK.match(lines[0][0]) or not lines[0][0].strip()):
        front.append(Piece(lines.pop(0)[0], "open", "mark", "opens the block"))
    opening = _TAG.match(lines[0][0]) if lines and not lines[0][1] else None
    end = _closing(lines, 0, opening.group(1)) if opening else None
    if opening and end is not None and not lines[0][0][opening.end() :].strip() and end > 0:
        front.append(Piece(lines[0][0], "open", "tag", "opens the block"))
        back = [Piece("".join(line for line, _ in lines[end:]), "close", "tag", "closes the block")]
        lines = lines[1:end]
    elif lines and not lines[0][1] and _HEADING.match(lines[0][0]):
        count = 1
        while count < len(lines) and not lines[count][0].strip():
            count += 1
        front.append(
            Piece("".join(line for line, _ in lines[:count]), "heading", "heading", "opens the block")
        )
        lines = lines[count:]
    body = "".join(line for line, _ in lines)
    if not body.strip():
        return _merged(front) + [Piece(body, "", "paragraph")] * bool(body) + back
    pieces, _ = split_text(body, how)
    return _merged(front) + pieces + back


def _merged(pieces: list[Piece]) -> list[Piece]:
    return [pieces[-1]._replace(text="".join(piece.text for piece in pieces))] if pieces else []
