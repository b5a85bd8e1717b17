"""Are ``--posterior`` probabilities what they say? Of effects called better with probability p, how many are better.

    python benchmarks/posterior_calibration.py                 # 200 studies a world, about two minutes
    python benchmarks/posterior_calibration.py --write         # and put the table into docs/explanation/selection.md

A study ablates eight blocks on right-or-wrong answers of one set of items. True effects are drawn anew for each study:
about 0, about a common gain, or one block in four of any size and the others next to nothing; three further worlds were
kept apart until the prior was settled. Effects, limits and
probabilities are made by the functions that the commands call. *Sign*: the mean probability of the side that was called
likelier, and how often that side was right, in five bins from 0.5 to 1. *Within*: P(within ±0.05) and how many effects
are, in five bins from 0 to 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.posterior import shared_correlations, shrunken_effects

BLOCKS, MARGIN = 8, 0.05
PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "selection.md"
MARKS = ("<!-- posterior calibration -->", "<!-- end of posterior calibration -->")
BINS = {
    "sign": ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.001)),
    "within": ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.001)),
}


def about(centre, spread):
    return lambda rng: rng.normal(centre, spread, BLOCKS)


def sparse(rng):
    large = rng.random(BLOCKS) < 0.25
    return np.where(large, rng.normal(0, 0.2, BLOCKS), rng.normal(0, 0.01, BLOCKS))


def uniform(rng):
    return rng.uniform(-0.15, 0.15, BLOCKS)


def halves(rng):
    return np.where(rng.random(BLOCKS) < 0.5, 0.1, 0.005)


SEEN = {
    "about 0, spread 0.03": about(0.0, 0.03),
    "about 0, spread 0.1": about(0.0, 0.1),
    "about +0.05, spread 0.05": about(0.05, 0.05),
    "one in four 0.2, others 0.01": sparse,
}
"""Worlds that the prior was chosen on."""
APART = {
    "even between −0.15 and +0.15": uniform,
    "half +0.1, half next to 0": halves,
    "about −0.06, spread 0.03": about(-0.06, 0.03),
}
"""Worlds that nobody looked at before the prior was settled."""


def study(rng, items, truth):
    """Posteriors of the blocks of one study."""
    ease = rng.uniform(0.25, 0.75, items)
    arms = {"full": ArmScores((rng.random(items) < ease) * 1.0, bounds=(0.0, 1.0))}
    for index, effect in enumerate(truth):
        chance = np.clip(ease - effect, 0, 1)
        arms[f"-{index}"] = ArmScores((rng.random(items) < chance) * 1.0, bounds=(0.0, 1.0))
    contrasts = [Contrast.of("full", f"-{index}", tested=False) for index in range(len(truth))]
    measured = measure(arms, contrasts, rng=rng, resamples=500)
    related = shared_correlations([contrast.weights for contrast in contrasts])
    return shrunken_effects([entry.estimate for entry in measured], margin=MARGIN, correlations=related)


def outcomes(items, draw, studies, rng):
    """Stated probability and what was true, of the likelier sign and of being within the margin."""
    sign, within = [], []
    for _ in range(studies):
        truth = np.clip(draw(rng), -0.25, 0.25)
        for posterior, effect in zip(study(rng, items, truth), truth, strict=True):
            likelier = max(posterior.p_better, 1 - posterior.p_better)
            sign.append((likelier, (posterior.p_better > 0.5) == (effect > 0)))
            within.append((posterior.p_within, abs(effect) < MARGIN))
    return {"sign": sign, "within": within}


def row(items, world, what, entries):
    """A line of the table: stated → true in each bin."""
    table, cells = np.array(entries), []
    for low, high in BINS[what]:
        chosen = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        cells.append("–" if len(chosen) < 50 else "{:.2f} → {:.2f}".format(*chosen.mean(axis=0)))
    return f"| {items} | {world} | {what} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table, and write it into the page where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/explanation/selection.md"
    )
    args = parser.parse_args()
    lines = [
        "| items | true effects | of | lowest | low | middle | high | highest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for items in (24, 60, 200):
        drawn = {}
        for number, (name, draw) in enumerate({**SEEN, **APART}.items()):
            drawn[name] = outcomes(items, draw, args.studies, np.random.default_rng([items, number]))
        for title, worlds in (("four the prior was chosen on", SEEN), ("three kept apart", APART)):
            for what in BINS:
                together = [entry for name in worlds for entry in drawn[name][what]]
                lines.append(row(items, f"**{title}**", what, together))
        lines += [row(items, name, what, world[what]) for name, world in drawn.items() for what in BINS]
    print("\n".join(lines))
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        body = "\n".join([MARKS[0], "", *lines, "", MARKS[1]])
        PAGE.write_text(before + body + after, encoding="utf-8")


if __name__ == "__main__":
    main()
