"""Where objects may stand in a text, without reading them.

The pattern is linear in the length of the text: answers are whatever a model wrote.
"""

from __future__ import annotations

import re

_CANDIDATE_DEPTH = 16
_TOKENS = re.compile(r'\\.|["{}\[\]\n]', re.DOTALL)
# After its brace an object has a quoted key, a bare one as in JavaScript, or its end; prose and LaTeX have not.
_OBJECT_FOLLOWS = re.compile(r"""\s*(?:["'}]|[A-Za-z_]\w*\s*:)""")


def object_spans(text: str) -> list[tuple[int, int]]:
    """Every ``{…}`` that may be an object of its own, in order of its end.

    Quotes count only inside an object (prose has apostrophes and quotations); a raw line break inside a string is not
    JSON, so it ends whatever was open, and so does a bracket that closes what is not open. What stands inside an object
    is a part of it and no answer by itself; braces of prose or LaTeX around an object do not make it one. Spans nested
    too deep are left out: with at most ``_CANDIDATE_DEPTH`` around any character the work stays linear.
    """
    spans: list[tuple[int, int]] = []
    opened: list[tuple[int, str, int]] = []  # position, bracket, how many enclosing braces are objects
    in_string = False
    for match in _TOKENS.finditer(text):
        token = match[0]
        if in_string:
            if token == '"':
                in_string = False
            elif token == "\n":
                in_string = False
                opened.clear()
        elif token in "{[":
            if token == "{" or opened:
                objects = opened[-1][2] if opened else 0
                objects += token == "{" and _OBJECT_FOLLOWS.match(text, match.end()) is not None
                opened.append((match.start(), token, objects))
        elif token == "}":
            if opened and opened[-1][1] == "[":
                opened.clear()
            elif opened:
                start, _, _ = opened.pop()
                if not (opened and opened[-1][2]) and len(opened) < _CANDIDATE_DEPTH:
                    spans.append((start, match.end()))
        elif token == "]":
            if opened and opened[-1][1] == "[":
                opened.pop()
            elif opened and opened[-1][2]:
                opened.clear()
        elif token == '"' and opened:
            in_string = True
    return spans
