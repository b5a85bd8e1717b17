"""Prompts kept to the letter: the item's place in a text, and chats of several messages as one text.

A chat is a prompt like any other: one string that is hashed, logged, cached and sent. Each piece of it begins with a
record separator, the number of its message and its role; pieces of one message stand together. Where an adapter sends
a chat it takes the messages apart again (:func:`decode_chat`).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pcsuite.errors import PromptError

INPUT_NAMES = ("input", "input_text", "item")
"""Placeholders that stand for the item's whole input, whatever its columns are called."""
ROLES = ("system", "developer", "user", "assistant", "tool")
# ASCII's record separator, which nobody types; where a text has it all the same it is doubled.
_SEPARATOR = "\x1e"
_PLACEHOLDER = re.compile(r"\{\{[ \t]*([^{}\r\n]+?)[ \t]*\}\}")
FILE = "file"
"""What stands in a role's place in the pieces of a file: its path first, as JSON, then what is in it."""
_PIECE = re.compile(rf"{_SEPARATOR}(\d+):({'|'.join(ROLES)}|{FILE})\n")


class Placeholder(NamedTuple):
    """A ``{{ name }}`` in a text."""

    name: str
    start: int


def placeholders(text: str) -> list[Placeholder]:
    """Every ``{{ name }}`` of a text in order, whether or not there is a column of that name.

    >>> [found.name for found in placeholders("From {{ sender }}: {{text}}")]
    ['sender', 'text']
    """
    return [Placeholder(match.group(1), match.start()) for match in _PLACEHOLDER.finditer(text)]


def fill_placeholders(template: str, input_text: str, columns: Mapping[str, str]) -> str:
    """The text with its placeholders replaced; names that are neither a column nor the input stay as they are.

    Values are put in as they are: what looks like a placeholder inside one is not filled again.

    >>> fill_placeholders("{{ title }} {{ input }} {{ x }}", "B", {"title": "A"})
    'A B {{ x }}'
    """
    in_chat = template.startswith(_SEPARATOR)

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        filled = columns.get(name, input_text if name in INPUT_NAMES else None)
        if filled is None:
            return match.group()
        return _escaped(filled) if in_chat else filled

    return _PLACEHOLDER.sub(value, template)


class _Cell(str):
    """A cell of a table in a template of Jinja: shown as it is, and false where it says so."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.strip().casefold() not in ("", "0", "false", "no", "none", "null")


# Nothing of the machine can be reached from a template, and none is changed by rendering another.
_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


def jinja_names(template: str) -> frozenset[str]:
    """The variables that a template of Jinja needs; ``PromptError`` with its line where it is none.

    >>> sorted(jinja_names("{% if vip %}{{ name|upper }}{% endif %}"))
    ['name', 'vip']
    """
    try:
        return frozenset(meta.find_undeclared_variables(_JINJA.parse(template)))
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise PromptError(f"{where}the template cannot be read: {error}") from error


@lru_cache(maxsize=256)
def _compiled(template: str) -> Any:
    return _JINJA.from_string(template)


def render_jinja(template: str, input_text: str, columns: Mapping[str, str]) -> str:
    """A template of Jinja filled with an item's columns; ``PromptError`` where that fails.

    A cell is text, false where it is empty, 0, false, no, none or null; one that holds a JSON list or object is that
    list or object, so that it can be looped over. Nothing outside the cells can be reached.

    >>> render_jinja("{% if vip %}Dear {% endif %}{{ name }}", "", {"vip": "no", "name": "Ann"})
    'Ann'
    """
    in_chat = template.startswith(_SEPARATOR)
    values: dict[str, Any] = {
        name: _Cell(_escaped(input_text) if in_chat else input_text) for name in INPUT_NAMES
    }
    for name, cell in columns.items():
        values[name] = _Cell(_escaped(cell) if in_chat else cell)
        if cell[:1] in ("[", "{"):
            try:
                values[name] = json.loads(cell)
            except ValueError:
                continue
    try:
        text: str = _compiled(template).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise PromptError(f"the prompt's template fails on an item: {error}") from error
    return text


def chat_piece(turn: int, role: str, content: str) -> str:
    """A piece of the chat message number ``turn``; a prompt that begins with one is a chat."""
    return f"{_SEPARATOR}{turn}:{role}\n{_escaped(content)}"


def file_head(number: int, path: str, *, binary: bool = False) -> str:
    """The piece that every file of a prompt begins with; of a ``binary`` one the content is in Base64."""
    return chat_piece(number, FILE, json.dumps({"path": path, "base64": True} if binary else path))


def decode_chat(prompt: str) -> list[dict[str, str]] | None:
    """The messages of a chat in order, or ``None`` for any other prompt. Messages without content are left out.

    A file that nobody has put into its place is a message of the system.

    >>> decode_chat(chat_piece(0, "system", "Be ") + chat_piece(0, "system", "brief.") + chat_piece(1, "user", "Hi"))
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]
    """
    pieces = _decoded(prompt)
    if pieces is None:
        return None
    messages = []
    for (_, role), content in pieces.items():
        if role == FILE:
            role, content = "system", _parted_file(content)[1]
        if content:
            messages.append({"role": role, "content": content})
    return messages


def decode_files(prompt: str) -> dict[str, bytes | None]:
    """The files of a prompt by path; ``None`` for one of which nothing is left, which is then not there.

    >>> decode_files(file_head(0, "AGENTS.md") + chat_piece(0, "file", "Be brief.") + file_head(1, "b.md"))
    {'AGENTS.md': b'Be brief.', 'b.md': None}
    """
    files: dict[str, bytes | None] = {}
    for (_, role), content in (_decoded(prompt) or {}).items():
        if role == FILE:
            head, text = _parted_file(content)
            path = head if isinstance(head, str) else head["path"]
            if isinstance(head, dict):
                files[path] = b64decode(text) if text else None
            else:
                text = without_dangling_commas(text) if path.endswith(".json") else text
                files[path] = text.encode("utf-8", "surrogatepass") if text else None
    return files


def without_files(prompt: str) -> str:
    """A prompt without the files that stand in their places: the text of the user where nothing else is left.

    >>> without_files(file_head(0, "AGENTS.md") + chat_piece(1, "user", "Hi"))
    'Hi'
    """
    pieces = _decoded(prompt)
    if pieces is None or all(role != FILE for _, role in pieces):
        return prompt
    left = {key: content for key, content in pieces.items() if key[1] != FILE}
    if [role for _, role in left] == ["user"]:
        return next(iter(left.values()))
    return "".join(chat_piece(int(number), role, content) for (number, role), content in left.items())


def without_dangling_commas(text: str) -> str:
    """JSON from which last entries of lists or maps were taken out: the commas before them go too.

    >>> without_dangling_commas('{"a": ",}", "b": [1, ], }')
    '{"a": ",}", "b": [1 ] }'
    """
    return _STRING_OR_COMMA.sub(lambda match: "" if match.group() == "," else match.group(), text)


_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[\]}])', re.S)


def _parted_file(content: str) -> tuple[Any, str]:
    """The head of a file's pieces, and what is in it."""
    try:
        head, end = json.JSONDecoder().raw_decode(content)
    except ValueError:  # a part of a file, by itself
        return "", content
    return head, content[end:]


def _decoded(prompt: str) -> dict[tuple[str, str], str] | None:
    """The content of each message of a chat by its number and role; ``None`` for any other prompt."""
    if not _PIECE.match(prompt):
        return None
    messages: dict[tuple[str, str], str] = {}
    where, position = ("", ""), 0
    while position < len(prompt):
        if prompt.startswith(_SEPARATOR * 2, position):
            messages[where] += _SEPARATOR
            position += 2
        elif match := _PIECE.match(prompt, position):
            where = (match.group(1), match.group(2))
            messages.setdefault(where, "")
            position = match.end()
        else:
            end = prompt.find(_SEPARATOR, position + 1)
            end = len(prompt) if end < 0 else end
            messages[where] += prompt[position:end]
            position = end
    return messages


def readable(prompt: str) -> str:
    """A prompt for people: a chat as its messages, each under its role; any other prompt as it is.

    >>> print(readable(chat_piece(0, "system", "Be brief.") + chat_piece(1, "user", "Hi")))
    [system]
    Be brief.
    <BLANKLINE>
    [user]
    Hi
    """
    pieces = _decoded(prompt)
    if pieces is None:
        return prompt
    shown = []
    for (_, role), content in pieces.items():
        head, text = _parted_file(content) if role == FILE else (role, content)
        name = head if isinstance(head, str) else head["path"]
        if text or role == FILE:
            shown.append(f"[{name}]\n{text or '(not there)'}")
    return "\n\n".join(shown)


def _escaped(text: str) -> str:
    return text.replace(_SEPARATOR, _SEPARATOR * 2)
