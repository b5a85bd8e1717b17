"""What an ablation will be able to say, before anything is called.

All of it rests on one number: the share of answers that flip when a change without effect is made to the prompt. The
A/A arm measures it; until then it is assumed, and the assumption is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pcsuite.ablation.verdicts import ALPHA, POWER
from pcsuite.errors import ConfigError, require
from pcsuite.stats.equivalence import noninferior_paired

FLIPS = 0.1
"""Share of answers assumed to flip where nothing is known."""
_STRATA = 9
"""Quantiles at which the number of flips is taken."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The reach of a design."""

    items: int
    blocks: int
    margin: float
    flips: float
    detectable: float
    """Smallest effect of a block on the score that is found with 80 % power, after the correction over blocks."""
    finds_nulls: float
    """Chance that a block without any effect is found to be no worse without it."""
    least_for_no_worse: int
    """Items below which "no worse without it" cannot be said of a block that changes no answer."""


def forecast(
    items: int, blocks: int, *, margin: float, flips: float = FLIPS, alpha: float = ALPHA
) -> Forecast:
    """What so many items can show of so many blocks if ``flips`` of the answers flip by chance.

    The chance of finding a block without effect is that of the test itself on flips that go either way. Raises
    ``ConfigError`` for a share that is none.
    """
    if not 0 <= flips <= 1:
        raise ConfigError(f"--assume-flips {flips}: a share between 0 and 1 is needed")
    special = require("scipy.special", "stats")
    # Two-sided, Bonferroni over blocks; of 0/1 scores without an effect the share that flips is the variance.
    reach = float(special.ndtri(1 - alpha / 2 / blocks) + special.ndtri(POWER))

    def enough(count: int) -> bool:
        return _holds(count, 0, 0, margin, alpha)

    most = 2
    while not enough(most) and most <= 10**6:
        most *= 2
    return Forecast(
        items,
        blocks,
        margin,
        flips,
        detectable=min(1.0, reach * math.sqrt(max(flips, 1 / items) / items)),
        finds_nulls=_chance_to_find_a_null(items, margin, flips, alpha),
        least_for_no_worse=_least(enough, most // 2, most),
    )


def _chance_to_find_a_null(items: int, margin: float, flips: float, alpha: float) -> float:
    """Chance that the test itself says "no worse" of a block whose flips go either way alike.

    The number of flips is taken at a few quantiles of its distribution; for each, the least gain that passes is found
    by bisection, and the chance of such a gain or more is the binomial one.
    """
    # scipy.stats has a binomial too, and takes a second to import.
    special = require("scipy.special", "stats")
    at_most = special.bdtr(np.arange(items + 1), items, flips)
    chances = []
    for stratum in range(_STRATA):
        moved = int(np.searchsorted(at_most, (stratum + 0.5) / _STRATA))

        def passes(gains: int, moved: int = moved) -> bool:
            return _holds(items, gains, moved - gains, margin, alpha)

        if not passes(moved):
            chances.append(0.0)
            continue
        chances.append(float(special.bdtrc(_least(passes, -1, moved) - 1, moved, 0.5)))
    return sum(chances) / len(chances)


def _least(passes: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above ``low`` that passes, by bisection; ``high`` where none below it does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _holds(items: int, gains: int, losses: int, margin: float, alpha: float) -> bool:
    deltas = np.concatenate([np.ones(gains), -np.ones(losses), np.zeros(items - gains - losses)])
    return noninferior_paired(deltas, margin=margin, alpha=alpha).verdict == "noninferior"
