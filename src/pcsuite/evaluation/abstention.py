"""Recognising an answer that declines to answer."""

from __future__ import annotations

import re

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

    Phrases count only in short texts: a long argument may well mention what is not known and still answer.
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
    """Whether the value of an ``abstained`` field says yes."""
    return value is True or (isinstance(value, str) and value.strip().casefold() in ("true", "yes"))


def last_line(text: str) -> str:
    """Last line with content, where a reasoned answer states its conclusion."""
    return text.rstrip().rpartition("\n")[2]
