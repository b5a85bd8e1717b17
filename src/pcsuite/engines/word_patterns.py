"""Patterns that are written, not read: all words but some, and the formats of strings.

Both are in the syntax of Rust's ``regex``, for engines, and mean decoded text: an engine writes the escapes of JSON
itself, so that no spelling of an excluded word passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_ANY = "(?s:.*)"
_LITERAL = re.compile(r"(?:[\w /:@#%&=,;!~\"'<>-]|\\[-./$^+*?()\[\]{}|\\])*")


def all_words_but(words: Iterable[str], beginnings: Iterable[str] = ()) -> str:
    """A pattern of every text that is none of some words and begins with none of some beginnings (none of them empty).

    >>> print(all_words_but(["a"]))
    ^(?:|[^\\x{61}](?s:.*)|\\x{61}(?:(?s:.)(?s:.*)))$
    """
    root: dict[str, Any] = {}
    for word, closes in [*((word, False) for word in words), *((word, True) for word in beginnings)]:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node["closed" if closes else "ends"] = True
    return f"^{_rest(root) or '(?:)'}$"


def _rest(node: dict[str, Any]) -> str | None:
    """What may follow at a node of the tree of excluded words; ``None`` where nothing may."""
    if "closed" in node:
        return None
    following = sorted(key for key in node if len(key) == 1)
    alternatives = [] if "ends" in node else [""]
    if following:
        # U+0000 is left out beside quote and backslash: derivre 0.3 would add them to such a class again.
        beside = ["\0"] if {'"', "\\"} & {*following} else []
        alternatives.append(f"[^{''.join(map(_escaped, [*following, *beside]))}]{_ANY}")
        for character in following:
            rest = _rest(node[character])
            if rest is not None:
                alternatives.append(_escaped(character) + rest)
    else:
        # Words of which this one is the beginning are not excluded.
        alternatives.append(f"(?s:.){_ANY}")
    return f"(?:{'|'.join(alternatives)})"


def _escaped(character: str) -> str:
    return f"\\x{{{ord(character):02X}}}"


def literal_beginning(pattern: str) -> tuple[str, bool] | None:
    """The text that a pattern asks for at the beginning, and whether it is the whole text; ``None`` for other patterns.

    >>> literal_beginning("^x-"), literal_beginning("^id$"), literal_beginning("x.")
    (('x-', False), ('id', True), None)
    """
    if not pattern.startswith("^"):
        return None
    text = pattern[1:]
    whole = text.endswith("$") and not text.endswith("\\$")
    text = text[:-1] if whole else text
    if not _LITERAL.fullmatch(text):
        return None
    return re.sub(r"\\(.)", r"\1", text), whole


_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP_YEAR = "(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))|(?:(?:0[48]|[2468][048]|[13579][26])00))"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    f"02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?{_OFFSET}"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LETTER = "[A-Za-z0-9]"
_LABEL = f"{_LETTER}(?:[A-Za-z0-9-]{{0,61}}{_LETTER})?"
# None with "--" in the third and fourth place: such labels are encoded, and what they stand for no pattern can judge.
_PLAIN_LABEL = (
    f"(?:{_LETTER}{{1,2}}|{_LETTER}[A-Za-z0-9-]{{1,2}}{_LETTER}|"
    f"{_LETTER}[A-Za-z0-9-](?:{_LETTER}[A-Za-z0-9-]|-{_LETTER})[A-Za-z0-9-]{{0,58}}{_LETTER})"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_HEX = "[0-9a-fA-F]"
_TIMED = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DATED = "[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D"


def _ipv6() -> str:
    """Eight groups, or fewer with one gap; the last two may be written as an IPv4 address."""
    group, last = f"{_HEX}{{1,4}}", rf"(?:{_HEX}{{1,4}}:{_HEX}{{1,4}}|{_BYTE}(?:\.{_BYTE}){{3}})"
    forms = [f"(?:{group}:){{6}}{last}"]
    for before in range(8):
        start = f"{group}(?::{group}){{{before - 1}}}" if before else ""
        after = 7 - before
        ends = [""]
        if after >= 1:
            ends.append(f"{group}(?::{group}){{0,{after - 1}}}")
        if after >= 2:
            ends.append(rf"(?:{group}:){{0,{after - 2}}}{_BYTE}(?:\.{_BYTE}){{3}}")
        forms.append(f"{start}::(?:{'|'.join(ends)})")
    return f"(?:{'|'.join(forms)})"


FORMATS: dict[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}$",
    "duration": f"^P(?:(?:{_DATED})(?:{_TIMED})?|{_TIMED}|[0-9]+W)$",
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
    "ipv4": rf"^{_BYTE}(?:\.{_BYTE}){{3}}$",
    "ipv6": f"^{_ipv6()}$",
    "hostname": rf"^{_PLAIN_LABEL}(?:\.{_PLAIN_LABEL})*$",
    "email": rf"^{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*$",
    "json-pointer": "^(?:/(?:[^~/]|~[01])*)*$",
    "relative-json-pointer": "^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)$",
}
"""Formats that are enforced. Leap seconds, whose day no pattern knows, are not written."""
LONGEST = {"hostname": 253, "email": 254}
"""The longest text of a format, in characters."""
