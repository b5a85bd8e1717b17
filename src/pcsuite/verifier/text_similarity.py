"""How alike two texts are, 0 to 1, by rapidfuzz: one pair, or each of some with each of others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SIGNS = re.compile(r"[^\w]+|_+")
CONTAINED = 0.9
"""What a text counts whose words are all in the other ("Zinc tablets", "Zinc tablets 30 pcs")."""


@lru_cache(maxsize=50_000)
def plain_words(text: str) -> str:
    """A text as similarity sees it: words and numbers, case-folded, without punctuation.

    >>> plain_words("St. Mary's  Hospital")
    'st mary s hospital'
    """
    return _SIGNS.sub(" ", text.casefold()).strip()


def similarity(left: str, right: str) -> float:
    """Similarity of two texts, 0 to 1: that of the characters, or of the words in any order where that is larger.

    >>> round(similarity("Zink tablets", "zinc tablets"), 2), similarity("b a", "a b")
    (0.92, 1.0)
    """
    from rapidfuzz import fuzz

    first, second = plain_words(left), plain_words(right)
    if not first or not second:
        return float(left == right)
    return max(fuzz.ratio(first, second), fuzz.token_sort_ratio(first, second)) / 100


def name_similarity(left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
    """Similarity of names, each of ``left`` (rows) with each of ``right``, 0 to 1.

    As :func:`similarity`, but words that are all in the other name count :data:`CONTAINED` at least; and names whose
    numbers contradict each other ("Line 10", "Line 11") are not alike at all.
    """
    from rapidfuzz import fuzz, process

    rows, columns = [plain_words(one) for one in left], [plain_words(one) for one in right]
    scores = np.maximum(
        process.cdist(rows, columns, scorer=fuzz.ratio, dtype=np.float32),
        process.cdist(rows, columns, scorer=fuzz.token_sort_ratio, dtype=np.float32),
    )
    contained = CONTAINED * process.cdist(rows, columns, scorer=fuzz.token_set_ratio, dtype=np.float32)
    alike: NDArray[np.float64] = np.maximum(scores, contained).astype(np.float64) / 100
    alike *= _numbers_fit(rows, columns)
    empty_rows, empty_columns = ([not one for one in side] for side in (rows, columns))
    alike[empty_rows, :] = 0.0
    alike[:, empty_columns] = 0.0
    return alike


def names_alike(left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
    """As :func:`name_similarity`, of ``left[i]`` with ``right[i]`` for every i."""
    from rapidfuzz import fuzz, process

    if not left:
        return np.zeros(0)
    rows, columns = [plain_words(one) for one in left], [plain_words(one) for one in right]
    ratio, sorted_ratio, contained = (
        process.cpdist(rows, columns, scorer=scorer, dtype=np.float32)
        for scorer in (fuzz.ratio, fuzz.token_sort_ratio, fuzz.token_set_ratio)
    )
    alike = np.maximum(np.maximum(ratio, sorted_ratio), CONTAINED * contained).astype(np.float64) / 100
    numbers = [(_numbers(a), _numbers(b)) for a, b in zip(rows, columns, strict=True)]
    fits = [not a or not b or a <= b or b <= a for a, b in numbers]
    both_named = [bool(a and b) for a, b in zip(rows, columns, strict=True)]
    result: NDArray[np.float64] = np.where(np.array(fits) & np.array(both_named), alike, 0.0)
    return result


def _numbers_fit(rows: Sequence[str], columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether the numbers in two texts can be of one thing: the same, or those of one all in the other."""
    left, right = ([_numbers(one) for one in side] for side in (rows, columns))
    fits = np.ones((len(rows), len(columns)), dtype=bool)
    numbered = [j for j, numbers in enumerate(right) if numbers]
    for i, numbers in enumerate(left):
        if numbers:
            fits[i, numbered] = [numbers <= right[j] or right[j] <= numbers for j in numbered]
    return fits


@lru_cache(maxsize=50_000)
def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


def same_numbers(left: str, right: str) -> bool:
    """Whether two texts have the same numbers in them: 100 mg is not 500 mg, however alike the texts are.

    >>> same_numbers("aspirin 100 mg", "Aspirin, 100mg"), same_numbers("100 mg", "500 mg")
    (True, False)
    """
    return _numbers(left) == _numbers(right)
