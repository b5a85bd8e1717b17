"""Whether an answer declines: the literal that prompts offer, a stated flag, or a phrase that says so."""

from __future__ import annotations

import re

ABSTENTION = "INSUFFICIENT_INFO"
"""The literal that prompts offer for abstaining, and the canonical answer of every abstention."""

_LITERAL = re.compile(r"\binsufficient[ _-](?:info(?:rmation)?|evidence|context|data)\b", re.IGNORECASE)
_CANNOT = r"(?:cannot|can['’]t|can not)"
# "I cannot tell a lie" says something; "I cannot tell", "… tell which", "… tell from the text" decline.
_NO_OBJECT = (
    r"(?=\W*$|\s*[.,;:!?]|\s+(?:if|whether|which|what|who|when|where|why|how|you|from|for (?:sure|certain)"
    r"|that|this|it|with|without|based|because|since|as|the (?:answer|question|correct|right|exact|label|type)"
    r"|your|an answer|any)\b)"
)
# "It cannot be determined by looking" is an answer about the world; the text in hand is what abstentions speak of.
_FROM_WHAT_IS_GIVEN = (
    r"(?=\W*$|\s*[.,;:!?]|\s+(?:because|since|as|without)\b"
    r"|\s+(?:solely |only |just )?(?:from|with|by|based on|given|using)"
    r"\s+(?:\w+\s+){0,3}?(?:information|info|text|passage|question|context|data|details|problem|input|evidence"
    r"|certainty|statement|claim|sentence|article|above|provided|given)\b)"
)
_SUBJECT = (
    r"(?:^|[.;:!?,]\W{0,3}|\b(?:so|but|and|thus|hence|therefore|that)\W{1,2})(?:(?:it|this|that|which"
    r"|the (?:\w+ ){0,2}(?:answer|number|label|result|value|question|choice|option|total|verdict|claim|truth))"
    r"(?: (?:to|of|for) (?:\w+ ){0,4}\w+)?\s+)?"
)
_PHRASES = re.compile(
    r"\b(?:i (?:do not|don['’]t) know"
    r"|i(?: am|['’]m) (?:not sure|unsure|not certain)"
    rf"|i(?: am|['’]m) (?:unable|not able) to (?:answer|determine|say|tell){_NO_OBJECT}"
    rf"|i {_CANNOT} (?:determine|(?:give|provide) (?:an|any|the) answer)"
    rf"|i {_CANNOT} (?:answer|say|tell){_NO_OBJECT}"
    r"|i (?:do not|don['’]t) have (?:enough |sufficient |that |this |the |any )?"
    r"(?:information|info|evidence|context|an answer)"
    r"|i have no (?:answer|idea|information)"
    r"|(?:i have )?no comment"
    r"|not[ _]enough[ _](?:information|info|evidence|context)"
    rf"|(?:impossible|not possible) to (?:answer|determine|say|tell){_NO_OBJECT}"
    r"|i (?:decline|prefer not) to answer"
    r"|i(?: would|['’]d) rather not (?:answer|say)"
    r"|i (?:(?:choose to|have to|must|will) )?abstain)\b",
    re.IGNORECASE,
)
_UNDETERMINED = re.compile(
    rf"{_SUBJECT}{_CANNOT} be (?:determined|answered|known){_FROM_WHAT_IS_GIVEN}", re.IGNORECASE
)
_WHOLE = re.compile(
    r"(?:unknown|abstain(?:ed)?|unanswerable|n/?a|undetermined|cannot say)\W{0,3}", re.IGNORECASE
)
_OPENING = re.compile(
    rf"\W*(?:sorry\W+)?(?:(?:unable|not able) to|{_CANNOT}) (?:answer|determine|say|tell)\b{_NO_OBJECT}",
    re.IGNORECASE,
)
"""Without "I" these decline only at the beginning: "dogs are unable to tell red from green" answers."""
_PHRASING_LENGTH = 300


def text_abstains(text: str) -> bool:
    """Whether a short answer text declines: the literal, a word such as "unknown" alone, or a phrase.

    Phrases count only in short texts (up to 300 characters): a long argument may well mention what is not known and
    still answer. A phrase with an object of its own answers.

    >>> text_abstains("I don't know."), text_abstains("Dogs are unable to tell red from green.")
    (True, False)
    >>> text_abstains("I cannot tell."), text_abstains("I cannot tell a lie.")
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
        or (" be " in stripped and _UNDETERMINED.search(stripped))
    )


def value_abstains(value: object) -> bool:
    """Whether the value of an answer field declines."""
    return isinstance(value, str) and text_abstains(value)


def stated_abstention(value: object) -> bool | None:
    """What the value of an ``abstained`` field says: true or "yes", false or "no", or ``None`` for neither.

    >>> stated_abstention(True), stated_abstention("no"), stated_abstention(None)
    (True, False, None)
    """
    if isinstance(value, bool):
        return value
    word = value.strip().casefold() if isinstance(value, str) else ""
    return True if word in ("true", "yes") else False if word in ("false", "no") else None
