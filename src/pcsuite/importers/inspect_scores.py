"""Values of inspect_ai scores as numbers, by that tool's own rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pcsuite.importers.base import as_number

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MEANS = ("accuracy", "mean")
"""Metrics of the tool that are plain means over samples."""


class Score(msgspec.Struct):
    """A score of a sample as it is logged."""

    value: Any = None
    answer: str | None = None
    reason: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def why_unscored(self) -> str | None:
        """The logged reason of an abnormal score; older logs keep it in the metadata."""
        older = (self.metadata or {}).get("unscored_reason")
        return self.reason or (str(older) if older else None)


class Metric(msgspec.Struct):
    """A metric over all samples."""

    value: float | None = None


class ScoreResult(msgspec.Struct):
    """What the tool reports for one scorer, or for one key of its values."""

    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    metrics: dict[str, Metric] = msgspec.field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The measure it is about."""
        return self.name if self.name == self.scorer else f"{self.scorer}.{self.name}"


def value_as_number(value: object) -> tuple[float | None, str | None]:
    """A scalar as inspect_ai's ``value_to_float`` takes it; then the value itself, where that is a guess of 0.

    The number is ``None`` for NaN, the tool's mark of a sample that is left unscored, and for nothing at all.
    """
    if isinstance(value, (bool, int, float)):
        return as_number(value), None
    if value is None:
        return None, None
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value], None
        if value.lower() in _WORDS:
            return _WORDS[value.lower()], None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number, None
    return 0.0, str(value)[:40]


def flat_values(scores: Mapping[str, Score]) -> Iterator[tuple[str, object]]:
    """Every scalar by its measure: the scorer, or ``scorer.key`` where a scorer gives several values."""
    for scorer, score in scores.items():
        if isinstance(score.value, dict):
            for key, value in score.value.items():
                yield f"{scorer}.{key}", value
        elif isinstance(score.value, list):
            for place, value in enumerate(score.value):
                yield f"{scorer}.{place}", value
        else:
            yield scorer, score.value


def reported_means(results: list[ScoreResult]) -> dict[str, float]:
    """The tool's own mean by measure, epochs averaged; other reducers answer other questions."""
    found: dict[str, float] = {}
    for result in results:
        if result.reducer not in (None, "mean"):
            continue
        for metric in _MEANS:
            value = result.metrics[metric].value if metric in result.metrics else None
            if value is not None and math.isfinite(value):
                found.setdefault(result.measure, value)
    return found
