"""Equivalence: evidence that a difference is too small to matter (two one-sided tests, Schuirmann 1987).

A non-significant difference is no evidence of sameness. Equivalence is claimed only where the 1-2α interval
lies within ±bound, the bound being set beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import as_differences
from pcsuite.stats.effect_sizes import paired_t_interval
from pcsuite.stats.mixed import Contrast
from pcsuite.stats.proportions import FEW, adjusted_paired_interval

Verdict = Literal["equivalent", "different", "both", "inconclusive", "noninferior", "inferior"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of two one-sided tests.

    ``p_value`` is the larger of the two; ``low`` and ``high`` the 1-2α interval; ``verdict`` is "both"
    where the difference is reliably not zero and reliably within the bound.
    """

    name: str
    estimate: float
    bound: float
    p_value: float
    difference_p: float
    low: float
    high: float
    alpha: float
    verdict: Verdict


def tost_paired(
    treated: ArrayLike, control: ArrayLike | None = None, *, bound: float, alpha: float = 0.05, name: str = ""
) -> Equivalence:
    """Are two conditions equivalent on the same items, to within ``±bound`` of the mean score?

    ``treated`` may hold ready differences. ``bound`` is in the unit of the scores and must be chosen beforehand.

    >>> tost_paired([0.50, 0.52, 0.51, 0.49], [0.51, 0.51, 0.50, 0.50], bound=0.05).verdict
    'equivalent'
    """
    deltas = as_differences(treated, control, minimum=2)
    n = len(deltas)
    se = float(deltas.std(ddof=1) / np.sqrt(n))
    return tost(float(deltas.mean()), se, n - 1, bound=bound, alpha=alpha, name=name)


def noninferior_paired(
    treated: ArrayLike, control: ArrayLike | None = None, *, margin: float, alpha: float = 0.05, name: str = ""
) -> Equivalence:
    """Is the treated side at most ``margin`` worse on the same items? Claimed where the one-sided 1-α limit says so.

    ``treated`` may hold ready differences. Where few pairs differ the limit is Bonett and Price's, so that a few items
    without any difference prove nothing.

    >>> [noninferior_paired([0.0] * n, margin=0.02).verdict for n in (100, 200)]
    ['inconclusive', 'noninferior']
    """
    deltas = as_differences(treated, control, minimum=2)
    few = int(np.count_nonzero(deltas)) < FEW
    limits = (adjusted_paired_interval if few else paired_t_interval)(deltas, level=1 - 2 * alpha)
    verdict: Verdict = "noninferior" if limits.low > -margin else "inconclusive"
    nan = float("nan")
    return Equivalence(name, limits.value, margin, nan, nan, limits.low, limits.high, alpha, verdict)


def tost_contrast(contrast: Contrast, *, bound: float, alpha: float = 0.05) -> Equivalence:
    """Is a contrast of a mixed model (an interaction, say) within ``±bound``?

    >>> tost_contrast(Contrast("C1 - C0", 0.001, 0.004, 90, 0.25, 0.8, -0.007, 0.009), bound=0.02).verdict
    'equivalent'
    """
    return tost(contrast.estimate, contrast.se, contrast.df, bound=bound, alpha=alpha, name=contrast.name)


def all_equivalent(results: Sequence[Equivalence]) -> Equivalence:
    """The joint claim "every one of these is within its bound"; its p-value is the largest (intersection–union).

    >>> results = [tost(shift, 0.004, 90, bound=0.02) for shift in (0.001, 0.015)]
    >>> all_equivalent(results).estimate
    0.015
    """
    if not results:
        raise AnalysisError("there is nothing to be equivalent")
    return max(results, key=lambda result: result.p_value)


def tost(
    estimate: float, se: float, df: float, *, bound: float, alpha: float = 0.05, name: str = ""
) -> Equivalence:
    """Two one-sided t tests of an estimate with its standard error and degrees of freedom.

    Raises ``AnalysisError`` where ``bound`` is not positive; an estimate that is ``nan`` is inconclusive.

    >>> tost(0.001, 0.004, 90, bound=0.02).verdict, tost(0.03, 0.004, 90, bound=0.02).verdict
    ('equivalent', 'different')
    """
    if not bound > 0:
        why = f"the equivalence bound is {bound}, it must be positive"
        raise AnalysisError(why, hint="0.02 is two points")
    special = require("scipy.special", "stats")
    if np.isnan(estimate) or np.isnan(se):
        nan = float("nan")
        return Equivalence(name, nan, bound, nan, nan, nan, nan, alpha, "inconclusive")
    if se == 0:
        p_value, difference_p = float(abs(estimate) >= bound), float(estimate == 0)
    else:
        below = float(special.stdtr(df, (estimate - bound) / se))
        above = float(special.stdtr(df, -(estimate + bound) / se))
        p_value = max(below, above)
        difference_p = 2 * float(special.stdtr(df, -abs(estimate) / se))
    half = float(special.stdtrit(df, 1 - alpha)) * se
    differs = difference_p <= alpha
    if p_value <= alpha:
        verdict: Verdict = "both" if differs else "equivalent"
    else:
        verdict = "different" if differs else "inconclusive"
    low, high = estimate - half, estimate + half
    return Equivalence(name, estimate, bound, p_value, difference_p, low, high, alpha, verdict)
