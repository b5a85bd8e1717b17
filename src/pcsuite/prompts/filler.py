"""Shams: texts of the length and layout of another that say nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping


def sham_text(text: str, *, filled: bool = False) -> str:
    """A text of the same length and layout that says nothing: every word is filler of the same length and case.

    White space, punctuation, list marks, headings and tag brackets stay. Numbers and single letters become changing
    ones: filler of solved examples would else show one answer again and again. Placeholders stay too, unless the text
    is ``filled`` with its item already, of which no word may remain.

    >>> sham_text("## Rules\\n- Never guess.\\n")
    '## Dolor\\n- Magna ipsum.\\n'
    """
    counter = 0

    def filler(match: re.Match[str]) -> str:
        nonlocal counter
        word = match.group()
        if word.startswith(("{{", "{%", "{#", "\x1e")):
            return word
        if word.isdigit():
            counter += 1
            return "".join(_DIGITS[(counter + i) % len(_DIGITS)] for i in range(len(word)))
        choices = _FILLER.get(len(word))
        if choices is None:
            replacement = "".join(
                _FILLER[5][(counter + i) % len(_FILLER[5])] for i in range(len(word) // 5 + 1)
            )
            replacement = replacement[: len(word)]
        else:
            replacement = choices[counter % len(choices)]
        counter += 1
        if word.isupper() and len(word) > 1:
            return replacement.upper()
        return replacement.capitalize() if word[0].isupper() else replacement

    return (_WORDS if filled else _WORDS_AND_PLACEHOLDERS).sub(filler, text)


_WORDS = re.compile(r"\x1e\d+:\w+\n|[^\W\d_]+|\d+")
_WORDS_AND_PLACEHOLDERS = re.compile(r"\x1e\d+:\w+\n|\{\{[^{}]*\}\}|\{[%#][^{}]*[%#]\}|[^\W\d_]+|\d+")
_FILLER: Mapping[int, tuple[str, ...]] = {
    1: ("a", "e", "o", "i"),
    2: ("et", "in", "ad", "ut"),
    3: ("sit", "sed", "non", "qui"),
    4: ("amet", "elit", "enim", "quis", "nisi", "ante"),
    5: ("dolor", "magna", "ipsum", "lorem", "culpa", "velit"),
    6: ("tempor", "labore", "aliqua", "mollit", "fugiat", "cillum"),
    7: ("nostrud", "laboris", "commodo", "officia", "aliquip", "ullamco"),
    8: ("pariatur", "deserunt", "voluptas", "sequitur"),
    9: ("consequat", "excepteur", "cupidatat", "voluptate"),
    10: ("incididunt", "adipiscing", "temporibus"),
    11: ("consectetur", "exercitatio"),
}
_DIGITS = "4739152836197254816357924685"
