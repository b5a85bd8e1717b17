"""What a gate can find: could it ever fail, could it ever pass?

A gate (``compare --margin``, the pytest fixture, ``check``) lets a run through unless its score is reliably lower and
the loss seen is over the margin; it shows *no worse* where a loss of the margin or more is ruled out. Between the two
lies *undecided*. On few items a gate may not be able to fail at all, or never to show anything: studies are simulated
from a world (:mod:`pcsuite.stats.power`) and put to the very rules that judge a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pcsuite.contrasts.scores import ArmScores, clusters_of, on_scored_items
from pcsuite.contrasts.verdicts import ALPHA, shown_no_worse
from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.power import (
    BinaryWorld,
    MeasuredWorld,
    PairedVariances,
    PairedWorld,
    flip_p_values,
    smallest_number,
    world_of_means,
)
from pcsuite.stats.shape_free import shape_free_test

STUDIES = 1_000
"""Simulated runs behind a chance: its standard error is at most 0.016."""
_STUDIES_OF_LIMITS = 250
POWER = 0.8
MOST_ITEMS = 20_000
_PARTS = 50
"""Numbers that suffice are told to within one part in so many: the chances are simulated."""
MOST_REPEATS = 50
_SEED = 20_241_101
_BOUNDS = (-1.0, 1.0)
"""What an item's difference can be."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate's design: how scores arise, how many of them there are, and its margin.

    >>> gate = Gate(BinaryWorld(0.8), items=5, margin=0.05)
    >>> gate.fails(0.3)
    0.0
    """

    world: PairedWorld
    items: int
    """Independent units: items, or clusters of related items."""
    repeats: int = 1
    margin: float = 0.0
    alpha: float = ALPHA
    unit: str = "item"
    """What the units are called: ``item`` or ``cluster``."""
    studies: int = STUDIES
    graded: bool = False
    """Whether scores lie between 0 and 1, so that the rules must hold whatever the shape of their differences."""

    def __post_init__(self) -> None:
        if self.items < 2:
            raise AnalysisError(f"items is {self.items}: a paired comparison needs at least 2")
        if self.repeats < 1:
            raise AnalysisError(f"repeats is {self.repeats}: at least 1 is needed")
        if not 0 <= self.margin < 1:
            raise AnalysisError(
                f"margin {self.margin:g}: a share of the score from 0 to below 1", hint="0.05"
            )

    @property
    def largest_loss(self) -> float:
        """The largest loss that scores leave room for, in score: from a mean of 0.8 no run can lose more than 0.8.

        A larger one is refused by the methods that take a loss.
        """
        return -self.world.room[0]

    def fails(self, loss: float) -> float:
        """Chance (0..1) that a run whose true score is lower by ``loss`` is found reliably lower, by over the margin.

        With a loss of 0 it is how often the gate fails where nothing changed.
        """
        drawn = (self._quick if self.graded else self)._differences(loss)
        reliable = self._p_values(drawn) < self.alpha
        return float((reliable & (drawn.mean(axis=1) < -self.margin)).mean())

    def shows_no_worse(self, loss: float = 0.0) -> float:
        """Chance (0..1) that a run is shown to be no worse by the margin; 0 without a margin.

        ``loss`` is what the run truly loses, in score; by default nothing. From fewer simulated studies than
        :meth:`fails`, since limits take longer: the standard error is at most 0.032.
        """
        if not self.margin:
            return 0.0
        known: dict[bytes, bool] = {}
        shown = 0
        for gains in self._quick._differences(loss):
            key = np.sort(gains).tobytes()
            if key not in known:
                test = shown_no_worse(
                    gains,
                    margin=self.margin,
                    alpha=self.alpha,
                    bounds=_BOUNDS,
                    assume="nothing" if self.graded else "symmetric",
                )
                known[key] = test is not None and test.shown
            shown += known[key]
        return shown / self._quick.studies

    def least_loss(self, power: float = POWER) -> float | None:
        """The smallest loss that fails the gate with this chance, in score; ``None`` where no loss does.

        To within 0.005. Where there is none, items are too few for a loss of everything to be found that often.
        """
        far = self.largest_loss
        if self.fails(far) < power:
            return None
        low, high = 0.0, far
        while high - low > 0.005:
            middle = (low + high) / 2
            low, high = (low, middle) if self.fails(middle) >= power else (middle, high)
        return high

    def items_to_find(self, loss: float, power: float = POWER) -> int | None:
        """Items with which a loss (in score) fails the gate with this chance; ``None`` where 20,000 do not suffice.

        To within a fiftieth; repeats and margin stay as they are.
        """
        return smallest_number(
            lambda items: replace(self, items=items).fails(loss) >= power,
            self.items,
            MOST_ITEMS,
            least=2,
            parts=_PARTS,
        )

    def items_to_show(self, power: float = POWER) -> int | None:
        """Items with which a run that did not change is shown to be no worse with this chance; ``None`` for none.

        To within a fiftieth, and at most 20,000. Without a margin nothing can be shown.
        """
        return smallest_number(
            lambda items: replace(self, items=items).shows_no_worse() >= power,
            self.items,
            MOST_ITEMS,
            least=2,
            parts=_PARTS,
        )

    def repeats_to_find(self, loss: float, power: float = POWER) -> int | None:
        """Repeats of the same items with which a loss fails the gate with this chance; ``None`` where 50 do not.

        Repeats average out what differs from answer to answer, and nothing of what differs from item to item.
        """
        return smallest_number(
            lambda repeats: replace(self, repeats=repeats).fails(loss) >= power, 1, MOST_REPEATS, parts=_PARTS
        )

    def repeats_to_show(self, power: float = POWER) -> int | None:
        """Repeats with which a run that did not change is shown to be no worse with this chance; ``None`` for none.

        At most 50 repeats of the same items.
        """
        return smallest_number(
            lambda repeats: replace(self, repeats=repeats).shows_no_worse() >= power,
            1,
            MOST_REPEATS,
            parts=_PARTS,
        )

    def _differences(self, loss: float) -> FloatArray:
        if not -1e-9 <= loss <= self.largest_loss + 1e-9:
            raise AnalysisError(
                f"a loss of {loss:g} does not fit: scores leave room for {self.largest_loss:g} at most"
            )
        # The same random numbers for every question, so that answers are in order.
        rng = np.random.default_rng(_SEED)
        drawn = self.world.draw(-loss, self.items, self.repeats, rng, self.studies)
        return np.clip(drawn, *_BOUNDS)

    @property
    def _quick(self) -> Gate:
        """The same with fewer studies: a limit takes a hundred times as long as an exact p-value."""
        return replace(self, studies=min(self.studies, _STUDIES_OF_LIMITS))

    def _p_values(self, drawn: FloatArray) -> FloatArray:
        """P-values of simulated studies by the rules of :func:`pcsuite.contrasts.measure`."""
        if self.graded:
            return np.array([shape_free_test(differences, bounds=_BOUNDS).p_value for differences in drawn])
        exact = flip_p_values(drawn, grain=self.repeats if isinstance(self.world, BinaryWorld) else 0)
        if self.repeats == 1 and isinstance(self.world, BinaryWorld):
            return exact
        special = require("scipy.special", "stats")
        spread = drawn.std(axis=1, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(drawn.mean(axis=1)) / (spread / math.sqrt(self.items))
        student = 2 * special.stdtr(self.items - 1, -t)
        return np.where(spread > 0, np.fmax(exact, student), exact)


def gate_of(first: ArmScores, second: ArmScores, *, margin: float, alpha: float = ALPHA) -> Gate | None:
    """The gate that two arms were just put through: as many items, as noisy; ``None`` where nothing can be said.

    Of clustered items the clusters are the units, each with the mean of its differences. Nothing is said of fewer than
    two units, of counts, of scores on another scale than 0 to 1, and of graded scores that did not differ anywhere.
    """
    if (
        first.counted
        or second.counted
        or any(arm.bounds not in (None, (0.0, 1.0)) for arm in (first, second))
    ):
        return None
    rows, (before, after) = on_scored_items([first, second])
    clusters = clusters_of([first, second], rows)
    repeats = max(1, round(min(first.replicates, second.replicates)))
    differences, unit = after - before, "item"
    if clusters is not None:
        sizes = np.bincount(clusters)
        differences, unit = np.bincount(clusters, weights=differences) / sizes, "cluster"
    if len(differences) < 2:
        return None
    if unit == "item" and first.binary and second.binary:
        return Gate(world_of_means(after, before, repeats), len(differences), repeats, margin, alpha)
    if not differences.std() > 0:
        return None
    world = MeasuredWorld(differences, PairedVariances(float(differences.var(ddof=1)), 0.0, 0.0))
    graded = not (first.binary and second.binary)
    return Gate(world, len(differences), 1, margin, alpha, unit, graded=graded)
