"""Results of a computation (value, interval, sample size, method) and checks of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Rng = np.random.Generator
Alternative = Literal["two-sided", "greater", "less"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval.

    ``n`` is the number of independent units (items) it rests on, ``se`` its standard error where the method
    has one, ``method`` the name of the interval. ``nan`` means "not defined on these data".

    >>> Estimate(0.12, 0.03, 0.21).excludes(0.0)
    True
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    n: int = 0
    method: str = ""
    se: float | None = None

    @property
    def defined(self) -> bool:
        """Whether the value could be computed at all."""
        return bool(np.isfinite(self.value))

    def excludes(self, reference: float = 0.0) -> bool:
        """Whether the interval lies wholly on one side of ``reference``."""
        return self.low > reference or self.high < reference


@dataclass(frozen=True, slots=True)
class TestResult:
    """A p-value with the statistic it belongs to, how it was found, and the number of items.

    >>> TestResult(0.1, 0.03, "sign-flip exact", n=20).p_value
    0.03
    """

    __test__ = False  # not a test class, whatever its name suggests to pytest

    statistic: float
    p_value: float
    method: str
    n: int = 0
    df: float | None = None


def undefined(method: str, n: int = 0, level: float = 0.95) -> Estimate:
    """The estimate of a quantity that these data do not define; ``method`` says why."""
    return Estimate(float("nan"), float("nan"), float("nan"), level, n, method)


def recentred_limits(value: float, draws: FloatArray, level: float) -> tuple[float, float]:
    """Percentile limits of bootstrap draws moved so that their mean is the sample's ``value``.

    For statistics that noise inflates (a range, an absolute gap, mutual information): every resample adds the bias
    once more, and recentring removes that second part.
    """
    check_level(level)
    low, high = np.quantile(draws - draws.mean() + value, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def as_vector(values: ArrayLike, name: str, *, minimum: int = 1) -> FloatArray:
    """A finite float vector of at least ``minimum`` values.

    Raises :class:`~pcsuite.errors.AnalysisError`, which names the argument and the first bad position.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise AnalysisError(f"{name} has {vector.ndim} dimensions, one value per item is needed")
    if vector.size < minimum:
        raise AnalysisError(f"{name} has {vector.size} items, at least {minimum} are needed")
    _refuse_non_finite(vector, name)
    return vector


def as_matrix(values: ArrayLike, name: str, *, columns: int | None = None) -> FloatArray:
    """A finite float matrix, items by ``columns`` (any number where not given).

    Raises :class:`~pcsuite.errors.AnalysisError`, which names the argument and the first bad row.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise AnalysisError(f"{name} has shape {matrix.shape}, a filled table of items by columns is needed")
    if columns is not None and matrix.shape[1] != columns:
        raise AnalysisError(f"{name} has {matrix.shape[1]} columns, {columns} are needed")
    _refuse_non_finite(matrix, name)
    return matrix


def as_pair(
    first: ArrayLike,
    second: ArrayLike,
    names: str = "treated and control",
    *,
    read: Callable[..., FloatArray] = as_vector,
    **limits: int,
) -> tuple[FloatArray, FloatArray]:
    """Two arrays of the same items, ``read`` as vectors (or by :func:`as_matrix`) within ``limits``.

    ``names`` are the two arguments' names, joined by "and". Raises :class:`~pcsuite.errors.AnalysisError` where the
    two do not pair.
    """
    first_name, second_name = names.split(" and ")
    left, right = read(first, first_name, **limits), read(second, second_name, **limits)
    check_same_length(left, right, names)
    return left, right


def as_differences(treated: ArrayLike, control: ArrayLike | None, *, minimum: int = 1) -> FloatArray:
    """Per-item differences ``treated - control``; ``treated`` itself where there is no ``control``.

    Raises :class:`~pcsuite.errors.AnalysisError` where the two do not pair or hold fewer than ``minimum`` items.
    """
    if control is None:
        return as_vector(treated, "treated", minimum=minimum)
    first, second = as_pair(treated, control, minimum=minimum)
    return first - second


def check_same_length(first: FloatArray, second: FloatArray, names: str) -> None:
    """Refuse two arrays that are not paired item by item."""
    if len(first) != len(second):
        hint = "pair them by item before the comparison"
        raise AnalysisError(f"{names} have {len(first)} and {len(second)} items", hint=hint)


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not 0.0 < level < 1.0:
        raise AnalysisError(f"level is {level}, it must lie between 0 and 1", hint="0.95 for a 95 % interval")


def t_interval(
    value: float, se: float, df: float, *, level: float = 0.95, n: int = 0, method: str = ""
) -> Estimate:
    """A value with the interval that its standard error and Student's t with ``df`` degrees of freedom give.

    >>> estimate = t_interval(0.2, 0.05, df=10)
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.089, 0.311)
    """
    check_level(level)
    half = float(require("scipy.special", "stats").stdtrit(df, (1 + level) / 2)) * se
    return Estimate(value, value - half, value + half, level, n, method, se)


def expanded_quantiles(n: int, level: float) -> FloatArray:
    """Where an interval of ``n`` items ends, in standard errors of a resampled mean (Hesterberg 2015).

    Student's quantiles, times sqrt(n / (n - 1)) for the divisor of a resampled variance; ``n`` is at least 2.
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    return np.asarray(require("scipy.special", "stats").stdtrit(n - 1, tails) * np.sqrt(n / (n - 1)))


def normal_quantile(level: float) -> float:
    """How many standard errors a normal interval of this level reaches to either side (1.96 for 0.95)."""
    check_level(level)
    return float(require("scipy.special", "stats").ndtri((1 + level) / 2))


def _refuse_non_finite(values: FloatArray, name: str) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        where = f"the first in row {int(np.argwhere(bad)[0][0])}"
        hint = "score a missing answer 0 before the analysis"
        raise AnalysisError(f"{name} has {int(bad.sum())} missing or infinite values, {where}", hint=hint)
