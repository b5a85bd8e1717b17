"""How often the interval of an effect pooled over tasks holds the truth, where tasks are known very unequally well.

    python benchmarks/simulate_pooling.py                 # 500 studies a row, about three minutes
    python benchmarks/simulate_pooling.py --studies 2000

A study has ``k`` tasks whose true effects vary about 0 with the standard deviation τ, each seen with a standard error.
``ours`` is :func:`pcsuite.stats.pooling.random_effects`; beside it Hartung and Knapp's interval by itself (never below
the ordinary variance) and the profile likelihood, plain and with the quantile of t in place of the normal one. Widths
are in units of Hartung and Knapp's.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import optimize, stats

from pcsuite.stats.pooling import random_effects

WORLDS = {
    "equal": lambda k: np.full(k, 0.08),
    "spread 1:12": lambda k: np.geomspace(0.02, 0.25, k),
    "one sure 1:20": lambda k: np.r_[0.01, np.full(k - 1, 0.2)],
    "one unsure 13:1": lambda k: np.r_[0.4, np.full(k - 1, 0.03)],
    "two sure 1:25": lambda k: np.r_[0.01, 0.01, np.full(k - 2, 0.25)],
}
METHODS = ("ours", "Hartung–Knapp", "profile", "profile with t")


def profile_limits(values, variances, *, by_t=False, level=0.95):
    """Limits of the profile likelihood of the mean, τ² maximised out over a grid."""
    k, spread = len(values), np.var(values, ddof=1)
    grid = np.concatenate([[0.0], np.geomspace(1e-5 * spread + 1e-9, 200 * spread + 1e-6, 160)])
    total = variances[:, None] + grid
    base, weights = -0.5 * np.log(total).sum(axis=0), 1 / total
    squares, products, sums = ((values[:, None] ** p * weights).sum(axis=0) for p in (2, 1, 0))

    def log_likelihood(mean):
        return float((base - 0.5 * (squares - 2 * mean * products + mean**2 * sums)).max())

    means = products / sums
    best = int(np.argmax([log_likelihood(mean) for mean in means]))
    top, centre, step = log_likelihood(means[best]), means[best], 1 / np.sqrt(sums[best])
    drop = stats.chi2.ppf(level, 1) / 2
    if by_t:
        drop = k / 2 * np.log1p(stats.t.ppf((1 + level) / 2, k - 1) ** 2 / (k - 1))

    def excess(mean):
        return log_likelihood(mean) - top + drop

    ends = []
    for side in (-1, 1):
        reach = step
        while excess(centre + side * reach) > 0:
            reach *= 2
        ends.append(optimize.brentq(excess, centre, centre + side * reach, xtol=1e-5))
    return tuple(ends)


def rates(k, errors, tau, studies, rng):
    """Coverage and mean width of every method."""
    covered, widths = np.zeros(len(METHODS)), np.zeros(len(METHODS))
    for _ in range(studies):
        values = rng.normal(0, np.hypot(errors, tau))
        ours = random_effects(values, errors, predict=False)
        reach = stats.t.ppf(0.975, ours.df) * ours.mean.se
        limits = [
            (ours.mean.low, ours.mean.high),
            (ours.mean.value - reach, ours.mean.value + reach),
            profile_limits(values, errors**2),
            profile_limits(values, errors**2, by_t=True),
        ]
        covered += [low < 0 < high for low, high in limits]
        widths += [high - low for low, high in limits]
    return covered / studies, widths / widths[1]


def main() -> None:
    """Print a row for each number of tasks, kind of errors and τ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--tasks", type=int, nargs="+", default=[3, 4, 6, 10])
    args = parser.parse_args()
    print(
        "| tasks | standard errors | τ | " + " | ".join(f"{name} covers (width)" for name in METHODS) + " |"
    )
    print("|---|---|---|" + "---|" * len(METHODS))
    for k in args.tasks:
        for name, errors in WORLDS.items():
            for tau in (0.05, 0.1, 0.3):
                rng = np.random.default_rng([k, round(100 * tau), len(name)])
                covered, widths = rates(k, errors(k), tau, args.studies, rng)
                cells = [f"{share:.3f} ({width:.2f})" for share, width in zip(covered, widths, strict=True)]
                print(f"| {k} | {name} | {tau:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
