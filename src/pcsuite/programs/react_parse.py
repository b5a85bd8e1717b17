"""Reading one turn of an act–observe loop: which tools it calls, or which final answer it gives.

A turn is read from the top, and the first thing that it does decides what it is:

- ``Action: search[…]`` calls a tool. Calls that follow each other directly belong to the same turn. Whatever
  comes after them is not read: a model that goes on writes the observation itself, and an answer given before
  the passages were seen does not rest on them.
- ``Final: …`` gives the answer; it reaches to the next ``Action:`` or ``Observation:`` line, or the end.

A call's argument stands in square or round brackets, which may nest, and may be quoted. It ends on its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

MAX_CALLS_A_TURN = 3
"""Further calls of one turn are not made; the model is told so."""

_MARK = r"^[ \t>*#`_\-]*"
_DIRECTIVE = re.compile(
    _MARK + r"(?P<word>action|final(?:[ \t]+answer)?|observation)(?:[ \t]*\d{1,2})?[ \t*_`]*:[ \t*_`]*",
    re.IGNORECASE | re.MULTILINE,
)
_TOOL = re.compile(r"(?P<name>[A-Za-z_]\w{0,40})[ \t]*(?P<open>[\[(])(?:[ \t]*(?:query|q)[ \t]*[=:])?")
_NAME = re.compile(r"[A-Za-z_]\w{0,40}")
_CLOSING = {"[": "]", "(": ")"}
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}

Problem = Literal["malformed", "unknown_tool", "too_many"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the turn makes; ``problem`` says why it cannot be made."""

    tool: str
    argument: str
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One reading of a turn: ``calls``, or ``final``, or neither."""

    read: str
    """The part of the text that counts."""
    calls: tuple[ToolCall, ...] = ()
    final: str | None = None
    cut: int = 0
    """Characters after it that were not read."""


def read_turn(text: str, tools: frozenset[str]) -> Turn:
    """Read a turn's text; never raises."""
    marks = list(_DIRECTIVE.finditer(text))
    for place, mark in enumerate(marks):
        word = mark["word"].casefold()
        if word == "action":
            return _acting(text, marks[place:], tools)
        if word == "observation":  # one that nobody made: nothing after it can be trusted
            return Turn(text[: mark.start()].strip(), cut=len(text) - mark.start())
        end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
        answer = text[mark.end() : end].strip()
        if answer or place + 1 == len(marks):
            return Turn(text[:end].strip(), final=answer, cut=len(text) - end)
    return Turn(text.strip())


def _acting(text: str, marks: Sequence[re.Match[str]], tools: frozenset[str]) -> Turn:
    """A turn that begins with a call: it and those that follow it directly."""
    calls: list[ToolCall] = []
    end = marks[0].start()
    for mark in marks:
        if calls and (mark["word"].casefold() != "action" or text[end : mark.start()].strip()):
            break
        call, end = _read_call(text, mark.end(), tools)
        calls.append(replace(call, problem="too_many") if len(calls) >= MAX_CALLS_A_TURN else call)
    return Turn(text[:end].strip(), tuple(calls), cut=len(text[end:].strip()))


def _read_call(text: str, start: int, tools: frozenset[str]) -> tuple[ToolCall, int]:
    """The call that begins at ``start`` and where it ends."""
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    head = _TOOL.match(text, start, line_end)
    if head is None:
        name = _NAME.match(text, start, line_end)
        return ToolCall(name[0] if name else "", text[start:line_end].strip(), "malformed"), line_end
    tool = head["name"].casefold()
    close = _closing_bracket(text, head.end(), line_end, head["open"])
    if close is None:
        return ToolCall(tool, text[head.end() : line_end].strip(), "malformed"), line_end
    argument = _unquoted(text[head.end() : close])
    end = close + 1
    if tool not in tools:
        return ToolCall(tool, argument, "unknown_tool"), end
    return ToolCall(tool, argument, None if argument else "malformed"), end


def _closing_bracket(text: str, start: int, end: int, opening: str) -> int | None:
    """Place of the bracket that closes the argument, or ``None`` where the line has none."""
    closing = _CLOSING[opening]
    quote = _QUOTES.get(text[start:end].lstrip()[:1])
    if quote is not None:
        # A quoted argument ends where a closing bracket follows the quote: brackets inside it are text.
        begin = text.index(text[start:end].lstrip()[0], start) + 1
        quoted = re.compile(re.escape(quote) + r"[ \t]*" + re.escape(closing)).search(text, begin, end)
        if quoted is not None:
            return quoted.end() - 1
    depth = 0
    for place in range(start, end):
        if text[place] == opening:
            depth += 1
        elif text[place] == closing:
            if depth == 0:
                return place
            depth -= 1
    return None


def _unquoted(argument: str) -> str:
    stripped = argument.strip()
    if len(stripped) >= 2 and stripped[0] in _QUOTES and stripped[-1] == _QUOTES[stripped[0]]:
        inner = stripped[1:-1]
        if stripped[0] not in inner:
            return inner.strip()
    return stripped
