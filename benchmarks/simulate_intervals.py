"""Cells of the per-item statistics: intervals of differences and levels, paired tests, equivalence, rates, information.

Worlds: n items, R replicates averaged within the item. An item's chance of success is Beta distributed about the rate
with strength ``spread`` (the smaller, the more items differ; ``None``: all alike), by the same quantile in both
conditions, so that hard items are hard in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import special
from simulation_cells import Cell, family

from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.answer_variation import disagreement
from pcsuite.stats.attribution import attribute
from pcsuite.stats.bootstrap import (
    UNBOUNDED,
    bootstrap_mean,
    bootstrap_micro_f1,
    bootstrap_micro_f1_difference,
    paired_bootstrap,
)
from pcsuite.stats.calibration import ece_interval
from pcsuite.stats.equivalence import noninferior_paired, tost_paired
from pcsuite.stats.estimate import Estimate
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.information import mutual_information
from pcsuite.stats.permutation import micro_f1_permutation_test, sign_flip_test
from pcsuite.stats.rates import cost_per_correct

SIZES = (8, 30, 100)
RATES = (
    (0.02, 0.02),
    (0.02, 0.98),
    (0.05, 0.5),
    (0.5, 0.5),
    (0.5, 0.7),
    (0.9, 0.97),
    (0.95, 0.999),
    (0.98, 0.9),
)
RESAMPLES = 1_000


def covers(estimate: Estimate, truth: float) -> bool:
    """Whether the truth lies in the interval, to rounding."""
    return estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def chances(rate: float, spread: float | None, quantiles: np.ndarray) -> np.ndarray:
    """Chance of success of each item, from its place among the items (0..1)."""
    if spread is None or rate in (0.0, 1.0):
        return np.full(quantiles.shape, rate)
    return special.betaincinv(rate * spread, (1 - rate) * spread, quantiles)


def scores(
    rng: np.random.Generator,
    n: int,
    rates: tuple[float, ...],
    replicates: tuple[int, ...],
    spread: float | None,
) -> list[np.ndarray]:
    """Item scores of each condition on the same items."""
    place = rng.random(n)
    return [rng.binomial(r, chances(p, spread, place)) / r for p, r in zip(rates, replicates, strict=True)]


def counts(
    rng: np.random.Generator, n: int, found: tuple[float, ...], spurious: tuple[float, ...]
) -> list[np.ndarray]:
    """``(tp, fp, fn)`` of each condition: one and more gold entities an item, found and spurious ones at the rates."""
    gold = 1 + rng.poisson(1.5, n)
    place = rng.random(n)
    sides = []
    for rate, wrong in zip(found, spurious, strict=True):
        hit = rng.binomial(gold, chances(rate, 4.0, place))
        sides.append(np.column_stack([hit, rng.poisson(wrong, n), gold - hit]).astype(float))
    return sides


def true_micro_f1(found: float, spurious: float) -> float:
    """2·E tp / (2·E tp + E fp + E fn), with 2.5 gold entities an item on average."""
    return float(micro_f1([[2.5 * found, spurious, 2.5 * (1 - found)]])[0])


@family("paired differences")
def paired_differences() -> Iterator[Cell]:
    """95 % intervals of ``paired_bootstrap``, as the tables print them."""

    def study(rng, n, rates, replicates, spread):
        control, treated = scores(rng, n, rates, (replicates, replicates), spread)
        estimate = paired_bootstrap(treated, control, rng=rng, resamples=RESAMPLES)
        return covers(estimate, rates[1] - rates[0])

    for n in SIZES:
        for replicates in (1, 3):
            for before, after in RATES:
                for spread in (None, 1.0):
                    alike = "alike" if spread is None else "unlike"
                    name = f"n {n}, R {replicates}, {before:g} → {after:g}, items {alike}"
                    # Where the expected number of items that differ is small, the few possible outcomes decide.
                    seen = n * (min(before, 1 - before) + min(after, 1 - after))
                    rare = seen * (replicates if spread is None else 1) < 12
                    most = 0.98 if n >= 30 and not rare else None
                    call = partial(study, n=n, rates=(before, after), replicates=replicates, spread=spread)
                    yield Cell(name, "coverage", call, 0.93, most, "few outcomes possible" if rare else "")


@family("levels")
def levels() -> Iterator[Cell]:
    """95 % intervals of mean scores (``bootstrap_mean``)."""

    def study(rng, n, rate, replicates):
        (level,) = scores(rng, n, (rate,), (replicates,), 1.0)
        return covers(bootstrap_mean(level, rng=rng, resamples=RESAMPLES), rate)

    for n in SIZES:
        for replicates in (1, 3):
            for rate in (0.02, 0.5, 0.9, 0.98):
                rare = n * min(rate, 1 - rate) < 5
                yield Cell(
                    f"n {n}, R {replicates}, {rate:g}",
                    "coverage",
                    partial(study, n=n, rate=rate, replicates=replicates),
                    0.93,
                    0.98 if n >= 30 and not rare else None,
                    "few outcomes possible" if rare else "",
                )


F1_WORLDS = {
    "0.02 → 0.98": ((0.02, 0.98), (0.05, 0.02)),
    "0.5 → 0.7": ((0.5, 0.7), (0.6, 0.4)),
    "0.9 → 0.97": ((0.9, 0.97), (0.1, 0.05)),
    "0.97 → 0.97": ((0.97, 0.97), (0.02, 0.02)),
    "0.05 → 0.5": ((0.05, 0.5), (1.0, 0.3)),
}


@family("micro-F1")
def micro_f1_cells() -> Iterator[Cell]:
    """95 % intervals of pooled F1 and of its difference, and the test of the difference."""

    def difference(rng, n, found, spurious):
        control, treated = counts(rng, n, found, spurious)
        truth = true_micro_f1(found[1], spurious[1]) - true_micro_f1(found[0], spurious[0])
        return covers(bootstrap_micro_f1_difference(treated, control, rng=rng, resamples=RESAMPLES), truth)

    def level(rng, n, found, spurious):
        (side,) = counts(rng, n, found[1:], spurious[1:])
        estimate = bootstrap_micro_f1(side, rng=rng, resamples=RESAMPLES)
        return covers(estimate, true_micro_f1(found[1], spurious[1]))

    def rejects(rng, n, found, spurious):
        control, treated = counts(rng, n, found, spurious)
        return micro_f1_permutation_test(treated, control, rng=rng, permutations=999).p_value <= 0.05

    for n in SIZES:
        for name, (found, spurious) in F1_WORLDS.items():
            call = {"n": n, "found": found, "spurious": spurious}
            rare = n * 2.5 * min(*found, *(1 - p for p in found)) < 10
            most, note = (
                (0.98, "") if n >= 30 and not rare else (None, "few outcomes possible" if rare else "")
            )
            yield Cell(f"n {n}, difference {name}", "coverage", partial(difference, **call), 0.93, most, note)
            yield Cell(
                f"n {n}, level {name[-4:].strip()}", "coverage", partial(level, **call), 0.93, most, note
            )
        same = {"n": n, "found": (0.7, 0.7), "spurious": (0.4, 0.4)}
        yield Cell(f"n {n}, no difference at 0.7", "false positives", partial(rejects, **same), None, 0.05)


@family("paired tests")
def paired_tests() -> Iterator[Cell]:
    """The sign-flip test at 5 % where nothing differs."""

    def rejects(rng, n, rate, replicates, spread):
        control, treated = scores(rng, n, (rate, rate), (replicates, replicates), spread)
        return sign_flip_test(treated - control, rng=rng, permutations=999).p_value <= 0.05

    for n in SIZES:
        for replicates in (1, 3):
            for rate in (0.05, 0.5, 0.95):
                call = partial(rejects, n=n, rate=rate, replicates=replicates, spread=1.0)
                yield Cell(f"n {n}, R {replicates}, {rate:g}", "false positives", call, None, 0.05)


@family("unequal replicates")
def unequal_replicates() -> Iterator[Cell]:
    """One answer against the mean of several where nothing differs: as ``compare`` and ``effects.csv`` test it."""

    def study(rng, n, rate, replicates, spread, what):
        control, treated = scores(rng, n, (rate, rate), replicates, spread)
        if what == "sign-flip":
            return sign_flip_test(treated - control, rng=rng, permutations=999).p_value <= 0.05
        arms = {
            "treated": ArmScores(treated, replicates=replicates[1]),
            "control": ArmScores(control, replicates=replicates[0]),
        }
        (change,) = measure(arms, [Contrast.of("treated", "control")], rng=rng)
        return covers(change.estimate, 0.0) if what == "coverage" else change.test.p_value <= 0.05

    for n in SIZES:
        for replicates in ((1, 10), (3, 10)):
            for rate in (0.05, 0.2, 0.9):
                world = f"n {n}, R {replicates[0]} and {replicates[1]}, {rate:g}"
                call = {"n": n, "rate": rate, "replicates": replicates, "spread": None}
                yield Cell(world, "false positives", partial(study, what="test", **call), None, 0.05)
                yield Cell(world, "coverage", partial(study, what="coverage", **call), 0.93)
                if n == 30:
                    yield Cell(
                        world,
                        "false positives",
                        partial(study, what="sign-flip", **call),
                        note="sign-flip test, not used here",
                    )


MARGINS = (
    (8, 0.95, 0.999),
    (100, 0.95, 0.999),
    (8, 0.98, 0.9),
    (30, 0.9, 0.95),
    (100, 0.6, 0.55),
    (300, 0.9, 0.85),
)


@family("equivalence")
def equivalence() -> Iterator[Cell]:
    """Claims of sameness and of non-inferiority where the true difference is the margin itself."""

    def study(claim: Callable[..., object], said: tuple[str, ...], rng, n, rates, replicates):
        control, treated = scores(rng, n, rates, (replicates, replicates), 1.0)
        return claim(treated, control).verdict in said

    for n, before, after in MARGINS:
        for replicates in (1, 3):
            gap = after - before
            world = f"n {n}, R {replicates}, {before:g} → {after:g}"
            call = {"n": n, "rates": (before, after), "replicates": replicates}
            same = partial(study, partial(tost_paired, bound=abs(gap)), ("equivalent", "both"), **call)
            yield Cell(f"{world}, bound {abs(gap):.3g}", "false claims of equivalence", same, None, 0.05)
            if gap < 0:
                no_worse = partial(study, partial(noninferior_paired, margin=-gap), ("noninferior",), **call)
                yield Cell(f"{world}, margin {-gap:.3g}", "false claims of no loss", no_worse, None, 0.05)
    for n, margin in ((100, 0.05), (300, 0.05), (100, 0.1)):
        call = {"n": n, "rates": (0.95, 0.95), "replicates": 1}
        sure = partial(study, partial(noninferior_paired, margin=margin), ("noninferior",), **call)
        yield Cell(f"n {n}, R 1, 0.95 → 0.95, margin {margin:g}", "power of no loss", sure)


@family("rates and information")
def rates_and_information() -> Iterator[Cell]:
    """Tokens per right answer, mutual information, ECE, and how much answers vary."""

    def per_correct(rng, n, rate):
        tokens, right = rng.lognormal(5, 0.4, n), rng.random(n) < rate
        return covers(cost_per_correct(tokens, right, rng=rng, resamples=RESAMPLES), np.exp(5.08) / rate)

    def told(rng, n, accuracy):
        joint = np.full((4, 4), (1 - accuracy) / 12)
        np.fill_diagonal(joint, accuracy / 4)
        truth = float((joint * np.log(joint * 16)).sum())
        cells = rng.choice(16, size=n, p=joint.ravel())
        options = {"resamples": 300, "permutations": 99, "labels": 4}
        return covers(mutual_information(cells // 4, cells % 4, rng=rng, **options).information, truth)

    def gap(rng, n, excess):
        stated = excess + (1 - excess) * rng.beta(4, 1.5, n)
        # Every bin is off by the same, so that is the true ECE whatever the bins.
        return covers(ece_interval(stated, rng.random(n) < stated - excess, rng=rng, resamples=300), excess)

    def differing(rng, n, agreement):
        # Every answer is the usual one with this chance, else one of three others alike.
        chance = np.array([agreement, *[(1 - agreement) / 3] * 3])
        counts = rng.multinomial(3, chance, size=n)
        options = {"resamples": RESAMPLES, "bounds": (0.0, 1.0)}
        return covers(bootstrap_mean(disagreement(counts), rng=rng, **options), 1 - float((chance**2).sum()))

    for n in (10, 30, 100):
        for rate in (0.03, 0.1, 0.5):
            name = f"n {n}, {rate:g} right, tokens per right answer"
            yield Cell(name, "coverage", partial(per_correct, n=n, rate=rate), 0.93)
        for accuracy in (0.25, 0.6, 0.95):
            name = f"n {n}, 4 labels, {accuracy:g} right, mutual information"
            yield Cell(name, "coverage", partial(told, n=n, accuracy=accuracy), 0.93)
        for excess in (0.0, 0.1, 0.3):
            name = f"n {n}, confidence {excess:g} too high, ECE"
            yield Cell(name, "coverage", partial(gap, n=n, excess=excess), 0.93)
        for agreement in (0.7, 0.99):
            name = f"n {n}, R 3, usual answer {agreement:g}, disagreement"
            yield Cell(name, "coverage", partial(differing, n=n, agreement=agreement), 0.93)


AMOUNTS: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], float]] = {
    # A retry now and then costs a second call of 400 tokens; all other answers cost the same.
    "tokens, 5 % retried": (lambda rng, n: 400.0 * (rng.random(n) < 0.05), 20.0),
    "tokens, 20 % retried": (lambda rng, n: 400.0 * (rng.random(n) < 0.2), 80.0),
    # Retries of very unequal length: few items carry most of the sum.
    "tokens, 20 % retried, lognormal": (
        lambda rng, n: (rng.random(n) < 0.2) * rng.lognormal(5, 1, n),
        0.2 * float(np.exp(5.5)),
    ),
    "tokens, block of 85 and answers ± 10": (
        lambda rng, n: 85 + rng.poisson(40, n) - rng.poisson(40, n) * 1.0,
        85.0,
    ),
    "calls, 0.05 more": (lambda rng, n: rng.poisson(0.05, n) * 1.0, 0.05),
    "calls, 0.5 more": (lambda rng, n: rng.poisson(0.5, n) * 1.0, 0.5),
    "dollars, 20 % retried": (lambda rng, n: 2e-5 * (rng.random(n) < 0.2), 4e-6),
    "milliseconds, lognormal": (
        lambda rng, n: rng.lognormal(6.2, 0.6, n) - rng.lognormal(6, 0.6, n),
        float(np.exp(6.38) - np.exp(6.18)),
    ),
}
"""Differences of amounts that have no bounds, and their true means."""


@family("amounts without bounds")
def amounts() -> Iterator[Cell]:
    """95 % intervals of differences in tokens, calls, dollars and milliseconds; an open interval claims nothing."""

    def study(rng, n, draw, truth):
        estimate = paired_bootstrap(draw(rng, n), rng=rng, resamples=RESAMPLES, bounds=UNBOUNDED)
        return None if np.isnan(estimate.low) else covers(estimate, truth)

    for n in SIZES:
        for name, (draw, truth) in AMOUNTS.items():
            yield Cell(f"n {n}, {name}", "coverage", partial(study, n=n, draw=draw, truth=truth), 0.93)


@family("many items")
def many_items() -> Iterator[Cell]:
    """What begins at 1,000 to 4,000 items: limits in closed form, signs by their saddlepoint, normal totals."""
    bundles = [(), ("A",), ("A", "B"), ("A", "B", "C")]

    def difference(rng, n, rates, replicates):
        control, treated = scores(rng, n, rates, (replicates, replicates), 1.0)
        return covers(paired_bootstrap(treated, control, rng=rng, resamples=RESAMPLES), rates[1] - rates[0])

    def rejects(rng, n, rate, replicates):
        control, treated = scores(rng, n, (rate, rate), (replicates, replicates), None)
        return sign_flip_test(treated - control, rng=rng, permutations=999).p_value <= 0.05

    def f1_difference(rng, n, found, spurious):
        control, treated = counts(rng, n, found, spurious)
        truth = true_micro_f1(found[1], spurious[1]) - true_micro_f1(found[0], spurious[0])
        return covers(bootstrap_micro_f1_difference(treated, control, rng=rng, resamples=RESAMPLES), truth)

    def f1_rejects(rng, n):
        control, treated = counts(rng, n, (0.7, 0.7), (0.4, 0.4))
        return micro_f1_permutation_test(treated, control, rng=rng, permutations=999).p_value <= 0.05

    def per_correct(rng, n, rate):
        tokens, right = rng.lognormal(5, 0.4, n), rng.random(n) < rate
        return covers(cost_per_correct(tokens, right, rng=rng, resamples=RESAMPLES), np.exp(5.08) / rate)

    def gap(rng, n, excess):
        stated = excess + (1 - excess) * rng.beta(4, 1.5, n)
        return covers(ece_interval(stated, rng.random(n) < stated - excess, rng=rng, resamples=300), excess)

    def attributed(rng, n, counted):
        table = np.column_stack(scores(rng, n, (0.5, 0.5, 0.6, 0.6), (1, 1, 1, 1), 1.0))
        found = {
            one.operator: one for one in attribute(table, bundles, rng=rng) if one.method == "least squares"
        }
        if counted == "coverage":
            return covers(found["B"].effect, 0.1)
        return found["A"].test.p_value <= 0.05

    for n in (2_500, 5_000):
        for before, after in ((0.02, 0.02), (0.5, 0.5), (0.5, 0.55), (0.95, 0.999)):
            for replicates in (1, 3):
                call = partial(difference, n=n, rates=(before, after), replicates=replicates)
                name = f"n {n:,}, R {replicates}, {before:g} → {after:g}"
                yield Cell(name, "coverage", call, 0.93, 0.98)
        for rate in (0.4, 0.5):  # over 2,000 items differ
            call = partial(rejects, n=n, rate=rate, replicates=10)
            yield Cell(f"n {n:,}, R 10, {rate:g}, sign flips", "false positives", call, None, 0.05)
        for name in ("0.5 → 0.7", "0.97 → 0.97"):
            found, spurious = F1_WORLDS[name]
            call = partial(f1_difference, n=n, found=found, spurious=spurious)
            yield Cell(f"n {n:,}, micro-F1 {name}", "coverage", call, 0.93, 0.98)
        yield Cell(
            f"n {n:,}, micro-F1, no difference", "false positives", partial(f1_rejects, n=n), None, 0.05
        )
        call = partial(per_correct, n=n, rate=0.5)
        yield Cell(f"n {n:,}, 0.5 right, tokens per right answer", "coverage", call, 0.93, 0.98)
        for excess in (0.0, 0.1):
            name = f"n {n:,}, confidence {excess:g} too high, ECE"
            yield Cell(name, "coverage", partial(gap, n=n, excess=excess), 0.93)
        for counted, least, most in (("coverage", 0.93, 0.98), ("false positives", None, 0.05)):
            call = partial(attributed, n=n, counted=counted)
            yield Cell(f"n {n:,}, attribution by least squares", counted, call, least, most)
