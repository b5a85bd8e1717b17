"""Counts and what follows from them: precision, recall, F1; over several evals macro and micro, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ErrorType = Literal["omission", "hallucination", "format_error", "wrong_value"]
ERROR_TYPES: tuple[ErrorType, ...] = ("omission", "hallucination", "format_error", "wrong_value")


def ratio(part: float, whole: float) -> float:
    """``part / whole``, 0 where there is nothing."""
    return part / whole if whole else 0.0


def f1_score(tp: float, fp: float, fn: float) -> float:
    """F1 = 2·TP / (2·TP + FP + FN), the harmonic mean of precision and recall; 0/0 is 0."""
    return ratio(2 * tp, 2 * tp + fp + fn)


@dataclass(slots=True)
class Counts:
    """Verdicts on fields. TP are matches; a wrong or mistyped value is both a false positive and a false negative."""

    matches: float = 0
    omission: float = 0
    hallucination: float = 0
    format_error: float = 0
    wrong_value: float = 0

    def add(self, verdict: str, amount: float = 1) -> None:
        """Count one verdict."""
        name = "matches" if verdict == "match" else verdict
        setattr(self, name, getattr(self, name) + amount)

    @property
    def false_positives(self) -> float:
        """Values given that are not in the truth as given."""
        return self.hallucination + self.format_error + self.wrong_value

    @property
    def false_negatives(self) -> float:
        """Truth values that were not given as they are."""
        return self.omission + self.format_error + self.wrong_value

    @property
    def precision(self) -> float:
        """TP / (TP + FP)."""
        return ratio(self.matches, self.matches + self.false_positives)

    @property
    def recall(self) -> float:
        """TP / (TP + FN)."""
        return ratio(self.matches, self.matches + self.false_negatives)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return f1_score(self.matches, self.false_positives, self.false_negatives)

    def errors_by_type(self) -> dict[str, int]:
        """Number of errors of each type."""
        return {kind: int(getattr(self, kind)) for kind in ERROR_TYPES}

    def as_dict(self) -> dict[str, Any]:
        """The metrics block of ``eval-results.json``."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "true_positives": int(self.matches),
            "false_positives": int(self.false_positives),
            "false_negatives": int(self.false_negatives),
            "total_fields_gt": int(self.matches + self.false_negatives),
            "total_fields_extracted": int(self.matches + self.false_positives),
            "correct_fields": int(self.matches),
            "errors_by_type": self.errors_by_type(),
        }


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pooled:
    """Several evals together; intervals are ``None`` for fewer than two evals."""

    evals: int
    macro_f1: float
    micro_f1: float
    macro_interval: Interval | None
    micro_interval: Interval | None


def pool(counts: Sequence[Counts], resamples: int = 10_000, seed: int = 1337) -> Pooled:
    """Macro-F1 (mean over evals) and micro-F1 (of pooled counts), with percentile bootstrap intervals over evals."""
    triples = [(c.matches, c.false_positives, c.false_negatives) for c in counts]
    macro = ratio(sum(c.f1 for c in counts), len(counts))
    sums = [sum(column) for column in zip(*triples, strict=True)] if triples else [0, 0, 0]
    micro = f1_score(*sums)
    if len(counts) < 2:
        return Pooled(len(counts), macro, micro, None, None)
    import numpy as np

    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(counts), size=(resamples, len(counts)))
    macros = np.array([c.f1 for c in counts])[draws].mean(axis=1)
    tp, fp, fn = np.array(triples, dtype=float)[draws].sum(axis=1).T
    below = 2 * tp + fp + fn
    micros = np.divide(2 * tp, below, out=np.zeros_like(tp), where=below > 0)
    return Pooled(len(counts), macro, micro, _percentiles(macros), _percentiles(micros))


def paired_difference(
    before: Sequence[float], after: Sequence[float], resamples: int = 10_000, seed: int = 1337
) -> tuple[float, Interval | None]:
    """Mean of per-eval differences and its percentile bootstrap interval over evals."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean = ratio(sum(differences), len(differences))
    if len(differences) < 2:
        return mean, None
    import numpy as np

    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(differences), size=(resamples, len(differences)))
    return mean, _percentiles(np.array(differences)[draws].mean(axis=1))


def _percentiles(values: Any) -> Interval:
    import numpy as np

    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(low), float(high))


def total(counts: Iterable[Counts]) -> Counts:
    """Sum of counts."""
    result = Counts()
    for part in counts:
        for kind in ("matches", *ERROR_TYPES):
            setattr(result, kind, getattr(result, kind) + getattr(part, kind))
    return result
