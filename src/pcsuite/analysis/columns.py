"""Estimates as columns of a table."""

from __future__ import annotations

from pcsuite.analysis.estimate import Estimate
from pcsuite.analysis.table import number

LEVEL_RESAMPLES = 2_000
"""Resamples behind the interval of a level; differences that claims rest on take the full 10,000."""


def estimate_columns(name: str, estimate: Estimate) -> dict[str, float | None]:
    """``name``, ``name_low`` and ``name_high``."""
    return {
        name: number(estimate.value),
        f"{name}_low": number(estimate.low),
        f"{name}_high": number(estimate.high),
    }
