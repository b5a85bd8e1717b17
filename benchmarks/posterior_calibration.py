"""Are ``--posterior`` probabilities what they say? Of effects called better with probability p, how many are better.

    python benchmarks/posterior_calibration.py                 # 400 studies a world, about two minutes
    python benchmarks/posterior_calibration.py --write         # and put the table into docs/explanation/selection.md

A study ablates eight blocks on right-or-wrong answers of one set of items. True effects are drawn anew for each study:
about 0, about a common gain, or one block in four of any size and the others next to nothing. Effects, limits and
probabilities are made by the functions that the commands call. ``stated`` is the mean probability of the side that was
called likelier, ``true`` how often that side was right; ``within`` the same of P(within ±0.05).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.posterior import shrunken_effects

BLOCKS, MARGIN = 8, 0.05
PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "selection.md"
MARKS = ("<!-- posterior calibration -->", "<!-- end of posterior calibration -->")
BINS = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.001))


def about(centre, spread):
    return lambda rng: rng.normal(centre, spread, BLOCKS)


def sparse(rng):
    large = rng.random(BLOCKS) < 0.25
    return np.where(large, rng.normal(0, 0.2, BLOCKS), rng.normal(0, 0.01, BLOCKS))


WORLDS = {
    "about 0, spread 0.03": about(0.0, 0.03),
    "about 0, spread 0.1": about(0.0, 0.1),
    "about +0.05, spread 0.05": about(0.05, 0.05),
    "one in four 0.2, others 0.01": sparse,
}


def study(rng, items, truth):
    """Posteriors of the blocks of one study."""
    ease = rng.uniform(0.25, 0.75, items)
    arms = {"full": ArmScores((rng.random(items) < ease) * 1.0, bounds=(0.0, 1.0))}
    for index, effect in enumerate(truth):
        chance = np.clip(ease - effect, 0, 1)
        arms[f"-{index}"] = ArmScores((rng.random(items) < chance) * 1.0, bounds=(0.0, 1.0))
    contrasts = [Contrast.of("full", f"-{index}", tested=False) for index in range(len(truth))]
    measured = measure(arms, contrasts, rng=rng, resamples=500)
    return shrunken_effects([entry.estimate for entry in measured], margin=MARGIN)


def reliability(items, draw, studies, rng):
    """Stated and true shares by bin, of the sign and of being within the margin."""
    sign, inside = [], []
    for _ in range(studies):
        truth = np.clip(draw(rng), -0.25, 0.25)
        for posterior, effect in zip(study(rng, items, truth), truth, strict=True):
            likelier = max(posterior.p_better, 1 - posterior.p_better)
            sign.append((likelier, (posterior.p_better > 0.5) == (effect > 0)))
            inside.append((posterior.p_within, abs(effect) < MARGIN))
    rows = []
    for entries in (np.array(sign), np.array(inside)):
        cells = []
        for low, high in BINS:
            chosen = entries[(entries[:, 0] >= low) & (entries[:, 0] < high)]
            stated, true = chosen.mean(axis=0) if len(chosen) >= 50 else (np.nan, np.nan)
            cells.append("–" if len(chosen) < 50 else f"{stated:.2f} → {true:.2f}")
        rows.append(cells)
    return rows


def main() -> None:
    """Print the table, and write it into the page where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/explanation/selection.md"
    )
    args = parser.parse_args()
    heads = " | ".join(f"{low:g}–{min(high, 1):g}" for low, high in BINS)
    lines = [f"| items | true effects | of | {heads} |", "|---|---|---|" + "---|" * len(BINS)]
    for items in (24, 60, 200):
        for number, (name, draw) in enumerate(WORLDS.items()):
            rng = np.random.default_rng([items, number])
            for what, cells in zip(
                ("sign", "within"), reliability(items, draw, args.studies, rng), strict=True
            ):
                lines.append(f"| {items} | {name} | {what} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        body = "\n".join([MARKS[0], "", *lines, "", MARKS[1]])
        PAGE.write_text(before + body + after, encoding="utf-8")


if __name__ == "__main__":
    main()
