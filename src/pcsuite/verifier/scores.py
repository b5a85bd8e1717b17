"""Counts of verdicts and what follows from them: precision, recall, F1; over several evals macro and micro."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.f1 import f1_score, micro_f1, precision_recall_f1
from pcsuite.verifier.error_types import ERROR_TYPES

Interval = tuple[float, float]
"""Low and high end of a 95 % interval."""
_SEED = 1337


@dataclass(slots=True)
class Counts:
    """Verdicts on fields. TP are matches; a wrong or mistyped value is both a false positive and a false negative."""

    matches: float = 0
    errors: dict[str, float] = field(default_factory=dict)
    """Errors by type; types that are not given have none."""

    def __post_init__(self) -> None:
        self.errors = {**dict.fromkeys(ERROR_TYPES, 0), **self.errors}

    def add(self, verdict: str, amount: float = 1) -> None:
        """Count a verdict: ``match`` or one of :data:`ERROR_TYPES`, ``amount`` times (or by that weight)."""
        if verdict == "match":
            self.matches += amount
        else:
            self.errors[verdict] += amount

    def include(self, other: Counts) -> None:
        """Add what another has counted."""
        self.matches += other.matches
        for name, amount in other.errors.items():
            self.errors[name] += amount

    @property
    def false_positives(self) -> float:
        """Values given that are not in the truth as given.

        Invented, mistyped and wrong values: what precision pays for.
        """
        return sum(amount for name, amount in self.errors.items() if ERROR_TYPES[name].costs_precision)

    @property
    def false_negatives(self) -> float:
        """Truth values that were not given as they are.

        Missing, mistyped and wrong values: what recall pays for. A wrong value costs both.
        """
        return sum(amount for name, amount in self.errors.items() if ERROR_TYPES[name].costs_recall)

    @property
    def invented(self) -> float:
        """Values given where the truth has none."""
        return sum(amount for name, amount in self.errors.items() if ERROR_TYPES[name].is_invented)

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

        >>> round(Counts(3, {"omission": 1}).f1, 3)
        0.857
        """
        return f1_score(*self.triple)

    @property
    def error_count(self) -> int:
        """Number of errors of every type together."""
        return int(sum(self.errors.values()))

    def errors_by_type(self) -> dict[str, int]:
        """Number of errors of each type, in the order of :data:`ERROR_TYPES`."""
        return {name: int(amount) for name, amount in self.errors.items()}

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
    return PooledScores(
        len(counts),
        macro,
        micro,
        _percentile_interval([[score] for score in scores], lambda totals: totals[:, 0] / len(scores)),
        _percentile_interval(triples, lambda totals: micro_f1(totals, empty=0.0)),
    )


def paired_difference(before: Sequence[float], after: Sequence[float]) -> tuple[float, Interval | None]:
    """Mean of ``after - before`` over evals, and its percentile bootstrap interval.

    Both have one score per eval, in the same order, and at least one. The interval is ``None`` for a single eval.

    >>> paired_difference([0.5], [0.75])
    (0.25, None)
    """
    gains = [new - old for old, new in zip(before, after, strict=True)]
    mean = sum(gains) / len(gains)
    if len(gains) < 2:
        return mean, None
    return mean, _percentile_interval([[gain] for gain in gains], lambda totals: totals[:, 0] / len(gains))


def _percentile_interval(
    table: Sequence[Sequence[float]], statistic: Callable[[FloatArray], FloatArray]
) -> Interval:
    """Plain percentile interval of a function of column totals over evals, from the same resamples on every call."""
    import numpy as np

    from pcsuite.stats.bootstrap import RESAMPLES, resample_totals

    totals = resample_totals(np.asarray(table, dtype=np.float64), np.random.default_rng(_SEED), RESAMPLES)
    low, high = np.quantile(statistic(totals), [0.025, 0.975])
    return float(low), float(high)
