"""Equivalence and non-inferiority: evidence that a difference is too small to matter (Schuirmann 1987).

A non-significant difference is no evidence of sameness. Equivalence is claimed only where the 1-2α interval
lies within ±bound, the bound being set beforehand; non-inferiority where its lower limit lies above -margin.

Paired items are judged by one-sided limits that hold for bounded scores at any n (Gaffke 2005: an unseen item at the
far end of the range stands beside those seen; the exact binomial limit for 0/1 differences). Student's limits do not:
where few items differ they claim sameness in 12 % (0.95 against 0.999, n = 100) to 50 % (n = 8) of the studies at the
margin.
So n items on which nothing differed show sameness only to within 1 - α^(1/n), about 3/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import as_differences
from pcsuite.stats.random_weights import one_sided_means, two_sided_p

Verdict = Literal["equivalent", "different", "both", "noninferior", "inferior", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of two one-sided tests, or of one (:func:`noninferior_paired`).

    ``p_value`` is the larger of the two (of the one made); ``low`` and ``high`` are the one-sided 1-α limits, together
    a 1-2α interval. They and the p-value agree always. ``verdict`` is "both" where the difference is reliably not zero
    and reliably within the bound; "inferior" where it is reliably beyond the margin.
    """

    estimate: float
    bound: float
    p_value: float
    low: float
    high: float
    alpha: float
    verdict: Verdict


def tost_paired(
    treated: ArrayLike,
    control: ArrayLike | None = None,
    *,
    bound: float,
    alpha: float = 0.05,
    bounds: tuple[float, float] | None = None,
) -> Equivalence:
    """Are two conditions equivalent on the same items, to within ``±bound`` of the mean score?

    ``treated`` may hold ready differences. ``bound`` is in the unit of the scores and must be chosen beforehand.
    ``bounds`` are the least and largest possible difference: -1..1 unless given, or twice the largest seen where
    one lies outside. "inconclusive" is the answer wherever a sample of this size could not show sameness.

    >>> tost_paired([0.0] * 2, bound=0.05).verdict, tost_paired([0.0] * 100, bound=0.05).verdict
    ('inconclusive', 'equivalent')
    """
    deltas = as_differences(treated, control, minimum=2)
    _check_bound(bound)
    above, below = one_sided_means(deltas, bounds)
    p_value = max(above.below(-bound), 1 - below.below(bound))
    difference_p = two_sided_p(above, below)
    low, high = above.quantile(alpha), below.quantile(1 - alpha)
    within, differs = p_value <= alpha, difference_p <= alpha
    verdict: Verdict = "inconclusive"
    if within or differs:
        verdict = "both" if within and differs else "equivalent" if within else "different"
    return Equivalence(float(deltas.mean()), bound, p_value, low, high, alpha, verdict)


def noninferior_paired(
    treated: ArrayLike,
    control: ArrayLike | None = None,
    *,
    margin: float,
    alpha: float = 0.05,
    bounds: tuple[float, float] | None = None,
) -> Equivalence:
    """Is ``treated`` no worse than ``control`` by ``margin`` or more, on the same items (higher is better)?

    "noninferior" where the one-sided 1-α lower limit of the mean difference lies above ``-margin`` (``p_value`` is that
    test's), "inferior" where the upper one lies below it, else "inconclusive". Arguments as for :func:`tost_paired`.

    >>> lost = [-1.0] * 2 + [0.0] * 98
    >>> noninferior_paired(lost, margin=0.1).verdict, noninferior_paired(lost, margin=0.03).verdict
    ('noninferior', 'inconclusive')
    """
    deltas = as_differences(treated, control, minimum=2)
    _check_bound(margin)
    above, below = one_sided_means(deltas, bounds)
    p_value = above.below(-margin)
    low, high = above.quantile(alpha), below.quantile(1 - alpha)
    verdict: Verdict = "noninferior" if p_value <= alpha else "inferior" if high < -margin else "inconclusive"
    return Equivalence(float(deltas.mean()), margin, p_value, low, high, alpha, verdict)


def _check_bound(bound: float) -> None:
    if not bound > 0:
        why = f"the equivalence bound is {bound}, it must be positive"
        raise AnalysisError(why, hint="0.02 is two points")
