"""Precision, recall and F1 from counts, and the one rule for a comparison of nothing with nothing.

Where there is nothing to find and nothing was found, F1 is 0/0. **An item scored so is perfect, and so is a pool of
such items** (``empty=1.0``: a sentence without entities in which none was claimed is a right answer). **A record or a
corpus that is judged as a whole has shown nothing then and is worth 0** (``empty=0.0``, the default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

    from pcsuite.stats.estimate import FloatArray


class PrecisionRecallF1(NamedTuple):
    """The three shares, each 0..1."""

    precision: float
    recall: float
    f1: float


def f1_score(tp: float, fp: float, fn: float, *, empty: float = 0.0) -> float:
    """F1 = 2·tp / (2·tp + fp + fn), the harmonic mean of precision and recall, 0..1.

    ``tp``, ``fp`` and ``fn`` are counts (or weights) of what was found rightly, claimed wrongly and missed. ``empty``
    is the worth of a comparison in which all three are 0: 1.0 for an item, 0.0 for a record or corpus figure.

    >>> f1_score(3, 1, 2), f1_score(0, 0, 0), f1_score(0, 0, 0, empty=1.0)
    (0.6666666666666666, 0.0, 1.0)
    """
    size = 2 * tp + fp + fn
    return 2 * tp / size if size else empty


def precision_recall_f1(tp: float, fp: float, fn: float, *, empty: float = 0.0) -> PrecisionRecallF1:
    """Precision tp/(tp + fp), recall tp/(tp + fn) and their harmonic mean, from counts.

    Precision is 0 where nothing was claimed and recall 0 where nothing was to be found; where both hold, all three are
    ``empty`` (see :func:`f1_score`).

    >>> precision_recall_f1(3, 1, 2)
    PrecisionRecallF1(precision=0.75, recall=0.6, f1=0.6666666666666666)
    """
    if not tp + fp + fn:
        return PrecisionRecallF1(empty, empty, empty)
    precision = tp / (tp + fp) if tp + fp else 0.0
    recall = tp / (tp + fn) if tp + fn else 0.0
    return PrecisionRecallF1(precision, recall, f1_score(tp, fp, fn))


def micro_f1(totals: npt.ArrayLike, *, empty: float = 1.0) -> FloatArray:
    """F1 of each row of pooled counts ``(tp, fp, fn)``, shape (rows, 3), as a vector.

    ``empty`` is the value of a row of zeros. It is 1 here because the rows pool items, each of which is perfect
    when nothing was there to find and nothing was claimed.

    >>> micro_f1([[3, 1, 2], [0, 0, 0]]).round(3).tolist()
    [0.667, 1.0]
    """
    import numpy as np

    tp, fp, fn = np.asarray(totals, dtype=np.float64).T
    size = 2 * tp + fp + fn
    return np.asarray(np.where(size > 0, 2 * tp / np.where(size > 0, size, 1.0), empty))


def linearised_f1(counts: npt.ArrayLike) -> FloatArray:
    """A value per item whose mean is the corpus micro-F1 of ``counts``, rows ``(tp, fp, fn)``.

    F + (2·tp − F·size) / mean size, size being 2·tp + fp + fn: the first-order share of each item in the ratio, so
    that differences and averages of conditions can be formed item by item (the delta method). Ones where nothing was
    counted.

    >>> linearised_f1([[1, 0, 0], [0, 1, 1]]).tolist()
    [1.0, 0.0]
    """
    import numpy as np

    table = np.asarray(counts, dtype=np.float64)
    tp, fp, fn = table.T
    size = 2 * tp + fp + fn
    level = float(micro_f1(table.sum(axis=0)[None, :])[0])
    return np.asarray(level + (2 * tp - level * size) / (size.mean() or 1.0))
