"""What a model's own log probabilities say about its answer: perplexity, and the probability of the chosen label.

Servers that give them give one number a token. The probability of a label is the product over the tokens it is written
with, given all before them: a confidence that the model did not have to state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

PERPLEXITY, LABEL_PROBABILITY = "answer_perplexity", "label_probability"
"""Names of the two metrics."""
_LONGEST_LABEL = 200
"""Characters from which on an answer is a text rather than a label."""


def perplexity(logprobs: Sequence[tuple[str, float]]) -> float | None:
    """exp of the mean negative log probability of an answer's tokens, from 1 (certain) up; ``None`` without tokens.

    >>> round(perplexity([("Par", math.log(0.5)), ("is", math.log(0.5))]), 6)
    2.0
    """
    if not logprobs:
        return None
    mean = -sum(value for _, value in logprobs) / len(logprobs)
    return math.exp(min(mean, 700.0))  # beyond that there is no float


def label_probability(
    logprobs: Sequence[tuple[str, float]], answer: str | None, fields: Mapping[str, Any]
) -> float | None:
    """The probability of the chosen label: of the tokens with which ``answer`` stands in the text, 0..1.

    In JSON that is the value of the field that holds the answer (``fields`` are those that were read), elsewhere the
    last place where it stands as a word of its own. ``None`` where it cannot be found, or is too long to be a label.

    >>> round(label_probability([('{"label": "', -0.0), ("Wor", math.log(0.5)), ("ld", 0.0), ('"}', 0.0)], "world",
    ...       {"label": "World"}), 6)
    0.5
    """
    if not answer or len(answer) > _LONGEST_LABEL:
        return None
    text = "".join(token for token, _ in logprobs)
    span = answer_span(text, answer, fields)
    if span is None:
        return None
    begin, end = span
    at, total = 0, 0.0
    for token, value in logprobs:
        if at < end and at + len(token) > begin:
            total += value
        at += len(token)
    return math.exp(total)


def answer_span(text: str, answer: str, fields: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where the answer stands in the text: as the value of its field, else as the last such word; ``None`` if nowhere.

    >>> answer_span("Not 3 but 12.", "12", {})
    (10, 12)
    """
    for name, value in fields.items():
        if (
            isinstance(value, (str, int, float))
            and str(value).strip().casefold() == answer.strip().casefold()
        ):
            written = re.search(rf'"{re.escape(name)}"\s*:\s*"?({re.escape(str(value))})', text)
            if written is not None:
                return written.span(1)
    word = re.escape(answer.strip())
    matches = list(re.finditer(rf"(?<!\w){word}(?!\w)", text, re.IGNORECASE))
    return matches[-1].span() if matches else None
