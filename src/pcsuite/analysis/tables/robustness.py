"""``robustness_*.csv`` and ``interventions.csv``: what perturbed prompts do to each condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import CLEAN, SCORE, CellKey, ItemScores, natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table, estimate_columns, number
from pcsuite.stats.bootstrap import RESAMPLES, bootstrap_mean, bootstrap_totals, paired_bootstrap
from pcsuite.stats.estimate import Estimate, FloatArray, as_matrix, as_vector, check_same_length, undefined
from pcsuite.stats.robustness import (
    format_spread,
    performance_drop_rate,
    prompt_sensitivity,
    worst_case,
    worst_case_difference,
)
from pcsuite.stats.variance import decompose_variance

# ``robustness_worst_case.csv`` and ``robustness_by_attack.csv``: what perturbed prompts do to each condition.
#
# The figures are mean item scores, for pooled tasks too, because the worst case is judged item by item.


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


# ``interventions.csv``: does structure or wording carry a condition's effect?
#
# Two interventions on each prompt: the structure fixed and the wording varied (paraphrases), and the wording
# fixed and the structure altered (reordered parts). Each gives the score's variance over formats, beside the
# condition's own effect. An effect that is smaller than the spread of mean scores over mere formats (FormatSpread,
# Sclar et al. 2024) may be an effect of the format that happened to be written.


WORDING, STRUCTURE = "paraphrase", "reorder"
COLUMNS = (
    "task", "model", "decoding", "condition", "baseline", "n_items", "effect", "effect_low", "effect_high",
    "wordings", "wording_variance", "wording_variance_low", "wording_variance_high", "wording_spread",
    "wording_spread_low", "wording_spread_high", "effect_over_wording_spread", "effect_over_wording_spread_low",
    "effect_over_wording_spread_high",
    "structures", "structure_variance", "structure_variance_low", "structure_variance_high", "structure_spread",
    "structure_spread_low", "structure_spread_high", "effect_over_structure_spread",
    "effect_over_structure_spread_low", "effect_over_structure_spread_high", "reading",
)  # fmt: skip
_NO_SPREAD = 1e-4
"""Totals over items that differ by less are equal: they are summed in single precision."""
_KEY = "task_id, model_id, decoding_id, condition_id"


@dataclass(frozen=True, slots=True)
class FormatVariation:
    """How the score of one condition varies over formats that should not matter."""

    formats: int
    variance: Estimate
    """Variance of the score over formats, within and across items (σ²_format + σ²_item×format)."""
    spread: Estimate
    """Largest minus smallest mean score over the formats."""


def format_variation(
    formats: npt.ArrayLike, *, rng: np.random.Generator, resamples: int = RESAMPLES, level: float = 0.95
) -> FormatVariation:
    """Variation over formats from an items-by-formats table of scores, the clean prompt among the formats."""
    table = as_matrix(formats, "formats")
    parts = decompose_variance(table[:, :, None], rng=rng, resamples=min(resamples, 2_000), level=level)
    spread = format_spread(table, rng=rng, resamples=resamples, level=level).range
    return FormatVariation(table.shape[1], parts.perturbations, spread)


def effect_over_spread(
    delta: npt.ArrayLike,
    formats: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """|Mean effect| ÷ spread of the mean scores over formats; items are resampled for both together."""
    change, table = as_vector(delta, "delta"), as_matrix(formats, "formats")
    check_same_length(change, table, "delta and formats")

    def ratio(totals: FloatArray) -> FloatArray:
        spread = np.ptp(totals[:, 1:], axis=1)
        safe = np.where(spread > _NO_SPREAD, spread, 1.0)
        return np.asarray(np.where(spread > _NO_SPREAD, np.abs(totals[:, 0]) / safe, np.nan))

    if np.ptp(table.sum(axis=0)) <= _NO_SPREAD:
        return undefined("no spread over formats", len(table), level)
    columns = np.column_stack([change, table])
    return bootstrap_totals(columns, ratio, rng=rng, resamples=resamples, level=level)


def reading(effect: Estimate, wording: FormatVariation | None, structure: FormatVariation | None) -> str:
    """What the three figures say together, in words."""
    within = [
        name
        for name, found in (("wording", wording), ("structure", structure))
        if found is not None and abs(effect.value) <= found.spread.value
    ]
    if not effect.defined:
        return "no baseline to compare with"
    if not effect.excludes(0.0):
        return "no effect shown"
    if not within:
        return "larger than what formats make"
    return f"within the spread of mere {' and '.join(within)}"


@dataclass(slots=True)
class _Prompts:
    """Scores of one condition by format, on the items that all formats share."""

    key: tuple[str, str, str, str]
    items: list[str]
    scores: dict[str, FloatArray]

    def table(self, kind: str) -> FloatArray | None:
        """Clean and the kind's variants as columns; ``None`` where the kind was not run."""
        names = [name for name in self.scores if name == "none" or name.rpartition("-")[0] == kind]
        return np.column_stack([self.scores[name] for name in names]) if len(names) > 1 else None


def interventions_table(tables: RunTables) -> Table:
    """One row for each condition whose wording or structure was varied."""
    score = tables.metric_column("task_score")
    prompts = _load(tables, score) if score is not None else []
    clean = _clean_scores(tables, score) if score is not None else {}
    records = [_record(entry, clean) for entry in prompts]
    return Table.of("interventions", records, COLUMNS)


def _record(
    prompts: _Prompts, clean: dict[tuple[str, str, str], dict[str, dict[str, float]]]
) -> dict[str, Any]:
    task, model, decoding, condition = prompts.key
    rng = named_rng("interventions", *prompts.key)
    record: dict[str, Any] = {
        "task": task, "model": model, "decoding": decoding, "condition": condition, "n_items": len(prompts.items),
    }  # fmt: skip
    effect, delta = undefined("no baseline", len(prompts.items)), None
    baseline = _baseline(clean[task, model, decoding], condition, prompts.items)
    if baseline is not None:
        record["baseline"], reference = baseline
        delta = prompts.scores["none"] - reference
        effect = paired_bootstrap(prompts.scores["none"], reference, rng=rng)
    record |= estimate_columns("effect", effect)
    found: list[FormatVariation | None] = []
    for kind, name in ((WORDING, "wording"), (STRUCTURE, "structure")):
        table = prompts.table(kind)
        variation = None if table is None else format_variation(table, rng=rng)
        found.append(variation)
        if variation is None or table is None:
            continue
        record[f"{name}s"] = variation.formats
        record |= estimate_columns(f"{name}_variance", variation.variance)
        record |= estimate_columns(f"{name}_spread", variation.spread)
        if delta is not None:
            record |= estimate_columns(
                f"effect_over_{name}_spread", effect_over_spread(delta, table, rng=rng)
            )
    record["reading"] = reading(effect, *found)
    return record


def _baseline(
    clean: dict[str, dict[str, float]], condition: str, items: Sequence[str]
) -> tuple[str, FloatArray] | None:
    """The first other condition (C0 where it was run) that has all the items."""
    for name in sorted(clean, key=natural_key):
        if name == condition:
            return None
        if all(item in clean[name] for item in items):
            return name, np.array([clean[name][item] for item in items])
    return None


def _load(tables: RunTables, score: str) -> list[_Prompts]:
    rows = tables.query(
        f"SELECT {_KEY}, perturbation_id, item_id, avg({score}) FROM runs WHERE kind = 'main' AND n_errors = 0"
        f" AND perturbation_type IN ('none', '{WORDING}', '{STRUCTURE}') AND {score} IS NOT NULL GROUP BY ALL"
    )
    cells: dict[tuple[str, str, str, str], dict[str, dict[str, float]]] = {}
    for task, model, decoding, condition, variant, item, value in rows:
        cell = cells.setdefault((task, model, decoding, condition), {})
        cell.setdefault(variant, {})[item] = float(value)
    found = []
    for key in sorted(cells, key=lambda names: tuple(natural_key(name) for name in names)):
        formats = cells[key]
        if "none" not in formats or len(formats) < 2:
            continue
        shared = sorted(set.intersection(*(set(scores) for scores in formats.values())))
        if len(shared) >= 2:
            aligned = {
                name: np.array([formats[name][item] for item in shared])
                for name in sorted(formats, key=natural_key)
            }
            found.append(_Prompts(key, shared, aligned))
    return found


def _clean_scores(tables: RunTables, score: str) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    rows = tables.query(
        f"SELECT {_KEY}, item_id, avg({score}) FROM runs WHERE kind = 'main' AND n_errors = 0"
        f" AND perturbation_type = 'none' AND {score} IS NOT NULL GROUP BY ALL"
    )
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for task, model, decoding, condition, item, value in rows:
        found.setdefault((task, model, decoding), {}).setdefault(condition, {})[item] = float(value)
    return found
