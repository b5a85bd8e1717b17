"""Numbers that a lenient reader may take for the one stated: in other units, or in English words."""

from __future__ import annotations

import re
from fractions import Fraction

from pcsuite._util.text import fraction_text
from pcsuite.evaluation.numerals import NUMERAL, value_of
from pcsuite.evaluation.stated_numbers import read_number

_SUFFIX = re.compile(
    r"\s?(?:(%|percent\b|per cent\b)|(hundred|thousand|million|billion|trillion)\b|([kKmMbB])(?![A-Za-z]))"
)
UNIT_SUFFIX = re.compile(
    r"[0-9]\s?(?:%|[pP]er ?cent|[hH]undred|[tT]housand|[mMbBtT]r?illion|[kKmMbB](?![A-Za-z]))"
)
"""A number with a suffix that :func:`loose_numbers` knows: it may stand in other units than the gold one."""
_LETTER_SCALES = {"k": 3, "m": 6, "b": 9}


def loose_numbers(text: str) -> set[str]:
    """What a lenient reader may take for the answer: the stated number in other units, or in words.

    A percentage also as a fraction of one, "1.2 million" also as 1.2, "1.2M" also as 1200000, "forty-two" as 42. Empty
    where the text denies a number or leaves it open.

    >>> sorted(loose_numbers("The answer is 45%")), sorted(loose_numbers("Answer: forty-two apples"))
    (['0.45', '45'], ['42'])
    """
    reading = read_number(text)
    if reading.number is not None:
        return _in_other_units(reading.statement, reading.number)
    if reading.ambiguous:
        return set()
    in_digits = with_digits(text[-2000:])
    if in_digits == text[-2000:]:
        return set()
    number = read_number(in_digits).number
    return set() if number is None else {number}


def _in_other_units(statement: str, value: str) -> set[str]:
    """The number and what its suffix makes of it."""
    numerals = list(NUMERAL.finditer(statement[:1000]))
    match = next((match for match in reversed(numerals) if value_of(statement, match)[0] == value), None)
    values = {value}
    suffix = _SUFFIX.match(statement, match.end()) if match is not None else None
    if match is not None and suffix is not None:
        digits = Fraction(match[0].replace(",", ""))
        if suffix[1]:
            values.add(fraction_text(digits / 100))
        elif suffix[2]:
            values.add(fraction_text(digits))
        else:
            values.add(fraction_text(digits * 10 ** _LETTER_SCALES[suffix[3].lower()]))
    return values


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
_SCALE_WORDS = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = rf"(?:{'|'.join([*_WORD_VALUES, 'hundred', *_SCALE_WORDS])})"
_NUMBER_WORDS = re.compile(
    rf"\b(?:a (?=hundred|thousand|million|billion|dozen))?(?:(minus|negative) )?(?:(?:a )?(dozen)"
    rf"|{_WORD}(?:(?:[ -]| and |, ){_WORD})*)(?: and (?:a|one) (half|quarter|third)"
    rf"| and (three) quarters)?\b",
    re.IGNORECASE,
)
_PARTS = {"half": Fraction(1, 2), "quarter": Fraction(1, 4), "third": Fraction(1, 3)}


def with_digits(text: str) -> str:
    """The text with numbers that English words name in digits.

    >>> with_digits("minus forty-two"), with_digits("two hundred and five"), with_digits("one and a half hours")
    ('-42', '205', '1.5 hours')
    """
    return _NUMBER_WORDS.sub(_digits, text)


def _digits(match: re.Match[str]) -> str:
    total, current = 0, 0
    for word in re.findall(r"[a-z]+", match[0].casefold().partition(" and a ")[0]):
        if word in _WORD_VALUES:
            current += _WORD_VALUES[word]
        elif word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALE_WORDS:
            total += max(current, 1) * _SCALE_WORDS[word]
            current = 0
        elif word == "dozen":
            current = max(current, 1) * 12
    value = (
        total + current + _PARTS.get((match[3] or "").casefold(), Fraction(3, 4) if match[4] else Fraction(0))
    )
    return fraction_text(-value if match[1] else value)
