"""Text from outside, read within bounds and shown without letting it act on a terminal; and numbers as text."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TextIO

from pcsuite._util.secrets import redact

MAX_JSON_DEPTH = 200
"""Levels of nesting that are read; what people and models mean to say has a dozen."""
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
_DIGITS = re.compile(r"\d+")
csv.field_size_limit(1 << 24)  # a cell may hold a document; the module's own limit is 128 KiB


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; :class:`ValueError` for anything that is none or is nested deeper than 200 levels.

    Python's own reader ends in a ``RecursionError`` where the text is deep, and what it just manages to read others
    (a writer, ``repr``) may not.

    >>> read_json("[" * 5000 + "]" * 5000)
    Traceback (most recent call last):
    ValueError: nested more than 200 levels deep
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} levels deep") from None
    check_depth(text, value)
    return value


def storable(text: str) -> str:
    """The text with U+FFFD for lone surrogates; plain ASCII is returned as it is.

    >>> storable("a\\ud800b") == "a\\ufffdb"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def table_delimiter(header: str) -> str:
    """What parts the columns of a CSV file, by its first line: a comma, or the semicolon or tab it has more of.

    Spreadsheets write semicolons where the comma is the decimal mark. What stands in quotes parts nothing.

    >>> table_delimiter("text;queue"), table_delimiter("text,queue"), table_delimiter('"net, gross";text')
    (';', ',', ';')
    """
    outside = re.sub(r'"[^"]*"', "", header)
    return max((",", ";", "\t"), key=outside.count)


def check_depth(text: str | bytes, value: Any) -> None:
    """Raise :class:`ValueError` where the value of a JSON text is nested deeper than 200 levels.

    ``text`` is what ``value`` was read from: a text with fewer brackets than that cannot be so deep, and is not
    walked through.
    """
    # Counting brackets costs far less than going through the value, and nearly every text ends here.
    opened = (
        text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    )
    level = [value] if opened > MAX_JSON_DEPTH and isinstance(value, (dict, list)) else []
    for _ in range(MAX_JSON_DEPTH):
        level = [
            entry
            for outer in level
            for entry in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(entry, (dict, list))
        ]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_JSON_DEPTH} levels deep")


def shorten(text: str, most: int = 300) -> str:
    r"""A message from elsewhere as part of one line: secrets out, blanks folded, at most ``most`` characters.

    >>> shorten("key sk-0123456789abcdef is\n wrong")
    'key *** is wrong'
    """
    flat = " ".join(redact(text).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def commonest(texts: Iterable[str]) -> str:
    """The text that occurs most often, as it stood first; texts that differ in their numbers alone are one.

    >>> commonest(["port 81: refused", "no such file", "port 82: refused"])
    'port 81: refused'
    """
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        key = _DIGITS.sub("#", text)
        first.setdefault(key, text)
        counts[key] += 1
    return first[counts.most_common(1)[0][0]] if counts else ""


def counted(count: int, noun: str) -> str:
    """A number with its noun, which takes an ``s`` where it is not one.

    >>> counted(1, "task"), counted(2, "task")
    ('1 task', '2 tasks')
    """
    return f"{count} {noun}" + ("" if count == 1 else "s")


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of cells as lines whose columns are as wide as their content; ``right`` are those set to the right.

    >>> aligned([["name", "n"], ["a", "10"]], right={1})
    ['name   n', 'a     10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for the terminal: columns as wide as their content, columns of numbers to the right."""
    right = {
        index
        for index, column in enumerate(zip(*rows, strict=True))
        if all(cell in ("", "-") or cell.replace(".", "", 1).lstrip("+-").isdigit() for cell in column)
    }
    return "\n".join(aligned([headings, *rows], right))


def describe(error: BaseException) -> str:
    """What an unforeseen error says, as part of one line: its kind and its message, secrets out.

    >>> describe(KeyError("a"))
    "KeyError: 'a'"
    """
    try:
        message = str(error)
    except Exception:  # an error whose own words fail, as those of deeply nested values do
        message = ""
    return shorten(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def visible(text: str) -> str:
    r"""The text with control characters written out, so that a terminal shows them and does not obey them.

    Line breaks and tabs stay. Marks that turn the direction of writing are control characters too.

    >>> print(visible("a\x1b[2Jb\rc"))
    a\x1b[2Jb\rc
    """

    def written_out(match: re.Match[str]) -> str:
        code = ord(match[0])
        if match[0] == "\r":
            return "\\r"
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _CONTROL.sub(written_out, text)


def one_line(text: str) -> str:
    r"""As :func:`visible`, line breaks and tabs included.

    >>> print(one_line("a\nb"))
    a\nb
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


class VisibleStream:
    """A text stream that writes control characters out; all that a command prints goes through one.

    Where the stream is a terminal, colours (and nothing else) pass.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._styled = stream.isatty()

    def write(self, text: str) -> int:
        """Write text; returns the number of characters that were given."""
        if not self._styled:
            self.stream.write(visible(text))
        else:
            self.stream.write("".join(p if _STYLE.fullmatch(p) else visible(p) for p in _STYLE.split(text)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def underlying_stream(stream: TextIO) -> TextIO:
    """The stream behind a :class:`VisibleStream`, for displays of ours that move the cursor; others as they are.

    What is written there from outside must have been through :func:`one_line`.
    """
    return stream.stream if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Let standard output and standard error write control characters out while the block runs.

    What a command prints may come from a model or a file of others, and a terminal obeys control characters. The
    streams are put back when the block ends, whatever ends it.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (VisibleStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plain_number(value: object) -> str | None:
    """The number that a cell of a table holds, in plain digits; ``None`` where it holds no number or a vast one.

    >>> plain_number("$1,200.50"), plain_number(8.0), plain_number("many")
    ('1200.5', '8', None)
    """
    try:
        number = Decimal(str(value).strip().replace(",", "").removeprefix("$"))
    except InvalidOperation:
        return None
    # An exponent of millions would be written out digit by digit.
    if not number.is_finite() or abs(number.adjusted()) > 30:
        return None
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def fraction_text(value: Fraction) -> str:
    """A fraction written exactly: plain digits with a decimal point where these come to an end, else ``"p/q"``.

    >>> fraction_text(Fraction(2401, 2)), fraction_text(Fraction(-3)), fraction_text(Fraction(1, 3))
    ('1200.5', '-3', '1/3')
    """
    # A denominator 2^a·5^b needs max(a, b) decimals; any other prime factor needs them without end.
    rest, exponents = value.denominator, []
    for prime in (2, 5):
        exponent = 0
        while rest % prime == 0:
            rest, exponent = rest // prime, exponent + 1
        exponents.append(exponent)
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    sign, places = "-" if value < 0 else "", max(exponents)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def figure_text(value: Any, digits: int = 2) -> str:
    """A number for a sentence: ``digits`` decimals, none for numbers from 100, ``n/a`` for none.

    What rounds to 0 has no sign.

    >>> figure_text(0.1234), figure_text(1234.5), figure_text(-0.001), figure_text(None)
    ('0.12', '1,234', '0.00', 'n/a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    # Decimals of hundreds of tokens or milliseconds are noise.
    if abs(float(value)) >= 100:
        return f"{float(value):,.0f}"
    text = f"{float(value):.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def signed(value: Any, digits: int = 2) -> str:
    """A difference with its sign; what rounds to 0 has none of its own.

    >>> signed(0.1), signed(-0.1), signed(-0.001)
    ('+0.10', '-0.10', '0.00')
    """
    text = figure_text(value, digits)
    return text if text == "n/a" or value < 0 else f"+{text}"


def limits_text(low: Any, high: Any, digits: int = 2) -> str:
    """An interval after its figure, with the blank before it; nothing where there is none.

    >>> limits_text(-0.1, 0.25), limits_text(None, None)
    (' [-0.10, 0.25]', '')
    """
    if low is None and high is None:
        return ""
    return f" [{figure_text(low, digits)}, {figure_text(high, digits)}]"


def interval_text(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """A figure with its interval, where it has both limits.

    >>> interval_text(0.62, 0.55, 0.69), interval_text(0.62, None, 0.69), interval_text(None, None, None)
    ('0.62 [0.55, 0.69]', '0.62', 'n/a')
    """
    limits = "" if None in (value, low, high) else limits_text(low, high, digits)
    return figure_text(value, digits) + limits


def signed_interval(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """A difference with its interval, each with its sign; ``n/a`` where there is none.

    >>> signed_interval(0.12, 0.03, 0.21), signed_interval(math.nan, math.nan, math.nan)
    ('+0.12 [+0.03, +0.21]', 'n/a')
    """
    text = signed(value, digits)
    return text if text == "n/a" else f"{text} [{signed(low, digits)}, {signed(high, digits)}]"


def p_text(value: Any) -> str:
    """A p-value: three decimals, and never 0.

    >>> p_text(0.0004), p_text(0.0214), p_text(None)
    ('< 0.001', '0.021', 'n/a')
    """
    if value is None or not math.isfinite(value):
        return "n/a"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def utc_now() -> str:
    """The time in UTC, to the millisecond, as rows and journals write it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
