"""Texts of a Python file by their names, read from its syntax tree: literals, f-strings, sums, dedent and strip."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

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

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_PREFIX = re.compile(r"([A-Za-z]{0,2})(\"\"\"|'''|\"|')")
_BETWEEN = re.compile(r"(?:\s|\\(?:\r\n|\n|\r)|#[^\r\n]*)*")
_ESCAPE = re.compile(
    r"\\(?:(?P<line>\r\n|\n|\r)|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|N\{(?P<N>[^}]+)\}|(?P<o>[0-7]{1,3})|(?P<c>.))",
    re.S,
)
_SIMPLE = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}
_MESSAGE_CALL = re.compile(r"(System|Human|User|AI|Assistant|Developer|Tool)Message(?:PromptTemplate)?\Z")
_TEMPLATE_CALLS = frozenset(
    {"from_template", "from_messages", "PromptTemplate", "ChatPromptTemplate", "Template"}
)


def find_prompt(source: str, name: str) -> Iterator[CodeMessage]:
    """The text, or the messages, that a name of a module stands for: ``NAME``, ``Class.NAME``, ``function.NAME``.

    A function by itself is what it returns, if that is in one place. Also the value of a key in a dictionary
    (``PROMPTS.triage``). Raises ``PromptError`` where the file is no Python, has no such name, or computes it.
    """
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise PromptError(f"line {error.lineno}: not valid Python: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise PromptError(f"not valid Python: {error}") from error
    reader = _Reader(source, module)
    node = reader.value_of(name.split("."), module) if name else None
    if node is None:
        raise no_such_name(name, reader.texts(module))
    yield from reader.messages(node, name)


class _Reader:
    def __init__(self, source: str, module: ast.Module) -> None:
        self.source, self.module = source, module
        self.lines = _LINE.findall(source)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Index of a place that the syntax tree counts in lines and bytes."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return self.starts[min(line, len(self.starts)) - 1] + len(
            text.encode("utf-8")[:column].decode("utf-8")
        )

    def span(self, node: Any) -> tuple[int, int]:
        """From where to where a node stands in the file."""
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def value_of(self, names: Sequence[str], scope: ast.AST) -> ast.expr | None:
        """The last value that a dotted name is given in a scope."""
        value: ast.expr | None = None
        if isinstance(scope, ast.Dict):
            for key, entry in zip(scope.keys, scope.values, strict=True):
                if isinstance(key, ast.Constant) and str(key.value) == names[0]:
                    value = entry
        else:
            for statement in _statements(scope):
                if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    if statement.name == names[0] and len(names) > 1:
                        return self.value_of(names[1:], statement)
                    if statement.name == names[0]:
                        value = self._returned(statement)
                    continue
                targets: Sequence[ast.expr] = ()
                if isinstance(statement, ast.Assign):
                    targets = statement.targets
                elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    targets = [statement.target]
                if any(isinstance(target, ast.Name) and target.id == names[0] for target in targets):
                    value = getattr(statement, "value", None)
        if value is None or len(names) == 1:
            return value
        return self.value_of(names[1:], value) if isinstance(value, ast.Dict) else None

    def _returned(self, function: ast.AST) -> ast.expr | None:
        """What a function returns, where it returns in one place: an expression, or a name that it is given before."""
        returns = [statement for statement in _statements(function) if isinstance(statement, ast.Return)]
        value = returns[0].value if len(returns) == 1 else None
        if isinstance(value, ast.Name):
            return self.value_of([value.id], function) or value
        return value

    def texts(self, scope: ast.AST, path: str = "") -> list[str]:
        """Names of what could be a prompt: long texts, and lists of messages."""
        names = []
        for statement in _statements(scope):
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                names += self.texts(statement, f"{path}{statement.name}.")
                returned = self._returned(statement) if not isinstance(statement, ast.ClassDef) else None
                names += self._likely(path + statement.name, returned)
                continue
            target = (
                statement.targets[0]
                if isinstance(statement, ast.Assign)
                else getattr(statement, "target", None)
            )
            value = getattr(statement, "value", None)
            if isinstance(target, ast.Name):
                names += self._likely(path + target.id, value)
        return names

    def _likely(self, name: str, value: ast.expr | None) -> list[str]:
        """The name, if its value is a text that could be a prompt."""
        try:
            messages = [] if value is None else list(self.messages(value, name))
        except PromptError:
            return []
        return [name] if messages and is_likely_prompt(name, messages) else []

    def messages(self, node: ast.expr, name: str) -> Iterator[CodeMessage]:
        """The messages of a list of them, or one text."""
        if isinstance(node, ast.Call) and _called(node) in _TEMPLATE_CALLS:
            inner = _argument(node, ("template", "messages"))
            if inner is None:
                raise PromptError(f"line {node.lineno}: '{name}' has no text to read", hint=COMPUTED)
            node = inner
        if not isinstance(node, (ast.List, ast.Tuple)) or not node.elts:
            yield CodeMessage(self.literal(node, name), node.lineno)
            return
        entries = node.elts
        for number, entry in enumerate(entries, start=1):
            role, content = self._message(entry, number)
            start, end = self.span(entry)
            if number < len(entries):
                end = self.span(entries[number])[0]
            elif number > 1:
                start = self.span(entries[number - 2])[1]
            yield CodeMessage(self.literal(content, f"message {number}"), content.lineno, role, (start, end))

    def _message(self, entry: ast.expr, number: int) -> tuple[str, ast.expr]:
        role: ast.expr | str | None = None
        content: ast.expr | None = None
        if isinstance(entry, ast.Dict):
            role, content = self.value_of(["role"], entry), self.value_of(["content"], entry)
        elif isinstance(entry, (ast.Tuple, ast.List)) and len(entry.elts) == 2:
            role, content = entry.elts
        elif isinstance(entry, ast.Call):
            owner = entry.func.value if isinstance(entry.func, ast.Attribute) else entry.func
            known = _MESSAGE_CALL.match(getattr(owner, "id", getattr(owner, "attr", "")) or "")
            role, content = known.group(1) if known else None, _argument(entry, ("content", "template"))
        if isinstance(role, ast.Constant) and isinstance(role.value, str):
            role = role.value
        if not isinstance(role, str) or content is None:
            raise PromptError(f"line {entry.lineno}: message {number} needs 'role' and 'content' as literals")
        return message_role(role, number), content

    def literal(self, node: ast.expr, name: str, within: tuple[str, ...] = ()) -> Literal:
        """The text that an expression is, if no program needs to run for it."""
        if (isinstance(node, ast.Constant) and isinstance(node.value, str)) or isinstance(
            node, ast.JoinedStr
        ):
            literal = Literal(tuple(_decoded(self.source, *self.span(node))))
            if isinstance(node, ast.Constant) and literal.text != node.value:
                raise PromptError(f"line {node.lineno}: the literal of '{name}' cannot be read")
            return literal
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.literal(node.left, name, within) + self.literal(node.right, name, within)
        if isinstance(node, ast.Name) and node.id not in within:
            value = self.value_of([node.id], self.module)
            if value is not None:
                return self.literal(value, node.id, (*within, node.id))
        if isinstance(node, ast.Call) and not node.keywords:
            called = _called(node)
            if called in ("dedent", "cleandoc") and len(node.args) == 1:
                text = self.literal(node.args[0], name, within)
                if called == "dedent":
                    return text.dedented()
                first, _, rest = text.text.partition("\n")
                if not first.strip() and rest:
                    return text.dedented().stripped()
            if (
                called in ("strip", "lstrip", "rstrip")
                and not node.args
                and isinstance(node.func, ast.Attribute)
            ):
                return self.literal(node.func.value, name, within).stripped(called)
        raise PromptError(
            f"line {node.lineno}: '{name}' is no plain text: {COMPUTED}",
            hint="literals, f-strings, their sum, textwrap.dedent and strip are read",
        )


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope, those under ``if``, ``try`` and ``with`` too."""
    for statement in getattr(scope, "body", []):
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _statements(statement)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _argument(node: ast.Call, names: Sequence[str]) -> ast.expr | None:
    if node.args:
        return node.args[0]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)


def _decoded(source: str, start: int, end: int) -> Iterator[Character]:
    """The characters of one or more adjacent string literals."""
    position = start
    while position < end:
        between = _BETWEEN.match(source, position)
        position = between.end() if between else position
        match = _PREFIX.match(source, position)
        if match is None or position >= end:
            return  # the closing bracket of a sum
        prefix, quote = match.group(1).casefold(), match.group(2)
        literal, position = position, match.end()
        while not source.startswith(quote, position):
            character, after = _next_character(source, position, prefix)
            if character is None:  # a replacement field stands as it is written
                for index in range(position, after):
                    yield Character(source[index], index, index + 1, literal, hole=position)
            elif character:
                yield Character(character, position, after, literal)
            position = after
        position += len(quote)


def _next_character(source: str, position: int, prefix: str) -> tuple[str | None, int]:
    """The character that a literal has at a place (none for a continued line), and where the next one begins."""
    letter = source[position]
    if letter == "\r":
        return "\n", position + (2 if source.startswith("\r\n", position) else 1)
    if "f" in prefix and letter in "{}":
        if source.startswith(letter * 2, position):
            return letter, position + 2
        return None, _field_end(source, position)
    if letter != "\\" or "r" in prefix:
        return letter, position + 1
    match = _ESCAPE.match(source, position)
    assert match is not None, "the literal has been parsed"
    kind, words = match.lastgroup, match.group(match.lastgroup or 0)
    if kind == "line":
        return "", match.end()
    if kind == "c":
        return (_SIMPLE[words], match.end()) if words in _SIMPLE else ("\\", position + 1)
    if kind == "N":
        return ast.literal_eval(f'"\\N{{{words}}}"'), match.end()
    return chr(int(words, 8 if kind == "o" else 16)), match.end()


def _field_end(source: str, position: int) -> int:
    """Where a replacement field of an f-string ends; strings and brackets inside of it are passed over."""
    depth, index, quote = 0, position, ""
    while index < len(source):
        letter = source[index]
        if quote:
            if source.startswith(quote, index):
                index += len(quote) - 1
                quote = ""
        elif letter in "\"'":
            quote = letter
        elif letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    raise PromptError("a replacement field of the f-string is not closed")
