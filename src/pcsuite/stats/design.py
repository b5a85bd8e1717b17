"""Design matrices for factors with treatment coding, and the data of a mixed model in compact form."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.stats.estimate import FloatArray, IntArray, as_vector

INTERCEPT = "(Intercept)"


@dataclass(frozen=True)
class FixedDesign:
    """The fixed part of a model: one row per cell (a combination of factor levels), one column per coefficient.

    Factors are treatment coded; the first level of each is its reference. Columns that the observed cells
    cannot tell apart from earlier ones are in ``dropped``, as R does.
    """

    factors: dict[str, tuple[str, ...]]
    terms: tuple[tuple[str, ...], ...]
    full: FloatArray
    full_names: tuple[str, ...]
    kept: tuple[int, ...]
    linked: tuple[dict[str, str], ...] = ()
    """Combinations of linked factors that occur: a family that comes in one size only, a model of its own name."""

    @property
    def matrix(self) -> FloatArray:
        """Rows of the observed cells, without the dropped columns."""
        return self.full[:, list(self.kept)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, ``condition[C1]:size[large]`` for an interaction."""
        return tuple(self.full_names[i] for i in self.kept)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Coefficients that these cells cannot estimate."""
        return tuple(name for i, name in enumerate(self.full_names) if i not in self.kept)

    def full_rows(self, cells: Sequence[Mapping[str, str]]) -> FloatArray:
        """Design rows of any cells, observed or not, with the dropped columns still in.

        >>> design = fixed_design([{"condition": "C0"}, {"condition": "C1"}], ["condition"])
        >>> design.full_rows([{"condition": "C1"}]).tolist()
        [[1.0, 1.0]]
        """
        return _coded_rows(cells, self.factors, self.terms)

    def estimable(self, combinations: FloatArray) -> npt.NDArray[np.bool_]:
        """Which linear combinations of the *full* coefficients the observed cells determine.

        ``combinations`` has one row of weights per combination; a dropped coefficient makes some not estimable.
        """
        residual = combinations - combinations @ self._row_space.T @ self._row_space
        return np.asarray(np.abs(residual).max(axis=1) < 1e-8)

    @cached_property
    def _row_space(self) -> FloatArray:
        """An orthonormal basis of what the observed cells determine; found once, asked for every mean."""
        _, singular, right = np.linalg.svd(np.unique(self.full, axis=0), full_matrices=False)
        return np.asarray(right[singular > singular.max() * 1e-10])


def fixed_design(
    cells: Sequence[Mapping[str, str]],
    terms: Sequence[str],
    *,
    references: Mapping[str, str] | None = None,
    linked: Sequence[str] = (),
) -> FixedDesign:
    """Build the design of ``1 + terms`` for cells given by their factor levels.

    ``terms`` are factor names or interactions, ``"condition:size"``. Levels are sorted; ``references``
    names the level a factor is compared with (default: the first). ``linked`` names factors that describe one thing
    (size, family and name of a model): marginal means average over the combinations of them that occur, not over all
    that could be formed. A linked name that is in the cells but in no term groups them (the class of a size): means
    can be taken by it. Raises ``AnalysisError`` for an unknown factor or reference.

    >>> fixed_design([{"condition": "C0"}, {"condition": "C1"}], ["condition"]).names
    ('(Intercept)', 'condition[C1]')
    """
    if not cells:
        raise AnalysisError("there are no cells to build a design from")
    split = tuple(tuple(part.strip() for part in term.split(":")) for term in terms)
    columns = cells[0].keys()
    factors: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(split)):
        if name not in columns:
            raise AnalysisError(f"unknown factor '{name}' in the model", hint=did_you_mean(name, columns))
        levels = sorted({cell[name] for cell in cells})
        reference = (references or {}).get(name, levels[0])
        if reference not in levels:
            hint = did_you_mean(reference, levels)
            raise AnalysisError(f"reference '{reference}' of {name} does not occur", hint=hint)
        factors[name] = (reference, *(level for level in levels if level != reference))
    names = [
        ":".join(f"{name}[{level}]" for name, level in zip(term, levels, strict=True))
        for term in split
        for levels in itertools.product(*(factors[name][1:] for name in term))
    ]
    full = _coded_rows(cells, factors, split)
    together = [name for name in linked if name in columns]
    occurring = dict.fromkeys(tuple(cell[name] for name in together) for cell in cells)
    combinations = tuple(dict(zip(together, levels, strict=True)) for levels in occurring)
    return FixedDesign(factors, split, full, (INTERCEPT, *names), _independent_columns(full), combinations)


def _coded_rows(
    cells: Sequence[Mapping[str, str]], factors: Mapping[str, tuple[str, ...]], terms: Sequence[Sequence[str]]
) -> FloatArray:
    blocks = [np.ones((len(cells), 1))]
    for term in terms:
        block = np.ones((len(cells), 1))
        for name in term:
            coded = [cell[name] == level for cell in cells for level in factors[name][1:]]
            dummies = np.array(coded, dtype=np.float64).reshape(len(cells), len(factors[name]) - 1)
            block = (block[:, :, None] * dummies[:, None, :]).reshape(len(cells), -1)
        blocks.append(block)
    return np.hstack(blocks)


def _independent_columns(matrix: FloatArray) -> tuple[int, ...]:
    """The columns that are not combinations of earlier ones, by Gram–Schmidt in order."""
    kept: list[int] = []
    basis = np.empty((matrix.shape[0], 0))
    for index in range(matrix.shape[1]):
        column = matrix[:, index]
        residual = column - basis @ (basis.T @ column)
        residual -= basis @ (basis.T @ residual)
        length = float(np.linalg.norm(residual))
        if length > 1e-9 * max(1.0, float(np.linalg.norm(column))):
            basis = np.column_stack([basis, residual / length])
            kept.append(index)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class CellTotals:
    """Sufficient statistics of rows grouped by item and cell: count, sum and sum of squares of the score.

    ``GROUP BY item, cell`` in a database gives the same. ``item`` and ``cell`` are codes from 0.
    """

    item: IntArray
    cell: IntArray
    count: FloatArray
    total: FloatArray
    squares: FloatArray

    @property
    def rows(self) -> int:
        """Number of scored rows behind the totals."""
        return int(self.count.sum())


def cell_totals(items: ArrayLike, cells: ArrayLike, scores: ArrayLike) -> CellTotals:
    """Group rows by item and cell; ``cells`` are codes of cells from 0, ``items`` any labels.

    Raises ``AnalysisError`` where the three do not pair row by row.

    >>> cell_totals(["q1", "q1", "q2"], [0, 0, 1], [1.0, 0.0, 1.0]).count.tolist()
    [2.0, 1.0]
    """
    values = as_vector(scores, "scores")
    _, item_codes = np.unique(np.asarray(items), return_inverse=True)
    cell_codes = np.asarray(cells, dtype=np.int64)
    if not len(item_codes) == len(cell_codes) == len(values):
        why = f"{len(item_codes)} items, {len(cell_codes)} cells and {len(values)} scores do not pair"
        raise AnalysisError(why)
    width = int(cell_codes.max()) + 1
    keys, inverse = np.unique(item_codes.astype(np.int64) * width + cell_codes, return_inverse=True)
    count, total, squares = (
        np.bincount(inverse, weights=column).astype(np.float64)
        for column in (np.ones(len(values)), values, values**2)
    )
    return CellTotals(keys // width, keys % width, count, total, squares)


def encode_cells(factors: Mapping[str, Sequence[str]]) -> tuple[list[dict[str, str]], IntArray]:
    """The distinct combinations of factor levels over rows, and the code of each row.

    >>> encode_cells({"condition": ["C0", "C1", "C0"]})[0]
    [{'condition': 'C0'}, {'condition': 'C1'}]
    """
    if not factors:
        raise AnalysisError("a model needs at least one factor")
    coded = {
        name: np.unique(np.asarray(levels, dtype=str), return_inverse=True)
        for name, levels in factors.items()
    }
    table = np.column_stack([codes for _, codes in coded.values()])
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    cells = [
        {name: str(levels[code]) for (name, (levels, _)), code in zip(coded.items(), row, strict=True)}
        for row in distinct
    ]
    return cells, np.asarray(inverse, dtype=np.int64).reshape(-1)


def indicator(codes: IntArray) -> FloatArray:
    """One column per code, 1 where a row has it."""
    return np.asarray(codes[:, None] == np.arange(int(codes.max()) + 1), dtype=np.float64)
