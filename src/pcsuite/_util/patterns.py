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
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

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
    _compiled: re.Pattern[str] = field(repr=False, compare=False)

    def fullmatch(self, text: str) -> bool:
        """Whether the whole of a text matches.

        >>> read_pattern(r"\\d+", "ecma").fullmatch("12"), read_pattern(r"\\d+", "ecma").fullmatch("a12")
        (True, False)
        """
        return self._compiled.fullmatch(text) is not None

    def search(self, text: str) -> bool:
        """Whether any part of a text matches, as JSON Schema's ``pattern`` asks.

        >>> read_pattern("^a|z$", "ecma").search("abc"), read_pattern("b", "ecma").search("xyz")
        (True, False)
        """
        return self._compiled.search(text) is not None


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
        compiled = re.compile(python)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"the pattern {quote_pattern(text)} cannot be read: {error}") from error
    engine = reader.flags + "".join(reader.engine)
    return Pattern(text, engine, python, reader.unenforceable, compiled)


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
        if dialect == "answer" and (found := re.match(r"\(\?([is]+)\)", text)):
            self.flags = "(?i)" if "i" in found[1] else ""
            self.dot_all = "s" in found[1]
            self.at = found.end()

    def problem(self, what: str) -> PatternError:
        return PatternError(
            f"the pattern {quote_pattern(self.text)} cannot be read at character {self.at + 1}: {what}"
        )

    def write(self, engine: str, python: str | None = None) -> None:
        self.engine.append(engine)
        self.python.append(engine if python is None else python)

    def taken(self, start: str) -> bool:
        """Step over ``start`` where the text goes on with it."""
        if self.text.startswith(start, self.at):
            self.at += len(start)
            return True
        return False

    def alternatives(self) -> None:
        """Everything up to the end, or to the bracket that closes the group."""
        repeatable = False
        while self.at < len(self.text) and self.text[self.at] != ")":
            char = self.text[self.at]
            if char in "*+?" or (char == "{" and _QUANTIFIER.match(self.text, self.at)):
                if not repeatable:
                    raise self.problem(f"nothing before {char!r} that could be repeated")
                self.quantifier()
                repeatable = False
            elif char == "|":
                self.at += 1
                self.write("|")
                repeatable = False
            elif char == "(":
                repeatable = self.group()
            else:
                repeatable = self.atom(char)

    def quantifier(self) -> None:
        found = _QUANTIFIER.match(self.text, self.at)
        if found:
            if found[3] and int(found[1]) > int(found[3]):
                raise self.problem("the bounds of a repetition are in the wrong order")
            self.at = found.end()
            self.write(found[0])
        else:
            self.write(self.text[self.at])
            self.at += 1
        if self.taken("?"):
            self.write("?")

    def group(self) -> bool:
        """A group; ``False`` for a look-around, which cannot be repeated."""
        around = next((start for start in ("(?=", "(?!", "(?<=", "(?<!") if self.taken(start)), None)
        if around is not None:
            self.unenforceable = f"look-around {around}…)"
            self.write(around)
        elif self.taken("(?:"):
            self.write("(?:")
        elif self.dialect == "answer" and self.taken("(?i:"):
            self.write("(?i:")
        elif named := re.compile(r"\(\?P?<([^\W\d]\w*)>").match(self.text, self.at):
            self.at = named.end()
            self.groups.append(named[1])
            self.write("(")
        elif self.taken("(?"):
            self.at -= 2
            raise self.problem(
                f"a group that begins with {self.text[self.at : self.at + 4]!r} is not of this dialect"
            )
        else:
            self.at += 1
            self.groups.append(None)
            self.write("(")
        self.alternatives()
        if not self.taken(")"):
            raise self.problem("a group is not closed")
        self.write(")")
        return around is None

    def atom(self, char: str) -> bool:
        """One character, class or anchor; ``False`` where it cannot be repeated."""
        self.at += 1
        if char == "^":
            self.write("^", r"\A")
            return False
        if char == "$":
            # Python's own $ also matches before a last line break, ECMAScript's does not.
            self.write("$", r"\Z")
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
        start = self.at
        char = self.text[start : start + 1]
        if char in ("b", "B"):
            self.at += 1
            self.unenforceable = f"the word border \\{char}"
            # ECMAScript's word border knows ASCII letters only.
            self.write("\\" + char, f"(?a:\\{char})")
            return False
        if char and char in "AzZ" and self.dialect == "answer":
            self.at += 1
            self.write(*((r"\A", r"\A") if char == "A" else (r"\z", r"\Z")))
            return False
        if char.isdigit() and char != "0":
            number = re.compile(r"\d+").match(self.text, start)
            assert number is not None
            if int(number[0]) > len(self.groups):
                raise self.problem(f"there is no group {number[0]}")
            self.at = number.end()
            self.unenforceable = f"the back reference \\{number[0]}"
            # In a group of its own: a digit that follows must not become part of the number.
            self.write("\\" + number[0], f"(?:\\{number[0]})")
        elif named := re.compile(r"k<(\w+)>").match(self.text, start):
            if named[1] not in self.groups:
                raise self.problem(f"there is no group {named[1]!r}")
            self.at = named.end()
            number_of = self.groups.index(named[1]) + 1
            self.unenforceable = f"the back reference \\k<{named[1]}>"
            self.write(f"\\{number_of}", f"(?:\\{number_of})")
        else:
            found = self.escaped()
            if isinstance(found, int):
                self.literal(found)
            else:
                self.character_class(found)
        return True

    def escaped(self) -> int | Ranges:
        """The character or the class that an escape stands for, inside a class or out of it."""
        if self.at >= len(self.text):
            raise self.problem("a backslash at the end")
        char = self.text[self.at]
        self.at += 1
        if char in "dDwWsS":
            found = _shorthand(char.lower(), self.dialect)
            return found if char.islower() else _complement(found)
        if char in "pP":
            name = re.compile(r"\{([^{}]*)\}").match(self.text, self.at)
            single = self.text[self.at : self.at + 1]
            if name is None and not (self.dialect == "answer" and single.isalpha()):
                raise self.problem(f"\\{char} needs a property in braces, as in \\{char}{{L}}")
            self.at = name.end() if name else self.at + 1
            inside = _property(name[1] if name else single)
            if inside is None:
                raise self.problem(f"{name[1] if name else single!r} is no property of Unicode")
            return inside if char == "p" else _complement(inside)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not self.text[self.at : self.at + 1].isdigit():
            return 0
        if char == "a" and self.dialect == "answer":
            return 7
        if char == "c" and (letter := self.text[self.at : self.at + 1]).isascii() and letter.isalpha():
            self.at += 1
            return ord(letter) % 32
        if char in "xuU":
            return self.numbered(char)
        if char.isascii() and not char.isalnum() and char.isprintable():
            return ord(char)
        self.at -= 1
        hint = {
            "z": ": '$' is the end of the text",
            "Z": ": '$' is the end of the text",
            "A": ": '^' is its beginning",
        }
        raise self.problem(f"the escape \\{char} is not of this dialect{hint.get(char, '')}")

    def numbered(self, char: str) -> int:
        r"""``\xHH``, ``\uHHHH`` (two of them for a character beyond the first plane), ``\u{H…}``; also ``\x{H…}``."""
        found = re.compile(r"\{([0-9a-fA-F]{1,6})\}").match(self.text, self.at)
        if found is None:
            width = {"x": 2, "u": 4, "U": 8}[char]
            found = re.compile(f"([0-9a-fA-F]{{{width}}})").match(self.text, self.at)
        if found is None:
            raise self.problem(f"\\{char} needs the character's number in hexadecimal digits")
        self.at = found.end()
        code = int(found[1], 16)
        if 0xD800 <= code <= 0xDBFF:
            second = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self.text, self.at)
            if second:
                self.at = second.end()
                return 0x10000 + ((code - 0xD800) << 10) + int(second[1], 16) - 0xDC00
        if 0xD800 <= code <= 0xDFFF or code > MAX_CODE_POINT:
            raise self.problem(f"{code:#x} is no character")
        return code

    def bracket(self) -> None:
        """A class in brackets, of which the first has been read."""
        negated = self.taken("^")
        found: list[tuple[int, int]] = []
        while not self.taken("]"):
            if self.at >= len(self.text):
                raise self.problem("a class is not closed")
            posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
            if posix:
                if posix[2] not in _POSIX:
                    raise self.problem(f"[:{posix[2]}:] is no class of characters")
                self.at = posix.end()
                found += _complement(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
                continue
            low = self.class_member()
            if isinstance(low, tuple):
                found += low
            elif self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                high = self.class_member()
                if isinstance(high, tuple):
                    raise self.problem("a range ends in a class of characters")
                if high < low:
                    raise self.problem("a range of characters is in the wrong order")
                found.append((low, high))
            else:
                found.append((low, low))
        self.character_class(tuple(found), negated=negated)

    def class_member(self) -> int | Ranges:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if not char:
            raise self.problem("a class is not closed")
        if char != "\\":
            return ord(char)
        if self.taken("b"):
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
        inside = "".join(
            _engine_character(low) if low == high else f"{_engine_character(low)}-{_engine_character(high)}"
            for low, high in merged
        )
        plain = "".join(
            _python_character(low) if low == high else f"{_python_character(low)}-{_python_character(high)}"
            for low, high in merged
        )
        self.write(f"[{'^' * negated}{inside}]", f"[{'^' * negated}{plain}]")


def _engine_character(code: int) -> str:
    char = chr(code)
    if (char.isascii() and char.isalnum()) or char in " \"'<>,:;=!@%&_`~":
        return f"\\{char}" if char in "&~" else char
    return f"\\{char}" if 32 < code < 127 else f"\\x{{{code:X}}}"


def _python_character(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def _complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found, start = [], 0
    for low, high in _merged(ranges):
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        found.append((start, MAX_CODE_POINT))
    return tuple(found)


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
    found = [(first, last) for first, last in _UNIFORM if belongs(chr(first))]
    for first, last in _SINGLE:
        found += [(code, code) for code in range(first, last + 1) if belongs(chr(code))]
    return _merged(found)
