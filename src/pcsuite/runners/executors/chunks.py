"""Cutting a model's units into chunks that travel, and taking back what a lost worker did not finish."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from pcsuite.runners.plan import Plan, Unit, run_id

FIRST_ROWS = 32
"""Size of a chunk while the pace is not known."""
MOST_ROWS = 2000
CHUNK_SECONDS = 2.0
"""Work that one chunk should be: long against the cost of a message, short against the run."""
LEAST_SECONDS = 0.1
"""Below this a chunk is not cut at the end of a run, where all workers should end together."""
_PACE_MEMORY = 0.5

UnitKey = tuple[int, int, int, int]
"""Places of a unit's cell, item and perturbation in the plan, and its seed."""


class UnitKeys:
    """Names units by their places in a plan, so that a worker that has the plan finds them again."""

    def __init__(self, plan: Plan) -> None:
        self._cells = {id(cell): place for place, cell in enumerate(plan.cells)}
        self._items = {
            task.id: {item.item_id: place for place, item in enumerate(task.items)}
            for task in plan.tasks.values()
        }

    def key_of(self, unit: Unit) -> UnitKey:
        """The key of a unit of the plan, or of a plan with some of its cells left out."""
        cell = unit.cell
        return (
            self._cells[id(cell)],
            self._items[cell.task.id][unit.item.item_id],
            cell.perturbations.index(unit.perturbation),
            unit.seed,
        )


def unit_of(plan: Plan, key: UnitKey) -> Unit:
    """The unit that a key names."""
    cell_place, item_place, perturbation_place, seed = key
    cell = plan.cells[cell_place]
    item = cell.task.items[item_place]
    perturbation = cell.perturbations[perturbation_place]
    return Unit(cell, item, seed, perturbation, run_id(cell, item, seed, perturbation))


@dataclass(slots=True)
class Chunk:
    """Units on their way; what came back is taken out of ``waiting``."""

    waiting: dict[str, Unit]
    rows: int
    begun: float
    lanes: int
    """How many chunks were asked for side by side."""
    came_back: int = field(default=0)

    def arrived(self, run_id: str) -> bool:
        """Whether a row was waited for; it no longer is."""
        found = self.waiting.pop(run_id, None) is not None
        self.came_back += found
        return found


class ChunkSource:
    """The units of one model that are still to be handed out."""

    def __init__(
        self, units: Iterator[Unit], pending: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._units = units
        self.left = pending
        """Rows not handed out yet, as planned."""
        self._returned: deque[Unit] = deque()
        self.under_way = 0
        """Chunks handed out and not closed."""
        self.finished = False
        """Whether every unit came back."""
        self._pace: float | None = None
        self._clock = clock
        self._changed = asyncio.Event()

    async def take(self, lanes: int) -> Chunk | None:
        """The next chunk, for one of ``lanes`` takers; waits while one under way might be given back."""
        while True:
            units = self._next_units(self._size(lanes))
            if units:
                self.under_way += 1
                waiting = {unit.run_id: unit for unit in units}
                return Chunk(waiting, len(units), self._clock(), lanes)
            if not self.under_way:
                self.finished = True
                self._changed.set()
                return None
            self._changed.clear()
            await self._changed.wait()

    def close(self, chunk: Chunk) -> None:
        """Say that a chunk is over; what did not come back is handed out again."""
        self.under_way -= 1
        seconds = max(self._clock() - chunk.begun, 1e-6)
        if chunk.waiting:
            self._returned.extend(chunk.waiting.values())
            self.left += len(chunk.waiting)
        elif chunk.came_back:
            pace = chunk.came_back / seconds
            self._pace = pace if self._pace is None else _PACE_MEMORY * self._pace + (1 - _PACE_MEMORY) * pace
        self._changed.set()

    def _size(self, lanes: int) -> int:
        even = -(-self.left // (2 * max(1, lanes)))
        if self._pace is None:
            return max(1, min(FIRST_ROWS, even))
        wanted = min(MOST_ROWS, round(self._pace * CHUNK_SECONDS))
        return max(1, min(wanted, max(even, round(self._pace * LEAST_SECONDS))))

    def _next_units(self, count: int) -> list[Unit]:
        units = [self._returned.popleft() for _ in range(min(count, len(self._returned)))]
        units += islice(self._units, count - len(units))
        self.left = max(0, self.left - len(units))
        return units
