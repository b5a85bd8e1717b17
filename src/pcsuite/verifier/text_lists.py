"""Lists of texts (construction layers): paired by best assignment, whatever their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pcsuite.verifier.assignment import best_assignment
from pcsuite.verifier.mapping import canonical_json
from pcsuite.verifier.values import Verdict, normalise_text

_GATE = 0.5
"""Texts that share fewer than half their words are not one text misread."""


def pair_texts(truth: Sequence[str], given: Sequence[Any]) -> Iterator[tuple[Verdict, int, Any, Any]]:
    """Verdicts on two lists of texts: ``(verdict, index, expected, actual)``, by the truth's index where it has one.

    Equal texts pair first, then texts that share most words (a wrong value), then values that are no text with
    what is left of the truth (a format error); the rest is missing or invented.
    """
    values = [(index, value) for index, value in enumerate(given) if value is not None]
    values.sort(key=lambda entry: canonical_json(entry[1]))
    open_truth, open_values = _take_equal(truth, values)
    yield from (
        ("match", index, truth[index], truth[index]) for index in range(len(truth)) if index not in open_truth
    )
    texts = [entry for entry in open_values if isinstance(entry[1], str)]
    others = [entry for entry in open_values if not isinstance(entry[1], str)]
    for row, column in _alike([truth[index] for index in open_truth], [text for _, text in texts]):
        yield "wrong_value", open_truth[row], truth[open_truth[row]], texts[column][1]
        open_truth[row], texts[column] = -1, (-1, "")
    open_truth = [index for index in open_truth if index >= 0]
    while open_truth and others:
        index = open_truth.pop(0)
        yield "format_error", index, truth[index], others.pop(0)[1]
    yield from (("omission", index, truth[index], None) for index in open_truth)
    for index, value in (*(entry for entry in texts if entry[0] >= 0), *others):
        yield "hallucination", index, None, value


def _take_equal(
    truth: Sequence[str], values: list[tuple[int, Any]]
) -> tuple[list[int], list[tuple[int, Any]]]:
    """What is left after equal texts found each other."""
    waiting: dict[str, list[int]] = {}
    for index, text in enumerate(truth):
        waiting.setdefault(normalise_text(text), []).append(index)
    left: list[tuple[int, Any]] = []
    for entry in values:
        key = normalise_text(entry[1]) if isinstance(entry[1], str) else None
        if key is not None and waiting.get(key):
            waiting[key].pop(0)
        else:
            left.append(entry)
    return sorted(index for indices in waiting.values() for index in indices), left


def _alike(truth: list[str], texts: list[str]) -> list[tuple[int, int]]:
    if not truth or not texts:
        return []
    left = [set(normalise_text(text).split()) for text in truth]
    right = [set(normalise_text(text).split()) for text in texts]
    dice = np.array([[2 * len(a & b) / (len(a) + len(b)) if a and b else 0.0 for b in right] for a in left])
    return best_assignment(np.where(dice >= _GATE, dice, 0.0))
