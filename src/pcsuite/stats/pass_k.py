"""pass@k and pass^k: the chance that one of k answers to an item is right, and that all of them are.

Both are estimated item by item without bias from n >= k answers of which c are right (Chen et al. 2021, eq. 1, for
pass@k; Yao et al. 2024, tau-bench, for pass^k): drawing k of the n answers without replacement. The mean over items is
then an ordinary mean of item scores, and two runs are compared on it like on any other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import FloatArray


def pass_at_k(right: ArrayLike, answers: ArrayLike, k: int) -> FloatArray:
    """Chance that at least one of ``k`` answers is right, item by item: 1 - C(n-c, k) / C(n, k).

    ``right`` are the right answers of each item (c), ``answers`` all of them (n). ``nan`` where an item has fewer than
    ``k`` answers. Raises :class:`~pcsuite.errors.AnalysisError` for ``k`` below 1 and for more right answers than
    answers.

    >>> pass_at_k([0, 1, 3], [4, 4, 4], 2).round(4).tolist()
    [0.0, 0.5, 1.0]
    """
    correct, total = _counts(right, answers, k)
    return _share(total, total - correct, k, complement=True)


def pass_hat_k(right: ArrayLike, answers: ArrayLike, k: int) -> FloatArray:
    """Chance that all of ``k`` answers are right, item by item (pass^k): C(c, k) / C(n, k).

    Arguments and errors are those of :func:`pass_at_k`.

    >>> pass_hat_k([0, 2, 3], [4, 4, 4], 2).round(4).tolist()
    [0.0, 0.1667, 0.5]
    """
    correct, total = _counts(right, answers, k)
    return _share(total, correct, k, complement=False)


def _counts(right: ArrayLike, answers: ArrayLike, k: int) -> tuple[FloatArray, FloatArray]:
    correct, total = np.asarray(right, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if k < 1:
        raise AnalysisError(f"k is {k}, at least 1 is needed")
    if (correct < 0).any() or (correct > total).any():
        raise AnalysisError("an item has more right answers than answers, or fewer than none")
    return correct, total


def _share(total: FloatArray, chosen: FloatArray, k: int, *, complement: bool) -> FloatArray:
    special = require("scipy.special", "stats")
    enough = total >= k
    ways = special.comb(np.where(enough, total, k), k)
    share = special.comb(chosen, k) / ways
    return np.where(enough, 1 - share if complement else share, np.nan)
