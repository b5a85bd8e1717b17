"""The mean of a sequence that was stopped because of what it showed, without the bias of stopping.

A run that stops when its limits exclude 0 stops early where chance helped, so the mean at that moment is too large.
The mean of the first batch alone has no such bias, and hardly any precision. What is given here is its expectation over
all orders of the items seen, or of their clusters, in which the run would have stopped at the same moment
(Rao–Blackwell; Emerson & Fleming 1990 for trials): since items come in an order that does not depend on their scores,
all of these orders were equally likely. It is as unbiased as the first batch and uses all items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.stats.estimate import FloatArray, IntArray, Rng
from pcsuite.stats.sequential import SHARES, as_bounded, bet_units

ORDERS = 600
"""Orders that are tried; what this leaves to chance is a twentieth of the first batch's own standard error."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When a run stops: looks after every ``batch`` items, by the limits of a confidence sequence of a ``level``."""

    batch: int
    level: float = 0.95
    margin: float | None = None
    no_worse: bool = False
    """Whether *no worse* by the margin is enough to stop; else it must be *equivalent*."""


def stopped_mean(
    differences: ArrayLike,
    rule: StoppingRule,
    *,
    rng: Rng,
    bound: float = 1.0,
    clusters: IntArray | None = None,
    orders: int = ORDERS,
) -> float:
    """The mean of ``differences`` within ±``bound``, in the order in which they came, without the bias of stopping.

    All of them were seen when the run stopped, or ran out of items. ``clusters`` are codes in the order in which they
    came, each whole. After a single look it is the plain mean.

    >>> seen = [1.0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    >>> rule = StoppingRule(batch=5)
    >>> bool(stopped_mean(seen, rule, rng=np.random.default_rng(0)) < np.mean(seen))
    True
    """
    values = as_bounded(differences, bound) / bound
    sizes, sums = np.ones(len(values)), values
    if clusters is not None:
        sizes = np.bincount(clusters).astype(np.float64)
        sums = np.asarray(np.bincount(clusters, weights=values), dtype=np.float64)
    observed = np.arange(len(sizes))[None, :]
    if len(_looks(sizes, rule.batch)) < 2:
        return bound * float(values.mean())
    wins = _wins(*bet_units(values, clusters), rule)
    stopped_last = _stops(wins, sizes, observed, rule)[0][0, -1]
    totals, accepted = 0.0, 0
    tried = [observed]
    tried += [
        rng.permuted(np.repeat(observed, _AT_ONCE, axis=0), axis=1) for _ in range(-(-orders // _AT_ONCE))
    ]
    for some in tried:
        stops, firsts = _stops(wins, sizes, some, rule)
        same = ~stops[:, :-1].any(axis=1) & (stops[:, -1] == stopped_last)
        # Items that waited for an answer can make the order on record one that would have stopped before.
        same |= (some == observed).all(axis=1)
        for order, first in zip(some[same], firsts[same], strict=True):
            part = order[:first]
            totals += float(sums[part].sum() / sizes[part].sum())
            accepted += 1
    return bound * totals / accepted


def _looks(sizes: FloatArray, batch: int) -> IntArray:
    """After how many units one looks: where a batch is full, or its last cluster has ended, and at the end."""
    reached = np.cumsum(sizes)
    looks = np.searchsorted(reached, np.arange(batch, reached[-1] + batch, batch)) + 1
    return np.unique(np.minimum(looks, len(sizes)))


def _wins(sums: FloatArray, weights: FloatArray, rule: StoppingRule) -> FloatArray:
    """Log of what each unit makes of each bettor's capital, by bet: greater and less than 0, and than the margins."""
    margin = rule.margin if rule.margin is not None else 0.0
    bets = [(1.0, 0.0), (-1.0, 0.0), (1.0, -margin), (-1.0, -margin)]
    return np.stack(
        [
            np.log1p(SHARES[:, None] * (side * sums - mean * weights)[None, :] / (1 + mean))
            for side, mean in bets
        ]
    )


def _stops(
    wins: FloatArray, sizes: FloatArray, orders: IntArray, rule: StoppingRule
) -> tuple[npt.NDArray[np.bool_], IntArray]:
    """For each order and look whether the rule stops there, and the units of the first look.

    Looks after clusters of unequal sizes differ in number between orders; the shorter ones repeat their last.
    """
    looks = [_looks(sizes[order], rule.batch) for order in orders]
    most = max(map(len, looks))
    at = np.array([np.pad(ends, (0, most - len(ends)), mode="edge") for ends in looks]) - 1
    enough = np.log(2 / (1 - rule.level))
    reached = np.empty((4, len(orders), most), dtype=bool)
    for bet in range(4):
        capital = np.cumsum(wins[bet][:, orders], axis=2)  # bettors, orders, units
        capital = np.take_along_axis(capital, np.broadcast_to(at, (len(SHARES), *at.shape)), axis=2)
        peak = capital.max(axis=0)
        shared = peak + np.log(np.exp(capital - peak).mean(axis=0))
        # Limits hold at all looks at once, so what was reached at one of them stays.
        reached[bet] = np.logical_or.accumulate(shared >= enough, axis=1)
    stops = reached[0] | reached[1]
    if rule.margin is not None:
        stops |= reached[2] if rule.no_worse else reached[2] & reached[3]
    return stops, at[:, 0] + 1
