"""What the intervals of 0/1 scores cover, by enumeration: every outcome of n items, weighted by its chance.

    OMP_NUM_THREADS=1 python benchmarks/simulate_proportions.py            # n = 5 to 80, about a minute
    OMP_NUM_THREADS=1 python benchmarks/simulate_proportions.py 5 29 80    # some n

Single proportions: rates 0.0005, 0.001, … 0.9995. Paired differences: shares gained and lost on a grid of steps of
1/40 with all that fit into 1 (both ends, and no item tied, included), and beside it pairs near the corners, where few
items differ or nearly all are gained. Width: the mean length over all outcomes, divided by that of Tango's interval.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from scipy import special

from pcsuite.stats.estimate import normal_quantile
from pcsuite.stats.proportions import _tango_low, blaker, paired_difference

STEPS = 40
LARGE = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)
SMALL = (0.0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.05)


@dataclass(frozen=True)
class Enumerated:
    """The least coverage of both intervals at a number of items, and how wide that of differences is."""

    n: int
    proportion: float
    difference: float
    worst: tuple[float, float]
    """Shares gained and lost where it is least."""
    width: float
    tango: float
    """The least coverage of Tango's interval alone."""


def pairs() -> np.ndarray:
    """Shares gained and lost at which differences are enumerated."""
    grid = np.linspace(0, 1, STEPS + 1)
    inner = [(up, down) for up in grid for down in grid if 0 < up + down <= 1 + 1e-12]
    corners = [(large, small) for large in LARGE for small in SMALL if large + small <= 1]
    return np.array([*inner, *corners, *((small, large) for large, small in corners)])


def enumerate_items(n: int) -> Enumerated:
    """Both intervals at one number of items."""
    rates = np.linspace(0.0005, 0.9995, 1999)
    counts = np.arange(n + 1)
    limits = np.array([(found.low, found.high) for found in (blaker(int(x), n) for x in counts)])
    chances = np.exp(
        special.gammaln(n + 1)
        - special.gammaln(counts + 1)
        - special.gammaln(n - counts + 1)
        + special.xlogy(counts, rates[:, None])
        + special.xlogy(n - counts, 1 - rates[:, None])
    )
    covered = (limits[:, 0] <= rates[:, None]) & (rates[:, None] <= limits[:, 1])
    gained, lost = np.array([(up, down) for up in range(n + 1) for down in range(n + 1 - up)]).T
    both = [paired_difference(int(up), int(down), n) for up, down in zip(gained, lost, strict=True)]
    low, high = np.array([(found.low, found.high) for found in both]).T
    z = normal_quantile(0.95)
    tango = np.array(
        [
            (_tango_low(int(up), int(down), n, z), -_tango_low(int(down), int(up), n, z))
            for up, down in zip(gained, lost, strict=True)
        ]
    ).T
    grid = pairs()
    hull, alone = (_coverage(n, gained, lost, *ends, grid) for ends in ((low, high), tango))
    least = int(hull.argmin())
    return Enumerated(
        n,
        float((chances * covered).sum(axis=1).min()),
        float(hull[least]),
        (float(grid[least, 0]), float(grid[least, 1])),
        float((high - low).mean() / (tango[1] - tango[0]).mean()),
        float(alone.min()),
    )


def _coverage(
    n: int, gained: np.ndarray, lost: np.ndarray, low: np.ndarray, high: np.ndarray, grid: np.ndarray
) -> np.ndarray:
    tied = n - gained - lost
    ways = special.gammaln(n + 1) - sum(special.gammaln(count + 1) for count in (gained, lost, tied))
    rates = []
    for up, down in grid:
        logs = ways + special.xlogy(gained, up) + special.xlogy(lost, down)
        logs = logs + special.xlogy(tied, max(1 - up - down, 0.0))
        inside = (low <= up - down + 1e-12) & (up - down - 1e-12 <= high)
        rates.append(np.exp(logs[inside]).sum())
    return np.array(rates)


def main() -> None:
    print("| n | single, least | paired, least | at gained, lost | width / Tango's | Tango alone, least |")
    print("|---|---|---|---|---|---|")
    found = [enumerate_items(n) for n in (map(int, sys.argv[1:]) if sys.argv[1:] else range(5, 81))]
    for entry in found:
        print(
            f"| {entry.n} | {entry.proportion:.4f} | {entry.difference:.4f}"
            f" | {entry.worst[0]:.3f}, {entry.worst[1]:.3f} | {entry.width:.3f} | {entry.tango:.3f} |"
        )
    print(
        f"| all | {min(entry.proportion for entry in found):.4f} | {min(entry.difference for entry in found):.4f} |"
        f" | {max(entry.width for entry in found):.3f} | {min(entry.tango for entry in found):.3f} |"
    )


if __name__ == "__main__":
    main()
