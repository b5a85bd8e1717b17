"""Reading a model's answer: JSON strictly first, then the first balanced object; abstentions; numbers.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pcsuite.evaluation.base import JsonMode, Parsed
from pcsuite.evaluation.schema_check import schema_error

MAX_DEPTH = 64
"""Deepest nesting of objects and arrays that is read; no schema of a task comes near it."""

_CANDIDATE_DEPTH = 16
_INT64_DIGITS = 18
_TOKENS = re.compile(r'\\.|["{}\n]', re.DOTALL)
_KEY_FOLLOWS = re.compile(r'\s*"')
# What can stand in a numeral that is beyond a double or 64 bits; any other is read as Python reads it.
_UNUSUAL_NUMBER = re.compile(r"[0-9]{18}|[eE][+-]?[0-9]{3}|NaN|Infinity")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(slots=True)
class JsonReading:
    """A JSON value and how it was found; ``errors`` says what was wrong or noteworthy."""

    mode: JsonMode
    value: Any = None
    errors: list[str] = field(default_factory=list)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no log and no database can store, by U+FFFD.

    Every evaluator cleans an answer's text first; plain ASCII is returned as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_json(text: str) -> JsonReading:
    """Read the whole text as JSON, else the first balanced object in it that is JSON.

    ``NaN``, ``Infinity`` and numbers beyond a double are not JSON. Of a repeated key the last value counts,
    as with every common reader, and the repetition is noted. Integers beyond 64 bits become floats.

    >>> read_json('Here it is: {"label": "yes"}').value
    {'label': 'yes'}
    """
    stripped = text.lstrip("\ufeff").strip()
    try:
        value, notes = _load(stripped)
    except ValueError as error:
        whole_text_error = str(error)
    else:
        return JsonReading("strict", value, notes)
    for start, end in _candidate_spans(stripped):
        try:
            value, notes = _load(stripped[start:end])
        except ValueError:
            continue
        return JsonReading("embedded", value, notes)
    return JsonReading("none", None, [f"no JSON object: {whole_text_error}"])


def parse_object(text: str, schema: Mapping[str, Any] | None) -> Parsed:
    """Read an answer that should be one JSON object and check it against the schema.

    ``json_valid`` is true in both modes (``json_mode`` tells them apart); ``schema_valid`` is ``None``
    where there is no schema. ``fields`` is empty where the value is no object; ``parse_errors`` says what was wrong.
    """
    reading = read_json(text)
    parsed = Parsed(
        json_valid=reading.mode != "none", json_mode=reading.mode, parse_errors=list(reading.errors)
    )
    if not parsed.json_valid:
        parsed.schema_valid = None if schema is None else False
        return parsed
    if isinstance(reading.value, dict):
        parsed.fields = reading.value
    else:
        parsed.parse_errors.append(f"expected a JSON object, got {type(reading.value).__name__}")
    if schema is not None:
        error = schema_error(reading.value, schema)
        parsed.schema_valid = error is None
        if error is not None:
            parsed.parse_errors.append(f"schema: {error}")
    return parsed


def _load(text: str) -> tuple[Any, list[str]]:
    """Parse strictly; raise ``ValueError`` for anything that is not plain, storable JSON."""
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        collected = dict(pairs)
        if len(collected) != len(pairs) and len(repeated) < 5:
            seen: set[str] = set()
            repeated.extend({key for key, _ in pairs if key in seen or seen.add(key)})  # type: ignore[func-returns-value]
        return collected

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError("number out of range" if digits[-1:].isdigit() else f"{digits} is not JSON")
        return value

    decoder = json.JSONDecoder(object_pairs_hook=collect)
    if _UNUSUAL_NUMBER.search(text):
        decoder = json.JSONDecoder(
            object_pairs_hook=collect,
            parse_constant=finite,
            parse_float=finite,
            parse_int=lambda digits: int(digits) if len(digits) <= _INT64_DIGITS else finite(digits),
        )
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE_ESCAPE.search(text):
        value = _without_surrogates(value)
    return value, [f"repeated key '{clean_text(key)[:80]}'" for key in repeated[:5]]


def _depth(value: object) -> int:
    """Nesting of a value, without recursion."""
    deepest = 0
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        current, level = stack.pop()
        if isinstance(current, dict):
            children: Iterator[object] = iter(current.values())
        elif isinstance(current, list):
            children = iter(current)
        else:
            continue
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children)
    return deepest


def _without_surrogates(value: Any) -> Any:
    """Clean every string of a value whose depth is known to be bounded."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_without_surrogates(child) for child in value]
    if isinstance(value, dict):
        return {clean_text(key): _without_surrogates(child) for key, child in value.items()}
    return value


def _candidate_spans(text: str) -> Iterator[tuple[int, int]]:
    """Every ``{…}`` whose braces match outside strings, by opening position, outermost first.

    Quotes count only inside an object (prose has apostrophes and quotations); a raw line break inside a
    string is not JSON, so it ends whatever was open. What stands inside an object that was cut off is a part
    of it and no answer by itself. Spans nested too deep in other spans are left out: with at most
    ``_CANDIDATE_DEPTH`` candidates around any character the work stays linear.
    """
    spans: list[tuple[int, int]] = []
    open_at: list[int] = []
    in_string = False
    for match in _TOKENS.finditer(text):
        token = match[0]
        if in_string:
            if token == '"':
                in_string = False
            elif token == "\n":
                in_string = False
                open_at.clear()
        elif token == "{":
            open_at.append(match.start())
        elif token == "}":
            if open_at:
                spans.append((open_at.pop(), match.end()))
        elif token == '"' and open_at:
            in_string = True
    cut_off = next((start for start in open_at if _KEY_FOLLOWS.match(text, start + 1)), len(text))
    enclosing_ends: list[int] = []
    for start, end in sorted(spans):
        if start >= cut_off:
            return
        while enclosing_ends and enclosing_ends[-1] <= start:
            enclosing_ends.pop()
        if len(enclosing_ends) < _CANDIDATE_DEPTH:
            yield start, end
        enclosing_ends.append(end)


ABSTENTION = "INSUFFICIENT_INFO"
"""The literal that prompts offer for abstaining, and the canonical answer of every abstention."""

_LITERAL = re.compile(r"\binsufficient[ _-](?:info(?:rmation)?|evidence|context|data)\b", re.IGNORECASE)
_PHRASES = re.compile(
    r"\b(?:i (?:do not|don['’]t) know"
    r"|i(?: am|['’]m) (?:not sure|unsure|not certain|(?:unable|not able) to (?:answer|determine|say|tell))"
    r"|i (?:cannot|can['’]t|can not) (?:answer|determine|say|tell|(?:give|provide) (?:an|any|the) answer)"
    r"|i (?:do not|don['’]t) have (?:enough |sufficient |that |this |the |any )?"
    r"(?:information|info|evidence|context|an answer)"
    r"|i have no (?:answer|idea|information)"
    r"|(?:i have )?no comment"
    r"|(?:it )?(?:cannot|can['’]t|can not) be (?:determined|answered|known)"
    r"|not[ _]enough[ _](?:information|info|evidence|context)"
    r"|(?:impossible|not possible) to (?:answer|determine|say|tell)"
    r"|i (?:decline|prefer not) to answer"
    r"|i(?: would|['’]d) rather not (?:answer|say)"
    r"|i (?:(?:choose to|have to|must|will) )?abstain)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"(?:unknown|abstain(?:ed)?|unanswerable|n/?a|undetermined|cannot say)\W{0,3}", re.IGNORECASE
)
_OPENING = re.compile(
    r"\W*(?:sorry\W+)?(?:(?:unable|not able) to|cannot|can['’]t|can not) (?:answer|determine|say|tell)\b",
    re.IGNORECASE,
)
"""Without "I" these decline only at the beginning: "dogs are unable to tell red from green" answers."""
_PHRASING_LENGTH = 300


def text_abstains(text: str) -> bool:
    """Whether a short answer text declines: the literal, a word such as "unknown" alone, or a phrase.

    Phrases count only in short texts (up to 300 characters): a long argument may well mention what is not known and
    still answer.

    >>> text_abstains("I don't know."), text_abstains("Dogs are unable to tell red from green.")
    (True, False)
    """
    stripped = text.strip()
    if not stripped or len(stripped) > _PHRASING_LENGTH:
        return False
    return bool(
        _LITERAL.search(stripped)
        or _WHOLE.fullmatch(stripped)
        or _OPENING.match(stripped)
        or _PHRASES.search(stripped)
    )


def value_abstains(value: object) -> bool:
    """Whether the value of an answer field declines."""
    return isinstance(value, str) and text_abstains(value)


def field_abstains(value: object) -> bool:
    """Whether the value of an ``abstained`` field says yes: true, or the text "true" or "yes".

    >>> field_abstains(True), field_abstains("Yes"), field_abstains("no")
    (True, True, False)
    """
    return value is True or (isinstance(value, str) and value.strip().casefold() in ("true", "yes"))


def last_line(text: str) -> str:
    """Last line with content, where a reasoned answer states its conclusion."""
    return text.rstrip().rpartition("\n")[2]


_NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]+")
_DENOMINATOR = re.compile(r"\s?/\s?([0-9]{1,12})(?![0-9.,])")
_LEADING_MARKUP = "*_`\"'“”($€£¥₹\\[{:= \t"
_CURRENCY = "$€£¥₹"
_MINUS = "-−–"
_HASH_LINE = re.compile(r"####[ \t]*([^\n]*)")
_ANSWER_LINE = re.compile(
    r"(?im)^[ \t*_>#-]{0,16}(?:(?:so|therefore|thus|hence)[ ,]{1,3})?(?:the[ ]{1,2})?(?:final[ ]{1,2})?"
    r"(?:answer|result|a)(?:[ *_]{0,4}[:=]|[ ]{1,2}is\b[ :]{0,3})([^\n]*)"
)
_BOXED = re.compile(r"\\boxed[ ]{0,2}\{([^{}\n]{0,200})\}")


def normalise_number(text: str) -> str | None:
    """One spelling of the number a short text starts with: ``"$1,200.00."`` gives ``"1200"``.

    Thousands separators, currency signs, a trailing full stop and needless zeros go; a fraction becomes its
    decimal value where that is finite, else ``"p/q"``. ``None`` where the text does not start with a number.

    >>> normalise_number("$1,200.00."), normalise_number("3/8"), normalise_number("none")
    ('1200', '0.375', None)
    """
    rest = text.lstrip()
    skipped = len(rest) - len(rest.lstrip(_LEADING_MARKUP + _MINUS))
    match = _NUMERAL.match(rest, skipped)
    if match is None or skipped > 24:
        return None
    return _value_of(rest, match)


def final_number(text: str) -> tuple[str | None, bool]:
    """The number an answer ends on, and whether it was marked as the answer.

    ``#### 42`` wins over ``A: 42`` and ``The answer is 42``, these over ``\\boxed{42}``, and all over the
    last number in the text. Of several marks of a kind the last that carries a number counts.

    >>> final_number("16 - 3 = 13\\n#### 13"), final_number("about 7 or 8")
    (('13', True), ('8', False))
    """
    for pattern in (_HASH_LINE, _ANSWER_LINE, _BOXED):
        for payload in reversed([match[1] for match in pattern.finditer(text)]):
            number = normalise_number(payload)
            if number is not None:
                return number, True
    last = deque(_NUMERAL.finditer(text), maxlen=1)
    return (_value_of(text, last[0]) if last else None), False


def marked_answer(text: str) -> str | None:
    """Text after the last ``####`` or answer mark, or ``None`` where nothing is marked.

    >>> marked_answer("Let me think.\\nFinal answer: blue")
    'blue'
    """
    for pattern in (_HASH_LINE, _ANSWER_LINE):
        payloads: list[str] = [match[1].strip() for match in pattern.finditer(text)]
        for payload in reversed(payloads):
            if payload:
                return payload
    return None


def number_of(value: object) -> str | None:
    """Normalised number of a JSON value: a number, or a text that starts with one; ``None`` for anything else.

    >>> number_of(42.0), number_of("42 apples"), number_of(True)
    ('42', '42', None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return _plain(format(Decimal(repr(value)), "f"))
        except (ArithmeticError, ValueError):
            return None
    return normalise_number(value) if isinstance(value, str) else None


def number_text(value: Fraction) -> str:
    """A fraction in the same spelling: a decimal numeral where that is finite, else ``"p/q"``.

    >>> number_text(Fraction(3, 8)), number_text(Fraction(1, 3))
    ('0.375', '1/3')
    """
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    # A denominator 2^a·5^b needs max(a, b) decimals, and its bit length is no less.
    places = value.denominator.bit_length()
    digits = str(abs(value.numerator) * (10**places // value.denominator)).rjust(places + 1, "0")
    return _plain(f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}")


def _value_of(text: str, match: re.Match[str]) -> str | None:
    digits = match[0].replace(",", "")
    if "e" in digits or "E" in digits:
        digits = format(Decimal(digits), "f")
    sign = "-" if _is_negative(text, match.start()) else ""
    below = _DENOMINATOR.match(text, match.end())
    if below is None or "." in digits or len(digits) > 12:
        return _plain(sign + digits)
    if int(below[1]) == 0:
        return None
    return number_text(Fraction(int(sign + digits), int(below[1])))


def _is_negative(text: str, start: int) -> bool:
    """Whether a sign stands at the numeral (a currency sign may lie between).

    ``16-3`` and ``16 -3`` are differences, ``- 3`` is an item of a list: none has a sign.
    """
    position = start - 1
    while position >= 0 and position > start - 4 and text[position] in _CURRENCY + "\\":
        position -= 1
    if position < 0 or text[position] not in _MINUS:
        return False
    before = text[max(0, position - 3) : position]
    if before[-1:].isalnum():
        return False
    left = before.rstrip()[-1:]
    return not (left.isdigit() or left in (")", "%", ">", "]"))


def _plain(digits: str) -> str:
    """Strip needless zeros from a decimal numeral of any length."""
    sign = "-" if digits.startswith("-") else ""
    whole, _, decimals = digits.lstrip("+-").partition(".")
    whole = whole.lstrip("0") or "0"
    decimals = decimals.rstrip("0")
    number = f"{whole}.{decimals}" if decimals else whole
    return number if number == "0" else sign + number
