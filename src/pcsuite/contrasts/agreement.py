"""Whether an effect is one of the answers or of their form: the same answers read strictly and leniently.

A condition that only changes how answers are written moves the strict score and leaves the lenient one where it was.
Such a change is real, and no change of what the model knows: it is told as :data:`FORM`, and no headline rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcsuite.contrasts.measuring import Measurement
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.intervals import interval_at

FORM = "the form, not the answer"
"""What stands beside an effect on which the two readings of the answers do not agree."""
APART = 0.5
"""Share of the larger effect by which two readings are far apart, whatever chance could add."""
LEVEL = 0.95
"""Level of the limits by which they are apart beyond chance."""


@dataclass(frozen=True, slots=True)
class ReadEffect:
    """An effect under one way of reading the answers."""

    value: float
    holds: bool
    """Whether it is better, worse or changed after the correction over its family."""
    no_worse: bool = False
    """Whether a loss of the margin or more is ruled out, where that was asked."""
    measured: Measurement | None = None
    """What it was measured from, item by item; ``None`` where that is not at hand."""


def is_form(strict: ReadEffect, lenient: ReadEffect) -> bool:
    """Whether an effect is one of the form: the readings differ in its sign, or in whether it holds and in its size.

    Two effects about 0 whose signs differ are no disagreement where both readings show that nothing is lost: then
    they say the same. One that holds under one reading alone is of the form where the two are :func:`apart`: a
    p-value just below the limit and one just above it are no two answers.

    >>> is_form(ReadEffect(0.51, True), ReadEffect(-0.03, False)), is_form(ReadEffect(0.2, True), ReadEffect(0.1, True))
    (True, False)
    >>> is_form(ReadEffect(0.29, True), ReadEffect(0.29, False))
    False
    """
    if strict.holds != lenient.holds:
        return apart(strict, lenient)
    if not strict.holds and strict.no_worse and lenient.no_worse:
        return False
    return strict.value * lenient.value < 0


def apart(strict: ReadEffect, lenient: ReadEffect) -> bool:
    """Whether two readings of the same answers tell effects that differ: by half of the larger one, or beyond chance.

    Chance is asked of the items: the limits of the mean of what each one's effect differs by, with its cluster. Where
    the two were not measured on the same items, any difference counts.
    """
    difference = abs(strict.value - lenient.value)
    if difference >= APART * max(abs(strict.value), abs(lenient.value)):
        return difference > 0
    first, second = strict.measured, lenient.measured
    if first is None or second is None or first.n != second.n:
        return difference > 0
    by_item = first.differences - second.differences
    if first.n < 2 or not by_item.any():
        return False
    reach = first.bounds[1] - first.bounds[0]
    if first.clusters is None:
        limits = interval_at(by_item, LEVEL, bounds=(-reach, reach), single=False)
    else:
        limits = cluster_interval(by_item, first.clusters, level=LEVEL, bounds=(-reach, reach))
    return limits.low > 0 or limits.high < 0
