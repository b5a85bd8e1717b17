"""Counts of verdicts and what follows from them: precision, recall, F1; over several evals macro and micro."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pcsuite.stats.f1 import f1_score, micro_f1, precision_recall_f1

ErrorType = Literal["omission", "hallucination", "format_error", "wrong_value"]
ERROR_TYPES: tuple[ErrorType, ...] = ("omission", "hallucination", "format_error", "wrong_value")
ERROR_MEANINGS = {
    "omission": "in the truth, missing in the extraction",
    "hallucination": "in the extraction, not in the truth",
    "format_error": "given, but of the wrong type",
    "wrong_value": "given, of the right type, but another value",
}
Interval = tuple[float, float]
"""Low and high end of a 95 % interval."""
_RESAMPLES, _SEED, _LEVEL = 10_000, 1337, 0.95


@dataclass(slots=True)
class Counts:
    """Verdicts on fields. TP are matches; a wrong or mistyped value is both a false positive and a false negative."""

    matches: float = 0
    omission: float = 0
    hallucination: float = 0
    format_error: float = 0
    wrong_value: float = 0

    def add(self, verdict: str, amount: float = 1) -> None:
        """Count a verdict: ``match`` or one of :data:`ERROR_TYPES`, ``amount`` times (or by that weight)."""
        name = "matches" if verdict == "match" else verdict
        setattr(self, name, getattr(self, name) + amount)

    @property
    def false_positives(self) -> float:
        """Values given that are not in the truth as given.

        Invented, mistyped and wrong values: what precision pays for.
        """
        return self.hallucination + self.format_error + self.wrong_value

    @property
    def false_negatives(self) -> float:
        """Truth values that were not given as they are.

        Missing, mistyped and wrong values: what recall pays for. A wrong value costs both.
        """
        return self.omission + self.format_error + self.wrong_value

    @property
    def triple(self) -> tuple[float, float, float]:
        """``(TP, FP, FN)``, which is what the statistics of ``pcsuite.stats`` take."""
        return self.matches, self.false_positives, self.false_negatives

    @property
    def precision(self) -> float:
        """Share of the values given that are right, 0..1; 0 where none is given."""
        return precision_recall_f1(*self.triple).precision

    @property
    def recall(self) -> float:
        """Share of the truth's values that were given right, 0..1; 0 where the truth has none."""
        return precision_recall_f1(*self.triple).recall

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0/0 is 0, since a record that shows nothing has earned nothing.

        >>> round(Counts(matches=3, omission=1).f1, 3)
        0.857
        """
        return f1_score(*self.triple)

    def errors_by_type(self) -> dict[str, int]:
        """Number of errors of each type, in the order of :data:`ERROR_TYPES`."""
        return {kind: int(getattr(self, kind)) for kind in ERROR_TYPES}

    def as_dict(self) -> dict[str, Any]:
        """The metrics block of ``eval-results.json``.

        Shares are 0..1; ``total_fields_gt`` is TP + FN and ``total_fields_extracted`` TP + FP.
        """
        tp, fp, fn = self.triple
        return {
            **precision_recall_f1(tp, fp, fn)._asdict(),
            "true_positives": int(tp),
            "false_positives": int(fp),
            "false_negatives": int(fn),
            "total_fields_gt": int(tp + fn),
            "total_fields_extracted": int(tp + fp),
            "correct_fields": int(tp),
            "errors_by_type": self.errors_by_type(),
        }


class PooledScores(NamedTuple):
    """Several evals together; intervals are ``None`` for fewer than two evals."""

    evals: int
    macro_f1: float
    micro_f1: float
    macro_interval: Interval | None
    micro_interval: Interval | None


def pool_evals(counts: Sequence[Counts]) -> PooledScores:
    """Macro-F1 (mean over evals) and micro-F1 (of pooled counts), with bootstrap intervals over evals.

    The intervals are plain percentile ones of 10,000 resamples of the evals, the same resamples on every call. No
    evals at all score 0.
    """
    if not counts:
        return PooledScores(0, 0.0, 0.0, None, None)
    scores, triples = [one.f1 for one in counts], [one.triple for one in counts]
    macro = sum(scores) / len(scores)
    micro = f1_score(*(sum(column) for column in zip(*triples, strict=True)))
    if len(counts) < 2:
        return PooledScores(len(counts), macro, micro, None, None)
    over_evals = _percentiles([[score] for score in scores], lambda totals: totals[:, 0] / len(scores))
    pooled = _percentiles(triples, lambda totals: micro_f1(totals, empty=0.0))
    return PooledScores(len(counts), macro, micro, over_evals, pooled)


def paired_difference(before: Sequence[float], after: Sequence[float]) -> tuple[float, Interval | None]:
    """Mean of ``after - before`` over evals, and its percentile bootstrap interval.

    Both have one score per eval, in the same order, and at least one. The interval is ``None`` for a single eval.

    >>> paired_difference([0.5], [0.75])
    (0.25, None)
    """
    import numpy as np

    changes = np.subtract(after, before)[:, None]
    mean = float(changes.mean(axis=0)[0])
    if len(changes) < 2:
        return mean, None
    return mean, _percentiles(changes, lambda totals: totals[:, 0] / len(changes))


def _percentiles(columns: Any, statistic: Callable[[Any], Any]) -> Interval:
    """Percentiles of a statistic of column totals over resamples of the evals, the same on every call."""
    import numpy as np

    from pcsuite.stats.bootstrap import resample_totals

    table = np.asarray(columns, dtype=np.float64)
    draws = statistic(resample_totals(table, np.random.default_rng(_SEED), _RESAMPLES))
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)
