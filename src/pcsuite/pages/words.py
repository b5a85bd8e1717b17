"""Numbers, values and differences as pages write them: the filters of every template."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

from pcsuite._util.text import p_text

CLIP = 200_000
"""Characters of a text that a page shows."""
MAX_SHOWN = 300
"""Characters of a value that a page shows."""
_ALIKE = 0.35
"""Texts less alike than this have nothing in common that a comparison by character would show."""


def decimal_text(value: float | None, digits: int = 2, sign: str = "-") -> str:
    """A number as the cells of a page write it, with a minus sign that is one; empty for none and ``nan``.

    >>> decimal_text(-0.5), decimal_text(0.25, 1, "+"), decimal_text(-0.001, 2, "+"), decimal_text(None)
    ('−0.50', '+0.2', '+0.00', '')
    """
    if value is None or value != value:
        return ""
    rounded = round(value, digits) + 0.0  # no minus before zero
    return f"{rounded:{sign}.{digits}f}".replace("-", "−")


def page_text(text: str | None) -> str:
    """A text with its control and direction characters shown, so that it cannot rearrange the page it stands on.

    >>> page_text("a\\x1bb\\u202ec")
    'a␛b⟨U+202E⟩c'
    """
    shown = []
    for char in (text or "")[:CLIP]:
        code = ord(char)
        if code < 32 and char not in "\n\t":
            shown.append(chr(0x2400 + code))
        elif code in (0x7F, 0x200E, 0x200F, 0xFEFF) or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069:
            shown.append(f"⟨U+{code:04X}⟩")
        elif 0xD800 <= code <= 0xDFFF:
            shown.append("\ufffd")
        else:
            shown.append(char)
    return "".join(shown)


def value_text(value: Any) -> str:
    """A JSON value as text, so that 12 and "12" look different; long ones are cut."""
    text = page_text(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " …"


def mark_differences(expected: Any, actual: Any) -> tuple[Markup, Markup]:
    """Two values as HTML, the characters in which they differ marked; unlike values are shown plain.

    Values too long to show, too unlike each other (a ratio under 0.35) or missing on one side have nothing marked.
    """
    # 580.0 and 580 are one number: the point is no difference.
    left, right = (
        value_text(int(one) if isinstance(one, float) and one.is_integer() and abs(one) < 1e15 else one)
        for one in (expected, actual)
    )
    if expected is None or actual is None or len(left) > MAX_SHOWN or len(right) > MAX_SHOWN:
        return escape(left), escape(right)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return escape(left), escape(right)
    sides: tuple[list[Markup], list[Markup]] = ([], [])
    for kind, a, b, c, d in matcher.get_opcodes():
        for side, text, name in ((0, left[a:b], "t"), (1, right[c:d], "x")):
            if kind == "equal":
                sides[side].append(escape(text))
            elif text:
                sides[side].append(Markup('<mark class="{}">{}</mark>').format(name, text))
    return Markup("").join(sides[0]), Markup("").join(sides[1])


def marked_lines(text: str, other: str) -> list[tuple[bool, str]]:
    """A piece of a prompt in parts, each with whether its lines stand nowhere in another prompt; blank lines follow.

    >>> marked_lines("a\\n\\nb\\nc", "b")
    [(True, 'a\\n\\n'), (False, 'b\\n'), (True, 'c')]
    """
    lines = Counter(line.strip() for line in other.splitlines())
    parts: list[tuple[bool, str]] = []
    for line in text.splitlines(keepends=True):
        alone = not lines[line.strip()] if line.strip() else bool(parts) and parts[-1][0]
        if parts and parts[-1][0] == alone:
            parts[-1] = (alone, parts[-1][1] + line)
        else:
            parts.append((alone, line))
    return parts


def breakable(path: str, signs: str = "._") -> Markup:
    """A path that may wrap after one of these signs, and not within a word.

    >>> str(breakable("walls.u_factor"))
    'walls.<wbr>u_<wbr>factor'
    """
    text = str(escape(path))
    for sign in signs:
        text = text.replace(sign, f"{sign}<wbr>")
    return Markup(text)  # escaped above


_JSON_PROBLEMS = {
    "Expecting value": "a value is missing",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Expecting ',' delimiter": "a comma is missing",
    "Unterminated string starting at": "a text is not closed that begins",
    "Invalid control character at": "a line end or control character stands inside a text",
    "Invalid \\escape": "a backslash escapes nothing",
    "Invalid \\uXXXX escape": "a backslash escapes nothing",
    "Extra data": "more text follows",
}
_JSON_PLACE = re.compile(r"([A-Z][^:\n]*?(?:':' delimiter)?): line (\d+) column (\d+) \(char \d+\)")


def problem_words(text: str | None) -> str:
    """What could not be read from an answer, with the messages of the JSON reader in plain words.

    >>> problem_words("no JSON object: Expecting value: line 1 column 1 (char 0)")
    'no JSON object: the text does not begin with one'
    >>> problem_words("no JSON object: Expecting ',' delimiter: line 2 column 7 (char 30)")
    'no JSON object: a comma is missing at line 2, column 7'
    """

    def plain(match: re.Match[str]) -> str:
        what, line, column = match.groups()
        if (what, line, column) == ("Expecting value", "1", "1"):
            return "the text does not begin with one"
        return f"{_JSON_PROBLEMS.get(what, what)} at line {line}, column {column}"

    return _JSON_PLACE.sub(plain, text or "")


def json_data(value: Any) -> Markup:
    """A JSON value to stand in a ``<script type="application/json">``: nothing in it can end the element.

    >>> print(json_data({"a": "</b>"}))
    {"a":"\\u003c/b\\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # what could be markup was replaced above


FILTERS: dict[str, Callable[..., Any]] = {
    "visible": page_text,
    "number": decimal_text,
    "signed": lambda value, digits=2: decimal_text(value, digits, "+"),
    "count": lambda value: f"{value:,}",
    "p": lambda value: "" if value != value else p_text(value),
    "value": value_text,
    "breakable": breakable,
    "json_data": json_data,
    "problem": problem_words,
    "narrow": lambda path: path if len(path) <= 34 else f"{path[:12]}…{path[-21:]}",
    "plural": lambda count: "" if count == 1 else "s",
}
"""By name: control characters made visible, numbers, signed numbers, counts, p-values, JSON values, paths, plurals."""
