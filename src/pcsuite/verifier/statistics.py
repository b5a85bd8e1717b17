"""What many records say together: scores with intervals by record, fields by what they cost, stated confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcsuite.stats.f1 import f1_score
from pcsuite.verifier.compare import RecordComparison, RecordScore
from pcsuite.verifier.scores import Counts, PooledScores, pool_evals

_BINS = 10
_SEED = 1337


def record_statistics(comparison: RecordComparison) -> dict[str, Any]:
    """What a results document has besides for many records: ``records``, ``over_records`` and ``field_gains``.

    ``confidence`` is there where the extraction states one, of one record or of many. Intervals are over records:
    fields of one record are wrong together, so that they are no independent observations.
    """
    document: dict[str, Any] = {}
    if comparison.records:
        pooled = pool_evals([one.counts for one in comparison.records])
        document["over_records"] = _over_records(pooled)
        document["records"] = [_record_row(one) for one in comparison.records]
        document["field_gains"] = field_gains(comparison.counts, comparison.by_field)
    if comparison.confidences:
        clusters = [one.confidences for one in comparison.records] or [comparison.confidences]
        document["confidence"] = calibration(clusters)
    return document


def _over_records(pooled: PooledScores) -> dict[str, Any]:
    return {
        "records": pooled.evals,
        "macro_f1": pooled.macro_f1,
        "macro_f1_interval": pooled.macro_interval,
        "micro_f1": pooled.micro_f1,
        "micro_f1_interval": pooled.micro_interval,
    }


def _record_row(one: RecordScore) -> dict[str, Any]:
    row = {"record": one.name, "path": one.path, **one.counts.as_dict()}
    return row | ({"problem": one.problem} if one.problem else {})


def field_gains(counts: Counts, by_field: dict[str, Counts]) -> list[dict[str, Any]]:
    """Fields with an error, by what repairing them would add to F1: all their errors become matches, or go.

    The largest gain comes first. ``gain`` is the micro-F1 with the field repaired less the present one.

    >>> right, wrong = Counts(3), Counts(0, {"wrong_value": 1})
    >>> field_gains(Counts(3, {"wrong_value": 1}), {"a": right, "b": wrong})[0]["gain"]
    0.25
    """
    gains = []
    tp, fp, fn = counts.triple
    for name, field in by_field.items():
        if not field.error_count:
            continue
        in_truth = field.matches + field.false_negatives
        mended = f1_score(
            tp + in_truth - field.matches, fp - field.false_positives, fn - field.false_negatives
        )
        gains.append({"field": name, "gain": mended - counts.f1, "errors": field.error_count, "f1": field.f1})
    return sorted(gains, key=lambda one: (-one["gain"], -one["errors"], one["field"]))


def calibration(records: Sequence[Sequence[tuple[float, bool]]]) -> dict[str, Any]:
    """How far stated confidence can be trusted: ``records`` has for each record its ``(confidence, right)`` values.

    The expected calibration error and the Brier score are over values; the gap (mean confidence less share right) has
    an interval over records, ``None`` for fewer than two.
    """
    import numpy as np

    from pcsuite.stats.bootstrap import RESAMPLES, resample_totals

    values = [one for record in records for one in record]
    stated = np.array([confidence for confidence, _ in values])
    right = np.array([is_right for _, is_right in values], dtype=np.float64)
    bins = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    rows = []
    error = 0.0
    for number in range(_BINS):
        here = bins == number
        if not here.any():
            continue
        gap = float(stated[here].mean() - right[here].mean())
        error += abs(gap) * here.sum() / len(values)
        rows.append(
            {
                "from": number / _BINS,
                "to": (number + 1) / _BINS,
                "values": int(here.sum()),
                "confidence": float(stated[here].mean()),
                "right": float(right[here].mean()),
            }
        )
    interval = None
    filled = [record for record in records if record]
    if len(filled) > 1:
        table = np.array(
            [[sum(c - r for c, r in record), len(record)] for record in filled], dtype=np.float64
        )
        totals = resample_totals(table, np.random.default_rng(_SEED), RESAMPLES)
        low, high = np.quantile(totals[:, 0] / np.maximum(totals[:, 1], 1e-9), [0.025, 0.975])
        interval = (float(low), float(high))
    return {
        "values": len(values),
        "mean_confidence": float(stated.mean()),
        "share_right": float(right.mean()),
        "gap": float(stated.mean() - right.mean()),
        "gap_interval": interval,
        "expected_calibration_error": float(error),
        "brier": float(((stated - right) ** 2).mean()),
        "bins": rows,
    }
