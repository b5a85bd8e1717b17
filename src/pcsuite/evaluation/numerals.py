"""The number an answer states: marks, equations, denials, ranges, and one spelling for every value.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice

_NUMERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]+")
_DENOMINATOR = re.compile(r"\s?/\s?([0-9]{1,12})(?![0-9]|[.,][0-9])")
_MIXED = re.compile(r"\s([0-9]{1,12})/([0-9]{1,12})(?![0-9]|[.,][0-9])")
_SCALE = re.compile(r"\s?(hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_VULGAR = {sign: unicodedata.normalize("NFKC", sign).replace("\u2044", "/") for sign in "½⅓⅔¼¾⅛⅜⅝⅞"}
_LEADING_MARKUP = "*_`\"'“”($€£¥₹\\[{:= \t"
_CURRENCY = "$€£¥₹"
_MINUS = "-−–"
_HASH_LINE = re.compile(r"####[ \t]*([^\n]*)")
_ANSWER_LINE = re.compile(
    r"(?im)^[ \t*_>#-]{0,16}(?:(?:so|therefore|thus|hence)[ ,]{1,3})?(?:the[ ]{1,2})?(?:final[ ]{1,2})?"
    r"(?:answer|result|a)(?:[ *_]{0,4}[:=]|[ ]{1,2}is\b[ :]{0,3})[ \t*_]{0,4}(?:\n[ \t]{0,4})?([^\n]*)"
)
_ANSWER_WITHIN = re.compile(
    r"\b(?:[Tt]he|[Mm]y) (?:final |correct )?answer (?:is|would be)\b[ :]{0,3}([^\n]*)"
)
_BOXED = re.compile(r"\\boxed[ ]{0,2}\{")
_LONGEST_BOX = 200

_HEDGE = re.compile(
    r"(?:exactly|about|approximately|approx\.?|around|roughly|nearly|only|just|simply|equal to|a total of|[≈~])"
    r"[ ]{0,2}",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"(?:definitely |certainly |clearly )?(?:not|never|neither|no longer)\b", re.IGNORECASE)
_CORRECTION = re.compile(
    r"\b(?:but|rather|instead|actually|it is|it['’]s|correct is)\b[ :,]{1,3}", re.IGNORECASE
)
_RANGE = re.compile(
    r"(?:somewhere )?(?:between|from|either|at least|at most|more than|less than|fewer than|greater than|over|under"
    r"|up to|no more than|no less than|above|below)[ ]{1,2}[$€£¥₹]?\.?[0-9]",
    re.IGNORECASE,
)
# An operation, a range or an alternative: what stands before it is not the whole answer.
_GOES_ON = re.compile(
    r"[ ]{0,2}(?:%|[A-Za-z]{1,12})?[ ]{0,2}(?:[*×·÷+/−–-]|x(?=[ ]{0,2}[($0-9]))[ ]{0,2}[$€£(]{0,2}\.?[0-9]"
    r"|[ ]{1,2}(?:or|to|and)[ ]{1,2}[$€£]?\.?[0-9]|:[0-9]"
)
_EQUALS = re.compile(r"[ ]{0,2}=")
_SENTENCE_END = re.compile(r"[.!?;][ ]+(?=[A-Z])|\n")
_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|nor|neither|isn['’]t|wasn['’]t|aren['’]t|instead of|rather than)\b(?: be| equal to| exactly)?"
    r"[ *_$€£:]{0,4}$",
    re.IGNORECASE,
)
_OPEN_BEFORE = re.compile(
    r"(?:\bbetween [$€£]?[0-9][0-9,.]* and|[0-9]%? or|[0-9][ ]?[*×+−–-]|[0-9] x)[ ]?[$€£(]{0,2}$",
    re.IGNORECASE,
)
_MINUS_WORD = re.compile(r"\b(?:minus|negative) (?=[$€£]?[0-9])")
_POWER = re.compile(r"([0-9.]{1,12})[ ]{0,2}[x×*][ ]{0,2}10\^\{?(-?[0-9]{1,2})\}?")
_LATEX = (
    (re.compile(r"\\[dt]?frac\{(-?[0-9]{1,12})\}\{([0-9]{1,12})\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]{0,80})\}"), r"\1"),
    (re.compile(r"\{,\}|\\[,!]"), ","),
    (re.compile(r"\\(?:times|cdot)"), "*"),
    (re.compile(r"\\(?=[$%#])|\\[()\[\]]|\\(?:left|right|quad|;|:)|(?<=[0-9])\\\s"), " "),
)


def normalise_number(text: str) -> str | None:
    """One spelling of the number a short text states: ``"$1,200.00."`` gives ``"1200"``.

    Thousands separators, currency signs, a trailing full stop and needless zeros go; a fraction becomes its
    decimal value where that is finite, else ``"p/q"``; "1.2 million" is 1200000; of an equation the last side counts.
    ``None`` where the text does not start with a number, or gives a range, an alternative or an unfinished sum.

    >>> normalise_number("$1,200.00."), normalise_number("3/8"), normalise_number("none")
    ('1200', '0.375', None)
    >>> normalise_number("6 * 7 = 42"), normalise_number("40 or 42")
    ('42', None)
    """
    return _stated(text)[1]


def final_number(text: str) -> tuple[str | None, bool]:
    """The number an answer ends on, and whether it was marked as the answer.

    ``#### 42`` wins over ``A: 42`` and ``The answer is 42``, these over ``\\boxed{42}``, and all over the
    last number in the text. Of several marks of a kind the last that speaks of a number counts; one that denies it or
    leaves it open ("not 42", "between 40 and 42") leaves the answer without a number, and so does the format's own
    ``#### NUMBER``, copied instead of filled in.

    >>> final_number("16 - 3 = 13\\n#### 13"), final_number("about 7 or 8")
    (('13', True), (None, False))
    """
    for payloads in _marks(text):
        for payload in reversed(payloads):
            claims, number = _stated(payload)
            if claims:
                return number, True
        if payloads and payloads[-1].strip(_LEADING_MARKUP + " .") == "NUMBER":
            return None, True
    return _last_number(text), False


def marked_answer(text: str) -> str | None:
    """Text after the last ``####`` or answer mark, or ``None`` where nothing is marked.

    >>> marked_answer("Let me think.\\nFinal answer: blue")
    'blue'
    """
    for payloads in islice(_marks(text), 2):
        for payload in reversed(payloads):
            if payload.strip():
                return payload.strip()
    return None


def last_line(text: str) -> str:
    """Last line with content, where a reasoned answer states its conclusion.

    >>> last_line("2 + 2\\nis 4\\n\\n")
    'is 4'
    """
    return text.rstrip().rpartition("\n")[2]


def _marks(text: str) -> Iterator[list[str]]:
    """What stands behind the marks of each kind, the strongest kind first."""
    yield _HASH_LINE.findall(text) if "####" in text else []
    stated = [(match.start(1), match[1]) for match in _ANSWER_LINE.finditer(text)]
    if " answer " in text:
        stated += [(match.start(1), match[1]) for match in _ANSWER_WITHIN.finditer(text)]
    yield [payload for _, payload in sorted(stated)]
    if "\\boxed" in text:
        yield [_box(text, match.end()) for match in _BOXED.finditer(text)]


def _box(text: str, start: int) -> str:
    """What a box holds, nested braces included; nothing where it does not close soon."""
    depth = 1
    for position in range(start, min(len(text), start + _LONGEST_BOX)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return text[start:position]
    return ""


def _stated(payload: str) -> tuple[bool, str | None]:
    """Whether a text speaks of a number first of all, and which: none where it is denied or left open."""
    text = _plain_text(payload)
    rest = text.lstrip()
    for _ in range(3):
        start = len(rest) - len(rest.lstrip(_LEADING_MARKUP))
        hedge = _HEDGE.match(rest, start)
        if hedge is None:
            break
        rest = rest[hedge.end() :]
    bare = rest.lstrip(_LEADING_MARKUP)
    if _DENIAL.match(bare):
        correction = _CORRECTION.search(bare)
        return True, _stated(bare[correction.end() :])[1] if correction else None
    if _RANGE.match(bare):
        return True, None
    skipped = len(rest) - len(rest.lstrip(_LEADING_MARKUP + _MINUS))
    match = _NUMERAL.match(rest, skipped)
    if match is None or skipped > 24:
        return False, None
    value, end = _value_of(rest, match)
    if _EQUALS.match(rest, end) or _GOES_ON.match(rest, end):
        sentence = _SENTENCE_END.split(rest, maxsplit=1)[0]
        for side in reversed(sentence.split("=")[1:]):
            number = _single(side)
            if number is not None:
                return True, number
        return True, value if _EQUALS.match(rest, end) else None
    return True, value


def _single(side: str) -> str | None:
    """The number of one side of an equation, or ``None`` where it is an expression or no number."""
    skipped = len(side) - len(side.lstrip(_LEADING_MARKUP + _MINUS))
    match = _NUMERAL.match(side, skipped)
    if match is None:
        return None
    value, end = _value_of(side, match)
    return None if _GOES_ON.match(side, end) else value


def _plain_text(text: str) -> str:
    """The text without LaTeX's dress, with fractions written out, minus as a sign and powers of ten as exponents."""
    if "\\" in text or "{,}" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    if "minus " in text or "negative " in text:
        text = _MINUS_WORD.sub("-", text)
    if "10^" in text:
        text = _POWER.sub(r"\1e\2", text)
    if not text.isascii():
        for character, fraction in _VULGAR.items():
            if character in text:
                text = re.sub(rf"(?<=[0-9]){character}", f" {fraction}", text).replace(character, fraction)
    return text


def _last_number(text: str) -> str | None:
    """The last number of a text that marks none; none where the text denies it or leaves it open."""
    # A denial takes one number away ("43, not 42"), a fraction or a mixed number has up to three numerals.
    last = deque(_NUMERAL.finditer(text), maxlen=6)
    while last:
        match = last.pop()
        if last and text[last[-1].end() : match.start()].strip() == "/":
            match = last.pop()  # the denominator's own numeral
            if last and text[last[-1].end() : match.start()] == " " and _MIXED.match(text, last[-1].end()):
                match = last.pop()
        before = text[max(0, match.start() - 40) : match.start()]
        if _DENIED_BEFORE.search(before):
            continue
        return None if _OPEN_BEFORE.search(before) else _value_of(text, match)[0]
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
    if not isinstance(value, str):
        return None
    return _short_number(value) if len(value) <= _SHORT else normalise_number(value)


# An item's gold number is read again for each of its answers, and an answer's own number for its canonical form.
_SHORT = 40
_short_number = lru_cache(maxsize=4096)(normalise_number)


_SUFFIX = re.compile(
    r"\s?(?:(%|percent\b|per cent\b)|(hundred|thousand|million|billion|trillion)\b|([kKmMbB])(?![A-Za-z]))"
)
UNIT_SUFFIX = re.compile(
    r"[0-9]\s?(?:%|[pP]er ?cent|[hH]undred|[tT]housand|[mMbBtT]r?illion|[kKmMbB](?![A-Za-z]))"
)
"""A number with a suffix that :func:`loose_numbers` knows: it may stand in other units than the gold one."""
_LETTER_SCALES = {"k": 3, "m": 6, "b": 9}
# fmt: off
_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
# fmt: on
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORD_VALUES = {word: value for value, word in enumerate(_UNITS)} | {
    word: 10 * value for value, word in enumerate(_TENS, start=2)
}
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?:{'|'.join([*_WORD_VALUES, 'hundred', 'thousand', 'million', 'and'])})(?:[ -]+|\b))+",
    re.IGNORECASE,
)
_BOUND = re.compile(r"(?:at least|at most|more than|less than|over|under|up to)[ ]{1,2}", re.IGNORECASE)


def loose_numbers(text: str) -> set[str]:
    """What a lenient reader may take for the answer: the stated number in other units, or in words.

    Of the last mark, else of the last line: a percentage also as a fraction of one, "1.2 million" also as 1.2, "1.2M"
    also as 1200000, "at least 42" as 42, "forty-two" as 42. Empty where the text denies a number or leaves it open.

    >>> sorted(loose_numbers("The answer is 45%")), sorted(loose_numbers("Answer: forty-two apples"))
    (['0.45', '45'], ['42'])
    """
    for payloads in _marks(text):
        for payload in reversed(payloads):
            statement = _plain_text(payload)
            claims, value = _stated(statement)
            bound = _BOUND.match(statement.lstrip(_LEADING_MARKUP))
            if claims and bound is not None:
                value = _stated(statement.lstrip(_LEADING_MARKUP)[bound.end() :])[1]
            if claims:
                return _in_other_units(statement, value)
    statement = _plain_text(marked_answer(text) or last_line(text))[:1000]
    if _NUMERAL.search(statement):
        return _in_other_units(statement, _last_number(statement))
    bare = statement.lstrip(_LEADING_MARKUP)
    values = {_in_words(match[0]) for match in _NUMBER_WORDS.finditer(bare)} - {None}
    return {str(value) for value in values} if len(values) == 1 and not _DENIAL.match(bare) else set()


def _in_other_units(statement: str, value: str | None) -> set[str]:
    """The number and what its suffix makes of it; nothing for no number."""
    numerals = list(_NUMERAL.finditer(statement[:1000]))
    match = next((match for match in reversed(numerals) if _value_of(statement, match)[0] == value), None)
    if value is None or match is None:
        return set()
    values = {value}
    suffix = _SUFFIX.match(statement, match.end())
    if suffix is not None:
        digits = Fraction(match[0].replace(",", ""))
        if suffix[1]:
            values.add(number_text(digits / 100))
        elif suffix[2]:
            values.add(number_text(digits))
        else:
            values.add(number_text(digits * 10 ** _LETTER_SCALES[suffix[3].lower()]))
    return values


def _in_words(text: str) -> int | None:
    """The number English words name, below a thousand million: "two hundred and five" is 205."""
    total = current = 0
    any_word = False
    for word in re.split(r"[ -]+", text.strip(" -").casefold()):
        if word == "and":
            continue
        any_word = True
        if word == "hundred":
            current = max(current, 1) * 100
        elif word in ("thousand", "million"):
            total += max(current, 1) * (1000 if word == "thousand" else 1_000_000)
            current = 0
        else:
            current += _WORD_VALUES[word]
    return total + current if any_word else None


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


def _value_of(text: str, match: re.Match[str]) -> tuple[str | None, int]:
    """A numeral's value with its sign, fraction and scale word, and where all that ends."""
    digits = match[0].replace(",", "")
    if "e" in digits or "E" in digits:
        digits = format(Decimal(digits), "f")
    sign = "-" if _is_negative(text, match.start()) else ""
    end = match.end()
    if "." not in digits and len(digits) <= 12:
        below = _DENOMINATOR.match(text, end)
        if below is not None:
            if int(below[1]) == 0:
                return None, below.end()
            return number_text(Fraction(int(sign + digits), int(below[1]))), below.end()
        mixed = _MIXED.match(text, end)
        if mixed is not None and int(mixed[2]) > int(mixed[1]) > 0:
            value = int(digits) + Fraction(int(mixed[1]), int(mixed[2]))
            return number_text(-value if sign else value), mixed.end()
    scale = _SCALE.match(text, end)
    if scale is not None and len(digits) <= 18:
        return number_text(Fraction(sign + digits) * 10 ** _SCALES[scale[1].lower()]), scale.end()
    return _plain(sign + digits), end


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
