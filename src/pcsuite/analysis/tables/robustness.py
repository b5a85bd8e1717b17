"""``robustness_*.csv`` and ``interventions.csv``: what perturbed prompts do to each condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import (
    CLEAN,
    LOGGED_SCORE,
    SCORE,
    CellKey,
    ItemScores,
    ItemValues,
    natural_key,
    on_common_items,
)
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import USABLE, sql_text
from pcsuite.analysis.table import (
    CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    number,
)
from pcsuite.contrasts import verdict_of_limits
from pcsuite.perturbations import SCOPE_VARIED, STRUCTURE_VARIED, WORDING_VARIED
from pcsuite.stats.bootstrap import (
    LEVEL_RESAMPLES,
    RESAMPLES,
    bootstrap_totals,
    bounds_of_differences,
    paired_bootstrap,
)
from pcsuite.stats.clustered import cluster_interval, too_few_clusters
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, undefined
from pcsuite.stats.related_rows import cluster_numbers, count_clusters, mean_over_items
from pcsuite.stats.robustness import (
    format_spread,
    performance_drop_rate,
    prompt_sensitivity,
    worst_case,
    worst_case_difference,
)
from pcsuite.stats.variance import decompose_variance

WORST_CASE = TableSpec(
    "robustness_worst_case",
    "Robustness, worst case",
    "condition that was run clean and perturbed",
    (
        *CELL,
        Column("n_items", "items run clean and under every attack", shown=False),
        Column("attacks", "attacks", shown=False),
        *interval("clean", "mean score of clean prompts", form="number"),
        Column("worst_attack", "the attack with the smallest mean score"),
        *interval("worst", "mean score under it, the interval allowing for the choice"),
        Column("worst_bias_corrected", "the same less what choosing the smallest takes off by luck", shown=False),
        *interval("drop", "clean less worst, on the same items"),
        *interval("drop_rate", "the drop as a share of the clean score", shown=False),
        Column("note", "why a drop rate is missing", shown=False),
        Column("variance_clean", "variance of the items' scores, clean", shown=False),
        Column("variance_worst", "the same under the worst attack", shown=False),
        Column("variance_change", "the second less the first", shown=False),
        *interval("sensitivity", "how much an item's score moves over prompts", form="number"),
        *interval("spread", "largest less smallest mean score over prompts", shown=False),
        Column("q10", "10 % quantile of the mean scores over prompts", shown=False),
        Column("median", "their median", shown=False),
        Column("q90", "their 90 % quantile", shown=False),
        Column("baseline", "the first condition of the group, which worst_delta is against"),
        *interval("worst_delta", "worst case less that of the baseline, on the same items"),
        N_CLUSTERS,
    ),
    note="The smallest mean over attacks; its interval allows for having chosen the worst.",
    folded=True,
)  # fmt: skip
BY_ATTACK = TableSpec(
    "robustness_by_attack",
    "Robustness, attack by attack",
    "condition and attack",
    (
        *CELL,
        Column("attack", "kind of perturbation"),
        Column("n_items", "items run clean and under every attack", late=True),
        Column("clean", "mean score of clean prompts"),
        Column("attacked", "mean score under the attack"),
        *interval("drop", "clean less attacked, on the same items"),
        Column("drop_rate", "the drop as a share of the clean score"),
        Column("note", "why a drop rate is missing", shown=False),
        Column("variance_clean", "variance of the items' scores, clean", shown=False),
        Column("variance_attacked", "the same under the attack", shown=False),
        Column("variance_change", "the second less the first", shown=False),
        N_CLUSTERS,
    ),
    folded=True,
)  # fmt: skip
INTERVENTIONS = TableSpec(
    "interventions",
    "Does wording, structure or scope carry the effect?",
    "condition whose wording, structure or scope was varied (written by pcsuite promptbench)",
    (
        *CELL,
        Column("baseline", "the first other condition with all the items"),
        Column("n_items", "items that all formats share"),
        *interval("effect", "score less that of the baseline"),
        Column("wordings", "wordings, the structure fixed"),
        *interval("wording_variance", "variance of the score over wordings"),
        *interval("wording_spread", "largest less smallest mean score over wordings"),
        *interval("effect_over_wording_spread", "size of the effect over that spread"),
        Column("structures", "structures, the wording fixed"),
        *interval("structure_variance", "variance of the score over structures"),
        *interval("structure_spread", "largest less smallest mean score over structures"),
        *interval("effect_over_structure_spread", "size of the effect over that spread"),
        Column("scopes", "statements of scope, wording and structure fixed"),
        *interval("scope_variance", "variance of the score over scopes"),
        *interval("scope_spread", "largest less smallest mean score over scopes"),
        *interval("effect_over_scope_spread", "size of the effect over that spread"),
        Column("reading", "what these figures say together"),
    ),
    note=(
        "An effect that is smaller than the spread of mean scores over mere formats (FormatSpread, Sclar et al. 2024)"
        " may be an effect of the format that happened to be written."
    ),
)
VARIED = {"wording": WORDING_VARIED, "structure": STRUCTURE_VARIED, "scope": SCOPE_VARIED}
"""What interventions vary, each by a perturbation that fixes the others."""


class _AttackedCell(NamedTuple):
    """Scores of the items that were run clean and under every attack."""

    key: CellKey
    items: IntArray
    clean: FloatArray
    attacked: FloatArray
    """Items by attacks."""
    attacks: list[str]
    clusters: IntArray | None
    """The cluster of each item, where items are related."""

    def drop(self, hit: FloatArray, rng: Rng) -> Estimate:
        """Clean less attacked, on the same items."""
        if self.clusters is None:
            return paired_bootstrap(self.clean, hit, rng=rng)
        lost = self.clean - hit
        return cluster_interval(lost, cluster_numbers(self.clusters), bounds=bounds_of_differences(lost))

    def limited(self, estimate: Estimate) -> Estimate:
        """An estimate from resamples, without limits where there are too few clusters to resample."""
        reason = "" if self.clusters is None else too_few_clusters(len(np.unique(self.clusters)))
        return replace(estimate, low=np.nan, high=np.nan, method=reason) if reason else estimate


def _attacked_cells(scores: ItemScores) -> Iterator[_AttackedCell]:
    """Clean cells that have perturbed siblings, on the items (two at least) that all of them share."""
    siblings: dict[CellKey, list[CellKey]] = {}
    for key in scores.cells:
        if key.perturbation != CLEAN:
            siblings.setdefault(key._replace(perturbation=CLEAN), []).append(key)
    for key in scores.cell_keys():
        if key not in siblings:
            continue
        cells = (key, *siblings[key])
        common, (clean, *hit) = on_common_items(*(scores.cells[cell].metric(SCORE) for cell in cells))
        if len(common) > 1:
            attacks = [cell.perturbation for cell in siblings[key]]
            clusters = scores.clusters_of(key.task, common)
            if clusters is None or len(np.unique(clusters)) > 1:
                yield _AttackedCell(key, common, clean, np.column_stack(hit), attacks, clusters)


def robustness_tables(scores: ItemScores) -> tuple[Table, Table]:
    """``robustness_worst_case.csv`` and ``robustness_by_attack.csv``; empty where no prompt was perturbed.

    The figures are mean item scores, for pooled tasks too, because the worst case is judged item by item.
    """
    first_of: dict[tuple[str, ...], _AttackedCell] = {}
    worst_records, attack_records = [], []
    for cell in _attacked_cells(scores):
        worst_records.append(_worst_record(cell, first_of.setdefault(cell.key[:3], cell)))
        clean = float(cell.clean.mean())
        for attack, hit in zip(cell.attacks, cell.attacked.T, strict=True):
            rng = named_rng("attack", *cell.key, attack)
            attack_records.append(
                {
                    **cell.key.names(),
                    "attack": attack,
                    "n_items": len(cell.items),
                    "clean": clean,
                    "attacked": float(hit.mean()),
                    **estimate_columns("drop", cell.drop(hit, rng)),
                    "drop_rate": number(1 - float(hit.mean()) / clean) if clean > 0 else None,
                    "note": _note(cell),
                    **_variances(cell.clean, hit, "attacked"),
                    "n_clusters": count_clusters(cell.clusters),
                }
            )
    return Table.of(WORST_CASE, worst_records), Table.of(BY_ATTACK, attack_records)


def _worst_record(cell: _AttackedCell, reference: _AttackedCell) -> dict[str, Any]:
    rng, clusters = named_rng("robustness", *cell.key), cell.clusters
    worst = worst_case(cell.attacked, cell.attacks, rng=rng, clusters=clusters)
    hit = cell.attacked[:, cell.attacks.index(worst.attack)]
    clean = mean_over_items(cell.clean, clusters, rng=rng, resamples=RESAMPLES)
    drop = cell.drop(hit, rng)
    everything = np.column_stack([cell.clean, cell.attacked])
    spread = format_spread(everything, rng=rng, clusters=clusters)
    drop_rate = performance_drop_rate(cell.clean, hit, rng=rng, clusters=clusters)
    record = {
        **cell.key.names(),
        "n_items": len(cell.items),
        "attacks": len(cell.attacks),
        **estimate_columns("clean", clean),
        "worst_attack": worst.attack,
        **estimate_columns("worst", cell.limited(worst.score)),
        "worst_bias_corrected": number(worst.bias_corrected),
        **estimate_columns("drop", drop),
        **estimate_columns("drop_rate", cell.limited(drop_rate)),
        "note": _note(cell),
        **_variances(cell.clean, hit, "worst"),
        **estimate_columns("sensitivity", prompt_sensitivity(everything, rng=rng, clusters=clusters)),
        **estimate_columns("spread", cell.limited(spread.range)),
        "q10": number(spread.quantiles[0.1]),
        "median": number(spread.quantiles[0.5]),
        "q90": number(spread.quantiles[0.9]),
        "n_clusters": count_clusters(clusters),
    }
    if reference is not cell:
        sides = (ItemValues(side.items, side.attacked) for side in (cell, reference))
        common, (attacked, others) = on_common_items(*sides)
        if len(common) >= 2:
            record["baseline"] = reference.key.condition
            related = None if clusters is None else clusters[np.isin(cell.items, common)]
            difference = worst_case_difference(attacked, others, rng=rng, clusters=related)
            record |= estimate_columns("worst_delta", cell.limited(difference))
    return record


def _note(cell: _AttackedCell) -> str | None:
    """Why a drop rate is missing: 1 - attacked / clean has no value at clean = 0."""
    return None if cell.clean.sum() > 0 else "clean score is 0: no drop rate"


def _variances(clean: FloatArray, hit: FloatArray, name: str) -> dict[str, float | None]:
    before, after = float(clean.var(ddof=1)), float(hit.var(ddof=1))
    return {"variance_clean": before, f"variance_{name}": after, "variance_change": after - before}


_NO_SPREAD = 1e-4
"""Totals over items that differ by less are equal: they are summed in single precision."""


def format_variance(formats: FloatArray, *, rng: np.random.Generator) -> Estimate:
    """Variance of the score over formats, within and across items (σ²_format + σ²_item×format).

    ``formats`` is an items-by-formats table of scores, the clean prompt among the formats.
    """
    return decompose_variance(formats[:, :, None], rng=rng, resamples=LEVEL_RESAMPLES).perturbations


def effect_over_spread(delta: FloatArray, formats: FloatArray, *, rng: np.random.Generator) -> Estimate:
    """|Mean effect| ÷ spread of the mean scores over formats, with its interval.

    ``delta`` is the effect item by item, ``formats`` the items-by-formats table; items are resampled for both together.
    Undefined where the formats do not differ.
    """

    def ratio(totals: FloatArray) -> FloatArray:
        spread = np.ptp(totals[:, 1:], axis=1)
        safe = np.where(spread > _NO_SPREAD, spread, 1.0)
        return np.asarray(np.where(spread > _NO_SPREAD, np.abs(totals[:, 0]) / safe, np.nan))

    if np.ptp(formats.sum(axis=0)) <= _NO_SPREAD:
        return undefined("no spread over formats", len(formats))
    return bootstrap_totals(np.column_stack([delta, formats]), ratio, rng=rng)


def reading(effect: Estimate, spreads: Mapping[str, Estimate]) -> str:
    """What an effect and the spread of mean scores over formats say together, in words.

    ``spreads`` are by what was varied (wording, structure, scope); an effect within the spread of mere formats may be
    one of the format.
    """
    within = [name for name, spread in spreads.items() if abs(effect.value) <= spread.value]
    if not effect.defined:
        return "no baseline to compare with"
    if verdict_of_limits(effect.low, effect.high) == "undecided":
        return "no effect shown"
    if not within:
        return "larger than what formats make"
    return f"within the spread of mere {' and '.join(within)}"


def interventions_table(tables: RunTables) -> Table:
    """``interventions.csv``: does wording, structure or scope carry a condition's effect?

    One record for each condition of which one was varied: the variance and spread of its score over
    formats that should not matter, beside its own effect on the same items.
    """
    score = tables.metric_column(LOGGED_SCORE)
    if score is None:
        return Table(INTERVENTIONS)
    kinds = ", ".join(sql_text(kind) for kind in (CLEAN, *VARIED.values()))
    rows = tables.query(
        f"SELECT task_id, model_id, decoding_id, condition_id, perturbation_id, item_id, avg({score}) FROM runs"
        f" WHERE {USABLE} AND perturbation_type IN ({kinds}) AND {score} IS NOT NULL GROUP BY ALL"
    )
    # Scores by cell, format and item.
    cells: dict[tuple[str, ...], dict[str, dict[str, float]]] = {}
    for *names, variant, item, value in rows:
        cells.setdefault(tuple(names), {}).setdefault(variant, {})[item] = float(value)
    records = []
    for key, formats in sorted(cells.items(), key=lambda cell: tuple(map(natural_key, cell[0]))):
        if CLEAN in formats and len(formats) > 1:
            shared = sorted(set.intersection(*(set(scores) for scores in formats.values())))
            if len(shared) > 1:
                columns = {
                    name: np.array([formats[name][item] for item in shared])
                    for name in sorted(formats, key=natural_key)
                }
                group = {
                    other[3]: by_format[CLEAN]
                    for other, by_format in cells.items()
                    if other[:3] == key[:3] and CLEAN in by_format
                }
                records.append(_intervention_record(key, shared, columns, group))
    return Table.of(INTERVENTIONS, records)


def _intervention_record(
    key: tuple[str, ...],
    items: Sequence[str],
    formats: Mapping[str, FloatArray],
    clean: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """One condition: ``formats`` are its scores on the items, ``clean`` those of all conditions of the group."""
    rng = named_rng("interventions", *key)
    record: dict[str, Any] = dict(zip(("task", "model", "decoding", "condition"), key, strict=True))
    record["n_items"] = len(items)
    effect, delta = undefined("no baseline", len(items)), None
    # The baseline is the first other condition (C0 where it was run) that has all the items.
    before = sorted((name for name in clean if natural_key(name) < natural_key(key[3])), key=natural_key)
    baseline = next((name for name in before if clean[name].keys() >= set(items)), None)
    if baseline is not None:
        reference = np.array([clean[baseline][item] for item in items])
        record["baseline"] = baseline
        delta = formats[CLEAN] - reference
        effect = paired_bootstrap(formats[CLEAN], reference, rng=rng)
    record |= estimate_columns("effect", effect)
    spreads: dict[str, Estimate] = {}
    for name, kind in VARIED.items():
        variants = [formats[n] for n in formats if n == CLEAN or n.rpartition("-")[0] == kind]
        if len(variants) < 2:
            continue
        table = np.column_stack(variants)
        record[f"{name}s"] = len(variants)
        record |= estimate_columns(f"{name}_variance", format_variance(table, rng=rng))
        spreads[name] = format_spread(table, rng=rng).range
        record |= estimate_columns(f"{name}_spread", spreads[name])
        if delta is not None:
            ratio = effect_over_spread(delta, table, rng=rng)
            record |= estimate_columns(f"effect_over_{name}_spread", ratio)
    record["reading"] = reading(effect, spreads)
    return record
