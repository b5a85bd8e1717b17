"""``interventions.csv``: does structure or wording carry a condition's effect?

Two interventions on each prompt: the structure fixed and the wording varied (paraphrases), and the wording
fixed and the structure altered (reordered parts). Each gives the score's variance over formats, beside the
condition's own effect. An effect that is smaller than the spread of mean scores over mere formats (FormatSpread,
Sclar et al. 2024) may be an effect of the format that happened to be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.bootstrap import RESAMPLES, bootstrap_totals, paired_bootstrap
from pcsuite.analysis.columns import estimate_columns
from pcsuite.analysis.estimate import Estimate, FloatArray, as_matrix, as_vector, check_same_length, undefined
from pcsuite.analysis.item_scores import natural_key
from pcsuite.analysis.robustness import format_spread
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables import RunTables, named_rng
from pcsuite.analysis.variance import decompose_variance

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
