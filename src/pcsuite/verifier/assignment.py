"""Optimal one-to-one assignment: which rows take which columns so that the total gain is largest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

OWN_CELLS = 4_096
"""Up to this many cells our own algorithm answers even where scipy is there, so that small lists pair alike."""


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
    gains_something = best > 0
    chosen = best_column[gains_something]
    if len(np.unique(chosen)) != len(chosen):
        return None
    if ((gains == best[:, None]).sum(axis=1)[gains_something] > 1).any():
        return None
    return [(int(row), int(best_column[row])) for row in np.flatnonzero(gains_something)]


def best_assignment(gains: Matrix) -> list[tuple[int, int]]:
    """Pairs ``(row, column)`` of largest total gain, by row; pairs without gain are left out.

    Small matrices are solved here, large ones by ``scipy.optimize.linear_sum_assignment`` where scipy is installed.
    Without it they are solved here as well, to the same total, though more slowly.
    """
    if gains.size == 0:
        return []
    if gains.size > OWN_CELLS:
        try:
            from scipy.optimize import linear_sum_assignment
        except ImportError:
            pass
        else:
            rows, columns = linear_sum_assignment(gains, maximize=True)
            pairs = zip(rows.tolist(), columns.tolist(), strict=True)
            return [pair for pair in pairs if gains[pair] > 0]
    return shortest_augmenting_paths(gains)


def shortest_augmenting_paths(gains: Matrix) -> list[tuple[int, int]]:
    """As :func:`best_assignment`, without scipy.

    Shortest augmenting paths with dual variables (Jonker and Volgenant 1987; Crouse 2016, algorithm 1), one row at a
    time, the scan over columns vectorised: O(n³) at worst.
    """
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
