"""Looks that are planned: a few of them, among which the error that is allowed is shared out beforehand.

A confidence sequence pays for a look after every item. Who looks three or four times, at numbers of items that were
fixed before the first, pays far less (alpha-spending; Lan & DeMets 1983). At a fraction ``t`` of the items the share
``g(t)`` of α may have been spent: ``g(t) = t³`` spends late, as O'Brien and Fleming's boundaries do (Kim & DeMets
1987), so that the last look is nearly that of a fixed design; ``g(t) = ln(1 + (e - 1)t)`` spends evenly, as Pocock's.

Two ways to keep to it:

- Any test that is valid by itself may use at look k the part ``w_k = g(t_k) - g(t_{k-1})`` of α: where one of the looks
  has ``p_k <= α w_k`` it rejects, and the parts sum to 1 (Bonferroni over looks). So ``min p_k / w_k`` is a p-value
  that holds whenever one stops. This asks nothing of the test, be it of graded scores or of clusters.
- Right-or-wrong answers on unrelated items are told apart by signs alone: under the null hypothesis the sum of the
  differences is a walk of ±1 steps, one for each item that moved, whatever those items are. So the chance to be beyond
  the boundary of any look is known exactly, and boundaries are as near as ``α g(t)`` allows (:func:`walk_p`). That is
  hardly dearer than a single test.

The parts are in proportion to α, so that the p-values can be corrected over a family like any others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from pcsuite.errors import AnalysisError
from pcsuite.stats.estimate import FloatArray, normal_quantile

Spending = Literal["obrien-fleming", "pocock"]
_GRAIN = 1.05
"""Ratio of neighbouring levels at which the walk is tested: a p-value is at most a twentieth too large."""
_LEAST_LEVEL = 1e-6


def spending_shares(fractions: Sequence[float], spending: Spending = "obrien-fleming") -> FloatArray:
    """The part of α of each look at these ascending ``fractions`` (0..1) of the items; they sum to at most 1.

    Raises ``AnalysisError`` for fractions that do not ascend within 0..1.

    >>> spending_shares([0.25, 0.5, 0.75, 1.0]).round(3).tolist()
    [0.016, 0.109, 0.297, 0.578]
    """
    at = np.asarray(fractions, dtype=np.float64)
    if not len(at) or at[0] <= 0 or at[-1] > 1 + 1e-12 or (np.diff(at) <= 0).any():
        raise AnalysisError(f"looks at {list(fractions)}: ascending fractions of the items are needed")
    spent = at**3 if spending == "obrien-fleming" else np.log1p((math.e - 1) * at)
    return np.diff(spent, prepend=0.0)


def walk_p(sums: Sequence[float], moved: Sequence[int], shares: Sequence[float], *, level: float) -> float:
    """P-value of "gains and losses are alike" that holds at all looks so far, of right-or-wrong differences.

    ``sums`` are the gains less the losses at each look, ``moved`` the items that gained or lost until then, ``shares``
    the parts of α of these looks. The p-value is the smallest of a grid of levels at which, and at all above, a look so
    far was beyond its boundary; ``level`` is on the grid, so that it is decided at it exactly. 1 where none was.

    >>> once = walk_p([8], [8], [1.0], level=0.05)  # a single look: the exact sign test, 2/2⁸, up to the grid
    >>> bool(2 / 2**8 <= once <= 1.05 * 2 / 2**8)
    True
    >>> walk_p([3], [4], [0.016], level=0.05)
    1.0
    """
    if not 0 < level < 1:
        raise AnalysisError(f"level is {level:g}, it must lie between 0 and 1")
    below = math.ceil(math.log(level / _LEAST_LEVEL) / math.log(_GRAIN)) if level > _LEAST_LEVEL else 0
    above = math.ceil(math.log(1 / level) / math.log(_GRAIN))
    # A hair below, so that what is decided at the level is a p-value below it.
    levels = np.minimum(1.0, (1 - 1e-9) * level * _GRAIN ** np.arange(-below, above + 1.0))
    # By level: the chance of so many gains among the items that moved, without having been beyond a boundary.
    at = np.ones((len(levels), 1))
    spent = np.zeros(len(levels))
    beyond = np.zeros(len(levels), dtype=bool)
    before, allowed = 0, 0.0
    for total, count, share in zip(sums, moved, shares, strict=True):
        count = int(count)
        at = _walked(at, count - before)
        before, allowed = count, allowed + share
        # Chance to be so far out or farther, from the farthest in: the nearest boundary that the level has left for.
        nearest = count // 2
        sides = at[:, : nearest + 1] + at[:, ::-1][:, : nearest + 1]
        if count % 2 == 0:
            sides[:, nearest] /= 2  # as many gains as losses: one sum, not two
        tails = np.cumsum(sides, axis=1)
        inside = (spent[:, None] + tails <= (levels * allowed)[:, None] * (1 + 1e-12)).sum(axis=1)
        boundary = count - 2 * (inside - 1)  # beyond reach where there is none
        beyond |= abs(total) >= boundary
        spent += np.where(inside > 0, tails[np.arange(len(levels)), inside - 1], 0.0)
        distance = np.abs(2 * np.arange(count + 1) - count)
        at[distance[None, :] >= boundary[:, None]] = 0.0
    held = np.logical_and.accumulate(beyond[::-1])[::-1]
    return float(levels[np.argmax(held)]) if held.any() else 1.0


def _walked(at: FloatArray, steps: int) -> FloatArray:
    """The chances of each number of gains after so many further items that moved."""
    if steps <= 0:
        return at
    ups = np.arange(steps + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(ups[1:]))])
    kernel = np.exp(factorials[-1] - factorials - factorials[::-1] - steps * math.log(2))
    width = at.shape[1] + steps
    points = 1 << (width - 1).bit_length()
    product = np.fft.rfft(at, points, axis=1) * np.fft.rfft(kernel, points)[None, :]
    return np.asarray(np.maximum(np.fft.irfft(product, points, axis=1)[:, :width], 0.0))


def chance_to_decide(
    mean: float,
    spread: float,
    seen: int,
    planned: int,
    *,
    level: float,
    margin: float | None = None,
    no_worse_level: float = 0.05,
    equivalent: bool = False,
) -> float:
    """Chance that the last planned look decides, by what was seen so far and nothing else (a flat prior).

    ``mean`` and ``spread`` (a standard deviation) are those of the ``seen`` differences for the better, of ``planned``
    in all. Decided is better or worse at the two-sided ``level``, and with a ``margin`` also no worse (or
    ``equivalent``) at ``no_worse_level``. A run that stops for want of such a chance gives up decisions, and never
    makes a false one (a non-binding rule; Lachin 2005).

    >>> chance_to_decide(0.0, 0.4, 100, 120, level=0.01) < 1e-4
    True
    """
    if seen >= planned or spread <= 0:
        return 1.0
    error = spread / math.sqrt(planned)
    to_come = spread * math.sqrt(1 / seen - 1 / planned)
    reach = normal_quantile(1 - level) * error
    changed = _normal_cdf((mean - reach) / to_come) + _normal_cdf((-mean - reach) / to_come)
    if margin is None:
        return min(1.0, changed)
    least = normal_quantile(1 - 2 * no_worse_level) * error - margin
    most = min(reach, -least) if equivalent else reach
    low = max(least, -reach)  # beyond either end it is worse, or better, already
    held = _normal_cdf((most - mean) / to_come) - _normal_cdf((low - mean) / to_come) if most > low else 0.0
    return min(1.0, changed + max(0.0, held))


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
