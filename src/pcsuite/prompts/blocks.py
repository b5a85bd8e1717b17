"""A prompt as people have it, text or a chat, split into named blocks: the blocks joined are the file, byte for byte.

Where a prompt is and how its file is written, :mod:`pcsuite.prompts.sources` says, how a text is split
:mod:`pcsuite.prompts.splitting`; a chat is split at its messages and inside them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.filler import sham_text
from pcsuite.prompts.heads import HEADS, with_empty_heads
from pcsuite.prompts.pieces import Piece
from pcsuite.prompts.reading import read_source
from pcsuite.prompts.servers import SERVER, texts_of_entry, with_other_words
from pcsuite.prompts.sources import PromptSource, PromptText
from pcsuite.prompts.splitting import SplitMethod, split_inside, split_text, without_marks
from pcsuite.prompts.tools import DESCRIPTION, with_words
from pcsuite.prompts.variables import Filling, VariableError, has_variables, is_jinja, variables
from pcsuite.prompts.verbatim import INPUT_NAMES, chat_piece, jinja_names

INPUT_BLOCK = "input"
HOLDS_INPUT = "holds the input"
NOT_SENT = "front matter, not sent"
_WHOLE = ("example", "named messages", "item", "row", "sentence", "line", "file", "skill")
"""Kinds of block that are one thing, however long."""
KEPT_ON_REQUEST = "kept on request"
SEVERAL_PARTS = 3
"""Parts from which on a block is worth a look inside."""
_WORD = re.compile(r"\w+")
_PIECE_HEAD = re.compile(r"(\x1e\d+:\w+\n)")


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A named part of a prompt."""

    name: str
    source: str
    """The block as the file means it. Of a chat: the contents of its messages, of an example on lines of their own."""
    text: str
    """The block as a model gets it: without our marks, with the message it belongs to, and with ``{{ column }}`` where
    a column goes."""
    kind: str
    line: int
    """Where it begins in the file, counted from 1."""
    pinned: str = ""
    """Why it is always kept; empty for a block that can be left out."""
    spans: tuple[tuple[int, int, int], ...] = ()
    """What it is of the source's texts: the number of a text, from where, to where."""
    jinja: bool = False
    """Whether its text is a template of Jinja, rendered for each item."""
    neutral: str = ""
    """Its sham, where other words in the same places would not do: of a whole file, of a skill."""

    @property
    def shown(self) -> str:
        """The block as its file has it, without the mark that names it: what a reader wants to see."""
        return without_marks(self.source)

    @property
    def sham(self) -> str:
        """A text of the same length and layout that says nothing; a description of a tool is one still."""
        if self.kind == DESCRIPTION:
            return with_words(self.text, sham_text)
        if self.kind == SERVER:
            words = {text: json.dumps(sham_text(json.loads(text))) for text in texts_of_entry(self.text)}
            return with_other_words(self.text, words)
        return self.neutral or sham_text(self.text)

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
    source: PromptSource
    """The file that it came from."""
    filled: tuple[str, ...] = ()
    """Columns that its variables show, in the order of their names."""
    note: str = ""
    """What is made of its braces, dollars and percent signs, where that is not plain."""
    is_chat: bool = False
    """Whether a model gets messages, not one text."""

    @property
    def mixed(self) -> dict[str, int]:
        """Blocks that hold several things which could be tried one by one (``--into``), and how many."""
        counts = {}
        for block in self.free:
            if block.kind in (*_WHOLE, DESCRIPTION, SERVER) or len(block.spans) != 1:
                continue
            count = sum(not piece.pinned for piece in split_inside(block.source, "auto"))
            if count >= SEVERAL_PARTS and not block.jinja:
                counts[block.name] = count
        return counts

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
        """What a model gets, placeholders not yet filled, with only the blocks ``kept`` (by default all).

        Of a chat it is the chat's text form (:mod:`pcsuite.prompts.verbatim`), messages without a block left out.

        >>> from pcsuite.prompts.reading import source_of
        >>> split_source(source_of("Be kind.\\n\\n{{ input }}\\n", ".md")).sent(["input"])
        '{{ input }}\\n'
        """
        return "".join(block.text for block in self._kept(kept))

    def written(self, kept: Iterable[str] | None = None) -> str:
        """The prompt's file with only the blocks ``kept``, in its own form; with all of them it is the file itself.

        Reading it gives what was kept, to the letter; raises ``PromptError`` where the file's form cannot say it.
        """
        return self.source.written(self._spans(kept))

    def _spans(self, kept: Iterable[str] | None) -> dict[int, list[tuple[int, int]]]:
        spans: dict[int, list[tuple[int, int]]] = {}
        for block in self._kept(kept):
            for number, start, end in block.spans:
                spans.setdefault(number, []).append((start, end))
        return spans

    def files(self, kept: Iterable[str] | None = None) -> dict[str, bytes | None]:
        """The files of a prompt of files by path, with only the blocks ``kept``; ``None`` for one that is gone.

        Empty for any other prompt: that is its one file, :meth:`written`.
        """
        files_of = getattr(self.source, "files", None)
        return files_of(self._spans(kept)) if files_of is not None else {}

    def _kept(self, kept: Iterable[str] | None) -> list[PromptBlock]:
        names = None if kept is None else set(kept)
        return [block for block in self.blocks if names is None or block.name in names]

    def emptied(self, dropped: Iterable[str]) -> tuple[str, ...]:
        """Headings, and heads of tables, of which everything below is ``dropped``: they would stand over nothing.

        What stands below a heading ends at the next one of its level or of a higher one. In the order of the prompt;
        one that is kept on request stays, and so does one that had nothing below it before.

        >>> from pcsuite.prompts.rules import RulesSource
        >>> text = "# Rules\\n\\n## Style\\n\\n- Use tabs.\\n- Be brief.\\n\\n## Role\\n\\nA clerk.\\n"
        >>> prompt = split_source(RulesSource(text, ".md"), item_beside=True)
        >>> prompt.emptied(["use_tabs", "be_brief"]), prompt.emptied(["use_tabs"])
        (('style_heading',), ())
        """
        gone = with_empty_heads(self.source.texts, self.blocks, dropped)
        return tuple(block.name for block in self.blocks if block.pinned and block.name in gone)

    def keep(self, names: Iterable[str]) -> SplitPrompt:
        """The prompt with some blocks pinned, by name or number.

        A block that is pinned already keeps its own reason, but for a heading, which then stays whatever stands below
        it. Raises ``PromptError`` for a block that there is none of.
        """
        pinned = {self.block(name).name for name in names}
        blocks = (
            replace(block, pinned=KEPT_ON_REQUEST)
            if block.name in pinned and block.pinned in ("", *HEADS)
            else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))

    def rename(self, names: Mapping[str, str]) -> SplitPrompt:
        """The prompt with some blocks renamed; keys are names or numbers, values become words of letters, digits, _.

        Raises ``PromptError`` for an unknown block, and where two blocks would have one name.
        """
        new_names = {self.block(old).name: _slug(new) for old, new in names.items()}
        blocks = tuple(replace(block, name=new_names.get(block.name, block.name)) for block in self.blocks)
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
        chosen = {self.block(name).name for name in names}
        blocks: list[PromptBlock] = []
        for block in self.blocks:
            if block.name not in chosen:
                blocks.append(replace(block, pinned=block.pinned or "outside of what is split"))
                continue
            if len(block.spans) > 1:
                raise PromptError(f"block '{block.name}' is several messages and cannot be split further")
            if block.kind in (DESCRIPTION, SERVER):
                raise PromptError(f"block '{block.name}' cannot be split further: it is one {block.kind}")
            pieces = split_inside(block.source, how)
            if sum(not piece.pinned for piece in pieces) < 2:
                raise PromptError(
                    f"block '{block.name}' cannot be split further: it is one {block.kind}",
                    hint="part it with blank lines or with marks such as <!-- block: name -->",
                )
            wrap = _wrapper(block.text) if self.is_chat else str
            blocks += named(pieces, block.line, wrap, prefix=f"{block.name}_", at=block.spans)
        blocks = unique(blocks)
        return replace(
            self, blocks=tuple(blocks), method=f"{self.method}; inside {', '.join(sorted(chosen))}"
        )

    def names_among(self, columns: Iterable[str], literal: Iterable[str] = ()) -> list[str]:
        """Those of some names that the prompt's variables have, in the order in which they first appear."""
        asked = {*columns} - {*literal}
        names = dict[str, None]()
        for block in self.blocks:
            shown = [one.name for one in variables(block.text)]
            shown += [
                "input" for one in variables(block.text) if one.style == "positional" and not one.in_code
            ]
            if is_jinja(block.text) and self.source.braces != "mustache":
                shown += sorted(jinja_names(block.text))
            names |= dict.fromkeys(name for name in shown if name in asked)
        return list(names)

    def check_placeholders(
        self,
        columns: Sequence[str],
        forbidden: Iterable[str] = (),
        *,
        literal: Iterable[str] = (),
        inputs: Iterable[str] | None = None,
        item_beside: bool = False,
    ) -> SplitPrompt:
        """The prompt with its variables ready to be filled by ``columns``, and the blocks that hold the item pinned.

        ``inputs`` are the columns that the item is (by default all): a block that shows none of them can be left out.
        ``literal`` are words that look like variables and are meant to the letter. Raises ``PromptError`` for a
        variable that names no column, for one of ``forbidden`` (the answer), and where no block holds the item, unless
        that goes beside the prompt (``item_beside``).
        """
        plain = {block.name for block in self.blocks if self.source.to_the_letter and block.spans}
        sent = [
            part for block in self.blocks if block.name not in plain for part in _PIECE_HEAD.split(block.text)
        ]
        holes = {
            form for text in self.source.texts for _, hole in text.holes for form in (hole, hole.strip("${}"))
        }
        filling = Filling.of(sent, columns, literal, self.source.braces, also=holes)
        answers, held = set(forbidden), {*(columns if inputs is None else inputs), *INPUT_NAMES}
        blocks, names = [], dict[str, None]()
        for block in self.blocks:
            filled, shown, jinja = [], set[str](), False
            for part in _PIECE_HEAD.split(block.text):
                if _PIECE_HEAD.fullmatch(part):
                    filled.append(part)
                    continue
                try:
                    ready = filling.fill(part) if block.name not in plain else filling.unfilled(part)
                except VariableError as error:
                    where = self._line(block, part, error.lines_before)
                    raise PromptError(f"line {where}: {error.problem}", hint=error.remedy) from None
                if answer_names := sorted(ready.names & answers):
                    before = next((one.start for one in variables(part) if one.name in answer_names), 0)
                    where = self._line(block, part, part.count("\n", 0, before))
                    problem = "is the column of the right answer: the prompt would tell it"
                    raise PromptError(f"line {where}: {{{{ {answer_names[0]} }}}} {problem}")
                filled.append(ready.text)
                shown |= ready.names
                jinja = jinja or ready.jinja
            names |= dict.fromkeys(sorted(shown))
            pinned = block.pinned or (HOLDS_INPUT if shown & held else "")
            blocks.append(replace(block, text="".join(filled), pinned=pinned, jinja=jinja))
        self._refuse_holes(filling)
        if not held & names.keys() and not item_beside:
            raise PromptError(
                "the prompt has no placeholder for the item",
                hint="put {{ input }} where the item goes, or add --append-input",
            )
        return replace(self, blocks=tuple(blocks), filled=tuple(names), note=_filling_note(filling, sent))

    def _refuse_holes(self, filling: Filling) -> None:
        """Raise for what a program would put into its text and no column does, in whatever form it is written."""
        for text in self.source.texts:
            for start, written in text.holes:
                name = written.strip("${}").strip()
                if not {name, written} & (filling.known | filling.literal):
                    raise PromptError(
                        f"line {text.line + text.text.count(chr(10), 0, start)}: no column for the variable"
                        f" {' '.join(written.split())}",
                        hint=f"call a column so, or --literal '{name}' if it is to be sent as it is written",
                    )

    def _line(self, block: PromptBlock, part: str, lines_before: int) -> int:
        """The line of the file on which something stands that has so many lines before it in a part of a block."""
        if block.spans and self.source.texts[block.spans[0][0]].inline:
            return block.line
        at = block.source.find(part)
        return block.line + block.source.count("\n", 0, max(at, 0)) + lines_before


def _filling_note(filling: Filling, texts: Sequence[str]) -> str:
    """What is sent otherwise than it is written, in words; empty where nothing is."""
    notes = []
    if filling.braces == "format" and any("{{" in text or "}}" in text for text in texts):
        notes.append("doubled braces are sent as single ones (str.format)")
    if filling.dollars and any("$$" in text for text in texts):
        notes.append("$$ is sent as $")
    if filling.percents and any("%%" in text for text in texts):
        notes.append("%% is sent as %")
    return ", ".join(notes)


def read_prompt(
    path: str | Path,
    how: SplitMethod = "auto",
    *,
    append_input: bool = False,
    system: bool = False,
    item_beside: bool = False,
) -> SplitPrompt:
    """Read a prompt from its file and split it; ``app.py:NAME`` names one of several prompts of a file.

    ``append_input`` puts the item after the prompt; ``system`` makes the prompt the system's message and the item the
    user's; ``item_beside`` leaves it alone, since the item goes beside it. Raises ``PromptError`` where it cannot be
    read or is empty.
    """
    source = read_source(path)
    try:
        return split_source(source, how, append_input=append_input, system=system, item_beside=item_beside)
    except PromptError as error:
        raise PromptError(f"{path}: {error}") from error


def split_source(
    source: PromptSource,
    how: SplitMethod = "auto",
    *,
    append_input: bool = False,
    system: bool = False,
    item_beside: bool = False,
) -> SplitPrompt:
    """Split a prompt, wherever it came from, into blocks; joined, their sources are its texts.

    Arguments and errors are those of :func:`read_prompt`.

    >>> from pcsuite.prompts.reading import source_of
    >>> source = source_of("# Role\\nA judge.\\n\\n# Rules\\nBe fair.\\n", ".md")
    >>> [block.name for block in split_source(source).blocks]
    ['role', 'rules']
    """
    texts = source.texts
    if how != "auto" and any(part.kind == DESCRIPTION for text in texts for part in text.parts):
        raise PromptError("tools are split at their descriptions", hint="leave out --split")
    apart = source.to_the_letter and not append_input and not system and not item_beside
    system = system or apart
    if system and source.is_chat:
        raise PromptError("--system is for a prompt of one text, and this is a chat", hint="leave it out")
    if system:
        texts = tuple(text._replace(role="system") for text in texts)
    is_chat = any(text.role for text in texts)
    if is_chat:
        blocks, method = _chat_blocks(texts, how)
    else:
        blocks, method = _text_blocks(texts[0], how)
    if source.front:
        blocks.insert(0, PromptBlock("front_matter", source.front, "", "front matter", 1, NOT_SENT))
    blocks = unique(blocks)
    if system or (append_input and is_chat):
        message = chat_piece(len(texts), "user", "{{ input }}")
        blocks.append(PromptBlock(INPUT_BLOCK, "", message, "appended message", 0, HOLDS_INPUT))
    elif append_input:
        end = blocks[-1].text
        gap = "" if end.endswith("\n\n") else "\n" if end.endswith("\n") else "\n\n"
        blocks.append(PromptBlock(INPUT_BLOCK, "", gap + "{{ input }}", "appended input", 0, HOLDS_INPUT))
    for block in blocks:
        if not block.text.strip() and block.pinned != NOT_SENT:
            raise PromptError(
                f"line {block.line}: block '{block.name}' is empty", hint="give it words or remove it"
            )
    method += "; it is the system's message, and the item the user's" * apart
    return SplitPrompt(tuple(blocks), method, source, is_chat=is_chat)


# Names.


def _wrapper(text: str) -> Callable[[str], str]:
    """Puts a piece into the message that ``text`` is a piece of."""
    match = re.match(r"\x1e(\d+):(\w+)\n", text)
    assert match is not None, "a chat's block begins with its message"
    return lambda piece: chat_piece(int(match.group(1)), match.group(2), piece)


def named(
    pieces: Sequence[Piece],
    line: int,
    wrap: Callable[[str], str] = str,
    prefix: str = "",
    at: Sequence[tuple[int, int, int]] = ((0, 0, 0),),
) -> list[PromptBlock]:
    """Blocks of pieces that begin at a line of the file; ``wrap`` puts the text of each into its message.

    ``at`` is where the first of them begins: the number of its text, and from where.
    """
    blocks = []
    (number, start, _), *_ = at
    for piece in pieces:
        sent = without_marks(piece.text) if piece.kind != "mark" else ""
        name = _slug(prefix + (piece.title or _opening_words(sent)))
        end = start + len(piece.text)
        blocks.append(
            PromptBlock(
                name,
                piece.text,
                wrap(sent) if sent else "",
                piece.kind,
                piece.line or line,
                piece.pinned,
                ((number, start, end),),
            )
        )
        line += len(re.findall(r"\r\n|\n|\r", piece.text))
        start = end
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


def unique(blocks: Sequence[PromptBlock]) -> list[PromptBlock]:
    """The blocks with names that differ: the second ``rule`` is ``rule_2``."""
    used: set[str] = set()
    named = []
    for block in blocks:
        name, number = block.name, 2
        while name in used or name in ("full", "none", "again"):
            name, number = f"{block.name}_{number}", number + 1
        used.add(name)
        named.append(replace(block, name=name))
    return named


# Texts and chats.


def _text_blocks(text: PromptText, how: SplitMethod) -> tuple[list[PromptBlock], str]:
    pieces, method = pieces_of(text, how)
    return named(pieces, text.line), method


def pieces_of(text: PromptText, how: SplitMethod) -> tuple[list[Piece], str]:
    """How a text is split, and in words: as its file's form says, else at what its words show."""
    if text.parts and how == "auto":
        return list(text.parts), text.parted
    pieces, method = split_text(text.text.removeprefix("\ufeff"), how)
    if text.text.startswith("\ufeff"):
        pieces = pieces or [Piece("", "", "paragraph")]  # a file of nothing else
        pieces[0] = pieces[0]._replace(text="\ufeff" + pieces[0].text)
    return pieces, method


def _chat_blocks(messages: Sequence[PromptText], how: SplitMethod) -> tuple[list[PromptBlock], str]:
    """Blocks of a chat: messages, or what they are split into; a solved example (user, assistant) is one block.

    A message may say which block it belongs to (``block: examples``).
    """
    blocks: list[PromptBlock] = []
    turn = examples = 0
    while turn < len(messages):
        message = messages[turn]
        last = turn
        if message.block:  # named by the user: neighbours of one name stand and fall together
            while last + 1 < len(messages) and messages[last + 1].block == message.block:
                last += 1
            blocks.append(_several(messages, turn, last, _slug(message.block), "named messages"))
        elif _is_example(messages, turn):
            last = turn + 1
            examples += 1
            blocks.append(_several(messages, turn, last, f"example_{examples}", "example"))
        else:
            pieces, _ = pieces_of(message, how)
            wrap = _wrapper(chat_piece(turn, message.role, ""))
            if len(pieces) == 1:
                pieces = [pieces[0]._replace(title=pieces[0].title or message.role, kind="message")]
            blocks += named(pieces, message.line, wrap, at=[(turn, 0, 0)])
        turn = last + 1
    if len(messages) == 1:
        return blocks, pieces_of(messages[0], how)[1]
    return blocks, f"at its {len(messages)} messages and inside them"


def _is_example(messages: Sequence[PromptText], turn: int) -> bool:
    """Whether a message and the next are a solved example: a user's and an assistant's without a variable."""
    pair = messages[turn : turn + 2]
    return [message.role for message in pair] == ["user", "assistant"] and not any(
        message.block or has_variables(message.text) for message in pair
    )


def _several(messages: Sequence[PromptText], first: int, last: int, name: str, kind: str) -> PromptBlock:
    """One block of several messages."""
    numbered = list(enumerate(messages))[first : last + 1]
    text = "".join(chat_piece(turn, message.role, message.text) for turn, message in numbered)
    source = "".join(message.text.rstrip("\n") + "\n" for _, message in numbered)
    spans = tuple((turn, 0, len(message.text)) for turn, message in numbered)
    return PromptBlock(name, source, text, kind, messages[first].line, spans=spans)
