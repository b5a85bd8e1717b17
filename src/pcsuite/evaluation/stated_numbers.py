"""The number an answer states: marks, equations, retractions, denials, bounds, ranges, and what a sentence is about.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from pcsuite.evaluation.claims import REFUSAL, RETRACTION
from pcsuite.evaluation.marks import ANSWER_MARK, BOLD, BOX_MARK, HASH_MARK, Mark, marks_of
from pcsuite.evaluation.numerals import (
    MINUS,
    NUMERAL,
    plain_digits,
    plain_notation,
    value_of,
)

_LEADING_MARKUP = "*_`\"'“”($€£¥₹\\[{:= \t"
_HEDGE = re.compile(
    r"(?:exactly|about|approximately|approx\.?|around|roughly|nearly|almost|only|just|simply|equal to"
    r"|a total of|most likely"
    r"|probably|likely|clearly|definitely|certainly|indeed|therefore|thus|now|actually|precisely|still"
    r"|in fact|also|then"
    r"|NUMBER|USD|EUR|[a-z] ?=|[≈~])[ ,]{0,2}",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"(?:definitely |certainly |clearly )?(?:not|never|neither|no longer)\b", re.IGNORECASE)
_CORRECTION = re.compile(
    r"\b(?:but|rather|instead|actually|it is|it['’]s|correct is)\b[ :,]{1,3}", re.IGNORECASE
)
_BOUND_WORDS = (
    r"at least|at most|at minimum|at maximum|more than|less than|fewer than|greater than|larger than"
    r"|smaller than|higher than"
    r"|lower than|over|under|up to|no more than|no less than|no fewer than|not more than|not less than|above"
    r"|below|minimum of"
    r"|maximum of|a minimum|a maximum|exceeding|beyond|upwards of|close to|mindestens|höchstens|au moins"
    r"|al menos|anything but"
    r"|anything except|other than"
)
_RANGE = re.compile(
    rf"(?:somewhere |anywhere |any number )?(?:between|from|either"
    rf"|{_BOUND_WORDS})[ ]{{1,2}}[$€£¥₹]?-?\.?[0-9]|[<>≤≥][ =]{{0,2}}[$€£¥₹]?-?\.?[0-9]",
    re.IGNORECASE,
)
# An operation, a range, an alternative or a bound: what stands before it is not the whole answer.
_GOES_ON = re.compile(
    r"[ ]{0,2}(?:%|[A-Za-z]{1,12})?[ ]{0,2}(?:[*×·÷+/−–-]|x(?=[ ]{0,2}[($0-9]))[ ]{0,2}[$€£(]{0,2}\.?[0-9]"
    r"|(?: [A-Za-z]{1,12})?[ ]{1,2}(?:or|to|and|through)[ ]{1,2}(?:maybe |perhaps |possibly "
    r"|even )?[$€£]?-?\.?[0-9]|:[0-9]"
    r"|\+(?![0-9])|(?: [A-Za-z]{1,12})? (?:or|and) (?:more|less|fewer|higher|lower|greater|above|below|up"
    r"|over|so)\b| at (?:least|most|minimum)\b"
    r"| ?[\[(](?:or|maybe|perhaps)\b| ?[<>≤≥]|(?<=,) [$€£]?-?[0-9]"
)
_EQUALS = re.compile(r"[ ]{0,2}=(?![=>])")
# A run of marks is entered at its head, or behind the full stop of a number: tried from each of its marks, a line of
# dots would take quadratic time.
_SENTENCE_END = re.compile(
    r"(?:(?<![0-9.!?;…])|(?<=[0-9][.!?;…]))[.!?;…]+[ \"'”’)*_]+(?=[^\s0-9a-z])"
    r"|(?<=[0-9])[.!?;…]+[ \"'”’)*_]*[ \"'”’)](?=[A-Z*_])|\n"
)

_LONGEST = 40_000
_DIGIT = re.compile("[0-9]")
_MOST_FAINT_CUES = 40
"""Words such as "wait" for each of which what follows is searched for marks; behind so many of them nothing does."""
_MOST_CORRECTIONS = 20
"""Corrections in a row ("not 3 but …") that are followed; what goes on longer states nothing."""
_QUICK = re.compile(r"[ \t]*\$?(-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)\.?")
_DOUBT = re.compile(
    r"\b(?:not|n['’]t)(?: \w+)? (?:sure|certain)\b|\bunsure\b|\buncertain\b|\bdon['’]t know\b|\b(?:might|may"
    r"|could)(?: \w+)? be\b|\bmaybe\b|\bperhaps\b"
    r"|\bpossibly\b|\bwhether\b|\bit depends\b|\b(?:cannot|can['’]t|unable to"
    r"|impossible to) (?:\w+ )?(?:tell|say|determine|decide|know|work)"
    r"|\bjust (?:a guess|guessing)|\bif\b(?=.{0,200}\bwould\b)|\bwould\b(?=.{0,80}\bif\b)|\bvielleicht\b"
    r"|\bpeut-être\b",
    re.IGNORECASE,
)
_HEADLINE = re.compile(
    r"[\W_]{0,6}[-−]?[$€£¥₹]?[-−]?[0-9][0-9,./ ]*(?:[ ]?%|(?:[ ][^\W\d_]{1,14}){1,3})?[.!*_` ]{0,6}"
)
_NOT_A_CLAIM = re.compile(
    r"[\W_]*(?:check|double-check|verify|verification|proof|sanity|note|hope|let me know|feel free|if you"
    r"|would you|source|given|step)\b",
    re.IGNORECASE,
)
_NO_QUANTITY_BEFORE = re.compile(
    r"(?:\b(?:step|part|option|question|problem|example|case|day|no\.|section|chapter|page|version|figure"
    r"|table|line|item|grade)[ ]?|#|\bv\.? ?)$|[A-Za-zÀ-ɏ][-_]?$",
    re.IGNORECASE,
)
_NO_QUANTITY_AFTER = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:(?:any|every|all)\w*(?: \w+)? but|not|never|nor|neither|\w+n['’]t|cannot|instead of"
    r"|rather than|except|other than|anything but"
    r"|unlike|than)\b"
    r"(?: be| equal to| exactly| to| for| just| only| the answer| a| the)*[ *_$€£:]{0,4}|\bit (?:isn['’]t"
    r"|is not|wasn['’]t) [ *_$€£]{0,4})$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"[ *_]{0,4}(?:[A-Za-z]{1,12} )?(?:is|was|would be|seems|can['’]t be|cannot be) ?(?:\w+ )?(?:wrong"
    r"|incorrect|not\b|false|right(?<=be right)|too (?:high|low|much|many|few))",
    re.IGNORECASE,
)
_BOUND_BEFORE = re.compile(
    rf"(?:\b(?:{_BOUND_WORDS})|(?<![-=])[<>≤≥]=?)[ ]{{0,2}}[*_$€£(]{{0,4}}$", re.IGNORECASE
)
_JOINED_BEFORE = re.compile(
    r"(?:\bbetween [$€£]?-?[0-9][0-9,.]*(?: \w+)? and|[0-9][%$€£]?(?: [A-Za-z]{1,12})? \(?(?:or|to|and)"
    r"|[0-9]%? ?[–—-]|[0-9] ?[*×·÷+/−]|[0-9] x|[0-9]:|\beither)[ ]?[*_$€£(]{0,4}$",
    re.IGNORECASE,
)
_ADJUNCT_BEFORE = re.compile(
    r"\b(?:for|in|per|from|of|after|with|at|each|every|by|over|during|across|among|than|on|within|before"
    r"|until|since|using|given|out of|to (?:buy|get|make|drive|reach|cover|fill))"
    r"(?: (?:the|all|these|those|her|his|their|its|my|our|a|only|just|other|remaining|about|first|last"
    r"|total))*[ ]?[*_$€£(]{0,4}$",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(
    r"[,;:]? (?:because|since|as|given that|so that|which is|i\.e\.)\b|: |[(\[]|, (?:where|while|with)\b",
    re.IGNORECASE,
)
_TRUTHFUL_END = "?？"


class NumberReading(NamedTuple):
    """The number that an answer states, in its one spelling; where it stands, and how surely it was read."""

    number: str | None
    marked: bool = False
    statement: str = ""
    """The words in which it stands: what is behind the mark, or the sentence."""
    quick: bool = False
    """Whether the answer ends on its mark, so that nothing else in it matters."""
    ambiguous: bool = False
    """Whether the answer names several numbers, hedges, or takes back what it said."""


def read_number(text: str) -> NumberReading:
    """The number an answer ends on.

    ``#### 42`` wins over "Final answer: 42", this over "The answer is 42", all over ``\\boxed{42}``, and marks over
    what stands in bold in the last line that has a number, a number alone on the first line, and the number of the last
    sentence that has one. Of several marks of a kind the last that speaks of a number counts. What was taken back
    before ("Wait, that's wrong") does not. There is no number where it is denied or open ("not 42", "at least 42",
    "40 or 42"), where two kinds of marks disagree, or where the last sentence has several and none is what it is about.

    >>> read_number("The answer is 41. Wait, that's wrong. The answer is 42.").number
    '42'
    >>> read_number("They pay **$64** for 16 glasses.").number, read_number("at least 12").number
    ('64', None)
    """
    end = text.rstrip()
    # Most answers end on their mark, or are nothing but the number.
    start = end.rfind("####") + 4 if "####" in end[-40:] else 0 if len(end) < 25 else -1
    quick = _QUICK.fullmatch(end, start) if start >= 0 else None
    if quick is not None:
        return NumberReading(plain_digits(quick[1].replace(",", "")), start > 0, quick[0], quick=True)
    text = plain_notation(end[-_LONGEST:])
    cues = list(RETRACTION.finditer(text))
    # Any digit makes a numeral: looked for once, and not before and behind each of a thousand "wait"s.
    digit = _DIGIT.search(text) if cues else None
    last = max(map(text.rfind, "0123456789")) if digit is not None else -1
    faint = 0
    for cue in reversed(cues):
        if digit is None or digit.start() >= cue.start():
            break
        before, after = text[: cue.start()], text[cue.end() :]
        if last >= cue.end():
            faint += not cue[1]
            if cue[1] or (faint <= _MOST_FAINT_CUES and _takes_over(before, after)):
                return _read_plain(after)
        if cue[1]:
            return NumberReading(None, False, "", ambiguous=True)
    return _read_plain(text)


def _takes_over(before: str, after: str) -> bool:
    """Whether what follows a faint retraction gives another number: at once, or by a mark."""
    if marks_of(after):
        return True
    numeral = NUMERAL.search(after)
    return numeral is not None and (numeral.start() < 60 or not marks_of(before))


def _read_plain(text: str) -> NumberReading:
    """The number of a text that takes nothing back."""
    marks = marks_of(text)
    if not marks:
        return _unmarked(text)
    finals = [mark for mark in marks if mark.kind == ANSWER_MARK and mark.final]
    answers = [mark for mark in marks if mark.kind == ANSWER_MARK]
    groups = (
        [mark for mark in marks if mark.kind == HASH_MARK],
        finals,
        answers,
        [mark for mark in marks if mark.kind == BOX_MARK],
    )
    for group in groups:
        for mark in reversed(group):
            payload = text[mark.start : mark.end]
            claims, number = _stated(payload)
            if not claims:
                continue
            if _is_doubtful(text, mark):
                return NumberReading(None, True, payload, ambiguous=True)
            if number is not None and _is_contradicted(text, mark, number, marks):
                return NumberReading(None, True, payload, ambiguous=True)
            return NumberReading(number, True, payload, ambiguous=number is None)
        if group and text[group[-1].start : group[-1].end].strip(_LEADING_MARKUP + " .") == "NUMBER":
            return NumberReading(None, True)
    return _unmarked(text)


def _is_doubtful(text: str, mark: Mark) -> bool:
    """Whether the sentence of a mark hedges, sets a condition or asks."""
    start = max(text.rfind(sign, 0, mark.start) for sign in ("\n", ". ", "! ", "? ")) + 1
    sentence = _SENTENCE_END.split(text[mark.start : mark.end], maxsplit=1)[0]
    if sentence.rstrip(" *_\"'").endswith("?"):
        return True
    return _DOUBT.search(text[start : mark.start] + sentence) is not None


def _is_contradicted(text: str, chosen: Mark, number: str, marks: list[Mark]) -> bool:
    """Whether a mark of another kind behind the chosen one gives another number."""
    for mark in marks:
        # A model that goes on with another question writes "A:" too; nothing but a final answer is set against "####".
        if mark.start > chosen.end and mark.kind != chosen.kind and (mark.final or chosen.kind != HASH_MARK):
            claims, other = _stated(text[mark.start : mark.end])
            if claims and other is not None and other != number:
                return True
    return False


def final_number(text: str) -> tuple[str | None, bool]:
    """The number an answer ends on, and whether it was marked as the answer: :func:`read_number` in short.

    >>> final_number("16 - 3 = 13\\n#### 13"), final_number("about 7 or 8")
    (('13', True), (None, False))
    """
    reading = read_number(text)
    return reading.number, reading.marked


def normalise_number(text: str) -> str | None:
    """One spelling of the number a short text states: ``"$1,200.00."`` gives ``"1200"``.

    Thousands separators, currency signs, a trailing full stop and needless zeros go; a fraction becomes its
    decimal value where that is finite, else ``"p/q"``; "1.2 million" is 1200000; of an equation the last side counts.
    ``None`` where the text does not start with a number, or gives a bound, a range, alternatives or an unfinished sum.

    >>> normalise_number("$1,200.00."), normalise_number("3/8"), normalise_number("none")
    ('1200', '0.375', None)
    >>> normalise_number("6 * 7 = 42"), normalise_number("40 or 42")
    ('42', None)
    """
    quick = _QUICK.fullmatch(text)
    if quick is not None:
        return plain_digits(quick[1].replace(",", ""))
    return _stated(plain_notation(text))[1]


def number_of(value: object) -> str | None:
    """Normalised number of a JSON value: a number, or a text that starts with one; ``None`` for anything else.

    >>> number_of(42.0), number_of("42 apples"), number_of(True)
    ('42', '42', None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return plain_digits(format(Decimal(repr(value)), "f"))
        except (ArithmeticError, ValueError):
            return None
    if not isinstance(value, str):
        return None
    return _short_number(value) if len(value) <= _SHORT else normalise_number(value)


# An item's gold number is read again for each of its answers, and an answer's own number for its canonical form.
_SHORT = 40
_short_number = lru_cache(maxsize=4096)(normalise_number)


def last_line(text: str) -> str:
    """Last line with content, where a reasoned answer states its conclusion.

    >>> last_line("2 + 2\\nis 4\\n\\n")
    'is 4'
    """
    return text.rstrip().rpartition("\n")[2]


def _stated(text: str) -> tuple[bool, str | None]:
    """Whether a text in plain notation speaks of a number first of all, and which: none where it is denied or open."""
    denied = False
    for _ in range(_MOST_CORRECTIONS):
        bare, rest = _without_hedges(text)
        if not _DENIAL.match(bare):
            claims, number = _stated_first(bare, rest)
            return denied or claims, number
        denied = True
        correction = _CORRECTION.search(bare)
        if correction is None:
            break
        text = bare[correction.end() :]
    return True, None


def _without_hedges(text: str) -> tuple[str, str]:
    """A text without markup and hedges before what it says, and the same with the last markup left."""
    rest = text.lstrip()
    for _ in range(3):
        start = len(rest) - len(rest.lstrip(_LEADING_MARKUP))
        hedge = _HEDGE.match(rest, start)
        if hedge is None:
            break
        rest = rest[hedge.end() :]
    return rest.lstrip(_LEADING_MARKUP), rest


def _stated_first(bare: str, rest: str) -> tuple[bool, str | None]:
    """As :func:`_stated`, of a text that neither hedges nor denies before it comes to the number."""
    if _RANGE.match(bare):
        return True, None
    skipped = len(rest) - len(rest.lstrip(_LEADING_MARKUP + MINUS))
    match = NUMERAL.match(rest, skipped)
    if match is None or skipped > 24:
        return False, None
    value, end = value_of(rest, match)
    if _DENIED_AFTER.match(rest, end):
        return True, None
    if _EQUALS.match(rest, end) or _GOES_ON.match(rest, end):
        sentence = _SENTENCE_END.split(rest, maxsplit=1)[0]
        result = _result(sentence)
        return True, result if result is not None else value if _EQUALS.match(rest, end) else None
    return True, value


def _result(sentence: str) -> str | None:
    """The last side of an equation that is one number."""
    for side in reversed(sentence.split("=")[1:]):
        number = _single(side)
        if number is not None:
            return number
    return None


def _single(side: str) -> str | None:
    """The number of one side of an equation, or ``None`` where it is an expression or no number."""
    skipped = len(side) - len(side.lstrip(_LEADING_MARKUP + MINUS))
    match = NUMERAL.match(side, skipped)
    if match is None:
        return None
    value, end = value_of(side, match)
    return None if _GOES_ON.match(side, end) else value


def _unmarked(text: str) -> NumberReading:
    """The number of a text without marks: of its first line alone, of its last line in bold, of its last sentence."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and _HEADLINE.fullmatch(lines[0]) and re.search(r"[^\W\d_]{3}", lines[1]):
        claims, number = _stated(lines[0].lstrip("#>- \t"))
        if claims and number is not None:
            return NumberReading(number, False, lines[0])
    numbered = sum(bool(_LIST_MARKER.match(line)) for line in lines) > 1
    open_sentence = ""
    for line in reversed(lines):
        if not NUMERAL.search(line) or _NOT_A_CLAIM.match(line):
            continue
        statement = _LIST_MARKER.sub("", line, count=1) if numbered else line
        bold = _bold_number(statement)
        if bold is not None:
            return NumberReading(bold, False, statement)
        for sentence in reversed(_sentences(statement)):
            if not NUMERAL.search(sentence) or _NOT_A_CLAIM.match(sentence):
                continue
            if sentence.rstrip(" *_\"')").endswith(tuple(_TRUTHFUL_END)):
                open_sentence = sentence
                continue
            if REFUSAL.search(sentence):
                return NumberReading(None)
            if _DOUBT.search(sentence):
                return NumberReading(None, False, sentence, ambiguous=True)
            candidates, several = _quantities(sentence)
            if candidates is None:
                continue
            number = candidates.pop() if len(candidates) == 1 else None
            return NumberReading(number, False, sentence, ambiguous=several)
    return NumberReading(None, False, open_sentence, ambiguous=bool(open_sentence))


_LIST_MARKER = re.compile(r"[ \t*_]{0,6}[0-9]{1,2}[.)][ \t*_]{1,4}(?=\S)")
_OPTION = re.compile(r"(?i)[ \t]*(?:step|part|day|case|option)\b")


def _sentences(line: str) -> list[str]:
    """The sentences of a line, each with its mark."""
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(line):
        sentences.append(line[start : end.end()])
        start = end.end()
    return [*sentences, line[start:]]


def _before(text: str, end: int, most: int = 120) -> str:
    """What stands right before an index: searched anew for each numeral, all of it would take quadratic time."""
    return text[max(0, end - most) : end]


def _bold_number(line: str) -> str | None:
    """The one number that a line has in bold, ``None`` without one or with several."""
    if "**" not in line and "__" not in line:
        return None
    if _DOUBT.search(line) or line.rstrip(" *_").endswith("?"):
        return None
    values = set()
    for match in BOLD.finditer(line):
        content = (match[1] or match[2]).strip()
        before = _before(line, match.start())
        if _OPTION.match(content) or _DENIED_BEFORE.search(before) or _BOUND_BEFORE.search(before):
            continue
        claims, number = _stated(content.rpartition(":")[2] or content)
        if not claims:
            quantities, _ = _quantities(content)
            number = quantities.pop() if quantities and len(quantities) == 1 else None
            claims = number is not None
        if claims:
            values.add(number)
    return values.pop() if len(values) == 1 else None


def _quantities(sentence: str) -> tuple[set[str] | None, bool]:
    """What a sentence may state: ``None`` for no quantity, else the values that stand, and whether they are open.

    Denied values, bounds and ranges do not stand; of an equation the result does. Of several the one that is no
    part of an adjunct ("for 16 glasses") or of an explanation stands.
    """
    matches = _numerals(sentence)
    if not matches:
        return None, False
    if not _DENIED_BEFORE.search(sentence[: matches[0].start()]):
        result = None
        sides = _RESULT_VERB.split(sentence) if len(matches) > 1 else []
        if len(sides) > 1 and NUMERAL.search(sides[-1]) and not _DENIED_BEFORE.search(sides[-2] + " "):
            result = _single(_SUBJECT.sub("", sides[-1], count=1))  # "12 plus 30 makes 42", "…, so it is 42"
        if result is None and _EQUALS.search(sentence):
            result = _result(sentence)
        if result is not None:
            return {result}, False
    values: list[tuple[int, str]] = []
    unsettled = False
    for match in matches:
        before = _before(sentence, match.start(), 60).rstrip(MINUS)
        value, end = value_of(sentence, match)
        if value is None or _DENIED_BEFORE.search(before) or _DENIED_AFTER.match(sentence, end):
            continue
        if (
            _BOUND_BEFORE.search(before)
            or _JOINED_BEFORE.search(_before(sentence, match.start(), 60))
            or _GOES_ON.match(sentence, end)
        ):
            unsettled = True
            continue
        values.append((match.start(), value))
    if len({value for _, value in values}) > 1:
        values = _without_adjuncts(sentence, values)
    distinct = {value for _, value in values}
    if len(distinct) > 1:
        return set(), True
    return distinct, unsettled and not distinct


_RESULT_VERB = re.compile(
    r"\b(?:so|therefore|thus|hence|earning|making|leaving|giving|totall?ing|yielding|resulting in|bringing in"
    r"|makes|gives(?: us)?|equals|yields|totals|comes to|adds up to|amounts to|(?:for |is |are |makes "
    r"|gives )?a (?:grand )?total of"
    r"|altogether|in total,?)\b[: ]{0,2}",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"(?<![ ,])[ ,]*(?:it|that|this|the \w+|she|he|they)(?: is| are|['’]s| has| have| pays?| makes?)+ ",
    re.IGNORECASE,
)
_OPENS_WITH_ADJUNCT = re.compile(
    r"\W{0,4}(?:with|if|since|because|after|given|as|for|in|when|by|at|of|out of|adding|using|starting|while"
    r"|although)\b[^,]{1,160}, ",
    re.IGNORECASE,
)
_AGE = re.compile(r"[0-9]+, ")
_PART_OF_IT = re.compile(r"(?: [A-Za-z]{1,12})? of (?:them|these|those|which|whom|it)\b")


def _without_adjuncts(sentence: str, values: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The values that a sentence is about, where the others belong to adjuncts and explanations."""
    opening = _OPENS_WITH_ADJUNCT.match(sentence)
    if opening is not None and any(start >= opening.end() for start, _ in values):
        values = [(start, value) for start, value in values if start >= opening.end()]
    for start, _ in values[1:]:
        numeral = NUMERAL.match(sentence, start)
        if numeral is not None and _PART_OF_IT.match(sentence, numeral.end()):
            values = [pair for pair in values if pair[0] < start]  # "42 in all, 12 of them red and 30 blue"
            break
    explained = _EXPLAINS.search(sentence, values[0][0])
    cut = explained.start() if explained is not None else len(sentence)
    main = [(start, value) for start, value in values if start < cut]
    if len({value for _, value in main}) == 1:
        return main
    core = [
        pair
        for pair in main
        if not _ADJUNCT_BEFORE.search(_before(sentence, pair[0], 60))
        and not (sentence.endswith(", ", 0, pair[0]) and _AGE.match(sentence, pair[0]))
    ]
    return core or main


def _numerals(sentence: str) -> list[re.Match[str]]:
    """The numerals that stand for quantities: no ordinals, no parts of names, no denominators by themselves."""
    kept: list[re.Match[str]] = []
    end = -1
    for match in NUMERAL.finditer(sentence):
        if match.start() < end:
            continue
        before = _before(sentence, match.start(), 24)
        if _NO_QUANTITY_BEFORE.search(before) or _NO_QUANTITY_AFTER.match(sentence, match.end()):
            continue
        kept.append(match)
        end = value_of(sentence, match)[1]
    return kept
