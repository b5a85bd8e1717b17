"""The cells of the simulation table: worlds whose truth is known, and what an interval, test or verdict must do there.

A module ``simulate_<subject>.py`` beside this one adds its families of cells; ``coverage_simulation.py`` finds and runs
them:

    from simulation_cells import Cell, family

    @family("pooled effects")
    def pooled_effects():
        yield Cell("6 tasks, no effect", "false positives", no_effect, at_most=0.05)

where ``no_effect(rng)`` makes one study and says whether what is counted happened in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

Study = Callable[[np.random.Generator], bool | None]
REJECTED = 0.01
"""Level of the exact binomial test by which a required rate is rejected."""
FAMILIES: dict[str, Callable[[], Iterable[Cell]]] = {}


@dataclass(frozen=True)
class Cell:
    """One world and one thing counted in it, over many studies."""

    name: str
    """The world, in words: sizes, rates, replicates."""
    measure: str
    """What is counted: coverage, false positives, false claims, power ..."""
    study: Study
    """Makes one study and says whether it happened; ``None`` where the study had nothing to say."""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def required(self) -> str:
        """The limits in words."""
        parts = [f"≥ {self.at_least:g}"] if self.at_least is not None else []
        parts += [f"≤ {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(parts) or "–"

    def verdict(self, rate: float, studies: int) -> str:
        """ "yes" within the limits, "within error" where an exact test at 1 % does not reject them, else "no"."""
        happened = round(rate * studies) if studies else 0
        p_value = 1.0
        if self.at_least is not None:
            p_value = min(p_value, float(special.bdtr(happened, studies, self.at_least)))
        if self.at_most is not None and happened:
            p_value = min(p_value, float(special.bdtrc(happened - 1, studies, self.at_most)))
        inside = (self.at_least is None or rate >= self.at_least) and (
            self.at_most is None or rate <= self.at_most
        )
        return "yes" if inside else "within error" if p_value >= REJECTED else "no"


def family(name: str) -> Callable[[Callable[[], Iterable[Cell]]], Callable[[], Iterable[Cell]]]:
    """Register a function that yields the cells of a family under this name."""

    def register(cells: Callable[[], Iterable[Cell]]) -> Callable[[], Iterable[Cell]]:
        FAMILIES[name] = cells
        return cells

    return register


def run_family(name: str, repetitions: int, only: str | None = None) -> Iterator[tuple[Cell, float, int]]:
    """Each cell of a family with its rate and the number of studies it rests on; every cell has its own generator."""
    for cell in FAMILIES[name]():
        if only is not None and only not in cell.name:
            continue
        rng = np.random.default_rng(
            [sum(map(ord, name)), sum(i * ord(c) for i, c in enumerate(cell.name, 1))]
        )
        outcomes = [said for _ in range(repetitions) if (said := cell.study(rng)) is not None]
        yield cell, float(np.mean(outcomes)) if outcomes else float("nan"), len(outcomes)
