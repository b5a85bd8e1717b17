"""Whether an effect is one of the answers or of their form: the same answers read strictly and leniently.

A condition that only changes how answers are written moves the strict score and leaves the lenient one where it was.
Such a change is real, and no change of what the model knows: it is told as :data:`FORM`, and no headline rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

FORM = "the form, not the answer"
"""What stands beside an effect on which the two readings of the answers do not agree."""


@dataclass(frozen=True, slots=True)
class ReadEffect:
    """An effect under one way of reading the answers."""

    value: float
    holds: bool
    """Whether it is better, worse or changed after the correction over its family."""
    no_worse: bool = False
    """Whether a loss of the margin or more is ruled out, where that was asked."""


def is_form(strict: ReadEffect, lenient: ReadEffect) -> bool:
    """Whether an effect is one of the form: it holds under one reading alone, or the readings differ in its sign.

    Two effects about 0 whose signs differ are no disagreement where both readings show that nothing is lost: then
    they say the same.

    >>> is_form(ReadEffect(0.51, True), ReadEffect(-0.03, False)), is_form(ReadEffect(0.2, True), ReadEffect(0.1, True))
    (True, False)
    """
    if strict.holds != lenient.holds:
        return True
    if not strict.holds and strict.no_worse and lenient.no_worse:
        return False
    return strict.value * lenient.value < 0
