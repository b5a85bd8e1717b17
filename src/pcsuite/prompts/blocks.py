"""A prompt as people have it, text or a chat, split into named blocks: the blocks joined are the file, byte for byte.

How a text is split, :mod:`pcsuite.prompts.splitting` says; a chat is split at its messages and inside them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from pcsuite._util.files import unreadable_text
from pcsuite.config.yaml_source import as_yaml
from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.splitting import Piece, SplitMethod, split_inside, split_text, without_marks
from pcsuite.prompts.verbatim import INPUT_NAMES, ROLES, chat_piece, decode_chat, placeholders

PromptForm = Literal["text", "yaml", "json"]
"""A text, or the form of a chat's file."""
_FORMS: Mapping[str, PromptForm] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
INPUT_BLOCK = "input"
HOLDS_INPUT = "holds the input"
_WORD = re.compile(r"\w+")


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
        return without_marks(self.source)

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
    form: PromptForm = "text"
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
        """What a model gets, placeholders not yet filled, with only the blocks ``kept`` (by default all).

        Of a chat it is the chat's text form (:mod:`pcsuite.prompts.verbatim`), messages without a block left out.

        >>> split_prompt("Be kind.\\n\\n{{ input }}\\n").sent(["input"])
        '{{ input }}\\n'
        """
        return "".join(block.text for block in self._kept(kept))

    def written(self, kept: Iterable[str] | None = None) -> str:
        """The prompt's file with only the blocks ``kept``; with all of them it is the file, byte for byte.

        A chat with blocks left out is written anew in its own form, YAML or JSON.
        """
        blocks = self._kept(kept)
        if len(blocks) == len(self.blocks):
            return self.original
        if self.form == "text":
            return "".join(block.source for block in blocks)
        messages = decode_chat("".join(block.text for block in blocks)) or []
        if self.form == "json":
            return json.dumps(messages, indent=2, ensure_ascii=False) + "\n"
        return as_yaml(messages, width=100)

    def _kept(self, kept: Iterable[str] | None) -> list[PromptBlock]:
        names = None if kept is None else set(kept)
        return [block for block in self.blocks if names is None or block.name in names]

    def keep(self, names: Iterable[str]) -> SplitPrompt:
        """The prompt with some blocks pinned, by name or number.

        A block that is pinned already keeps its own reason. Raises ``PromptError`` for a block that there is none of.
        """
        pinned = {self.block(name).name for name in names}
        blocks = (
            replace(block, pinned=block.pinned or "kept on request") if block.name in pinned else block
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
            if self.form != "text" and len(decode_chat(block.text) or ()) > 1:
                raise PromptError(f"block '{block.name}' is several messages and cannot be split further")
            pieces = split_inside(block.source, how)
            if sum(not piece.pinned for piece in pieces) < 2:
                raise PromptError(
                    f"block '{block.name}' cannot be split further: it is one {block.kind}",
                    hint="part it with blank lines or with marks such as <!-- block: name -->",
                )
            wrap = _wrapper(block.text) if self.form != "text" else str
            blocks += _named(pieces, block.line, wrap, prefix=f"{block.name}_")
        blocks = _unique(blocks)
        return replace(
            self, blocks=tuple(blocks), method=f"{self.method}; inside {', '.join(sorted(chosen))}"
        )

    def check_placeholders(self, columns: Sequence[str], forbidden: Iterable[str] = ()) -> SplitPrompt:
        """The prompt with the blocks that hold the item pinned; ``columns`` are the placeholders that can be filled.

        Raises ``PromptError`` for a placeholder that names no column, for one of ``forbidden`` (the answer), and
        where no block holds the item.
        """
        known, answers = {*columns, *INPUT_NAMES}, set(forbidden)
        holding = set()
        for block in self.blocks:
            for placeholder in placeholders(block.source or block.text):
                line = block.line + block.source.count("\n", 0, placeholder.start)
                if placeholder.name in answers:
                    problem = "is the column of the right answer: the prompt would tell it"
                    raise PromptError(f"line {line}: {{{{ {placeholder.name} }}}} {problem}")
                if placeholder.name in known:
                    holding.add(block.name)
                elif re.fullmatch(r"[A-Za-z_]\w*", placeholder.name):
                    raise PromptError(
                        f"line {line}: no column for the placeholder {{{{ {placeholder.name} }}}}",
                        hint=did_you_mean(placeholder.name, sorted(known)),
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
        raise PromptError(f"{path}: {unreadable_text(path, error)}") from error
    form = _FORMS.get(path.suffix.lower(), "text")
    try:
        return split_prompt(text, how, form=form, append_input=append_input)
    except PromptError as error:
        raise PromptError(f"{path}: {error}") from error


def split_prompt(
    text: str,
    how: SplitMethod = "auto",
    *,
    form: PromptForm = "text",
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
        pieces, method = split_text(text.removeprefix("\ufeff"), how)
        if text.startswith("\ufeff"):
            pieces[0] = pieces[0]._replace(text="\ufeff" + pieces[0].text)
        blocks = _named(pieces, 1)
    else:
        blocks, method = _chat_blocks(_messages(text, form), how)
    blocks = _unique(blocks)
    if append_input and form == "text":
        end = blocks[-1].text
        gap = "" if end.endswith("\n\n") else "\n" if end.endswith("\n") else "\n\n"
        blocks.append(PromptBlock(INPUT_BLOCK, "", gap + "{{ input }}", "appended input", 0, HOLDS_INPUT))
    elif append_input:
        turn = 1 + max(int(number) for block in blocks for number in re.findall(r"\x1e(\d+):", block.text))
        message = chat_piece(turn, "user", "{{ input }}")
        blocks.append(PromptBlock(INPUT_BLOCK, "", message, "appended message", 0, HOLDS_INPUT))
    for block in blocks:
        if not block.text.strip():
            raise PromptError(
                f"line {block.line}: block '{block.name}' is empty", hint="give it words or remove it"
            )
    return SplitPrompt(tuple(blocks), method, form, text)


# Names.


def _wrapper(text: str) -> Callable[[str], str]:
    """Puts a piece into the message that ``text`` is a piece of."""
    match = re.match(r"\x1e(\d+):(\w+)\n", text)
    assert match is not None, "a chat's block begins with its message"
    return lambda piece: chat_piece(int(match.group(1)), match.group(2), piece)


def _named(
    pieces: Sequence[Piece], line: int, wrap: Callable[[str], str] = str, prefix: str = ""
) -> list[PromptBlock]:
    """Blocks of pieces that begin at a line of the file; ``wrap`` puts the text of each into its message."""
    blocks = []
    for piece in pieces:
        sent = without_marks(piece.text) if piece.kind != "mark" else ""
        name = _slug(prefix + (piece.title or _opening_words(sent)))
        blocks.append(
            PromptBlock(name, piece.text, wrap(sent) if sent else "", piece.kind, line, piece.pinned)
        )
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


def _unique(blocks: Sequence[PromptBlock]) -> list[PromptBlock]:
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


# Chats.


def _messages(text: str, form: str) -> list[dict[str, str]]:
    try:
        values: Any = json.loads(text) if form == "json" else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        raise PromptError(f"line {error.lineno}: not valid JSON ({error.msg})") from error
    except (ValueError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise PromptError(f"{where}not valid {form.upper()} ({problem})") from error
    if isinstance(values, dict) and isinstance(values.get("messages"), list):
        values = values["messages"]
    if not isinstance(values, list) or not values:
        raise PromptError("a chat prompt is a list of messages, each with 'role' and 'content'")
    lines = _message_lines(text)
    for number, message in enumerate(values, start=1):
        which = f"message {number}"
        where = f"line {lines[number - 1]}: " if number <= len(lines) else ""
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise PromptError(f"{where}{which} needs 'role' and 'content'")
        if message["role"] not in ROLES:
            hint = did_you_mean(str(message["role"]), ROLES)
            raise PromptError(f"{where}{which} has the unknown role '{message['role']}'", hint=hint)
        if not isinstance(message["content"], str):
            raise PromptError(f"{where}the content of {which} is no text", hint="images are not supported")
        if not message["content"].strip():
            raise PromptError(
                f"{where}{which} ({message['role']}) is empty", hint="give it words or remove it"
            )
    return values


def _message_lines(text: str) -> list[int]:
    """The line at which each message of a chat's file begins; none where that cannot be told."""
    try:
        node = yaml.compose(text)  # JSON is YAML but for tabs between its tokens
    except yaml.YAMLError:
        return []
    if isinstance(node, yaml.MappingNode):
        node = next((value for key, value in node.value if key.value == "messages"), None)
    if not isinstance(node, yaml.SequenceNode):
        return []
    return [entry.start_mark.line + 1 for entry in node.value]


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
        pieces, _ = split_text(content, how)
        wrap = _wrapper(chat_piece(turn, role, ""))
        if len(pieces) == 1:
            name = pieces[0].title or role
            blocks.append(PromptBlock(_slug(name), content, wrap(without_marks(content)), "message", 1))
        else:
            blocks += _named(pieces, 1, wrap)
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
            replacement = "".join(
                _FILLER[5][(counter + i) % len(_FILLER[5])] for i in range(len(word) // 5 + 1)
            )
            replacement = replacement[: len(word)]
        else:
            replacement = choices[counter % len(choices)]
        counter += 1
        if word.isupper() and len(word) > 1:
            return replacement.upper()
        return replacement.capitalize() if word[0].isupper() else replacement

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
