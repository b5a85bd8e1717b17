"""The part of a row that it is judged by, and keeping it while the log is open."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

from pcsuite.errors import CallOutcome
from pcsuite.logging.row import UsageRecord, outcome_of


class RowKey(msgspec.Struct):
    """The part of a row that the index reads; everything else is skipped without making objects."""

    run_id: str
    errors: list[Any]


class _ScoredGeneration(msgspec.Struct):
    finish_reason: str = ""
    latency_ms: float | None = None
    usage: UsageRecord | None = None
    steps: int | None = None
    tool_calls: int = 0


class _ScoredAnswer(msgspec.Struct):
    answer: str | None = None
    reading: str = ""


class _ScoredCheck(msgspec.Struct, frozen=True):
    """Whether a check held, and of which block it is."""

    passed: bool = False
    block: str = ""


class _ScoredName(msgspec.Struct, frozen=True):
    """One of several scores that a scorer gave by name."""

    value: float = math.nan


class ScoredRow(RowKey):
    """The part of a row that it is judged by: a few hundred bytes, whatever was asked and answered."""

    generation: _ScoredGeneration | None = None
    parsed: _ScoredAnswer | None = None
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    outcome: str = ""
    checks: dict[str, _ScoredCheck] = msgspec.field(default_factory=dict)
    scores: dict[str, _ScoredName] = msgspec.field(default_factory=dict)

    @property
    def became(self) -> CallOutcome:
        """What became of the call; of rows of earlier versions, which do not say it, concluded from how they ended."""
        if self.outcome:
            return cast(CallOutcome, self.outcome)
        if self.errors or self.generation is None:
            return "failed"
        return outcome_of(self.generation.finish_reason)


_SCORED = msgspec.json.Decoder(ScoredRow)


class LoggedScores:
    """A metric of a log's rows by run id, for who judges while the log is open.

    Given to a :class:`~pcsuite.logging.log.RunLog` it is handed every line once: those that the log has when it is
    opened, then each that is appended. The newest row of an id counts. Who needs more of the rows overrides
    :meth:`keep`.
    """

    def __init__(self, metric: str = "task_score") -> None:
        self.metric = metric
        self.values: dict[str, float] = {}
        """By run id; rows that failed or lack the metric have none."""

    def take(self, line: bytes) -> ScoredRow:
        """Decode a row and keep what is needed of it.

        Raises :class:`msgspec.MsgspecError` on a line that is no row.
        """
        row = _SCORED.decode(line)
        self.keep(row)
        return row

    def keep(self, row: ScoredRow) -> None:
        """Keep what is needed of a row, in place of what an earlier row of its id had."""
        value = row.metrics.get(self.metric)
        if isinstance(value, (bool, int, float)) and not row.errors:
            self.values[row.run_id] = float(value)
        else:
            self.values.pop(row.run_id, None)
