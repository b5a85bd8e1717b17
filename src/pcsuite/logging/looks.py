"""``<run>.looks.ndjson`` beside a log: what a run that may stop early saw at each look, and what it made of it.

Looks are part of the inference, so they are written when they are taken and never taken again: a resumed run reads them
and goes on from the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from pcsuite._util.append import AppendFile, read_lines
from pcsuite._util.files import next_free
from pcsuite.logging.segments import Beside


class ArmKey(NamedTuple):
    """Names an arm: a condition against its baseline on a task, model and regime."""

    task: str
    model: str
    decoding: str
    condition: str
    baseline: str


class Look(msgspec.Struct, frozen=True):
    """An arm at one look."""

    task: str
    model: str
    decoding: str
    condition: str
    baseline: str
    metric: str
    visited: int
    """Items of the task that had been visited."""
    items: int
    """Those that both conditions have a score of; replicates are averaged within the item."""
    mean: float
    low: float
    """Limits of the mean difference that hold at all looks of all arms of the family at once."""
    high: float
    level: float
    """Level of the arm's confidence sequence; the family's is lower."""
    p_value: float
    """Anytime-valid two-sided p-value of no difference, for this arm alone."""
    margin: float | None
    verdict: str
    stopped: bool
    """Whether the arm was stopped by this look."""
    at_utc: str = ""
    missing: int = 0
    """Items visited of which an answer is missing on either side."""
    clusters: int = 0
    """Clusters of the items; 0 in looks of earlier versions, whose items stand for themselves."""
    rule: str = "betting"
    """``betting`` after every batch, or the spending of looks that were planned, such as ``obrien-fleming``."""
    number: int = 0
    """Which of the planned looks it is, from 1; 0 of a look after a batch."""
    planned: int = 0
    """How many looks were planned; 0 where one looks after every batch."""
    moved: int | None = None
    """At a planned look, of right-or-wrong answers on unrelated items: those that differ; else ``None``."""
    no_worse: bool = False
    """Whether a loss of the margin is ruled out, at a planned look, whatever the verdict."""
    most_lost: float | None = None
    """The one-sided limit of the loss that ``no_worse`` rests on; ``None`` where none is ruled out, and in looks of
    earlier versions."""
    unbiased: float | None = None
    """The mean without the bias of stopping by what one sees, of the look that stopped the arm; else ``None``."""

    @property
    def effect(self) -> float:
        """The mean difference to report: without the bias of stopping where the arm was stopped."""
        return self.mean if self.unbiased is None else self.unbiased

    @property
    def arm(self) -> ArmKey:
        """The arm it is a look at."""
        return ArmKey(self.task, self.model, self.decoding, self.condition, self.baseline)


def read_looks(log: Path) -> list[Look]:
    """The looks of a run in the order they were taken; none where it took none.

    A line that is torn (the last, after a kill) is passed over: what it said is worked out again.
    """
    looks = []
    for line in read_lines(Beside.LOOKS.of(log)):
        try:
            looks.append(msgspec.json.decode(line, type=Look))
        except msgspec.MsgspecError:
            continue
    return looks


def last_looks(looks: Iterable[Look]) -> dict[ArmKey, Look]:
    """The last look at each arm."""
    return {look.arm: look for look in looks}


class LooksFile:
    """The looks of a run, open for appending; each is on disk before the next call is made."""

    def __init__(self, log: Path, *, fresh: bool) -> None:
        """Open the file of a ``log``; those of an earlier run that has been set aside (``fresh``) are set aside too."""
        path = Beside.LOOKS.of(log)
        if fresh and path.exists():
            path.rename(next_free(lambda number: Beside.LOOKS.of(log.with_suffix(f".old-{number}.jsonl"))))
        self.earlier = read_looks(log)
        self._file = AppendFile(path)

    def append(self, look: Look) -> None:
        """Write a look to the disk.

        It is there when this returns. Raises :class:`LogError` where it cannot be written.
        """
        self._file.write(msgspec.json.encode(look) + b"\n")
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
