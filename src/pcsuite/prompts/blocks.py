"""A prompt as people have it, text or a chat, split into named blocks: the blocks joined are the file, byte for byte.

Text is split at marks (``<!-- block: tone -->``), XML-like tags, Markdown headings, paragraphs or list items. Fenced
code is never split. The white space between two blocks belongs to the first of them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.verbatim import INPUT_NAMES, ROLES, chat_piece, decode_chat, placeholders

SplitMethod = Literal["auto", "headings", "tags", "paragraphs", "items"]
SPLIT_METHODS: tuple[SplitMethod, ...] = ("auto", "headings", "tags", "paragraphs", "items")
INPUT_BLOCK = "input"
HOLDS_INPUT = "holds the input"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_MARK = re.compile(r"[ \t]*<!--\s*block\s*:\s*([^,>]*?)\s*(,\s*keep\s*)?-->[ \t]*(?:\r\n|\n|\r)?\Z")
_MARK_END = re.compile(r"[ \t]*<!--\s*/block\s*-->[ \t]*(?:\r\n|\n|\r)?\Z")
_HEADING = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*(?:\r\n|\n|\r)?\Z")
_TAG = re.compile(r"[ \t]*<([A-Za-z_][\w.-]*)(?:\s[^<>]*)?>")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_WORD = re.compile(r"\w+")


class _Piece(NamedTuple):
    """A stretch of text that the split made a block, and what to call it."""

    text: str
    title: str
    kind: str
    pinned: str = ""


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A named part of a prompt."""

    name: str
    source: str
    """The block as the file has it. Of a chat: the contents of its messages, of an example on lines of their own."""
    text: str
    """The block as a model gets it: without our marks, and with the message it belongs to."""
    kind: str
    line: int
    """Where it begins in the file (or, of a chat, in its message), counted from 1."""
    pinned: str = ""
    """Why it is always kept; empty for a block that can be left out."""

    @property
    def shown(self) -> str:
        """The block as its file has it, without the mark that names it: what a reader wants to see."""
        return _without_marks(self.source)

    @property
    def first_words(self) -> str:
        """The beginning of the block on one line."""
        words = " ".join(self.shown.split())
        return words if len(words) <= 60 else words[:59] + "…"


@dataclass(frozen=True, slots=True)
class SplitPrompt:
    """A prompt and its blocks, in order."""

    blocks: tuple[PromptBlock, ...]
    method: str
    """How it was split, in words."""
    form: Literal["text", "yaml", "json"] = "text"
    """``text``, or the form of a chat's file."""
    original: str = ""
    """The file itself."""

    @property
    def free(self) -> tuple[PromptBlock, ...]:
        """Blocks that can be left out."""
        return tuple(block for block in self.blocks if not block.pinned)

    def block(self, name: str) -> PromptBlock:
        """The block of a name or number (from 1); others are a ``PromptError`` with the nearest name."""
        for number, block in enumerate(self.blocks, start=1):
            if name in (block.name, str(number)):
                return block
        known = [block.name for block in self.blocks]
        raise PromptError(f"the prompt has no block '{name}'", hint=did_you_mean(name, known))

    def sent(self, kept: Iterable[str] | None = None) -> str:
        """What a model gets, placeholders not yet filled, with only the blocks ``kept`` (by default all)."""
        return "".join(block.text for block in self._kept(kept))

    def written(self, kept: Iterable[str] | None = None) -> str:
        """The prompt's file with only the blocks ``kept``; with all of them it is the file, byte for byte."""
        blocks = self._kept(kept)
        if len(blocks) == len(self.blocks):
            return self.original
        if self.form == "text":
            return "".join(block.source for block in blocks)
        messages = decode_chat("".join(block.text for block in blocks)) or []
        if self.form == "json":
            return json.dumps(messages, indent=2, ensure_ascii=False) + "\n"
        return yaml.safe_dump(messages, sort_keys=False, allow_unicode=_plain_lines(messages), width=100)

    def _kept(self, kept: Iterable[str] | None) -> list[PromptBlock]:
        names = None if kept is None else set(kept)
        return [block for block in self.blocks if names is None or block.name in names]

    def keep(self, names: Iterable[str]) -> SplitPrompt:
        """The prompt with some blocks pinned, by name or number."""
        pinned = {self.block(name).name for name in names}
        blocks = (
            replace(block, pinned=block.pinned or "kept on request") if block.name in pinned else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))

    def rename(self, names: Mapping[str, str]) -> SplitPrompt:
        """The prompt with some blocks renamed; keys are names or numbers, values become words of letters, digits, _."""
        given = {self.block(old).name: _slug(new) for old, new in names.items()}
        blocks = tuple(replace(block, name=given.get(block.name, block.name)) for block in self.blocks)
        twice = [name for name, count in Counter(block.name for block in blocks).items() if count > 1]
        if twice:
            raise PromptError(
                f"two blocks would be called '{twice[0]}'", hint="give every block its own name"
            )
        return replace(self, blocks=blocks)

    def into(self, names: Sequence[str], how: SplitMethod = "auto") -> SplitPrompt:
        """The prompt with some blocks split further and every other block pinned.

        The heading or the tags of a block that is split stay. A block that cannot be split is a ``PromptError``.
        """
        wanted = {self.block(name).name for name in names}
        blocks: list[PromptBlock] = []
        for block in self.blocks:
            if block.name not in wanted:
                blocks.append(replace(block, pinned=block.pinned or "outside of what is split"))
                continue
            if self.form != "text" and len(decode_chat(block.text) or ()) > 1:
                raise PromptError(f"block '{block.name}' is several messages and cannot be split further")
            pieces = _inside(block.source, how)
            if sum(not piece.pinned for piece in pieces) < 2:
                raise PromptError(
                    f"block '{block.name}' cannot be split further: it is one {block.kind}",
                    hint="part it with blank lines or with marks such as <!-- block: name -->",
                )
            wrap = _wrapper(block.text) if self.form != "text" else _plain
            blocks += _named(pieces, wrap, block.line, prefix=f"{block.name}_")
        blocks = _unique(blocks, {})
        return replace(
            self, blocks=tuple(blocks), method=f"{self.method}; inside {', '.join(sorted(wanted))}"
        )

    def check_placeholders(self, columns: Sequence[str], forbidden: Iterable[str] = ()) -> SplitPrompt:
        """The prompt with the blocks that hold the item pinned; ``columns`` are the placeholders that can be filled.

        Raises ``PromptError`` for a placeholder that names no column, for one of ``forbidden`` (the answer), and
        where no block holds the item.
        """
        known, answers = {*columns, *INPUT_NAMES}, set(forbidden)
        holding = set()
        for block in self.blocks:
            for found in placeholders(block.source or block.text):
                line = block.line + block.source.count("\n", 0, found.start)
                if found.name in answers:
                    problem = "is the column of the right answer: the prompt would tell it"
                    raise PromptError(f"line {line}: {{{{ {found.name} }}}} {problem}")
                if found.name in known:
                    holding.add(block.name)
                elif re.fullmatch(r"[A-Za-z_]\w*", found.name):
                    raise PromptError(
                        f"line {line}: no column for the placeholder {{{{ {found.name} }}}}",
                        hint=did_you_mean(found.name, sorted(known)),
                    )
        if not holding:
            single = next((name for name in columns if f"{{{name}}}" in self.sent()), None)
            hint = (
                f"write {{{{ {single} }}}} for {{{single}}}"
                if single
                else "put {{ input }} where the item goes"
            )
            raise PromptError(
                "the prompt has no placeholder for the item", hint=f"{hint}, or add --append-input"
            )
        blocks = (
            replace(block, pinned=block.pinned or HOLDS_INPUT) if block.name in holding else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))


def read_prompt(path: Path, how: SplitMethod = "auto", *, append_input: bool = False) -> SplitPrompt:
    """Read a prompt's file and split it: a chat where it is a YAML or JSON list of messages, else a text.

    Raises ``PromptError`` where it cannot be read or is empty.
    """
    try:
        # Bytes, since reading as text would change the line ends; the mark that editors write first is no text.
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise PromptError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise PromptError(f"{path} is a folder", hint="name the prompt's file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: cannot be read as UTF-8 text ({error})") from error
    try:
        return split_prompt(text, how, form=_form(path, text), append_input=append_input)
    except PromptError as error:
        raise PromptError(f"{path}: {error}") from error


def split_prompt(
    text: str,
    how: SplitMethod = "auto",
    *,
    form: Literal["text", "yaml", "json"] = "text",
    append_input: bool = False,
) -> SplitPrompt:
    """Split a prompt into blocks whose sources joined are the text (of a chat: the contents of its messages).

    ``append_input`` puts the item after the last block. Raises ``PromptError`` for an empty text or block.

    >>> [block.name for block in split_prompt("# Role\\nA judge.\\n\\n# Rules\\nBe fair.\\n").blocks]
    ['role', 'rules']
    """
    if not text.strip():
        raise PromptError("the prompt is empty")
    if form == "text":
        pieces, method = _split_text(text.removeprefix("\ufeff"), how)
        if text.startswith("\ufeff"):
            pieces[0] = pieces[0]._replace(text="\ufeff" + pieces[0].text)
        blocks = _named(pieces, _plain, 1)
    else:
        blocks, method = _chat_blocks(_messages(text, form), how)
    blocks = _unique(blocks, {})
    if append_input:
        blocks = _with_input(blocks, form)
    for block in blocks:
        if not block.text.strip():
            raise PromptError(
                f"line {block.line}: block '{block.name}' is empty", hint="give it words or remove it"
            )
    return SplitPrompt(tuple(blocks), method, form, text)


def _with_input(blocks: list[PromptBlock], form: str) -> list[PromptBlock]:
    """The blocks, and a last one that holds the item; it is no part of the file."""
    if form == "text":
        end = blocks[-1].text
        gap = "" if end.endswith("\n\n") else "\n" if end.endswith("\n") else "\n\n"
        return [*blocks, PromptBlock(INPUT_BLOCK, "", gap + "{{ input }}", "appended input", 0, HOLDS_INPUT)]
    turn = 1 + max(int(found) for block in blocks for found in re.findall(r"\x1e(\d+):", block.text))
    text = chat_piece(turn, "user", "{{ input }}")
    return [*blocks, PromptBlock(INPUT_BLOCK, "", text, "appended message", 0, HOLDS_INPUT)]


def _form(path: Path, text: str) -> Literal["text", "yaml", "json"]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        return "json"
    if suffix in (".yaml", ".yml"):
        return "yaml"
    return "text"


# Text into pieces.


def _split_text(text: str, how: SplitMethod) -> tuple[list[_Piece], str]:
    """Pieces of a text, and how it was split in words; marks in the text go before any method."""
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
        for pieces, method in ((sections, "headings"), (_by_paragraphs(lines), "paragraphs")):
            if len(pieces) > 1:
                return pieces, f"at its {method}"
        items = _by_items(lines)
        return items, "at its items" if len(items) > 1 else "not at all: it is one paragraph"
    return _METHODS[how](lines), f"at its {how}"


def _lines(text: str) -> list[tuple[str, bool]]:
    """Lines with their ends, each with whether it stands in fenced code."""
    found: list[tuple[str, bool]] = []
    fence = ""
    for line in _LINE.findall(text):
        match = _FENCE.match(line)
        if fence:
            found.append((line, True))
            if match and match.group(1)[0] == fence[0] and len(match.group(1)) >= len(fence):
                fence = ""
        else:
            fence = match.group(1) if match else ""
            found.append((line, bool(match)))
    if fence:  # never closed: a stray mark, not code
        start = max(i for i, (line, _) in enumerate(found) if _FENCE.match(line) and found[i][1])
        opened = next(
            (i for i in range(start, -1, -1) if found[i][1] and (i == 0 or not found[i - 1][1])), start
        )
        found = found[:opened] + [(line, False) for line, _ in found[opened:]]
    return found


def _by_marks(lines: Sequence[tuple[str, bool]]) -> list[_Piece]:
    pieces: list[_Piece] = []
    current, title, pinned, kind = "", "", "", "paragraph"
    for number, (line, fenced) in enumerate(lines, start=1):
        mark, end = (None, None) if fenced else (_MARK.match(line), _MARK_END.match(line))
        if mark is not None:
            if kind == "marked block" and not _without_marks(current).strip():
                raise PromptError(
                    f"line {number}: block '{title}' is empty", hint="give it words or remove it"
                )
            if current.strip() or (pieces == [] and current):
                pieces.append(_Piece(current, title, kind, pinned))
                current = ""
            title, pinned, kind = mark.group(1), "kept by its mark" if mark.group(2) else "", "marked block"
            if not title:
                raise PromptError(f"line {number}: a mark without a name", hint="write <!-- block: name -->")
            current += line
        elif end is not None and kind == "marked block":
            pieces.append(_Piece(current + line, title, kind, pinned))
            current, title, pinned, kind = "", "", "", "paragraph"
        else:
            current += line
    if kind == "marked block" and not _without_marks(current).strip():
        raise PromptError(f"line {len(lines)}: block '{title}' is empty", hint="give it words or remove it")
    if current and (current.strip() or not pieces):
        pieces.append(_Piece(current, title, kind, pinned))
    elif current:
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text + current)
    return _blank_ends(pieces)


def _without_marks(text: str) -> str:
    """The text as a model gets it: lines that are our marks are left out, unless they stand in fenced code."""
    return "".join(
        line for line, fenced in _lines(text) if fenced or not (_MARK.match(line) or _MARK_END.match(line))
    )


def _by_tags(lines: Sequence[tuple[str, bool]]) -> list[_Piece]:
    """Elements that begin at the start of a line, with what stands between them as paragraphs."""
    pieces: list[_Piece] = []
    between: list[tuple[str, bool]] = []
    index = 0
    while index < len(lines):
        line, fenced = lines[index]
        opening = None if fenced else _TAG.match(line)
        end = _closing(lines, index, opening.group(1)) if opening else None
        if opening is None or end is None:
            between.append(lines[index])
            index += 1
            continue
        pieces += _by_paragraphs(between)
        between = []
        text = "".join(entry for entry, _ in lines[index : end + 1])
        pieces.append(_Piece(text, opening.group(1), "tag"))
        index = end + 1
    elements = sum(piece.kind == "tag" for piece in pieces)
    pieces += _by_paragraphs(between)
    return _blank_ends(pieces) if elements else [_Piece("".join(line for line, _ in lines), "", "paragraph")]


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


def _by_headings(lines: Sequence[tuple[str, bool]]) -> list[_Piece]:
    """Sections of the highest level of heading that occurs twice (or at all); deeper headings stay inside."""
    heads = {
        index: match
        for index, (line, fenced) in enumerate(lines)
        if not fenced and (match := _HEADING.match(line))
    }
    levels = Counter(len(match.group(1)) for match in heads.values())
    if not levels:
        return [_Piece("".join(line for line, _ in lines), "", "paragraph")]
    level = min((one for one, count in levels.items() if count > 1), default=max(levels))
    starts = [index for index, match in heads.items() if len(match.group(1)) <= level]
    edges = [0, *(index for index in starts if index), len(lines)]
    pieces = []
    for first, last in itertools.pairwise(edges):
        text = "".join(line for line, _ in lines[first:last])
        head = heads.get(first)
        pieces.append(_Piece(text, (head.group(2) or "") if head else "", "heading" if head else "paragraph"))
    return _blank_ends(pieces)


def _by_paragraphs(lines: Sequence[tuple[str, bool]]) -> list[_Piece]:
    pieces: list[_Piece] = []
    current, ended = "", False
    for line, fenced in lines:
        if ended and (line.strip() or fenced):
            pieces.append(_Piece(current, "", "paragraph"))
            current, ended = "", False
        current += line
        ended = ended or (not fenced and not line.strip() and bool(current.strip()))
    if current:
        pieces.append(_Piece(current, "", "paragraph"))
    return _blank_ends(pieces)


def _by_items(lines: Sequence[tuple[str, bool]]) -> list[_Piece]:
    """List items of the least indentation, each with its further lines; other text as paragraphs."""
    found = [_ITEM.match(line) if not fenced else None for line, fenced in lines]
    indents = [len(match.group(1).expandtabs(4)) for match in found if match]
    least = min(indents, default=0)
    pieces: list[_Piece] = []
    other: list[tuple[str, bool]] = []
    index = 0
    while index < len(lines):
        match = found[index]
        if match is None or len(match.group(1).expandtabs(4)) > least:
            other.append(lines[index])
            index += 1
            continue
        pieces += _by_paragraphs(other)
        other = []
        end = index + 1
        while end < len(lines):
            line, fenced = lines[end]
            indented = line[:1] in (" ", "\t") and bool(line.strip())
            begins = found[end] is not None and not indented
            after_blank = not lines[end - 1][0].strip()
            if begins or (
                found[end] is not None and len(line) - len(line.lstrip()) <= least and line.strip()
            ):
                break
            if not fenced and line.strip() and not indented and after_blank:
                break
            end += 1
        pieces.append(_Piece("".join(line for line, _ in lines[index:end]), "", "item"))
        index = end
    return _blank_ends(pieces + _by_paragraphs(other))


def _blank_ends(pieces: list[_Piece]) -> list[_Piece]:
    """Pieces of white space only are joined to the piece before, or at the front to the one after."""
    joined: list[_Piece] = []
    for piece in pieces:
        if joined and (not piece.text.strip() or not joined[-1].text.strip()):
            before = joined.pop()
            named = piece if piece.text.strip() else before
            joined.append(named._replace(text=before.text + piece.text))
        else:
            joined.append(piece)
    return joined


_METHODS: Mapping[str, Callable[[Sequence[tuple[str, bool]]], list[_Piece]]] = {
    "tags": _by_tags,
    "headings": _by_headings,
    "paragraphs": _by_paragraphs,
    "items": _by_items,
}


def _inside(text: str, how: SplitMethod) -> list[_Piece]:
    """Pieces of one block; its own heading, mark or tags are pinned pieces of their own."""
    lines = _lines(text)
    front: list[_Piece] = []
    back: list[_Piece] = []
    while lines and not lines[0][1] and (_MARK.match(lines[0][0]) or not lines[0][0].strip()):
        front.append(_Piece(lines.pop(0)[0], "open", "mark", "opens the block"))
    opening = _TAG.match(lines[0][0]) if lines and not lines[0][1] else None
    end = _closing(lines, 0, opening.group(1)) if opening else None
    if opening and end is not None and not lines[0][0][opening.end() :].strip() and end > 0:
        front.append(_Piece(lines[0][0], "open", "tag", "opens the block"))
        back = [_Piece("".join(line for line, _ in lines[end:]), "close", "tag", "closes the block")]
        lines = lines[1:end]
    elif lines and not lines[0][1] and _HEADING.match(lines[0][0]):
        count = 1
        while count < len(lines) and not lines[count][0].strip():
            count += 1
        front.append(
            _Piece("".join(line for line, _ in lines[:count]), "heading", "heading", "opens the block")
        )
        lines = lines[count:]
    body = "".join(line for line, _ in lines)
    if not body.strip():
        return _merged(front) + [_Piece(body, "", "paragraph")] * bool(body) + back
    pieces, _ = _split_text(body, how)
    return _merged(front) + pieces + back


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    return [pieces[-1]._replace(text="".join(piece.text for piece in pieces))] if pieces else []


# Names.


def _plain(text: str) -> str:
    return _without_marks(text)


def _wrapper(text: str) -> Callable[[str], str]:
    """Puts a piece into the message that ``text`` is a piece of."""
    match = re.match(r"\x1e(\d+):(\w+)\n", text)
    assert match is not None, "a chat's block begins with its message"
    return lambda piece: chat_piece(int(match.group(1)), match.group(2), piece)


def _named(
    pieces: Sequence[_Piece], wrap: Callable[[str], str], line: int, prefix: str = ""
) -> list[PromptBlock]:
    blocks = []
    for piece in pieces:
        sent = _plain(piece.text) if piece.kind != "mark" else ""
        title = piece.title or _opening_words(sent)
        pinned = piece.pinned
        text = wrap(piece.text) if piece.kind != "mark" else ""
        blocks.append(PromptBlock(_slug(prefix + title), piece.text, text, piece.kind, line, pinned))
        line += len(re.findall(r"\r\n|\n|\r", piece.text))
    return blocks


def _opening_words(text: str) -> str:
    """A label such as ``Rules:`` where the text begins with one, else its first three words."""
    body = re.sub(r"^[\s#>*+•-]*(?:\d{1,3}[.)]\s)?[\s*_`]*", "", text)
    label = re.match(r"([^\n:.!?]{1,40}):", body)
    if label and len(label.group(1).split()) <= 4:
        return label.group(1)
    words = _WORD.findall(re.sub(r"\{\{[^{}]*\}\}", " ", body))
    return " ".join((words or _WORD.findall(body))[:3]) or "block"


def _slug(title: str) -> str:
    """A name of letters, digits and ``_``: operators are told apart by such names."""
    words = re.sub(r"\W+", "_", title.strip().casefold()).strip("_")[:40].strip("_")
    if not words:
        return "block"
    return words if not words[0].isdigit() else f"b{words}"


def _unique(blocks: Sequence[PromptBlock], taken: Mapping[str, int]) -> list[PromptBlock]:
    """The blocks with names that differ: the second ``rule`` is ``rule_2``."""
    used: set[str] = set(taken)
    named = []
    for block in blocks:
        name, number = block.name, 2
        while name in used or name in ("full", "none", "again"):
            name, number = f"{block.name}_{number}", number + 1
        used.add(name)
        named.append(replace(block, name=name))
    return named


# Chats.


def _plain_lines(messages: Sequence[Mapping[str, str]]) -> bool:
    """Whether YAML may show the contents as they are: it folds the rarer line ends of Unicode."""
    return not any(mark in message["content"] for message in messages for mark in "\x85\u2028\u2029")


def _messages(text: str, form: str) -> list[dict[str, str]]:
    try:
        values: Any = json.loads(text) if form == "json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        where = str(error).splitlines()[0]
        raise PromptError(f"not valid {form.upper()}: {where}") from error
    if isinstance(values, dict) and isinstance(values.get("messages"), list):
        values = values["messages"]
    if not isinstance(values, list) or not values:
        raise PromptError("a chat prompt is a list of messages, each with 'role' and 'content'")
    for number, message in enumerate(values, start=1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise PromptError(f"message {number} needs 'role' and 'content'")
        if message["role"] not in ROLES:
            hint = did_you_mean(str(message["role"]), ROLES)
            raise PromptError(f"message {number} has the unknown role '{message['role']}'", hint=hint)
        if not isinstance(message["content"], str):
            raise PromptError(f"the content of message {number} is no text", hint="images are not supported")
        if not message["content"].strip():
            raise PromptError(
                f"message {number} ({message['role']}) is empty", hint="give it words or remove it"
            )
    return values


def _chat_blocks(messages: Sequence[Mapping[str, str]], how: SplitMethod) -> tuple[list[PromptBlock], str]:
    """Blocks of a chat: messages, or what they are split into; a solved example (user, assistant) is one block.

    A message may say which block it belongs to (``block: examples``).
    """
    blocks: list[PromptBlock] = []
    turn = examples = 0
    while turn < len(messages):
        message = messages[turn]
        role, content = message["role"], message["content"]
        if "block" in message:  # named by the user: neighbours of one name stand and fall together
            last = turn
            while last + 1 < len(messages) and messages[last + 1].get("block") == message["block"]:
                last += 1
            named = list(enumerate(messages))[turn : last + 1]
            text = "".join(chat_piece(index, entry["role"], entry["content"]) for index, entry in named)
            source = "".join(entry["content"].rstrip("\n") + "\n" for _, entry in named)
            blocks.append(PromptBlock(_slug(str(message["block"])), source, text, "named messages", 1))
            turn = last + 1
            continue
        after = messages[turn + 1] if turn + 1 < len(messages) else None
        if (
            role == "user"
            and after is not None
            and after["role"] == "assistant"
            and "block" not in after
            and not placeholders(content)
            and not placeholders(after["content"])
        ):
            examples += 1
            text = chat_piece(turn, role, content) + chat_piece(turn + 1, "assistant", after["content"])
            blocks.append(
                PromptBlock(f"example_{examples}", f"{content}\n{after['content']}\n", text, "example", 1)
            )
            turn += 2
            continue
        pieces, _ = _split_text(content, how)
        wrap = _wrapper(chat_piece(turn, role, ""))
        if len(pieces) == 1:
            name = pieces[0].title or role
            blocks.append(PromptBlock(_slug(name), content, wrap(_plain(content)), "message", 1))
        else:
            blocks += _named(pieces, lambda piece, put=wrap: put(_plain(piece)), 1)  # type: ignore[misc]
        turn += 1
    return blocks, f"at its {len(messages)} messages and inside them"


def sham_text(text: str) -> str:
    """A text of the same length and layout that says nothing: every word is filler of the same length and case.

    White space, punctuation, list marks, headings and tag brackets stay, placeholders too; digits become 0.

    >>> sham_text("## Rules\\n- Never guess.\\n")
    '## Dolor\\n- Magna ipsum.\\n'
    """
    counter = 0

    def filler(match: re.Match[str]) -> str:
        nonlocal counter
        word = match.group()
        if word.startswith(("{{", "\x1e")):
            return word
        if word.isdigit():
            return "0" * len(word)
        choices = _FILLER.get(len(word))
        if choices is None:
            made = "".join(_FILLER[5][(counter + i) % len(_FILLER[5])] for i in range(len(word) // 5 + 1))
            made = made[: len(word)]
        else:
            made = choices[counter % len(choices)]
        counter += 1
        if word.isupper() and len(word) > 1:
            return made.upper()
        return made.capitalize() if word[0].isupper() else made

    return re.sub(r"\x1e\d+:\w+\n|\{\{[^{}]*\}\}|[^\W\d_]+|\d+", filler, text)


_FILLER: Mapping[int, tuple[str, ...]] = {
    1: ("a",),
    2: ("et", "in", "ad", "ut"),
    3: ("sit", "sed", "non", "qui"),
    4: ("amet", "elit", "enim", "quis", "nisi", "ante"),
    5: ("dolor", "magna", "ipsum", "lorem", "culpa", "velit"),
    6: ("tempor", "labore", "aliqua", "mollit", "fugiat", "cillum"),
    7: ("nostrud", "laboris", "commodo", "officia", "aliquip", "veniam"),
    8: ("pariatur", "deserunt", "voluptas", "sequitur"),
    9: ("consequat", "excepteur", "cupidatat", "voluptate"),
    10: ("incididunt", "adipiscing", "temporibus"),
    11: ("consectetur", "exercitatio"),
}
