"""What an answer marks as its answer: ``####``, "Final answer:", ``\\boxed{…}``, tags, lines that name a field, bold.

Every pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from pcsuite.evaluation.claims import FINAL, MARKED, POINTED, Mention

_HASH = re.compile(r"####[ \t]*")
_NOUN = (
    r"answer|result|r[ée]ponse|r[ée]sultat|respuesta|resultado|resposta|risposta|risultato|antwort|ergebnis"
    r"|antwoord"
    r"|ответ|відповідь|odpowied[źz]|cevap|yan[ıi]t|svar|vastaus"
)
_ADJECTIVE = (
    r"final|correct|right|best|true|most likely|corrected|revised|richtige|endgültige|korrekte|bonne|finale"
    r"|correcte"
    r"|correcta|final|correta|corretta|juiste|окончательный|правильный|poprawna|prawidłowa|doğru"
)
_IS = (
    r"is|would be|must be|should be|will be|comes to|equals|ist|lautet|wäre|est|es|é|è|sería|seria|sarebbe|to"
)
_LINE = re.compile(
    r"(?im)^[ \t*_>#|-]{0,16}(?:(?:so|therefore|thus|hence)[ ,]{1,3})?(?:(?:the|my|die|das|la|le|el|a|il|o"
    r"|de|het)[ ]{1,2})?"
    rf"(?P<final>(?:{_ADJECTIVE})[ ]{{1,2}})?(?:(?:{_NOUN}|label|category|verdict|choice"
    rf"|conclusion)(?:[ ]{{1,2}}(?:{_ADJECTIVE}))?|a)"
    rf"(?:[ *_]{{0,4}}[ ]?[:=：|]|[ ]{{1,2}}(?:{_IS})\b[ :]{{0,3}}"
    rf"|(?<![ ]a)[ *_]{{0,4}}(?=\n))[ \t*_]{{0,4}}(?:\n[ \t]{{0,4}})?"
)
_WITHIN = re.compile(
    rf"\b(?:the|my|die|das|la|le|el|a|il|o|de|het) (?P<final>(?:{_ADJECTIVE}) )?(?:{_NOUN}|choice|option"
    rf"|label|category|verdict|class|desk|topic)"
    rf"(?: \([^()\n]{{0,40}}\))?(?: (?:{_ADJECTIVE}|here|then|to this"
    rf"|to the question))?,? (?:\w+ )?(?:{_IS})\b[ :]{{0,3}}",
    re.IGNORECASE,
)
_SCRIPT = re.compile(
    r"(?P<final>最终|最終)?"
    r"(?:答案|答え|回答|正解|정답|답변|답|الإجابة|الجواب|उत्तर|जवाब)[ ]?(?:[^\s\w]?(?:是|为|為|は|은|는|هي|هو"
    r"|है))?[ :：]{0,3}"
)
_BOX = re.compile(r"\\(?:boxed|fbox)[ ]{0,2}\{")
_TAG = re.compile(r"<(answer|final_answer|final)>|<\|begin_of_box\|>", re.IGNORECASE)
_TAG_END = re.compile(r"</(?:answer|final_answer|final)>|<\|end_of_box\|>", re.IGNORECASE)
_LONGEST = 40_000
_LONGEST_BOX = 200
_LONGEST_LINE = 2_000
BOLD = re.compile(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__")
"""What stands in bold on one line."""

HASH_MARK, ANSWER_MARK, BOX_MARK = "####", "answer", "box"


class Mark(NamedTuple):
    """Something marked as the answer: which way, and from where to where; ``final`` where it is called so."""

    kind: str
    start: int
    end: int
    final: bool = False


def marks_of(text: str, fields: tuple[str, ...] = ()) -> list[Mark]:
    """Every mark of a text in order; ``fields`` are names of which a line ``name: value`` is one.

    >>> [text[mark.start : mark.end] for text in ["so\\n#### 7"] for mark in marks_of(text)]
    ['7']
    """
    marks = []
    if "####" in text:
        marks += [
            Mark(HASH_MARK, match.end(), _line_end(text, match.end())) for match in _HASH.finditer(text)
        ]
    for pattern in (_LINE, _WITHIN) if text.isascii() else (_LINE, _WITHIN, _SCRIPT):
        for match in pattern.finditer(text):
            final = "final" in (match["final"] or "").casefold() or "最" in (match["final"] or "")
            marks.append(Mark(ANSWER_MARK, match.end(), _line_end(text, match.end()), final))
    if fields:
        for match in _field_pattern(fields).finditer(text):
            marks.append(
                Mark(ANSWER_MARK, match.end(), _line_end(text, match.end()), "final" in match[0].casefold())
            )
    if "\\boxed" in text or "\\fbox" in text:
        marks += [Mark(BOX_MARK, match.end(), _box_end(text, match.end())) for match in _BOX.finditer(text)]
    if "<" in text:
        for match in _TAG.finditer(text):
            end = _TAG_END.search(text, match.end())
            marks.append(Mark(ANSWER_MARK, match.end(), end.start() if end else len(text), final=True))
    return sorted(set(marks), key=lambda mark: (mark.start, mark.end))


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start, start + _LONGEST_LINE)
    return min(len(text), start + _LONGEST_LINE) if end < 0 else end


def _box_end(text: str, start: int) -> int:
    """Where a box closes, nested braces included; at its start where it does not close soon."""
    depth = 1
    for position in range(start, min(len(text), start + _LONGEST_BOX)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position
    return start


@lru_cache(maxsize=64)
def _field_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name).replace("_", "[ _]") for name in names)
    return re.compile(
        rf"(?im)^[ \t*_>|-]{{0,8}}(?:final |predicted "
        rf"|the )?(?:{alternatives})[*_ ]{{0,4}}[:=：][ \t*_\"']{{0,4}}"
    )


def marked_answer(text: str) -> str | None:
    """Text after the last ``####``, else in the last answer tag or behind the last answer mark; ``None`` without one.

    >>> marked_answer("Let me think.\\nFinal answer: blue")
    'blue'
    """
    text = text[-_LONGEST:]
    marks = [(mark, text[mark.start : mark.end].strip()) for mark in marks_of(text) if mark.kind != BOX_MARK]
    for kind in (HASH_MARK, ANSWER_MARK):
        payload = next((payload for mark, payload in reversed(marks) if mark.kind == kind and payload), None)
        if payload is not None:
            return payload
    return None


def field_line(text: str, names: Collection[str]) -> str | None:
    """What a line ``name: value`` gives for one of the answer's fields, without quotes and commas; the last counts.

    >>> field_line("Label: Sports\\nConfidence: 0.9", ["label"])
    'Sports'
    """
    values = [
        text[match.end() : _line_end(text, match.end())]
        for match in _field_pattern(tuple(names)).finditer(text)
    ]
    values = [value for value in values if value]
    return values[-1][:300].strip(" \t*_\"',.}") or None if values else None


_POINTS = re.compile(
    r"(?:\b(?:is|are|be|as|to|under|into|about|namely|meant|mean|say|choose|chose|pick|select|label|category"
    r"|class|topic|verdict|option|choice|letter|go with"
    r"|means|likely|probably|certainly|clearly|so|therefore|hence|thus|ist|est|es|è|é|becomes|remains"
    r"|fits|label+ed|classified|categori[sz]ed|tagged|filed)[:,]?|[:=→>]|->)"
    r"(?: (?:a|an|the|in|clearly|most|likely|probably|best|simply|indeed|definitely|category|label|class"
    r"|option|choice|answer|letter|it|that|this|is|be|of|desk))*"
    r"[\s\"'“‘*`(\[]{0,5}$",
    re.IGNORECASE,
)


_NOUN_FOLLOWS = re.compile(
    r" (?!because|since|as|and|or|but|here|in|not|rather|than|so|with|by|at|on|for|to|throughout|issue"
    r"|question|ticket|category"
    r"|label|class|desk|item|topic|one|problem|request|related|matter|type|answer|if|when|due|based|the|this"
    r"|it|is|was)[a-z]"
)


def weighed(text: str, mentions: Sequence[Mention], fields: tuple[str, ...] = ()) -> list[Mention]:
    """The mentions of a text with the weight that its marks, its emphasis and the words around give them.

    The first one behind a mark is marked; one in bold or quotation marks, alone on its line, at the head of a sentence
    or behind words that point at it ("it is …", "classified as …") is pointed at.
    """
    weights = {mention: mention.weight for mention in mentions}
    for mark in marks_of(text, fields):
        first = next((mention for mention in mentions if mark.start <= mention.start < mark.end), None)
        if first is not None and (mark.kind == HASH_MARK or _is_near(text[mark.start : first.start])):
            weights[first] = max(weights[first], FINAL if mark.final or mark.kind == HASH_MARK else MARKED)
    return [
        mention._replace(weight=POINTED)
        if weights[mention] < POINTED and _is_pointed_at(text, mention)
        else mention._replace(weight=weights[mention])
        for mention in mentions
    ]


def _is_near(between: str) -> bool:
    """Whether what stands between a mark and a mention leaves them together."""
    return len(between) < 60 and not re.search(r"[.!?;]\s", between)


def _is_pointed_at(text: str, mention: Mention) -> bool:
    before, after = text[max(0, mention.start - 60) : mention.start], text[mention.end : mention.end + 6]
    opens, closes = before[-1:], after[:1]
    if (opens in "\"'“‘`(" and closes in "\"'”’`)" and opens and closes) or (
        before.endswith("**") and "**" in after
    ):
        return True
    if before.rstrip().endswith("|") and text[mention.end :].lstrip("*_` ").startswith("|"):
        return True
    head = before.rstrip("*_ \"'`>#-([")
    if not head or head[-1] in "\n.!?:;":
        # At the head of a sentence it is pointed at where it is set off.
        return not after or bool(re.match(r"[*_\"'`)\]]{0,4}\s*(?:$|[.,:;!)\n—–(-])", after))
    if text[mention.start : mention.end].islower() and _NOUN_FOLLOWS.match(text, mention.end):
        return False  # "a positive side", "the billing address": a word of a phrase
    return _POINTS.search(before) is not None
