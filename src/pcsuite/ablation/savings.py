"""What leaving blocks out saves in a year, at a user's number of calls a day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pcsuite.ablation.verdicts import BlockVerdict
from pcsuite.stats.estimate import Estimate

DAYS = 365


class YearlySaving(NamedTuple):
    """What a year's calls cost less without something."""

    what: str
    """A block, or ``the trimmed prompt``."""
    usd: float
    """Negative where calls become dearer."""
    low: float
    """Lower 95 % limit of it; the value itself where there are no limits."""
    high: float

    @property
    def words(self) -> str:
        """The saving in words.

        >>> YearlySaving("tone", 1234.4, 1000, 1500).words
        'tone: $1,234 a year [$1,000, $1,500]'
        """
        limits = "" if self.low == self.high else f" [{_dollars(self.low)}, {_dollars(self.high)}]"
        return f"{self.what}: {_dollars(self.usd)} a year{limits}"

    def record(self) -> dict[str, Any]:
        """The saving as plain values."""
        return {"what": self.what, "usd": self.usd, "usd_low": self.low, "usd_high": self.high}


def yearly_savings(
    calls_per_day: float,
    verdicts: Sequence[BlockVerdict],
    costs: Mapping[str, Estimate],
    trimmed: float | None,
) -> list[YearlySaving]:
    """What each block that can go alone saves in a year, then the trimmed prompt.

    ``costs`` are by block what having it costs per 1,000 calls in US dollars, ``trimmed`` what the trimmed prompt saves
    per 1,000 calls, ``None`` where nothing is dropped. Nothing where no cost is known. Savings of single blocks do not
    add up: which can go together, the trimmed prompt says.
    """
    scale = calls_per_day * DAYS / 1000
    savings = []
    for entry in verdicts:
        cost = costs.get(entry.block)
        if entry.verdict != "no worse without it" or cost is None or not math.isfinite(cost.value):
            continue
        limits = [end if math.isfinite(end) else cost.value for end in (cost.low, cost.high)]
        savings.append(YearlySaving(entry.block, scale * cost.value, scale * limits[0], scale * limits[1]))
    if trimmed is not None and math.isfinite(trimmed):
        savings.append(YearlySaving("the trimmed prompt", *[scale * trimmed] * 3))
    return savings


def _dollars(value: float) -> str:
    sign, size = "-" if value < 0 else "", abs(value)
    return f"{sign}${size:,.0f}" if size >= 100 or size == 0 else f"{sign}${size:,.2f}"
