"""Solved examples in a text: a question and its answer are one piece, whether or not a blank line parts them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from pcsuite.prompts.pieces import LIKE_A_VARIABLE, Line, Piece, by_paragraphs, lines_of

_ASKING = (
    "user|human|customer|client|question|q|input|ticket|message|e-?mail|review|text|utterance|query|request|sentence|"
    "document|comment|post|transcript|in"
)
_ANSWERING = (
    "assistant|ai|bot|agent|model|answer|a|output|label|response|reply|completion|category|class|classification|"
    "sentiment|queue|result|intent|verdict|json|out"
)
_LABEL = (
    r"[ \t]*(?:[-*•>][ \t]+)?(?:\*\*|__)?(?:example[ \t]+|expected[ \t]+|sample[ \t]+)?(?:{})"
    r"[ \t]*\d*(?:\*\*|__)?[ \t]*:"
)
_QUESTION = re.compile(_LABEL.format(_ASKING), re.I)
_ANSWER = re.compile(_LABEL.format(_ANSWERING), re.I)
_HEADED = re.compile(
    r"[ \t]*(?:#+[ \t]*)?(?:\*\*|__)?example[ \t]*#?\d*(?:\*\*|__)?[ \t]*[:.]?[ \t]*(?:\*\*|__)?[ \t]*$", re.I
)
_ARROW = re.compile(r"\S[ \t]*(?:->|=>|→|⇒)[ \t]*\S")


def with_examples(lines: Sequence[Line]) -> list[Piece]:
    """The paragraphs of a text with each example as one piece; nothing where there are fewer than two examples.

    An example is a question and its answer by their labels (``User:`` and ``Assistant:``, ``Q:`` and ``A:``, …), with
    the line ``Example 1:`` above where there is one, or a line with an arrow among others such.

    >>> [piece.title for piece in with_examples(lines_of("Q: a?\\nA: b\\n\\nQ: c?\\n\\nA: d\\n\\nBye.\\n"))]
    ['example 1', 'example 2', '']
    """
    parts = [part for paragraph in by_paragraphs(lines) for part in _questions(paragraph)]
    pieces: list[Piece] = []
    count = index = 0
    while index < len(parts):
        length = _example_length(parts, index)
        if length:
            count += 1
            text = "".join(part.text for part in parts[index : index + length])
            pieces.append(Piece(text, f"example {count}", "example"))
        else:
            pieces.append(parts[index])
        index += length or 1
    return pieces if count > 1 else []


def _questions(paragraph: Piece) -> list[Piece]:
    """A paragraph parted before each of its questions, and at its lines where these are examples with an arrow."""
    lines = lines_of(paragraph.text)
    if any(fenced for _, fenced in lines):
        return [paragraph]
    worded = [line for line, _ in lines if line.strip()]
    arrows = [bool(_ARROW.search(line)) for line in worded]
    by_arrows = sum(arrows) > 1 and all(arrows[1:])
    starts = [
        index
        for index, (line, _) in enumerate(lines)
        if index
        and line.strip()
        and (
            by_arrows
            or _headed(line)
            or (_QUESTION.match(line) and not (index and _headed(lines[index - 1][0])))
        )
    ]
    if not starts:
        return [paragraph]
    edges = [0, *starts, len(lines)]
    return [
        paragraph._replace(text="".join(line for line, _ in lines[first:last]))
        for first, last in itertools.pairwise(edges)
    ]


def _headed(line: str) -> bool:
    return _HEADED.match(line.rstrip("\r\n")) is not None


def _example_length(parts: Sequence[Piece], index: int) -> int:
    """How many parts the example takes that begins at one of them; 0 where none begins."""
    text = parts[index].text
    if LIKE_A_VARIABLE.search(text):
        return 0
    lines = [line for line, _ in lines_of(text) if line.strip()]
    if len(lines) == 1 and _ARROW.search(lines[0]):
        return 1
    headed, asked = _headed(lines[0]) if lines else False, any(map(_QUESTION.match, lines))
    if not headed and not asked:
        return 0
    length = 1
    while not any(map(_ANSWER.match, lines)):
        if index + length >= len(parts) or length > 3:
            return 0
        after = parts[index + length]
        first = next((line for line, _ in lines_of(after.text) if line.strip()), "")
        expected = _ANSWER.match(first) or (headed and not asked and _QUESTION.match(first))
        if not expected or LIKE_A_VARIABLE.search(after.text):
            return 0
        asked = asked or _QUESTION.match(first) is not None
        lines += [line for line, _ in lines_of(after.text) if line.strip()]
        length += 1
    return length if asked else 0
