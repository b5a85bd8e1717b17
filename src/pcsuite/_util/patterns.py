"""Regular expressions that mean the same to whoever reads them.

A pattern is written once and read by three: the engine that enforces it while decoding (the syntax of Rust's
``regex``), Python, which checks the answer, and JSON Schema, whose dialect is ECMAScript's. They disagree about
``\\d``, ``\\w``, ``.``, ``$``, names of groups and properties of Unicode. So a pattern is read here, by one stated
dialect, and written out for each with nothing left to interpretation: every class of characters becomes its code
points.

``ecma`` is ECMA 262 with the flag ``u``, what JSON Schema asks for in ``pattern``: ``\\d`` and ``\\w`` are ASCII.
``answer`` is the dialect of ``answer_regex``: ``\\d`` and ``\\w`` are Unicode's digits and word characters, and
``(?i)``, ``(?s)``, ``\\A`` and ``\\z`` are understood besides. Both know POSIX classes such as ``[[:alpha:]]``, which
ECMAScript has not and would misread in silence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pcsuite._util.user_patterns import user_pattern

Dialect = Literal["ecma", "answer"]
Ranges = tuple[tuple[int, int], ...]
MAX_CODE_POINT = 0x10FFFF
_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = (
    (9, 13), (32, 32), (160, 160), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_LINE_ENDS: dict[Dialect, Ranges] = {
    "ecma": ((10, 10), (13, 13), (0x2028, 0x2029)),
    "answer": ((10, 10),),
}
_POSIX: dict[str, Ranges] = {
    "alpha": ((65, 90), (97, 122)),
    "digit": _DIGITS,
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "upper": ((65, 90),),
    "lower": ((97, 122),),
    "space": ((9, 13), (32, 32)),
    "blank": ((9, 9), (32, 32)),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
    "word": _WORD,
    "cntrl": ((0, 31), (127, 127)),
    "print": ((32, 126),),
    "graph": ((33, 126),),
    "ascii": ((0, 127),),
}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_QUANTIFIER = re.compile(r"\{(\d+)(,(\d*))?\}")


class PatternError(ValueError):
    """A pattern that its dialect cannot read; the message says what and at which character."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern as its dialect reads it, written out for others.

    >>> read_pattern(r"(?<year>\\d{4})", "ecma").python
    '([0-9]{4})'
    """

    text: str
    engine: str
    """For engines that enforce it, in the syntax of Rust's ``regex``."""
    python: str
    """For Python's ``re``."""
    unenforceable: str
    """What in it can be checked but not enforced while decoding (look-around, say); mostly empty."""

    def fullmatch(self, text: str) -> bool:
        """Whether the whole of a text matches.

        >>> read_pattern(r"\\d+", "ecma").fullmatch("12"), read_pattern(r"\\d+", "ecma").fullmatch("a12")
        (True, False)
        """
        return user_pattern(self.python).fullmatch(text)

    def search(self, text: str) -> bool:
        """Whether any part of a text matches, as JSON Schema's ``pattern`` asks.

        >>> read_pattern("^a|z$", "ecma").search("abc"), read_pattern("b", "ecma").search("xyz")
        (True, False)
        """
        return user_pattern(self.python).search(text)


@lru_cache(maxsize=1024)
def read_pattern(text: str, dialect: Dialect) -> Pattern:
    """Read a pattern by its dialect.

    Raises :class:`PatternError` where it cannot: an unknown escape or property, an unbalanced group, a range in the
    wrong order.

    >>> read_pattern(r"\\p{Lu}+", "answer").fullmatch("ÉA"), read_pattern(r"\\d", "ecma").fullmatch("٣")
    (True, False)
    """
    reader = _Reader(text, dialect)
    reader.alternatives()
    if reader.at < len(text):
        raise reader.problem("an unbalanced ')'")
    python = reader.flags + "".join(reader.python)
    try:
        re.compile(python)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"the pattern {quote_pattern(text)} cannot be read: {error}") from error
    engine = reader.flags + "".join(reader.engine)
    return Pattern(text, engine, python, reader.unenforceable)


def quote_pattern(text: str, most: int = 80) -> str:
    """A pattern in quotes for a message, its middle left out where it is long.

    >>> quote_pattern("a" * 9, most=4)
    "'aa…aa'"
    """
    return repr(text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}")


class _Reader:
    """One pass over a pattern that writes it out for both readers."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text, self.dialect = text, dialect
        self.at = 0
        self.engine: list[str] = []
        self.python: list[str] = []
        self.flags = ""
        self.unenforceable = ""
        self.groups: list[str | None] = []
        self.dot_all = False
        if dialect == "answer" and (flags := self.match(r"\(\?([is]+)\)")):
            self.flags = "(?i)" if "i" in flags[1] else ""
            self.dot_all = "s" in flags[1]

    def problem(self, what: str) -> PatternError:
        return PatternError(
            f"the pattern {quote_pattern(self.text)} cannot be read at character {self.at + 1}: {what}"
        )

    def write(self, engine: str, python: str | None = None) -> None:
        self.engine.append(engine)
        self.python.append(engine if python is None else python)

    def step(self, start: str) -> bool:
        """Step over ``start`` where the text goes on with it."""
        is_next = self.text.startswith(start, self.at)
        self.at += len(start) if is_next else 0
        return is_next

    def match(self, expression: str) -> re.Match[str] | None:
        """Step over what an expression matches here."""
        match = re.compile(expression).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def alternatives(self) -> None:
        """Everything up to the end, or to the bracket that closes the group."""
        repeatable = False
        while self.at < len(self.text) and self.text[self.at] != ")":
            char = self.text[self.at]
            if unbounded := re.compile(r"\{(,\d+\})").match(self.text, self.at):
                # Python reads {,2} as {0,2}, ECMAScript as an error, others as five characters.
                raise self.problem(f"a repetition without its least number: write {{0{unbounded[1]}")
            if char in "*+?" or (char == "{" and _QUANTIFIER.match(self.text, self.at)):
                if not repeatable:
                    raise self.problem(f"nothing before {char!r} that could be repeated")
                self.quantifier()
                repeatable = False
            elif self.step("|"):
                self.write("|")
                repeatable = False
            elif char == "(":
                repeatable = self.group()
            else:
                repeatable = self.atom(char)

    def quantifier(self) -> None:
        bounds = _QUANTIFIER.match(self.text, self.at)
        if bounds and bounds[3] and int(bounds[1]) > int(bounds[3]):
            raise self.problem("the bounds of a repetition are in the wrong order")
        sign = bounds[0] if bounds else self.text[self.at]
        self.at += len(sign)
        self.write(sign + "?" if self.step("?") else sign)

    def group(self) -> bool:
        """A group; ``False`` for a look-around, which cannot be repeated."""
        around = self.match(r"\(\?<?[=!]")
        if around:
            self.unenforceable = f"look-around {around[0]}…)"
            self.write(around[0])
        elif uncaptured := self.match(r"\(\?i?:" if self.dialect == "answer" else r"\(\?:"):
            self.write(uncaptured[0])
        elif named := self.match(r"\(\?P?<([^\W\d]\w*)>"):
            self.groups.append(named[1])
            self.write("(")
        elif self.text.startswith("(?", self.at):
            start = self.text[self.at : self.at + 4]
            raise self.problem(f"a group that begins with {start!r} is not of this dialect")
        else:
            self.at += 1
            self.groups.append(None)
            self.write("(")
        self.alternatives()
        if not self.step(")"):
            raise self.problem("a group is not closed")
        self.write(")")
        return around is None

    def atom(self, char: str) -> bool:
        """One character, class or anchor; ``False`` where it cannot be repeated."""
        self.at += 1
        if char in "^$":
            # Python's own $ also matches before a last line break, ECMAScript's does not.
            self.write(char, r"\A" if char == "^" else r"\Z")
            return False
        if char == ".":
            self.character_class(() if self.dot_all else _LINE_ENDS[self.dialect], negated=True)
        elif char == "[":
            self.bracket()
        elif char == "\\":
            return self.escape()
        else:
            self.literal(ord(char))
        return True

    def escape(self) -> bool:
        """What follows a backslash outside a class."""
        if border := self.match("[bB]"):
            self.unenforceable = f"the word border \\{border[0]}"
            # ECMAScript's word border knows ASCII letters only.
            self.write(f"\\{border[0]}", f"(?a:\\{border[0]})")
            return False
        if self.dialect == "answer" and (end := self.match("[AzZ]")):
            self.write(*((r"\A", r"\A") if end[0] == "A" else (r"\z", r"\Z")))
            return False
        start = self.at
        if reference := self.match(r"(?!0)(\d+)|k<(\w+)>"):
            number, name = reference.groups()
            if name not in self.groups if number is None else int(number) > len(self.groups):
                self.at = start
                raise self.problem(f"there is no group {repr(name) if number is None else number}")
            self.unenforceable = f"the back reference \\{reference[0]}"
            group = number or self.groups.index(name) + 1
            # In a group of its own: a digit that follows must not become part of the number.
            self.write(f"\\{group}", f"(?:\\{group})")
            return True
        member = self.escaped()
        if isinstance(member, int):
            self.literal(member)
        else:
            self.character_class(member)
        return True

    def escaped(self) -> int | Ranges:
        """The character or the class that an escape stands for, inside a class or out of it."""
        if self.at >= len(self.text):
            raise self.problem("a backslash at the end")
        char = self.text[self.at]
        self.at += 1
        if char in "dDwWsS":
            members = _shorthand(char.lower(), self.dialect)
            return members if char.islower() else _complement(members)
        if char in "pP":
            braced = self.match(r"\{([^{}]*)\}")
            name = braced[1] if braced else self.text[self.at : self.at + 1]
            if braced is None and not (self.dialect == "answer" and name.isalpha()):
                raise self.problem(f"\\{char} needs a property in braces, as in \\{char}{{L}}")
            self.at += braced is None
            inside = _property(name)
            if inside is None:
                raise self.problem(f"{name!r} is no property of Unicode")
            return inside if char == "p" else _complement(inside)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not self.text[self.at : self.at + 1].isdigit():
            return 0
        if char == "a" and self.dialect == "answer":
            return 7
        if char == "c" and (letter := self.match("[A-Za-z]")):
            return ord(letter[0]) % 32
        if char in "xuU":
            return self.numbered(char)
        if char.isascii() and not char.isalnum() and char.isprintable():
            return ord(char)
        self.at -= 1
        hint = {"A": ": '^' is its beginning"} | dict.fromkeys("zZ", ": '$' is the end of the text")
        raise self.problem(f"the escape \\{char} is not of this dialect{hint.get(char, '')}")

    def numbered(self, char: str) -> int:
        r"""``\xHH``, ``\uHHHH`` (two of them for a character beyond the first plane), ``\u{H…}``; also ``\x{H…}``."""
        width = {"x": 2, "u": 4, "U": 8}[char]
        digits = self.match(r"\{([0-9a-fA-F]{1,6})\}") or self.match(f"([0-9a-fA-F]{{{width}}})")
        if digits is None:
            raise self.problem(f"\\{char} needs the character's number in hexadecimal digits")
        code = int(digits[1], 16)
        if 0xD800 <= code <= 0xDBFF and (second := self.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")):
            return 0x10000 + ((code - 0xD800) << 10) + int(second[1], 16) - 0xDC00
        if 0xD800 <= code <= 0xDFFF or code > MAX_CODE_POINT:
            raise self.problem(f"{code:#x} is no character")
        return code

    def bracket(self) -> None:
        """A class in brackets, of which the first has been read."""
        negated = self.step("^")
        ranges: list[tuple[int, int]] = []
        while not self.step("]"):
            if self.at >= len(self.text):
                raise self.problem("a class is not closed")
            start = self.at
            if posix := self.match(r"\[:(\^?)(\w+):\]"):
                if posix[2] not in _POSIX:
                    self.at = start
                    raise self.problem(f"[:{posix[2]}:] is no class of characters")
                ranges += _complement(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
                continue
            low = self.class_member()
            if isinstance(low, tuple):
                ranges += low
            elif self.match(r"-(?!\])"):
                high = self.class_member()
                if isinstance(high, tuple):
                    raise self.problem("a range ends in a class of characters")
                if high < low:
                    raise self.problem("a range of characters is in the wrong order")
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        self.character_class(ranges, negated=negated)

    def class_member(self) -> int | Ranges:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if not char:
            raise self.problem("a class is not closed")
        if char != "\\":
            return ord(char)
        if self.step("b"):
            return 8
        return self.escaped()

    def literal(self, code: int) -> None:
        char = chr(code)
        if 0xD800 <= code <= 0xDFFF:
            raise self.problem("half a surrogate pair is no character")
        self.write(_engine_character(code), re.escape(char))

    def character_class(self, ranges: Iterable[tuple[int, int]], *, negated: bool = False) -> None:
        merged = _merged(ranges)
        # Long lists are written one way only, so that equal classes look equal.
        if negated and len(merged) > 40:
            merged, negated = _complement(merged), False
        if not merged:
            merged, negated = (((0, MAX_CODE_POINT),), False) if negated else (merged, False)
        if not merged:
            raise self.problem("a class that no character belongs to")

        def written(character: Callable[[int], str], members: Ranges, negated: bool) -> str:
            ends = (dict.fromkeys((character(low), character(high))) for low, high in members)
            return f"[{'^' * negated}{''.join('-'.join(pair) for pair in ends)}]"

        engine = (merged, negated)
        if self.dialect == "ecma" and _lets_quotes_through(_complement(merged) if negated else merged):
            engine = (_merged((*merged, (0, 0))), True) if negated else (_without_nul(merged), False)
        self.write(written(_engine_character, *engine), written(_python_character, merged, negated))


def _lets_quotes_through(members: Ranges) -> bool:
    """Whether an engine that writes JSON may misread a class: one with U+0000 and without quote or backslash.

    derivre 0.3 adds both to a class that has all control characters, so such a class is written without the first.
    """
    inside = [any(low <= code <= high for low, high in members) for code in (0, 0x22, 0x5C)]
    return inside[0] and not (inside[1] and inside[2]) and members != ((0, 0),)


def _without_nul(members: Ranges) -> Ranges:
    first, *others = members
    return ((1, first[1]), *others) if first[1] else tuple(others)


def _engine_character(code: int) -> str:
    char = chr(code)
    if (char.isascii() and char.isalnum()) or char in " \"'<>,:;=!@%&_`~":
        return f"\\{char}" if char in "&~" else char
    return f"\\{char}" if 32 < code < 127 else f"\\x{{{code:X}}}"


def _python_character(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    gaps, start = [], 0
    for low, high in (*_merged(ranges), (MAX_CODE_POINT + 1, MAX_CODE_POINT + 1)):
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    return tuple(gaps)


@lru_cache(maxsize=16)
def _shorthand(char: str, dialect: Dialect) -> Ranges:
    if char == "s":
        return _merged((*_SPACES, (0xFEFF, 0xFEFF) if dialect == "ecma" else (0x85, 0x85)))
    if dialect == "ecma":
        return _DIGITS if char == "d" else _WORD
    if char == "d":
        return _code_points(lambda char: unicodedata.category(char) == "Nd")
    # Word characters as Unicode's Technical Standard 18 has them, and Rust after it.
    joined = ("Mn", "Mc", "Me", "Nd", "Pc", "Nl", "Lu", "Ll", "Lt", "Lm", "Lo")
    return _merged((*_code_points(lambda char: unicodedata.category(char) in joined), (0x200C, 0x200D)))


_CATEGORIES = {
    "Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
    "Punctuation": "P", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Separator": "Z",
    "Space_Separator": "Zs", "Other": "C", "Control": "Cc", "Format": "Cf",
}  # fmt: skip
_SHORT = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfn]?")


@lru_cache(maxsize=64)
def _property(name: str) -> Ranges | None:
    """The characters of a property: general categories by Python's own tables, all others by the package ``regex``."""
    plain = re.sub(r"^(General_Category|gc)=", "", name)
    category = _CATEGORIES.get(plain, plain)
    if _SHORT.fullmatch(category):
        return _code_points(lambda char: unicodedata.category(char).startswith(category))
    if name == "Any":
        return ((0, MAX_CODE_POINT),)
    if name == "ASCII":
        return ((0, 127),)
    try:
        import regex
    except ImportError:
        raise PatternError(f"\\p{{{name}}} needs the package regex (pip install regex)") from None
    try:
        belongs = regex.compile(rf"\p{{{name}}}").match
    except regex.error:
        return None
    return _code_points(lambda char: belongs(char) is not None)


_UNIFORM = ((0x33480, 0xDFFFF), (0xE1000, 0xEFFFF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""Ranges whose characters are all alike, unassigned or for private use: one of each is asked."""
_SINGLE = ((0, 0xD7FF), (0xE000, 0x3347F), (0xE0000, 0xE0FFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, MAX_CODE_POINT))


def _code_points(belongs: Callable[[str], bool]) -> Ranges:
    """The ranges of the characters for which ``belongs`` holds; surrogates are no characters."""
    members = [(first, last) for first, last in _UNIFORM if belongs(chr(first))]
    for first, last in _SINGLE:
        members += [(code, code) for code in range(first, last + 1) if belongs(chr(code))]
    return _merged(members)
