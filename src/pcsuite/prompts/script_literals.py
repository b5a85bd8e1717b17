"""Texts of a TypeScript or JavaScript file by their names: quoted strings, template literals and their sums."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pcsuite.errors import PromptError
from pcsuite.prompts.literals import (
    COMPUTED,
    Character,
    CodeMessage,
    Literal,
    is_likely_prompt,
    message_role,
    no_such_name,
)

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\r\n]*|/\*.*?\*/)"
    r"|(?P<word>[A-Za-z_$][\w$]*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<quote>[\"'`])"
    r"|(?P<sign>.)",
    re.S,
)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\r\n])*\]|[^/\\\r\n\[])+/[A-Za-z]*")
_BEFORE_REGEX = frozenset("(,=:[!&|?{};+-*%<>~^")
_ESCAPE = re.compile(
    r"\\(?:(?P<line>\r\n|\n|\r)|x(?P<x>[0-9a-fA-F]{2})|u\{(?P<p>[0-9a-fA-F]+)\}|u(?P<u>[0-9a-fA-F]{4})|(?P<c>.))",
    re.S,
)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_KEYWORDS = frozenset({"as", "satisfies"})


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def find_prompt(source: str, name: str) -> Iterator[CodeMessage]:
    """The text, or the messages, that a name stands for: of a constant, a property or a field (``prompts.triage``).

    Raises ``PromptError`` where there is no such name, or where its value is computed.
    """
    reader = _Reader(source)
    index = reader.value_of(name) if name else None
    if index is None:
        raise no_such_name(name, reader.texts())
    yield from reader.messages(index, name)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = list(_tokens(source))

    def text(self, index: int) -> str:
        """The token at an index; empty behind the last."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def kind(self, index: int) -> str:
        """Its kind."""
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def line(self, index: int) -> int:
        """The line it stands on."""
        start = self.tokens[min(index, len(self.tokens) - 1)].start if self.tokens else 0
        return self.source.count("\n", 0, start) + 1

    def value_of(self, name: str, first: int = 0, last: int | None = None) -> int | None:
        """Index of the token where the value of a dotted name begins, within some tokens."""
        head, _, rest = name.partition(".")
        last_value = None
        for index in range(first, len(self.tokens) if last is None else last):
            value = self._given(index, head)
            if value is None:
                continue
            if not rest:
                last_value = value
            elif (
                self.text(value) == "{"
                and (inner := self.value_of(rest, value + 1, self._close(value))) is not None
            ):
                last_value = inner
        if last_value is None and rest:  # a field of a class, a member of an enum
            for index in range(first, len(self.tokens)):
                if self.text(index) in ("class", "enum", "namespace") and self.text(index + 1) == head:
                    opening = next((i for i in range(index, len(self.tokens)) if self.text(i) == "{"), None)
                    if opening is not None:
                        return self.value_of(rest, opening + 1, self._close(opening))
        return last_value

    def _given(self, index: int, name: str) -> int | None:
        """Where the value begins that a name at an index is given; ``None`` where it is not given one there."""
        token = self.tokens[index]
        quoted = token.kind == "string" and token.text[1:-1] == name and self.text(index + 1) == ":"
        if not quoted and (token.kind != "word" or token.text != name or self.text(index - 1) == "."):
            return None
        after = index + 1
        if self.text(index - 1) == "function" and self.text(after) == "(":
            return index - 1
        if self.text(index - 1) in (":", "type", "interface"):  # a type, or a value itself
            return None
        if self.text(after) == "=" and self.text(after + 1) not in ("=", ">"):
            return after + 1
        if self.text(after) != ":":
            return None
        if self.kind(after + 1) == "string" or self.text(after + 1) in ("[", "{"):
            is_value = True
        else:
            is_value = self.text(index - 1) in ("{", ",")
        # A type may stand between the name and its value: const NAME: string = …
        for end in range(after + 1, min(after + 24, len(self.tokens))):
            if (
                self.text(end) == "="
                and self.text(end + 1) not in ("=", ">")
                and self.text(end - 1) not in "=!<>"
            ):
                return end + 1
            if self.kind(end) == "string" or self.text(end) in (";", ",", "}", "("):
                break
        return after + 1 if is_value else None

    def _returned(self, index: int) -> int:
        """Where the text begins that a function at an index returns; the index itself where there is no function."""
        index += self.text(index) == "async"
        start = index
        if self.text(index) == "function":
            index += 1 + (self.kind(index + 1) == "word")
        if self.text(index) != "(":
            return start
        after = self._close(index) + 1
        while self.text(after) and self.text(after) not in ("=", "{", ";", ",", ")"):
            after += 1  # the type of what it returns
        if self.text(after) == "=" and self.text(after + 1) == ">":
            after += 2
        elif self.text(start) != "function":
            return start
        if self.text(after) != "{":
            return after
        returns = [i for i in range(after, self._close(after)) if self.text(i) == "return"]
        return returns[0] + 1 if len(returns) == 1 else start

    def texts(self) -> list[str]:
        """Names that are given long texts, or lists of messages."""
        names: list[str] = []
        for index, token in enumerate(self.tokens):
            value = self._given(index, token.text) if token.kind == "word" else None
            if value is None or token.text in names or token.text in ("content", "role"):
                continue
            try:
                messages = list(self.messages(value, token.text))
            except PromptError:
                continue
            if is_likely_prompt(token.text, messages):
                names.append(token.text)
        return names

    def messages(self, index: int, name: str) -> Iterator[CodeMessage]:
        """The messages of an array of them, or one text."""
        index = self._returned(index)
        if self.text(index) != "[":
            literal, _ = self.expression(index, name)
            yield CodeMessage(literal, self.line(index))
            return
        entries = []
        position, closing = index + 1, self._close(index)
        while position < closing:
            end = self._close(position) if self.text(position) in "{[" else position
            entries.append((position, end))
            position = end + 1
            position += self.text(position) == ","
        if not entries:
            raise PromptError(f"line {self.line(index)}: '{name}' is empty")
        for number, (opening, end) in enumerate(entries, start=1):
            role, content = (self.value_of(key, opening, end) for key in ("role", "content"))
            if role is None or content is None or self.kind(role) != "string":
                raise PromptError(
                    f"line {self.line(opening)}: message {number} needs 'role' and 'content' as literals"
                )
            literal, _ = self.expression(content, f"message {number}")
            span = self.tokens[opening].start, self.tokens[end].end
            if number < len(entries):
                span = span[0], self.tokens[entries[number][0]].start
            elif number > 1:
                span = self.tokens[entries[number - 2][1]].end, span[1]
            speaker = message_role(self.text(role)[1:-1], number)
            yield CodeMessage(literal, self.line(content), speaker, span)

    def expression(self, index: int, name: str, within: tuple[str, ...] = ()) -> tuple[Literal, int]:
        """The text that an expression is, and the index of the token behind it."""
        parts, position = [], index
        while True:
            part, position = self._operand(position, name, within)
            parts.append(part)
            if self.text(position) != "+":
                break
            position += 1
        while self.text(position) in _KEYWORDS:
            position += 2
        if self.kind(position) == "sign" and self.text(position) not in ";,)}]":
            begins_a_line = "\n" in self.source[self.tokens[position - 1].end : self.tokens[position].start]
            if not (begins_a_line and self.text(position) in "@{"):
                raise self._computed(position, name)
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total, position

    def _operand(self, index: int, name: str, within: tuple[str, ...]) -> tuple[Literal, int]:
        token = self.tokens[index] if index < len(self.tokens) else None
        dedent = False
        if token is not None and token.text == "(":
            literal, position = self.expression(index + 1, name, within)
            if self.text(position) != ")":
                raise self._computed(index, name)
            position += 1
        elif token is not None and token.kind == "string":
            literal, position = Literal(tuple(_decoded(self.source, token.start, token.end))), index + 1
        elif token is not None and token.text == "dedent" and self.text(index + 1).startswith("`"):
            dedent = True
            inner = self.tokens[index + 1]
            literal, position = Literal(tuple(_decoded(self.source, inner.start, inner.end))), index + 2
        elif token is not None and token.kind == "word" and token.text not in within:
            value = self.value_of(token.text)
            if value is None or self.text(index + 1) in (".", "(", "["):
                raise self._computed(index, name)
            literal, _ = self.expression(value, token.text, (*within, token.text))
            position = index + 1
        else:
            raise self._computed(index, name)
        if dedent:
            literal = literal.dedented().stripped()
        while self.text(position) == "." and self.text(position + 1) in ("trim", "trimStart", "trimEnd"):
            method = {"trim": "strip", "trimStart": "lstrip", "trimEnd": "rstrip"}[self.text(position + 1)]
            if (self.text(position + 2), self.text(position + 3)) != ("(", ")"):
                break
            literal, position = literal.stripped(method), position + 4
        return literal, position

    def _computed(self, index: int, name: str) -> PromptError:
        return PromptError(
            f"line {self.line(index)}: '{name}' is no plain text: {COMPUTED}",
            hint="quoted strings, template literals, their sum and trim() are read",
        )

    def _close(self, index: int) -> int:
        """Index of the token that closes the bracket at an index."""
        depth = 0
        for position in range(index, len(self.tokens)):
            if self.kind(position) == "sign":
                depth += self.text(position) in "([{"
                depth -= self.text(position) in ")]}"
            if depth == 0:
                return position
        raise PromptError(f"line {self.line(index)}: a bracket is not closed")


def _tokens(source: str) -> Iterator[_Token]:
    position, before = 0, ""
    while position < len(source):
        match = _TOKEN.match(source, position)
        assert match is not None, "every character is a token"
        kind, end = match.lastgroup or "", match.end()
        if kind == "quote":
            kind, end = "string", _string_end(source, position)
        elif (
            match.group() == "/"
            and (before in _BEFORE_REGEX or before in ("", "return"))
            and (regex := _REGEX.match(source, position))
        ):
            kind, end = "regex", regex.end()
        if kind != "space":
            before = source[position:end] if kind in ("word", "sign") else "x"
            yield _Token(kind, source[position:end], position, end)
        position = end


def _string_end(source: str, start: int) -> int:
    """Where a literal ends; code inside a template literal is passed over with the literals that it holds."""
    quote, index = source[start], start + 1
    while index < len(source):
        letter = source[index]
        if letter == "\\":
            index += 2
        elif letter == quote:
            return index + 1
        elif quote == "`" and source.startswith("${", index):
            index = _hole_end(source, index)
        elif quote != "`" and letter in "\r\n":
            break
        else:
            index += 1
    raise PromptError(f"line {source.count(chr(10), 0, start) + 1}: a string is not closed")


def _hole_end(source: str, start: int) -> int:
    depth, index = 0, start + 1
    while index < len(source):
        letter = source[index]
        if letter in "\"'`":
            index = _string_end(source, index)
            continue
        depth += letter == "{"
        depth -= letter == "}"
        index += 1
        if depth == 0:
            return index
    raise PromptError(f"line {source.count(chr(10), 0, start) + 1}: ${{ is not closed")


def _decoded(source: str, start: int, end: int) -> Iterator[Character]:
    """The characters of a literal; what a template literal puts in, ``${…}``, stands as it is written."""
    quote, position, last = source[start], start + 1, end - 1
    while position < last:
        letter = source[position]
        if quote == "`" and source.startswith("${", position):
            after = _hole_end(source, position)
            for index in range(position, after):
                yield Character(source[index], index, index + 1, start, hole=position)
        elif letter == "\r":
            after = position + (2 if source.startswith("\r\n", position) else 1)
            yield Character("\n", position, after, start)
        elif letter != "\\":
            after = position + 1
            yield Character(letter, position, after, start)
        else:
            match = _ESCAPE.match(source, position)
            assert match is not None, "a literal does not end in a backslash"
            after, kind, words = match.end(), match.lastgroup, match.group(match.lastgroup or 0)
            is_high = kind == "u" and 0xD800 <= int(words, 16) < 0xDC00
            low = _ESCAPE.match(source, after) if is_high else None
            if low is not None and low.lastgroup == "u":
                pair = bytes.fromhex(words + low.group("u")).decode("utf-16-be", "replace")
                yield Character(pair[0], position, low.end(), start)
                position = low.end()
                continue
            if kind != "line":
                yield Character(
                    _SIMPLE.get(words, words) if kind == "c" else chr(int(words, 16)), position, after, start
                )
        position = after
