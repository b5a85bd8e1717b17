"""What many records say together: scores with intervals by record, fields by what they cost, stated confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    row["by_field"] = {name: [int(count) for count in counts.triple] for name, counts in one.by_field.items()}
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


class FieldShift(NamedTuple):
    """How a field's F1 over many records changed from one result to another, and whether beyond chance."""

    field: str
    before: float
    after: float
    low: float
    """Limits (95 %, of this field alone) of the change, over records."""
    high: float
    p_adjusted: float
    """Of the test that nothing changed, corrected over all fields (Holm)."""
    verdict: str
    """``better`` or ``worse`` beyond chance, else ``undecided``."""


def field_shifts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldShift]:
    """Which fields changed beyond chance between two results over many records; the surest change first.

    Records are what is drawn: both results are paired by record, and a field's counts in one record go together.
    Fields that have equal counts in every record are left out. Results of one record have none: chance cannot be told
    from a single case.
    """
    import numpy as np

    from pcsuite.contrasts import ArmScores, Contrast, Family, judge, measure

    sides = [
        {row["record"]: row.get("by_field", {}) for row in one.get("records", ())} for one in (before, after)
    ]
    names = [name for name in sides[0] if name in sides[1]]
    fields = dict.fromkeys(field for side in sides for name in names for field in side[name])
    arms: dict[str, ArmScores] = {}
    contrasts: dict[str, Contrast] = {}
    for field in fields:
        counts = [[side[name].get(field, (0, 0, 0)) for name in names] for side in sides]
        concerned = [
            index for index in range(len(names)) if any(map(any, (counts[0][index], counts[1][index])))
        ]
        if len(concerned) < 2 or counts[0] == counts[1]:
            continue
        for label, side in zip(("before", "after"), counts, strict=True):
            arms[f"{field} {label}"] = ArmScores(
                np.array([side[index] for index in concerned], dtype=np.float64)
            )
        contrasts[field] = Contrast.of(f"{field} after", f"{field} before")
    if not contrasts:
        return []
    measured = measure(arms, list(contrasts.values()), rng=np.random.default_rng(_SEED))
    shifts = []
    for field, result in zip(contrasts, judge(measured, Family(size=len(fields))), strict=True):
        levels, estimate = result.measured.levels, result.estimate
        was, now = levels[f"{field} before"], levels[f"{field} after"]
        shifts.append(
            FieldShift(field, was, now, estimate.low, estimate.high, result.p_adjusted, result.verdict)
        )
    return sorted(shifts, key=lambda one: (one.p_adjusted, -abs(one.after - one.before), one.field))


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
