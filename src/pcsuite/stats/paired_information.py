"""Do the answers of one condition tell more about the truth than those of another, on the same items?

I(answer; truth) is a nonlinear function of a table of counts, biased upwards in small samples, and its noise at zero is
not normal. So three things are asked together: the difference with its bias removed by the jackknife (whose
pseudo-values are one number per item, Efron & Stein 1981), whether it could have come about by exchanging the two
conditions' answers within items, and whether the better condition's answers tell anything at all, by shuffled truths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import FloatArray, IntArray, Rng, as_matrix, as_pair
from pcsuite.stats.information import xlogx

DRAWS = 499


@dataclass(frozen=True, slots=True)
class InformationGain:
    """The difference ``treated - control`` in information about the truth, in nats."""

    values: FloatArray
    """Jackknife pseudo-values, one per item; their mean is the difference with its bias removed."""
    difference: float
    """The plug-in difference, to be compared with ``swapped``."""
    swapped: FloatArray
    """The same with the two conditions' answers exchanged within items by fair coins."""
    better: float
    """The plug-in information of the better condition, to be compared with ``shuffled``."""
    shuffled: FloatArray
    """The same with the truths shuffled over items."""


def information_gain(
    treated: ArrayLike, control: ArrayLike, truths: ArrayLike, *, rng: Rng, draws: int = DRAWS
) -> InformationGain:
    """Difference in mutual information of answers and truths between two conditions on the same items.

    ``treated`` and ``control`` are items by labels, each row the shares of an item's answers (they sum to 1);
    ``truths`` is the number of the true label of each item. Raises ``AnalysisError`` where they do not pair.

    >>> told, constant = np.eye(2)[[0, 1] * 10], np.eye(2)[[0] * 20]
    >>> gain = information_gain(told, constant, [0, 1] * 10, rng=np.random.default_rng(0), draws=19)
    >>> round(gain.difference, 3), bool((gain.swapped < gain.difference).all())
    (0.693, True)
    """
    first, second = as_pair(treated, control, read=as_matrix)
    true: IntArray = np.asarray(truths, dtype=np.int64)
    if len(true) != len(first) or len(first) < 2:
        raise AnalysisError(
            f"{len(first)} items and {len(true)} truths, the same number of two or more is needed"
        )
    n, width = first.shape
    kinds = int(true.max()) + 1
    onehot = np.eye(kinds)[true]

    def contributions(shares: FloatArray) -> FloatArray:
        return np.asarray((shares[:, :, None] * onehot[:, None, :]).reshape(n, width * kinds))

    def information(totals: FloatArray) -> FloatArray:
        return _mutual_information(totals.reshape(-1, width, kinds))

    left, right = contributions(first), contributions(second)
    totals = left.sum(axis=0), right.sum(axis=0)
    treated_nats, control_nats = (float(information(total[None, :])[0]) for total in totals)
    without = information(totals[0] - left) - information(totals[1] - right)
    moved = rng.integers(0, 2, size=(draws, n)).astype(np.float64) @ (right - left)
    swapped = information(totals[0] + moved) - information(totals[1] - moved)
    better = first if treated_nats >= control_nats else second
    shuffled = np.stack([better.T @ onehot[rng.permutation(n)] for _ in range(draws)])
    return InformationGain(
        n * (treated_nats - control_nats) - (n - 1) * without,
        treated_nats - control_nats,
        swapped,
        max(treated_nats, control_nats),
        _mutual_information(shuffled),
    )


def _mutual_information(tables: FloatArray) -> FloatArray:
    """Plug-in information in nats of tables of counts, shape (tables, answers, truths)."""
    joint = tables / tables.sum(axis=(1, 2), keepdims=True)
    joint = np.maximum(joint, 0.0)
    return np.asarray(
        xlogx(joint).sum(axis=(1, 2))
        - xlogx(joint.sum(axis=2)).sum(axis=1)
        - xlogx(joint.sum(axis=1)).sum(axis=1)
    )
