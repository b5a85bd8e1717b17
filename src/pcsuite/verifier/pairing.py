"""Which item of an extracted list stands for which item of the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcsuite._util.hashing import canonical_json
from pcsuite.verifier.tree import Leaf, ListNode
from pcsuite.verifier.values import Verdict, as_boolean, as_float, is_number, normalise_text

Matrix = NDArray[np.float64]


def unique_best(gains: Matrix) -> list[tuple[int, int]] | None:
    """The best assignment where it is plain to see and the only one, else ``None``.

    If every row with a positive gain has its largest in one column only, and no two rows in the same column, then
    no other assignment reaches the same total: the sum of row maxima bounds every total from above.
    """
    rows, columns = gains.shape
    if rows == 0 or columns == 0:
        return []
    best_column = gains.argmax(axis=1)
    best = gains[np.arange(rows), best_column]
    taken = best > 0
    chosen = best_column[taken]
    if len(np.unique(chosen)) != len(chosen):
        return None
    if ((gains == best[:, None]).sum(axis=1)[taken] > 1).any():
        return None
    return [(int(row), int(best_column[row])) for row in np.flatnonzero(taken)]


def best_assignment(gains: Matrix) -> list[tuple[int, int]]:
    """Pairs ``(row, column)`` of largest total gain; pairs without gain are left out.

    Shortest augmenting paths with dual variables (Jonker and Volgenant 1987; Crouse 2016, algorithm 1), one
    row at a time, the scan over columns vectorised: O(n³) at worst.
    """
    if gains.size == 0:
        return []
    flipped = gains.shape[0] > gains.shape[1]
    costs = -(gains.T if flipped else gains)
    rows, columns = costs.shape
    row_duals = np.zeros(rows)
    column_duals = np.zeros(columns)
    row_of = np.full(columns, -1)
    column_of = np.full(rows, -1)
    for row in range(rows):
        _augment(costs, row, row_duals, column_duals, row_of, column_of)
    pairs = [(row, int(column_of[row])) for row in range(rows)]
    if flipped:
        pairs = [(column, row) for row, column in pairs]
    return sorted((row, column) for row, column in pairs if gains[row, column] > 0)


def _augment(
    costs: Matrix,
    free_row: int,
    row_duals: Matrix,
    column_duals: Matrix,
    row_of: NDArray[Any],
    column_of: NDArray[Any],
) -> None:
    """Assign ``free_row`` along a shortest alternating path; keep the duals feasible."""
    columns = costs.shape[1]
    shortest = np.full(columns, np.inf)
    came_from = np.full(columns, -1)
    scanned = np.zeros(columns, dtype=bool)
    visited_rows = [free_row]
    row, length, sink = free_row, 0.0, -1
    while sink < 0:
        reduced = length + costs[row] - row_duals[row] - column_duals
        closer = ~scanned & (reduced < shortest)
        shortest[closer] = reduced[closer]
        came_from[closer] = row
        open_lengths = np.where(scanned, np.inf, shortest)
        column = int(open_lengths.argmin())
        length = float(open_lengths[column])
        scanned[column] = True
        if row_of[column] < 0:
            sink = column
        else:
            row = int(row_of[column])
            visited_rows.append(row)
    row_duals[free_row] += length
    for visited in visited_rows[1:]:
        row_duals[visited] += length - shortest[column_of[visited]]
    column_duals[scanned] -= length - shortest[scanned]
    column = sink
    while True:
        row = int(came_from[column])
        row_of[column] = row
        column_of[row], column = column, int(column_of[row])
        if row == free_row:
            return


_CONTENT_FLOOR = 3
"""Fewer fields than this in common say little: the share of agreeing fields is taken of at least three."""
_LOOSE_NAME = 0.9
"""Credit for names equal but for punctuation and blanks ("W-9", "W9")."""
_SLACK = 1e-12

Item = dict[str, Any]


def pair_items(node: ListNode, truth: Sequence[Item], extracted: Sequence[Item]) -> list[tuple[int, int]]:
    """Index pairs ``(truth, extracted)`` of items taken for the same thing, by truth index.

    Pairs maximise the total likeness over both lists; none is below the gate of the list's ``pairing``. The order of
    either list does not matter.
    """
    if not truth or not extracted:
        return []
    likeness = likeness_matrix(node, truth, extracted)
    gains = np.where(likeness >= node.pairing.gate - _SLACK, likeness, 0.0)
    plain = unique_best(gains)
    if plain is not None:
        return plain
    # Several assignments may be equally good: choose by content, so that the order of a list cannot matter.
    truth_order = sorted(range(len(truth)), key=lambda index: canonical_json(truth[index]))
    extracted_order = sorted(range(len(extracted)), key=lambda index: canonical_json(extracted[index]))
    pairs = best_assignment(gains[np.ix_(truth_order, extracted_order)])
    return sorted((truth_order[row], extracted_order[column]) for row, column in pairs)


def likeness_matrix(node: ListNode, truth: Sequence[Item], extracted: Sequence[Item]) -> Matrix:
    """Likeness (0..1) of truth items (rows) with extracted ones (columns): agreeing fields and names, weighted."""
    shape = (len(truth), len(extracted))
    agreeing = np.zeros(shape)
    given = np.zeros(shape)
    numeric = [entry for entry in node.scalars if entry[1].type in ("number", "integer")]
    others = [entry for entry in node.scalars if entry[1].type in ("text", "boolean")]
    for fields, agree in ((numeric, _numbers_agree), (others, _codes_agree)):
        if fields:
            cells = [
                [[_dig(item, keys) for keys, _ in fields] for item in side] for side in (truth, extracted)
            ]
            agreeing += agree([leaf for _, leaf in fields], *cells)
            left, right = (np.array([[v is not None for v in row] for row in side], float) for side in cells)
            # Fields that either item of a pair gives: |T ∪ E| = |T| + |E| - |T ∩ E|.
            given += left.sum(axis=1)[:, None] + right.sum(axis=1)[None, :] - left @ right.T
    for keys in node.lists:
        # Dice overlap of the names (or texts) in a nested list, as one further field.
        rows, columns = ([_names_in(_dig(item, keys)) for item in side] for side in (truth, extracted))
        agreeing += _dice(rows, columns)
        given += np.array([[bool(a or b) for b in columns] for a in rows], dtype=float)
    content = agreeing / np.maximum(given, _CONTENT_FLOOR)
    weight = node.pairing.name_weight
    likeness: Matrix = weight * _same_names(truth, extracted) + (1 - weight) * content
    return likeness


def _dig(item: Item, keys: tuple[str, ...]) -> Any:
    value: Any = item
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _numbers_agree(leaves: list[Leaf], truth: list[list[Any]], others: list[list[Any]]) -> Matrix:
    expected = np.array([[_number(value) for value in row] for row in truth])
    actual = np.array([[_number(value) for value in row] for row in others])
    relative = np.array([leaf.relative for leaf in leaves])
    absolute = np.array([leaf.absolute for leaf in leaves])
    size = np.abs(expected)
    allowed = np.maximum(relative * size, absolute) + 1e-9
    difference = np.abs(expected[:, None, :] - actual[None, :, :])
    angles = [index for index, leaf in enumerate(leaves) if leaf.modulo is not None]
    if angles:
        turn = np.array([leaves[index].modulo for index in angles], dtype=float)
        part = np.mod(difference[:, :, angles], turn)
        difference[:, :, angles] = np.minimum(part, turn - part)
    equal: Matrix = (difference <= allowed[:, None, :]).sum(axis=2).astype(float)
    return equal


def _number(value: Any) -> float:
    """The number, or NaN (unequal to everything) for anything else."""
    if not is_number(value):
        return math.nan
    number = as_float(value)
    return number if math.isfinite(number) else math.nan


def _codes_agree(leaves: list[Leaf], truth: list[list[Any]], others: list[list[Any]]) -> Matrix:
    codes: dict[Any, int] = {}

    def code(value: Any, leaf: Leaf, missing: int) -> int:
        key: Any = None
        if leaf.type == "boolean":
            key = as_boolean(value)
        elif isinstance(value, str):
            key = normalise_text(value)
        return missing if key is None else codes.setdefault(key, len(codes))

    expected = np.array([[code(v, leaf, -1) for v, leaf in zip(row, leaves, strict=True)] for row in truth])
    actual = np.array([[code(v, leaf, -2) for v, leaf in zip(row, leaves, strict=True)] for row in others])
    equal: Matrix = (expected[:, None, :] == actual[None, :, :]).sum(axis=2).astype(float)
    return equal


def _dice(rows: Sequence[Set[str]], columns: Sequence[Set[str]]) -> Matrix:
    """Overlap of sets, 0 (also of two empty ones) to 1."""
    return np.array([[2 * len(a & b) / max(1, len(a) + len(b)) for b in columns] for a in rows])


def _names_in(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in value)
    return frozenset(normalise_text(name) for name in names if isinstance(name, str))


def _same_names(truth: Sequence[Item], extracted: Sequence[Item]) -> Matrix:
    """1 for equal names, a little less for names equal but for punctuation, 0 otherwise and for items without one."""

    def name(item: Item) -> str:
        # A name written as a number still says which item is meant.
        given = item.get("name")
        usable = isinstance(given, str | int | float) and not isinstance(given, bool)
        return normalise_text(str(given)) if usable else ""

    def equal(left: list[str], right: list[str]) -> Matrix:
        codes: dict[str, int] = {}
        rows = np.array([codes.setdefault(text, len(codes)) if text else -1 for text in left])
        columns = np.array([codes.setdefault(text, len(codes)) if text else -2 for text in right])
        return np.asarray(rows[:, None] == columns[None, :], dtype=float)

    exact = [[name(item) for item in side] for side in (truth, extracted)]
    loose = [["".join(filter(str.isalnum, text)) for text in side] for side in exact]
    same: Matrix = np.maximum(equal(*exact), _LOOSE_NAME * equal(*loose))
    return same


_GATE = 0.5
"""Texts that share fewer than half their words are not one text misread."""


def pair_texts(truth: Sequence[str], given: Sequence[Any]) -> Iterator[tuple[Verdict, int, Any, Any]]:
    """Verdicts on two lists of texts (construction layers, say), whatever their order.

    Yields ``(verdict, index, expected, actual)``, by the truth's index where it has one. Equal texts pair first, then
    texts that share most words (a wrong value), then values that are no text with what is left of the truth (a format
    error); the rest is missing or invented.
    """
    waiting: dict[str, list[int]] = {}
    for index, text in enumerate(truth):
        waiting.setdefault(normalise_text(text), []).append(index)
    texts: list[tuple[int, str]] = []
    others: list[tuple[int, Any]] = []
    values = ((index, value) for index, value in enumerate(given) if value is not None)
    # By content, so that the order of the list cannot matter.
    for index, value in sorted(values, key=lambda entry: canonical_json(entry[1])):
        if not isinstance(value, str):
            others.append((index, value))
        elif equal := waiting.get(normalise_text(value)):
            equal.pop(0)
        else:
            texts.append((index, value))
    left = sorted(index for indices in waiting.values() for index in indices)
    yield from (("match", index, text, text) for index, text in enumerate(truth) if index not in left)
    if left and texts:
        rows = [set(normalise_text(truth[index]).split()) for index in left]
        columns = [set(normalise_text(text).split()) for _, text in texts]
        dice = _dice(rows, columns)
        pairs = best_assignment(np.where(dice >= _GATE, dice, 0.0))
        for row, column in pairs:
            yield "wrong_value", left[row], truth[left[row]], texts[column][1]
        left = [index for row, index in enumerate(left) if row not in dict(pairs)]
        paired = {column for _, column in pairs}
        texts = [entry for column, entry in enumerate(texts) if column not in paired]
    for index, (_, value) in zip(left, others, strict=False):
        yield "format_error", index, truth[index], value
    mistyped = min(len(left), len(others))
    yield from (("omission", index, truth[index], None) for index in left[mistyped:])
    yield from (("hallucination", index, None, value) for index, value in (*texts, *others[mistyped:]))
