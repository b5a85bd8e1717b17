"""A text split into pieces: at marks of ours, XML-like tags, headings, paragraphs, list items, sentences or lines.

The pieces joined are the text, byte for byte. Fenced code is never split, nor is a control block of Jinja; the white
space between two pieces belongs to the first of them. Solved examples (:mod:`pcsuite.prompts.examples`) are pieces of
their own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

from pcsuite.errors import PromptError
from pcsuite.prompts.examples import with_examples
from pcsuite.prompts.pieces import LIKE_A_VARIABLE, Line, Piece, blank_ends, by_paragraphs, lines_of

TextSplit = Literal["auto", "headings", "tags", "paragraphs", "items", "sentences", "lines"]
SPLIT_METHODS: tuple[TextSplit, ...] = get_args(TextSplit)
"""How a text is split."""
SplitMethod = Literal[TextSplit, "files"]
"""How a prompt is split: its texts, or at its files, each of which is one block."""
_MARK = re.compile(r"[ \t]*<!--\s*block\s*:\s*([^,>]*?)\s*(,\s*keep\s*)?-->[ \t]*(?:\r\n|\n|\r)?\Z")
_MARK_END = re.compile(r"[ \t]*<!--\s*/block\s*-->[ \t]*(?:\r\n|\n|\r)?\Z")
OPENS_BLOCK, OPENS_EXAMPLES = "opens the block", "opens the examples"
HEADS_SECTIONS, HEADS_TABLE = "heads the sections below", "heads the table"
"""Why a heading or an opening tag is kept: for what stands below it."""
CLOSES_BLOCK, CLOSES_EXAMPLES = "closes the block", "closes the examples"
"""Why a closing tag is kept: for what it closes."""
_HEADING = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*(?:\r\n|\n|\r)?\Z")
_SETEXT = re.compile(r"[ ]{0,3}(?:(=+)|(-{3,}))[ \t]*(?:\r\n|\n|\r)?\Z")
_BOLD_LINE = re.compile(r"(?:\*\*|__)([^*_\r\n]{2,60}?):?(?:\*\*|__):?[ \t]*(?:\r\n|\n|\r)?\Z")
_CAPITALS_LINE = re.compile(r"([A-Z][A-Z0-9&/()-]*(?: [A-Z0-9&/()-]+){0,4}):?[ \t]*(?:\r\n|\n|\r)?\Z")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*(?:\r\n|\n|\r)?\Z")
_STATEMENT = re.compile(r"\{%[-+]?\s*(\w+)(.*?)[-+]?%\}", re.S)
_CONTROLS = frozenset({"if", "for", "macro", "call", "filter", "raw", "block", "with", "autoescape", "trans"})
ENOUGH_SECTIONS = 3
"""Sections from which on a level of headings is fine enough; deeper ones stay inside."""
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
_LONGEST_SHORTENED = 80


def split_text(text: str, how: SplitMethod) -> tuple[list[Piece], str]:
    """Pieces of a text, and how it was split in words; marks in the text go before any method.

    ``auto`` takes tags, headings, paragraphs, items, sentences or lines, the first of these that the text has several
    of. Raises ``PromptError`` for a marked block that is empty or has no name.

    >>> [piece.text for piece in split_text("One.\\n\\nTwo.\\n", "auto")[0]]
    ['One.\\n\\n', 'Two.\\n']
    """
    lines = lines_of(text)
    if any(_MARK.match(line) for line, fenced in lines if not fenced):
        return _by_marks(lines), "at its marks <!-- block: … -->"
    if how == "files":
        raise PromptError("--split files takes each of several files as a block, and this is one prompt")
    if how != "auto":
        return _whole_controls(_METHODS[how](lines)), f"at its {how}"
    tagged = _by_tags(lines)
    elements = sum(piece.kind == "tag" for piece in tagged)
    sections = _by_headings(lines)
    # One element among headed sections is an example or the input; two are the prompt's structure.
    if elements > 1 or (elements == 1 and len(tagged) > 1 and len(sections) == 1):
        return _finished(tagged, "at its tags")
    for method in ("headings", "paragraphs", "items", "sentences", "lines"):
        pieces = _METHODS[method](lines)
        if method == "paragraphs":
            pieces = with_examples(lines) or pieces
        # A line that begins in lower case goes on with the sentence of the one before.
        wrapped = method == "lines" and any(piece.text.lstrip()[:1].islower() for piece in pieces[1:])
        if len(pieces) > 1 and not wrapped:
            return _finished(pieces, f"at its {method}")
    return [Piece(text, "", "paragraph")], "not at all: it is one sentence"


def _finished(pieces: list[Piece], words: str) -> tuple[list[Piece], str]:
    """Pieces with the examples inside of them apart and control blocks whole."""
    apart: list[Piece] = []
    for piece in pieces:
        opening, body, closing = _opened(piece.text)
        inside: list[Piece] = []
        if not piece.pinned and piece.kind in ("heading", "tag", "paragraph"):
            inside = with_examples(lines_of(body))
        if not inside:
            apart.append(piece)
            continue
        apart += [Piece(opening, piece.title, "heading", OPENS_EXAMPLES)] if opening else []
        apart += inside
        apart += [Piece(closing, f"{piece.title} end", "tag", CLOSES_EXAMPLES)] if closing else []
    pieces = _whole_controls(blank_ends(apart))
    examples = sum(piece.kind == "example" for piece in pieces)
    return pieces, f"{words}, {examples} examples one by one" if examples else words


def _whole_controls(pieces: list[Piece]) -> list[Piece]:
    """Pieces joined where a control block of Jinja would be cut, or where it takes white space of its neighbour."""
    joined: list[Piece] = []
    depth = 0
    for piece in pieces:
        trims = piece.text.lstrip().startswith(("{%-", "{{-", "{#-"))
        if joined and (depth > 0 or (trims and not joined[-1].pinned)):
            joined[-1] = joined[-1]._replace(text=joined[-1].text + piece.text, pinned="")
        else:
            joined.append(piece)
        for match in _STATEMENT.finditer(piece.text):
            word, rest = match.groups()
            opens = word in _CONTROLS or (word == "set" and "=" not in rest)
            depth += 1 if opens else -1 if word.startswith("end") else 0
    return joined if depth == 0 else pieces


def _by_marks(lines: Sequence[Line]) -> list[Piece]:
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
    return blank_ends(pieces)


def without_marks(text: str) -> str:
    """The text as a model gets it: lines that are our marks are left out, unless they stand in fenced code.

    >>> without_marks("<!-- block: tone -->\\nBe kind.\\n")
    'Be kind.\\n'
    """
    return "".join(
        line for line, fenced in lines_of(text) if fenced or not (_MARK.match(line) or _MARK_END.match(line))
    )


def _by_tags(lines: Sequence[Line]) -> list[Piece]:
    """Elements that begin at the start of a line, with what stands between them as paragraphs.

    An element of elements is taken apart where it is all there is, where its parts have one name (examples), or where
    it holds a variable: it could not be left out as a whole.
    """
    pieces = _elements_of(lines)
    elements = [piece for piece in pieces if piece.kind == "tag"]
    if not elements:
        return [Piece("".join(line for line, _ in lines), "", "paragraph")]
    apart: list[Piece] = []
    for piece in pieces:
        opening, body, closing = _opened(piece.text) if piece.kind == "tag" else ("", "", "")
        children = _by_tags(lines_of(body)) if closing and body.strip() else []
        names = [child.title for child in children if child.kind == "tag"]
        alike = len(names) > 1 and len(set(names)) == 1
        if len(names) > 1 and (len(elements) == 1 or alike or LIKE_A_VARIABLE.search(piece.text)):
            apart.append(Piece(opening, f"{piece.title} begin", "tag", OPENS_BLOCK))
            apart += children
            apart.append(Piece(closing, f"{piece.title} end", "tag", CLOSES_BLOCK))
        else:
            apart.append(piece)
    return blank_ends(apart)


def _elements_of(lines: Sequence[Line]) -> list[Piece]:
    def element(index: int) -> tuple[int, Piece] | None:
        line, fenced = lines[index]
        opening = None if fenced else _TAG.match(line)
        end = _closing(lines, index, opening.group(1)) if opening else None
        return None if opening is None or end is None else (end + 1, Piece("", opening.group(1), "tag"))

    return _elements(lines, element)


def _opened(text: str) -> tuple[str, str, str]:
    """What opens a piece (its tag, or its heading), its body, and what closes it; empty where there is none."""
    lines = lines_of(text)
    if not lines or lines[0][1]:
        return "", text, ""
    opening = _TAG.match(lines[0][0])
    end = _closing(lines, 0, opening.group(1)) if opening else None
    if opening and end and not lines[0][0][opening.end() :].strip():
        if lines[end][0].strip() != f"</{opening.group(1)}>":
            return "", text, ""
        parts = lines[:1], lines[1:end], lines[end:]
    else:
        head = next(iter(_heads(lines)), None)
        count = head[3] if head is not None and head[0] == 0 else 0
        while 0 < count < len(lines) and not lines[count][0].strip():
            count += 1
        parts = lines[:count], lines[count:], []
    opened, body, closed = ("".join(line for line, _ in part) for part in parts)
    return opened, body, closed


def _elements(lines: Sequence[Line], element: Callable[[int], tuple[int, Piece] | None]) -> list[Piece]:
    """Pieces of a kind with paragraphs between them.

    ``element`` says of a line's index where the piece that begins there ends, and all of the piece but its text;
    ``None`` where none begins.
    """
    pieces: list[Piece] = []
    between: list[Line] = []
    index = 0
    while index < len(lines):
        bounds = element(index)
        if bounds is None:
            between.append(lines[index])
            index += 1
            continue
        end, piece = bounds
        text = "".join(line for line, _ in lines[index:end])
        pieces += [*by_paragraphs(between), piece._replace(text=text)]
        between, index = [], end
    return blank_ends(pieces + by_paragraphs(between))


def _closing(lines: Sequence[Line], start: int, name: str) -> int | None:
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


def _by_headings(lines: Sequence[Line]) -> list[Piece]:
    """Sections of the highest level of heading that makes enough of them; deeper headings stay inside.

    A section that is more than half of the text, that holds a variable (it could not be left out as a whole) or that is
    a row of examples is split at its own headings too. A heading that has nothing but sections below it is kept.
    """
    heads = _heads(lines)
    if not heads:
        return [Piece("".join(line for line, _ in lines), "", "paragraph")]
    texts = [line for line, _ in lines]
    by_line = {head[0]: head for head in heads}

    def sections(starts: Iterable[int]) -> list[tuple[int, int]]:
        return list(itertools.pairwise([*sorted({0, *starts}), len(lines)]))

    def has_words(first: int, last: int) -> bool:
        below = by_line[first][3] if first in by_line else 0
        return bool("".join(texts[first + below : last]).strip())

    levels = sorted({head[1] for head in heads})
    starts: set[int] = set()
    for level in levels:
        deeper = {head[0] for head in heads if head[1] <= level}
        if sum(has_words(*section) for section in sections(deeper)) > sum(
            has_words(*section) for section in sections(starts)
        ):
            starts = deeper
        if sum(has_words(*section) for section in sections(starts)) >= ENOUGH_SECTIONS:
            break
    total, before = len("".join(texts)), -1
    while len(starts) != before:
        before = len(starts)
        for first, last in sections(starts):
            inner = [by_line[line] for line in range(first + 1, last) if line in by_line]
            text = "".join(texts[first:last])
            level = min((head[1] for head in inner), default=0)
            highest = [head for head in inner if head[1] == level]
            examples = sum("example" in head[2].casefold() for head in highest) > 1
            if inner and (examples or 2 * len(text) > total or LIKE_A_VARIABLE.search(text)):
                starts |= {head[0] for head in highest}
    pieces = []
    for first, last in sections(starts):
        head, follows = by_line.get(first), by_line.get(last)
        alone = head is not None and not has_words(first, last)
        parent = alone and head is not None and follows is not None and follows[1] > head[1]
        title, kind = (head[2], "heading") if head is not None else ("", "paragraph")
        pinned = HEADS_SECTIONS if parent else ""
        pieces.append(Piece("".join(texts[first:last]), title, kind, pinned))
    return blank_ends(pieces)


Head = tuple[int, int, str, int]
"""A heading: its line, its level (1 is the highest), its words, and the lines that it takes."""


def heading_levels(text: str) -> list[tuple[int, int, int]]:
    """The headings of a text: from where, to where, and the level (1 is the highest).

    >>> heading_levels("Be kind.\\n\\n## Tone\\nCalm.\\n")
    [(10, 18, 2)]
    """
    lines = lines_of(text)
    starts = [0, *itertools.accumulate(len(line) for line, _ in lines)]
    return [(starts[line], starts[line + count], level) for line, level, _, count in _heads(lines)]


def _heads(lines: Sequence[Line]) -> list[Head]:
    """Headings outside of code: ``#``, underlined, else lines that are bold or in capitals, where several are."""
    heads: list[Head] = []
    lesser: list[Head] = []
    for index, (line, fenced) in enumerate(lines):
        if fenced:
            continue
        after_blank = index == 0 or not lines[index - 1][0].strip()
        below = lines[index + 1][0] if index + 1 < len(lines) and not lines[index + 1][1] else ""
        rule = _SETEXT.match(below)
        if match := _HEADING.match(line):
            heads.append((index, len(match.group(1)), match.group(2) or "", 1))
        elif rule and after_blank and line.strip() and not _ITEM.match(line) and "|" not in line:
            heads.append((index, 1 if rule.group(1) else 2, line.strip(), 2))
        elif after_blank and (bold := _BOLD_LINE.match(line)):
            lesser.append((index, 7, bold.group(1), 1))
        elif (
            after_blank
            and below.strip()
            and (capitals := _CAPITALS_LINE.match(line))
            and sum(map(str.isalpha, capitals.group(1))) > 2
        ):
            lesser.append((index, 7, capitals.group(1), 1))
    return sorted(heads + (lesser if len(lesser) > 1 else []))


def _by_items(lines: Sequence[Line]) -> list[Piece]:
    """List items of the least indentation with their further lines, rows of tables; other text as paragraphs."""
    bullets = [_ITEM.match(line) if not fenced else None for line, fenced in lines]
    indents = [len(match.group(1).expandtabs(4)) for match in bullets if match]
    least = min(indents, default=0)

    def item(index: int) -> tuple[int, Piece] | None:
        if row := _table_row(lines, index):
            return row
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
        return end, Piece("", "", "item")

    return _elements(lines, item)


def _table_row(lines: Sequence[Line], index: int) -> tuple[int, Piece] | None:
    """The row of a Markdown table that begins at a line; its head, with the rule below, is kept."""

    def has_cells(number: int) -> bool:
        return 0 <= number < len(lines) and not lines[number][1] and "|" in lines[number][0]

    def is_rule(number: int) -> bool:
        return has_cells(number) and _TABLE_RULE.match(lines[number][0]) is not None

    if has_cells(index) and is_rule(index + 1):
        return index + 2, Piece("", "table head", "row", HEADS_TABLE)
    above = index
    while has_cells(above) and not is_rule(above):
        above -= 1
    if above == index or not is_rule(above) or not has_cells(above - 1):
        return None
    cells = [cell.strip() for cell in lines[index][0].strip().strip("|").split("|")]
    return index + 1, Piece("", next(filter(None, cells), ""), "row")


def _by_sentences(lines: Sequence[Line]) -> list[Piece]:
    """Sentences, which may go over several lines; paragraphs with fenced code stay whole."""
    pieces: list[Piece] = []
    for paragraph in by_paragraphs(lines):
        text, start = paragraph.text, 0
        coded = any(fenced for _, fenced in lines_of(text))
        for match in () if coded else _SENTENCE_END.finditer(text):
            # Of what stands before no more than a shortened word: a row of them would be read again for each.
            before = text[max(start, match.start() - _LONGEST_SHORTENED) : match.start()]
            if match[0][0] != "." or not _SHORTENED.search(before):
                pieces.append(Piece(text[start : match.end()], "", "sentence"))
                start = match.end()
        pieces.append(Piece(text[start:], "", "sentence" if not coded else "paragraph"))
    return blank_ends(pieces)


def _by_lines(lines: Sequence[Line]) -> list[Piece]:
    """Lines; those of fenced code stay together."""
    pieces = []
    for fenced, group in itertools.groupby(lines, key=lambda entry: entry[1]):
        texts = [line for line, _ in group]
        pieces += [Piece(text, "", "line") for text in (["".join(texts)] if fenced else texts)]
    return blank_ends(pieces)


_METHODS: Mapping[str, Callable[[Sequence[Line]], list[Piece]]] = {
    "tags": _by_tags,
    "headings": _by_headings,
    "paragraphs": by_paragraphs,
    "items": _by_items,
    "sentences": _by_sentences,
    "lines": _by_lines,
}


def split_inside(text: str, how: SplitMethod) -> list[Piece]:
    """Pieces of one block; its own heading, mark or tags are pinned pieces of their own.

    Joined they are the block. A block that cannot be split is one piece. Paragraphs that are lists or tables are split
    at their items.
    """
    lines = lines_of(text)
    count = 0
    while (
        count < len(lines)
        and not lines[count][1]
        and (_MARK.match(lines[count][0]) or not lines[count][0].strip())
    ):
        count += 1
    front = [Piece("".join(line for line, _ in lines[:count]), "open", "mark", OPENS_BLOCK)] if count else []
    opening, body, closing = _opened("".join(line for line, _ in lines[count:]))
    if opening:
        marked = front[0].text if front else ""
        kind = "tag" if closing else "heading"
        front = [Piece(marked + opening, "open" if closing else "heading", kind, OPENS_BLOCK)]
    back = [Piece(closing, "close", "tag", CLOSES_BLOCK)] if closing else []
    if not body.strip():
        return front + [Piece(body, "", "paragraph")] * bool(body) + back
    pieces, words = split_text(body, how)
    if how == "auto" and words.startswith("at its paragraphs"):
        pieces = _whole_controls([part for piece in pieces for part in _listed(piece)])
    return front + pieces + back


def _listed(piece: Piece) -> list[Piece]:
    """A paragraph's items where it is a list or a table, else the paragraph."""
    if piece.kind != "paragraph" or piece.pinned:
        return [piece]
    parts = _by_items(lines_of(piece.text))
    return parts if sum(part.kind in ("item", "row") for part in parts) > 1 else [piece]
