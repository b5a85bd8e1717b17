"""What an ablation will be able to say, before anything is called.

All of it rests on one number: the share of answers that flip when a change without effect is made to the prompt. The
A/A arm measures it; until then it is assumed, and the assumption is printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pcsuite.ablation.verdicts import ALPHA, POWER, Scores
from pcsuite.errors import ConfigError, require
from pcsuite.stats.equivalence import noninferior_paired

FLIPS = 0.1
"""Share of answers assumed to flip where nothing is known."""
_DRAWS = 400


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
    """Items below which "no worse without it" cannot be said even if no answer flips."""


def forecast(
    items: int, blocks: int, *, margin: float, flips: float = FLIPS, alpha: float = ALPHA
) -> Forecast:
    """What so many items can show of so many blocks if ``flips`` of the answers flip by chance.

    The chance of finding a block without effect comes from simulated items put through the test itself. Raises
    ``ConfigError`` for a share that is none.
    """
    if not 0 <= flips <= 1:
        raise ConfigError(f"--assume-flips {flips}: a share between 0 and 1 is needed")
    special = require("scipy.special", "stats")
    reach = float(special.ndtri(1 - alpha / 2 / blocks) + special.ndtri(POWER))
    rng = np.random.default_rng(20_240_917)
    draws = rng.choice([-1.0, 0.0, 1.0], size=(_DRAWS, items), p=[flips / 2, 1 - flips, flips / 2])

    def holds(differences: Scores) -> bool:
        return noninferior_paired(differences, margin=margin, alpha=alpha).verdict == "noninferior"

    found = sum(map(holds, draws))
    least = 2
    while not holds(np.zeros(least)) and least < 10**6:
        least = math.ceil(least * 1.02) + 1
    return Forecast(
        items,
        blocks,
        margin,
        flips,
        detectable=min(1.0, reach * math.sqrt(max(flips, 1 / items) / items)),
        finds_nulls=found / _DRAWS,
        least_for_no_worse=least,
    )
