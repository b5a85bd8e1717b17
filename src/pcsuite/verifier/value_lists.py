"""Lists of single values (construction layers, tags, readings): which stands for which, and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import canonical_json
from pcsuite.verifier.assignment import best_assignment
from pcsuite.verifier.error_types import FieldVerdict
from pcsuite.verifier.similarity import dice
from pcsuite.verifier.tree import Leaf
from pcsuite.verifier.values import as_float, is_blank, is_number, normalise_text, numbers_match

ElementVerdict = tuple[FieldVerdict, int, Any, Any]
"""Verdict, index (the truth's where it has one), expected and actual value."""


def pair_elements(leaf: Leaf, truth: Sequence[Any], extracted: Sequence[Any]) -> Iterator[ElementVerdict]:
    """Verdicts on two lists of values, by the type of the field.

    Of ``text_set`` and ``number_set`` repeated values count once; a ``number_list`` compares in order.
    """
    if leaf.type == "text_list":
        yield from pair_texts(truth, extracted)
    elif leaf.type == "text_set":
        yield from pair_texts(*({_set_key(one): one for one in side}.values() for side in (truth, extracted)))
    elif leaf.type == "number_list":
        yield from _pair_in_order(leaf, truth, extracted)
    else:
        yield from _pair_numbers(
            leaf, *({_set_key(one): one for one in side}.values() for side in (truth, extracted))
        )


def _set_key(value: Any) -> str:
    return normalise_text(value) if isinstance(value, str) else canonical_json(value)


def _same_number(leaf: Leaf, expected: Any, actual: Any) -> bool:
    return is_number(actual) and numbers_match(
        as_float(expected), as_float(actual), leaf.relative, leaf.absolute, leaf.modulo
    )


def _pair_in_order(leaf: Leaf, truth: Sequence[float], extracted: Sequence[Any]) -> Iterator[ElementVerdict]:
    """Numbers in order: what is missing or added in the middle costs itself alone, not all that comes after it."""
    from rapidfuzz.distance import Levenshtein

    values = [value for value in extracted if not is_blank(value)]
    # Numbers of the extraction that match a number of the truth are written as that number, so that they are equal.
    codes: list[int] = []
    for value in values:
        same = (n for n, expected in enumerate(truth) if _same_number(leaf, expected, value))
        codes.append(next(same, -1 - len(codes)))
    firsts = [next(n for n, other in enumerate(truth) if _same_number(leaf, other, one)) for one in truth]
    codes = [firsts[code] if code >= 0 else code for code in codes]
    differing = [a != b for a, b in zip(firsts, codes, strict=False)]
    if len(firsts) == len(codes) and sum(differing) <= Levenshtein.distance(firsts, codes):
        # Place by place is as short an account as any: two numbers that changed places are two wrong numbers.
        for index, (expected, value) in enumerate(zip(truth, values, strict=True)):
            wrong = "wrong_value" if is_number(value) else "format_error"
            yield wrong if differing[index] else "match", index, expected, value
        return
    for operation in Levenshtein.opcodes(firsts, codes):
        kind, a, b = operation.tag, operation.src_start, operation.src_end
        c, d = operation.dest_start, operation.dest_end
        for offset in range(max(b - a, d - c)):
            left = truth[a + offset] if a + offset < b else None
            right = values[c + offset] if c + offset < d else None
            if kind == "equal":
                yield "match", a + offset, left, right
            elif left is None:
                yield "hallucination", c + offset, None, right
            elif right is None:
                yield "omission", a + offset, left, None
            else:
                yield "wrong_value" if is_number(right) else "format_error", a + offset, left, right


def _pair_numbers(leaf: Leaf, truth: Iterable[float], extracted: Iterable[Any]) -> Iterator[ElementVerdict]:
    """Numbers in any order: equal ones first; what is no number stands for what is left of the truth."""
    expected = list(truth)
    values = [(index, value) for index, value in enumerate(extracted) if not is_blank(value)]
    numbers = [(index, value) for index, value in values if is_number(value)]
    others = [(index, value) for index, value in values if not is_number(value)]
    gains = np.array([[float(_same_number(leaf, one, value)) for _, value in numbers] for one in expected])
    pairs = dict(best_assignment(gains.reshape(len(expected), len(numbers))))
    missed = []
    for row, one in enumerate(expected):
        if row in pairs:
            yield "match", row, one, numbers[pairs[row]][1]
        else:
            missed.append(row)
    for row, (_, value) in zip(missed, others, strict=False):
        yield "format_error", row, expected[row], value
    mistyped = min(len(missed), len(others))
    yield from (("omission", row, expected[row], None) for row in missed[mistyped:])
    used = set(pairs.values())
    surplus = [entry for column, entry in enumerate(numbers) if column not in used]
    yield from (("hallucination", index, None, value) for index, value in (*surplus, *others[mistyped:]))


_GATE = 0.5
"""Texts that share fewer than half their words are not one text misread."""


def pair_texts(truth: Iterable[str], extracted: Iterable[Any]) -> Iterator[ElementVerdict]:
    """Verdicts on two lists of texts (construction layers, say), whatever their order.

    Yields ``(verdict, index, expected, actual)``, by the truth's index where it has one. Equal texts pair first, then
    texts that share most words (a wrong value), then values that are no text with what is left of the truth (a format
    error); the rest is missing or invented.
    """
    truth, extracted = list(truth), list(extracted)
    waiting: dict[str, list[int]] = {}
    for index, text in enumerate(truth):
        waiting.setdefault(normalise_text(text), []).append(index)
    texts: list[tuple[int, str]] = []
    others: list[tuple[int, Any]] = []
    values = ((index, value) for index, value in enumerate(extracted) if not is_blank(value))
    # By content, so that the order of the list cannot matter.
    for index, value in sorted(values, key=lambda entry: canonical_json(entry[1])):
        if not isinstance(value, str):
            others.append((index, value))
        elif equal := waiting.get(normalise_text(value)):
            equal.pop(0)
        else:
            texts.append((index, value))
    missed = sorted(index for indices in waiting.values() for index in indices)
    unmatched = set(missed)
    yield from (("match", index, text, text) for index, text in enumerate(truth) if index not in unmatched)
    if missed and texts:
        rows = [frozenset(normalise_text(truth[index]).split()) for index in missed]
        columns = [frozenset(normalise_text(text).split()) for _, text in texts]
        overlap = dice(rows, columns)
        pairs = best_assignment(np.where(overlap >= _GATE, overlap, 0.0))
        for row, column in pairs:
            yield "wrong_value", missed[row], truth[missed[row]], texts[column][1]
        missed = [index for row, index in enumerate(missed) if row not in dict(pairs)]
        paired = {column for _, column in pairs}
        texts = [entry for column, entry in enumerate(texts) if column not in paired]
    for index, (_, value) in zip(missed, others, strict=False):
        yield "format_error", index, truth[index], value
    mistyped = min(len(missed), len(others))
    yield from (("omission", index, truth[index], None) for index in missed[mistyped:])
    yield from (("hallucination", index, None, value) for index, value in (*texts, *others[mistyped:]))
