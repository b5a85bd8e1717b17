"""Which item of an extracted list stands for which item of the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcsuite.verifier.mapping import canonical_json
from pcsuite.verifier.tree import Leaf, ListNode
from pcsuite.verifier.values import Verdict, as_boolean, as_float, is_number, normalise_text

# Best one-to-one assignment between two lists, given the gain of every pair.


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


# Lists of texts (construction layers): paired by best assignment, whatever their order.


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


_CONTENT_FLOOR = 3
"""Fewer fields than this in common say little: the share of agreeing fields is taken of at least three."""
_LOOSE_NAME = 0.9
"""Credit for names equal but for punctuation and blanks ("W-9", "W9")."""
_SLACK = 1e-12

Item = dict[str, Any]


def pair_items(node: ListNode, truth: Sequence[Item], extracted: Sequence[Item]) -> list[tuple[int, int]]:
    """Index pairs ``(truth, extracted)`` of items taken for the same thing, by truth index."""
    gains = _gated(node, truth, extracted)
    plain = unique_best(gains)
    if plain is not None:
        return plain
    # Several assignments may be equally good: choose by content, so that the order of a list cannot matter.
    truth_order = sorted(range(len(truth)), key=lambda index: canonical_json(truth[index]))
    extracted_order = sorted(range(len(extracted)), key=lambda index: canonical_json(extracted[index]))
    pairs = best_assignment(gains[np.ix_(truth_order, extracted_order)])
    return sorted((truth_order[row], extracted_order[column]) for row, column in pairs)


def _gated(node: ListNode, truth: Sequence[Item], extracted: Sequence[Item]) -> Matrix:
    if not truth or not extracted:
        return np.zeros((len(truth), len(extracted)))
    likeness = likeness_matrix(node, truth, extracted)
    return np.where(likeness >= node.pairing.gate - _SLACK, likeness, 0.0)


def likeness_matrix(node: ListNode, truth: Sequence[Item], extracted: Sequence[Item]) -> Matrix:
    """Likeness of every truth item with every extracted item."""
    shape = (len(truth), len(extracted))
    agreeing = np.zeros(shape)
    given = np.zeros(shape)
    numeric = [entry for entry in node.scalars if entry[1].type in ("number", "integer")]
    others = [entry for entry in node.scalars if entry[1].type in ("text", "boolean")]
    for fields, agree in ((numeric, _numbers_agree), (others, _codes_agree)):
        if fields:
            truth_cells = [[_dig(item, keys) for keys, _ in fields] for item in truth]
            other_cells = [[_dig(item, keys) for keys, _ in fields] for item in extracted]
            equal, present = agree([leaf for _, leaf in fields], truth_cells, other_cells)
            agreeing += equal
            given += present
    for keys in node.lists:
        overlap, present = _lists_agree([_dig(i, keys) for i in truth], [_dig(i, keys) for i in extracted])
        agreeing += overlap
        given += present
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


def _present(cells: list[list[Any]]) -> NDArray[np.float64]:
    return np.array([[value is not None for value in row] for row in cells], dtype=float)


def _given(truth_cells: list[list[Any]], other_cells: list[list[Any]]) -> Matrix:
    """How many fields either item of a pair gives: |T ∪ E| = |T| + |E| - |T ∩ E|."""
    left, right = _present(truth_cells), _present(other_cells)
    union: Matrix = left.sum(axis=1)[:, None] + right.sum(axis=1)[None, :] - left @ right.T
    return union


def _numbers_agree(
    leaves: list[Leaf], truth_cells: list[list[Any]], other_cells: list[list[Any]]
) -> tuple[Matrix, Matrix]:
    expected = np.array([[_number(value) for value in row] for row in truth_cells])
    actual = np.array([[_number(value) for value in row] for row in other_cells])
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
    return equal, _given(truth_cells, other_cells)


def _number(value: Any) -> float:
    """The number, or NaN (unequal to everything) for anything else."""
    if not is_number(value):
        return math.nan
    number = as_float(value)
    return number if math.isfinite(number) else math.nan


def _codes_agree(
    leaves: list[Leaf], truth_cells: list[list[Any]], other_cells: list[list[Any]]
) -> tuple[Matrix, Matrix]:
    codes: dict[Any, int] = {}

    def code(value: Any, leaf: Leaf, missing: int) -> int:
        key: Any = None
        if leaf.type == "boolean":
            key = as_boolean(value)
        elif isinstance(value, str):
            key = normalise_text(value)
        return missing if key is None else codes.setdefault(key, len(codes))

    expected = np.array(
        [[code(v, leaf, -1) for v, leaf in zip(row, leaves, strict=True)] for row in truth_cells]
    )
    actual = np.array(
        [[code(v, leaf, -2) for v, leaf in zip(row, leaves, strict=True)] for row in other_cells]
    )
    equal: Matrix = (expected[:, None, :] == actual[None, :, :]).sum(axis=2).astype(float)
    return equal, _given(truth_cells, other_cells)


def _lists_agree(truth_lists: list[Any], other_lists: list[Any]) -> tuple[Matrix, Matrix]:
    """Dice overlap of the names (or texts) in a nested list, as one further field."""
    left = [_names_in(value) for value in truth_lists]
    right = [_names_in(value) for value in other_lists]
    overlap = np.array([[2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0 for b in right] for a in left])
    present = np.array([[bool(a or b) for b in right] for a in left], dtype=float)
    return overlap, present


def _names_in(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in value)
    return frozenset(normalise_text(name) for name in names if isinstance(name, str))


def _same_names(truth: Sequence[Item], extracted: Sequence[Item]) -> Matrix:
    exact_left, exact_right = [[_name(item) for item in side] for side in (truth, extracted)]
    codes: dict[str, int] = {}
    loose: dict[str, int] = {}
    left = np.array([codes.setdefault(name, len(codes)) if name else -1 for name in exact_left])
    right = np.array([codes.setdefault(name, len(codes)) if name else -2 for name in exact_right])
    bare_left = np.array([_loose_code(name, loose, -1) for name in exact_left])
    bare_right = np.array([_loose_code(name, loose, -2) for name in exact_right])
    exact = (left[:, None] == right[None, :]).astype(float)
    nearly = _LOOSE_NAME * (bare_left[:, None] == bare_right[None, :])
    same: Matrix = np.maximum(exact, nearly)
    return same


def _loose_code(name: str, codes: dict[str, int], missing: int) -> int:
    bare = "".join(character for character in name if character.isalnum())
    return codes.setdefault(bare, len(codes)) if bare else missing


def _name(item: Item) -> str:
    """The name to pair by; a name written as a number still says which item is meant."""
    name = item.get("name")
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        return ""
    return normalise_text(str(name))
