"""``effects.csv``: what each condition changed against its control, on the same items.

One record per task, model, regime, condition and metric: the paired difference with its bootstrap interval,
a permutation p-value, its adjusted values over the conditions of the dataset, and effect sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores
from pcsuite.analysis.table import Table, estimate_columns, number
from pcsuite.stats.bootstrap import bootstrap_micro_f1_difference, paired_bootstrap
from pcsuite.stats.effect_sizes import absolute_risk_reduction, cohens_d_z, odds_ratio_paired
from pcsuite.stats.estimate import Estimate, FloatArray, TestResult
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.permutation import (
    adjust_within_families,
    benjamini_hochberg,
    holm,
    micro_f1_permutation_test,
    sign_flip_test,
)

METRICS: tuple[str, ...] = (
    SCORE,
    "json_valid",
    "schema_valid",
    "truncated",
    "unsupported_rate",
    "abstained",
    "abstain_misuse",
    "total_tokens",
)
"""Metrics that are compared, where the rows have them."""
LOWER_IS_BETTER = frozenset({"truncated", "unsupported_rate", "abstain_misuse", "total_tokens"})
COSTS = frozenset({"total_tokens"})
COLUMNS: tuple[str, ...] = (
    "task", "model", "decoding", "condition", "baseline", "metric", "measure", "n_items", "control",
    "treated", "delta", "delta_low", "delta_high", "interval_method", "p_value", "p_method", "p_bh", "p_holm",
    "stars", "cohens_d", "cohens_d_low", "cohens_d_high", "odds_ratio", "odds_ratio_low", "odds_ratio_high",
    "risk_reduction", "risk_reduction_low", "risk_reduction_high", "number_needed",
)  # fmt: skip


def effects(scores: ItemScores, metrics: Sequence[str] = METRICS, baseline: str | None = None) -> Table:
    """Compare every condition with the control of its group (C0 unless ``baseline`` names another)."""
    records = []
    for keys in scores.groups().values():
        control = _control(scores, keys, baseline)
        if control is None:
            continue
        for key in keys:
            if key != control:
                records += [
                    record
                    for metric in metrics
                    if (record := compare_cells(scores, key, control, metric)) is not None
                ]
    _adjust(records)
    return Table.of("effects", records, COLUMNS)


def compare_cells(
    scores: ItemScores, treated: CellKey, control: CellKey, metric: str
) -> dict[str, Any] | None:
    """The paired comparison of two cells on one metric; ``None`` where they share no item that has it."""
    first, second = scores.paired(treated, control, metric)
    if len(first) < 2:
        return None
    rng = named_rng("effects", *treated, control, metric)
    pooled = metric == SCORE and treated.task in scores.pooled
    if pooled:
        left, right = scores.paired_counts(treated, control)
        levels = (float(micro_f1(right.sum(0)[None, :])[0]), float(micro_f1(left.sum(0)[None, :])[0]))
        delta: Estimate = bootstrap_micro_f1_difference(left, right, rng=rng)
        test: TestResult = micro_f1_permutation_test(left, right, rng=rng)
    else:
        levels = (float(second.mean()), float(first.mean()))
        delta = paired_bootstrap(first, second, rng=rng)
        # Tokens are a cost that is read off, not a claim that is tested.
        tested = metric not in COSTS
        test = sign_flip_test(first - second, rng=rng) if tested else TestResult(np.nan, np.nan, "not tested")
    record: dict[str, Any] = {
        "task": treated.task,
        "model": treated.model,
        "decoding": treated.decoding,
        "condition": treated.condition,
        "baseline": control.condition,
        "metric": metric,
        "measure": "micro-F1" if pooled else "mean over items",
        "n_items": len(first),
        "control": levels[0],
        "treated": levels[1],
        "delta": number(delta.value),
        "delta_low": number(delta.low),
        "delta_high": number(delta.high),
        "interval_method": delta.method,
        "p_value": number(test.p_value),
        "p_method": test.method,
    }
    return record | _effect_sizes(metric, first, second)


def stars(p_adjusted: float | None) -> str:
    """Stars of a p-value *after* adjustment: none without it."""
    if p_adjusted is None or not np.isfinite(p_adjusted):
        return ""
    return "***" if p_adjusted < 0.001 else "**" if p_adjusted < 0.01 else "*" if p_adjusted < 0.05 else ""


def _control(scores: ItemScores, keys: Sequence[CellKey], baseline: str | None) -> CellKey | None:
    if baseline is None:
        return scores.baseline(keys)
    return next((key for key in keys if key.condition == baseline), None)


def _effect_sizes(metric: str, first: FloatArray, second: FloatArray) -> dict[str, Any]:
    if metric in COSTS:
        return {}
    sizes: dict[str, Any] = estimate_columns("cohens_d", cohens_d_z(first, second))
    if min(first.min(), second.min()) < 0 or max(first.max(), second.max()) > 1:
        return sizes
    sizes |= estimate_columns("odds_ratio", odds_ratio_paired(first, second))
    failure = (first, second) if metric in LOWER_IS_BETTER else (1 - first, 1 - second)
    risk = absolute_risk_reduction(*failure)
    sizes |= estimate_columns("risk_reduction", risk.reduction)
    sizes["number_needed"] = number(risk.number_needed_to_treat)
    return sizes


def _adjust(records: list[dict[str, Any]]) -> None:
    """Adjust over everything compared on one dataset and metric: conditions, models and regimes."""
    p_values = np.array([np.nan if record["p_value"] is None else record["p_value"] for record in records])
    families = [(record["task"], record["metric"]) for record in records]
    false_discovery = adjust_within_families(p_values, families, benjamini_hochberg)
    family_wise = adjust_within_families(p_values, families, holm)
    for record, bh, strict in zip(records, false_discovery, family_wise, strict=True):
        record |= {"p_bh": number(bh), "p_holm": number(strict), "stars": stars(number(bh))}
