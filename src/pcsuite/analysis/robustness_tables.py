"""``robustness_worst_case.csv`` and ``robustness_by_attack.csv``: what perturbed prompts do to each condition.

The figures are mean item scores, for pooled tasks too, because the worst case is judged item by item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.analysis.columns import estimate_columns
from pcsuite.analysis.estimate import FloatArray
from pcsuite.analysis.item_scores import CLEAN, SCORE, CellKey, ItemScores
from pcsuite.analysis.robustness import (
    format_spread,
    performance_drop_rate,
    prompt_sensitivity,
    worst_case,
    worst_case_difference,
)
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables import named_rng

WORST_COLUMNS = (
    "task", "model", "decoding", "condition", "n_items", "attacks", "clean", "clean_low", "clean_high",
    "worst_attack", "worst", "worst_low", "worst_high", "worst_bias_corrected", "drop", "drop_low", "drop_high",
    "drop_rate", "drop_rate_low", "drop_rate_high", "note", "variance_clean", "variance_worst", "variance_change",
    "sensitivity", "sensitivity_low", "sensitivity_high",
    "spread", "spread_low", "spread_high", "q10", "median", "q90", "baseline", "worst_delta", "worst_delta_low",
    "worst_delta_high",
)  # fmt: skip
ATTACK_COLUMNS = (
    "task", "model", "decoding", "condition", "attack", "n_items", "clean", "attacked", "drop", "drop_low",
    "drop_high", "drop_rate", "note", "variance_clean", "variance_attacked", "variance_change",
)  # fmt: skip


@dataclass(slots=True)
class AttackedCell:
    """Scores of the items that were run clean and under every attack."""

    key: CellKey
    items: npt.NDArray[np.int64]
    clean: FloatArray
    attacked: FloatArray
    """Items by attacks."""
    attacks: list[str]


def attacked_cells(scores: ItemScores) -> list[AttackedCell]:
    """Clean cells that have perturbed siblings, restricted to the items all of them share."""
    found = []
    for key in scores.cell_keys():
        siblings = [
            other for other in scores.cells if other._replace(perturbation=CLEAN) == key and other != key
        ]
        if not siblings:
            continue
        columns = [scores.cells[cell].metric(SCORE) for cell in (key, *siblings)]
        common = columns[0][0]
        for items, _ in columns[1:]:
            common = np.intersect1d(common, items, assume_unique=True)
        if len(common) < 2:
            continue
        aligned = [values[np.searchsorted(items, common)] for items, values in columns]
        found.append(
            AttackedCell(
                key,
                common,
                aligned[0],
                np.column_stack(aligned[1:]),
                [cell.perturbation for cell in siblings],
            )
        )
    return found


def robustness_tables(scores: ItemScores) -> tuple[Table, Table]:
    """The two tables; empty where no prompt was perturbed."""
    cells = attacked_cells(scores)
    first_of: dict[tuple[str, str, str], AttackedCell] = {}
    worst_records, attack_records = [], []
    for cell in cells:
        group = (cell.key.task, cell.key.model, cell.key.decoding)
        reference = first_of.setdefault(group, cell)
        worst_records.append(_worst_record(cell, reference))
        attack_records += _attack_records(cell)
    return (
        Table.of("robustness_worst_case", worst_records, WORST_COLUMNS),
        Table.of("robustness_by_attack", attack_records, ATTACK_COLUMNS),
    )


def _identity(key: CellKey) -> dict[str, Any]:
    return {"task": key.task, "model": key.model, "decoding": key.decoding, "condition": key.condition}


def _note(cell: AttackedCell) -> str | None:
    """Why a drop rate is missing: 1 - attacked / clean has no value at clean = 0."""
    return None if cell.clean.sum() > 0 else "clean score is 0: no drop rate"


def _variances(clean: FloatArray, hit: FloatArray, name: str) -> dict[str, float | None]:
    """Variance of the item scores before and after, and the change."""
    before, after = float(clean.var(ddof=1)), float(hit.var(ddof=1))
    return {"variance_clean": before, f"variance_{name}": after, "variance_change": after - before}


def _worst_record(cell: AttackedCell, reference: AttackedCell) -> dict[str, Any]:
    rng = named_rng("robustness", *cell.key)
    worst = worst_case(cell.attacked, cell.attacks, rng=rng)
    hit = cell.attacked[:, cell.attacks.index(worst.attack)]
    clean = bootstrap_mean(cell.clean, rng=rng)
    # The drop shares the worst case's interval: the clean score moves with the same items.
    drop = paired_bootstrap(cell.clean, hit, rng=rng)
    everything = np.column_stack([cell.clean, cell.attacked])
    spread = format_spread(everything, rng=rng)
    record = {
        **_identity(cell.key),
        "n_items": len(cell.items),
        "attacks": len(cell.attacks),
        **estimate_columns("clean", clean),
        "worst_attack": worst.attack,
        **estimate_columns("worst", worst.score),
        "worst_bias_corrected": number(worst.bias_corrected),
        **estimate_columns("drop", drop),
        **estimate_columns("drop_rate", performance_drop_rate(cell.clean, hit, rng=rng)),
        **_variances(cell.clean, hit, "worst"),
        "note": _note(cell),
        **estimate_columns("sensitivity", prompt_sensitivity(everything, rng=rng)),
        **estimate_columns("spread", spread.range),
        "q10": number(spread.quantiles[0.1]),
        "median": number(spread.quantiles[0.5]),
        "q90": number(spread.quantiles[0.9]),
    }
    if reference is not cell:
        _, left, right = np.intersect1d(cell.items, reference.items, return_indices=True)
        if len(left) >= 2:
            record["baseline"] = reference.key.condition
            difference = worst_case_difference(cell.attacked[left], reference.attacked[right], rng=rng)
            record |= estimate_columns("worst_delta", difference)
    return record


def _attack_records(cell: AttackedCell) -> list[dict[str, Any]]:
    records = []
    for place, attack in enumerate(cell.attacks):
        rng = named_rng("attack", *cell.key, attack)
        hit = cell.attacked[:, place]
        clean = float(cell.clean.mean())
        records.append(
            {
                **_identity(cell.key),
                "attack": attack,
                "n_items": len(cell.items),
                "clean": clean,
                "attacked": float(hit.mean()),
                **estimate_columns("drop", paired_bootstrap(cell.clean, hit, rng=rng)),
                "drop_rate": number(1 - float(hit.mean()) / clean) if clean > 0 else None,
                "note": _note(cell),
                **_variances(cell.clean, hit, "attacked"),
            }
        )
    return records
