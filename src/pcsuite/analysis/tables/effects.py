"""``effects.csv``: what each condition changed against its control and its twin, on the same items.

One record per task, model, regime, contrast (:mod:`pcsuite.analysis.pairings`) and metric: the paired difference
with its interval, a permutation p-value, its adjusted values over the contrasts of the kind on the dataset, and effect
sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.judging import Gold
from pcsuite.analysis.load.item_scores import LENIENT, SCORE, CellKey, ItemScores
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.pairings import PAIRS, ConditionContrast, group_contrasts
from pcsuite.analysis.probabilities import with_probabilities
from pcsuite.analysis.table import (
    MAIN_CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    corrected_columns,
    estimate_columns,
    interval,
    number,
)
from pcsuite.analysis.tables.judges import NOT_VALIDATED, JudgeStatus
from pcsuite.analysis.tables.registration import ITEM_MEANS, Registered
from pcsuite.contrasts import (
    ALPHA,
    CLAUSE,
    FORM,
    Contrast,
    Measurement,
    Missing,
    ReadEffect,
    corrected_within,
    hold_test_under_missing,
    is_form,
    is_reliable,
    measure,
)
from pcsuite.stats.effect_sizes import absolute_risk_reduction, cohens_d_z, odds_ratio_paired
from pcsuite.stats.estimate import Estimate, TestResult
from pcsuite.stats.prediction_powered import PredictionPowered

UNEQUAL_FAILURES = "unequal failures"
UNDONE = "missing answers could undo it"
"""What is said of a difference that the answered items show, and that does not hold whatever the others would be."""
EFFECTS = TableSpec(
    "effects",
    "Every effect",
    "contrast, metric and group of task, model and regime",
    (
        *MAIN_CELL,
        Column("baseline", "what the condition is compared with", label="against", form="text"),
        Column("contrast", "the comparison in words", shown=False),
        Column(
            "kind",
            "control: against the control of the group (C0, else the bare condition, else the smallest or the full"
            " bundle, or what --baseline names); twin: against the same operators less one; step: without"
            " a twin, against the largest condition that it includes; planned: registered and none of these; main"
            " effect, interaction: of a complete factorial",
            form="text",
        ),
        Column("planned", "yes: a primary contrast, registered before the first call; no: it explores", form="text"),
        Column("operator", "the one operator that the condition adds to the baseline; of a step, all", form="text"),
        Column("metric", "name of the metric", form="text"),
        Column("measure", "mean over items, or micro-F1 of pooled counts", shown=False),
        Column("n_items", "items that both conditions have", label="items", form="number", late=True),
        Column(
            "control",
            "level under the baseline; of an interaction, the first operator's effect without the second",
            form="number",
            digits=2,
            paper="Control",
        ),
        Column(
            "treated",
            "level under the condition; of an interaction, the effect with the second operator",
            label="condition's",
            form="number",
            digits=2,
        ),
        *interval("delta", "treated less control", label="difference", form="difference", paper="Change"),
        Column(
            "interval_method",
            "how the interval of the difference was made; there is none where an amount without bounds (tokens) differs"
            " by the same on every item",
            shown=False,
        ),
        Column("p_value", "two-sided permutation p-value", label="p", form="p"),
        Column("p_method", "how the p-value was made", shown=False),
        *corrected_columns(
            "p-value adjusted over all contrasts of the kind on the task and metric", paper="$p$ (BH)"
        ),
        *interval("cohens_d", "difference over its standard deviation", label="Cohen's d", form="interval", digits=2),
        *interval("odds_ratio", "paired odds ratio of metrics within [0, 1]", form="interval", digits=2),
        *interval("risk_reduction", "failures saved per item, of metrics within [0, 1]", form="interval", digits=2),
        Column("number_needed", "items treated for one failure saved, where failures fall", shown=False),
        Column("number_harmed", "items treated for one failure more, where failures rise", shown=False),
        Column("failed_control", "share of the baseline's rows that ended in an error", shown=False),
        Column("failed_treated", "share of the condition's rows that ended in an error", shown=False),
        Column(
            "p_failures",
            "p-value of the test that both sides' items fail equally often; empty where none failed",
            shown=False,
        ),
        Column("delta_least", "the difference had failed rows scored 0 here and 1 under the baseline", shown=False),
        Column("delta_most", "the difference had failed rows scored 1 here and 0 under the baseline", shown=False),
        Column("ambiguous_control", "items whose answer under the baseline can be read in two ways", shown=False),
        Column("ambiguous_treated", "items whose answer under the condition can be read in two ways", shown=False),
        Column("judge", "of a judged task's score: what stands behind it", shown=False),
        *interval("judge_delta", "the difference of the judge's own scores, where labels corrected it", shown=False),
        Column("labelled_items", "items with gold labels on both sides, which the correction rests on", shown=False),
        Column("caution", "what the difference cannot be taken without", form="text", late=True),
        N_CLUSTERS,
        Column(
            "joint_low",
            "lower limit of the difference that holds for all contrasts of its family at once (95 %, Bonferroni): for a"
            " figure that was picked from them",
            shown=False,
        ),
        Column("joint_high", "the upper one", shown=False),
        Column("family_size", "contrasts of that family: those that the p-value is adjusted over", shown=False),
        Column(
            "p_symmetric",
            "of graded scores: p-value of sign flips, valid unless rare large opposite cases exist (p_value is valid"
            " whatever the shape); else empty",
            shown=False,
        ),
        Column("p_symmetric_bh", "the same adjusted over the family (Benjamini–Hochberg)", shown=False),
        Column(
            "clause",
            "of graded scores that sign flips alone show to differ: what that rests on",
            form="text",
            late=True,
            sparse=True,
        ),
        *interval("lenient_delta", "of the score: the difference under the lenient rules", shown=False),
        Column("lenient_p_bh", "its p-value, adjusted as p_bh is", shown=False),
        Column(
            "form",
            f"of the score: “{FORM}” where the strict and the lenient difference have opposite signs, or one holds"
            " after correction and the other, which is apart from it, does not",
            label="what changed",
            form="text",
            late=True,
            sparse=True,
        ),
    ),
    note=(
        "The p-value after correction decides whether there is an effect; the interval says how large it is (where the"
        " two disagree, the p-value counts). Rows that ended in an error are left out: where the sides fail unequally"
        " often, delta_least and delta_most say what the failures could hide."
        " Every condition against the control of its group and against its twin (the same operators less one; where"
        " there is none, the largest condition that it includes), and the main effects and"
        " interactions of complete factorials, metric by metric."
    ),
    caption=(
        "Change of the score against the control on the same items, with 95\\,\\% bootstrap intervals."
        " Stars after Benjamini--Hochberg correction: * 0.05, ** 0.01, *** 0.001."
    ),
)  # fmt: skip


def effects(
    scores: ItemScores,
    metrics: Metrics,
    registered: Registered | None = None,
    gold: Gold | None = None,
    status: JudgeStatus | None = None,
) -> Table:
    """Every contrast of every group on the metrics that are compared in effects.

    P-values are adjusted over all contrasts of a kind on one task and metric: conditions, models and regimes. Contrasts
    that were ``registered`` are a family of their own, and use the looks where looks were taken. The scores of judged
    tasks are prediction-powered where ``gold`` labels allow it; ``status`` says what else is known of their judges.
    """
    registered = registered or Registered()
    gold, status = gold or Gold(), status or JudgeStatus()
    records: list[dict[str, Any]] = []
    measured: list[_Measured] = []
    for keys in scores.groups().values():
        by_condition = {key.condition: key for key in keys}
        planned = registered.pairs(keys[0].task, keys[0].model, keys[0].decoding)
        for contrast in group_contrasts(scores, keys, planned):
            for metric in metrics.compared_in("effects"):
                weights = {by_condition[name]: weight for name, weight in contrast.weights}
                compared = _compare(scores, contrast, weights, metric, metrics)
                if compared is None:
                    continue
                record, change = compared
                powered = None
                if metric == SCORE and keys[0].task in status.words:
                    powered = gold.contrast(weights)
                    task = keys[0].task
                    unlike = status.unlike.get(task, "")
                    record |= _judged(record, gold, weights, powered, status.words[task], unlike)
                looked = registered.by_looks(record)
                lenient = None
                if metric == SCORE and powered is None:
                    lenient = _read_leniently(scores, contrast, weights, metrics, change)
                records.append(record | looked)
                measured.append(_Measured(change, powered, bool(looked), lenient))
    families = [registered.family(record) for record in records]
    add_corrected_p(records, families)
    _add_joint_limits(records, families, measured)
    _add_second_grade(records, families, measured)
    _add_agreement(records, families, measured)
    for record in records if registered.plan is not None else ():
        record["planned"] = "yes" if registered.is_primary(record) else "no"
    return Table.of(EFFECTS, records)


def with_posterior(table: Table, metrics: Metrics, margin: float) -> Table:
    """The effects with the probability of each to be for the better and, of the score, within ±``margin``.

    Shrunk together are the tested contrasts of one kind, task, model, regime and metric.
    """

    def better(record: Mapping[str, Any]) -> int | None:
        high = metrics[record["metric"]].higher_is_better
        return None if high is None or record["p_value"] is None else 1 if high else -1

    def weights(record: Mapping[str, Any]) -> Mapping[str, float]:
        # Main effects and interactions of a factorial are orthogonal: each stands for itself.
        if record["kind"] not in PAIRS:
            return {record["contrast"]: 1.0}
        return {record["condition"]: 1.0, record["baseline"]: -1.0}

    names = ("task", "model", "decoding", "kind", "metric")
    return with_probabilities(
        table,
        better,
        lambda record: tuple(record[name] for name in names),
        margin=lambda record: margin if record["metric"] == SCORE else None,
        weights=weights,
    )


class _Measured(NamedTuple):
    """What a record's effect was made of."""

    change: Measurement
    powered: PredictionPowered | None
    """Where gold labels corrected it."""
    by_looks: bool
    """Whether its limits are those of the last look, which hold for the whole family already."""
    lenient: Measurement | None = None
    """The same contrast of the score under the lenient rules, where there are such scores."""


def _add_joint_limits(
    records: Sequence[dict[str, Any]], families: Sequence[Hashable], measured: Sequence[_Measured]
) -> None:
    """Add the limits that hold for all tested contrasts of a family at once, and how many those are."""
    sizes = Counter(
        family for record, family in zip(records, families, strict=True) if record["p_value"] is not None
    )
    for record, family, source in zip(records, families, measured, strict=True):
        if record["p_value"] is None or record["delta_low"] is None:
            continue
        low, high, size = record["delta_low"], record["delta_high"], sizes[family]
        if size > 1 and not source.by_looks:
            level = 1 - ALPHA / size
            limits = source.change.limits_at(level)
            ends = source.powered.limits(level) if source.powered is not None else (limits.low, limits.high)
            # Limits of one contrast may be drawn and these computed: together they are never the narrower ones.
            low, high = min(low, ends[0]), max(high, ends[1])
        record |= {"joint_low": low, "joint_high": high, "family_size": size}


def _add_second_grade(
    records: Sequence[dict[str, Any]], families: Sequence[Hashable], measured: Sequence[_Measured]
) -> None:
    """Add what sign flips say of graded scores, whose p-values hold whatever the shape of the differences."""
    bolder = []
    for record, source in zip(records, measured, strict=True):
        graded = source.change.symmetric if source.powered is None and not source.by_looks else None
        p_value = record["p_value"] if graded is None else graded.test.p_value
        bolder.append(np.nan if p_value is None else p_value)
        if graded is not None and record["p_value"] is not None:
            record["p_symmetric"] = number(p_value)
    adjusted = corrected_within(bolder, families, correction="bh")
    for record, p_value in zip(records, adjusted.tolist(), strict=True):
        if record.get("p_symmetric") is not None:
            record["p_symmetric_bh"] = number(p_value)
            if is_reliable(p_value) and not is_reliable(record["p_bh"]):
                record["clause"] = CLAUSE


def _read_leniently(
    scores: ItemScores,
    contrast: ConditionContrast,
    weights: Mapping[CellKey, float],
    metrics: Metrics,
    strict: Measurement,
) -> Measurement | None:
    """A contrast of the score under the lenient rules; ``None`` where a condition has no such scores."""
    if not all(scores.has_lenient(key) for key in weights):
        return None
    pooled = scores.is_pooled(next(iter(weights)).task)
    arms = {
        key.condition: scores.arm(key, LENIENT, metrics[LENIENT].bounds, pooled=pooled) for key in weights
    }
    plain = {key.condition: scores.arm(key, SCORE, pooled=pooled) for key in weights}
    if all(np.array_equal(arms[name].values, plain[name].values, equal_nan=True) for name in arms):
        return strict  # every answer is read alike: there is nothing to measure again
    rng = named_rng("effects", *(part for key in weights for part in key), LENIENT)
    designed = Contrast(contrast.name, dict(contrast.weights))
    (change,) = measure(arms, [designed], rng=rng)
    if scores.missing == "bound":
        change = hold_test_under_missing(change, arms, rng=rng)
    return change


def _add_agreement(
    records: Sequence[dict[str, Any]], families: Sequence[Hashable], measured: Sequence[_Measured]
) -> None:
    """Add the score's effect under the lenient rules, and where the two readings do not agree on it."""
    p_values = [np.nan if source.lenient is None else source.lenient.test.p_value for source in measured]
    adjusted = corrected_within(p_values, families, correction="bh").tolist()
    for record, source, lenient_p in zip(records, measured, adjusted, strict=True):
        if source.lenient is None:
            continue
        # The same measurement: what was decided of it (by a look, say) is decided of both.
        same = source.lenient is source.change
        p_value = record["p_bh"] if same else number(lenient_p)
        record |= estimate_columns("lenient_delta", source.lenient.estimate)
        record["lenient_p_bh"] = p_value
        strict = ReadEffect(record["delta"] or 0.0, is_reliable(record["p_bh"]), measured=source.change)
        held = is_reliable(p_value)
        lenient = ReadEffect(source.lenient.estimate.value, held, measured=source.lenient)
        if not same and is_form(strict, lenient):
            record["form"] = FORM


def _judged(
    record: Mapping[str, Any],
    gold: Gold,
    weights: Mapping[CellKey, float],
    corrected: PredictionPowered | None,
    words: str,
    unlike: str,
) -> dict[str, Any]:
    """What changes in a record of a judge's scores: the effect corrected by gold labels, or a word of caution.

    Effect sizes are those of the judge's own scores and are left out of a corrected record; its levels are the
    corrected control and what the effect makes of it.
    """
    if corrected is None:
        cautions = [words] if words == NOT_VALIDATED else []
        cautions += [record["caution"]] if record.get("caution") else []
        return {"judge": words, "caution": "; ".join(cautions) or None}
    base = None
    if len(weights) == 2:
        control = next(key for key, weight in weights.items() if weight < 0)
        level = gold.contrast({control: 1.0})
        base = level.estimate.value if level is not None else None
    sizes = ("cohens_d", "odds_ratio", "risk_reduction")
    cleared = [f"{name}{end}" for name in sizes for end in ("", "_low", "_high")]
    uncorrected = {f"judge_{name}": record.get(name) for name in ("delta", "delta_low", "delta_high")}
    return {
        **dict.fromkeys([*cleared, "number_needed", "number_harmed"]),
        **({"control": base, "treated": base + corrected.estimate.value} if base is not None else {}),
        **tested_columns("delta", corrected.estimate, corrected.test),
        "judge": f"corrected by gold labels of {corrected.estimate.n} items",
        **uncorrected,
        "labelled_items": corrected.estimate.n,
        **({"caution": unlike} if unlike else {}),
    }


def _compare(
    scores: ItemScores,
    contrast: ConditionContrast,
    weights: Mapping[CellKey, float],
    metric: str,
    metrics: Metrics,
) -> tuple[dict[str, Any], Measurement] | None:
    """A contrast on one metric, unadjusted, and how it was measured.

    ``None`` with fewer than two items that all its conditions have.
    """
    keys, spec, is_cost = list(weights), metrics[metric], metrics.is_cost(metric)
    if any(metric not in scores.cells[key].values for key in keys):
        return None
    names, bounds, within = keys[0].names() | {"condition": contrast.condition}, spec.bounds, False
    is_pair = contrast.kind in PAIRS
    if is_pair:
        first, second = scores.paired(keys[0], keys[1], metric)
        low, high = spec.range or (0.0, 1.0)
        within = low is not None and high is not None and low >= 0 and high <= 1 and len(first) > 0
        within = within and min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 1
        if within and bounds is None:
            bounds = (0.0, 1.0)
    seed = (*keys[0], keys[1]) if is_pair else (*names.values(), contrast.name)
    rng = named_rng("effects", *seed, metric)
    arms = {key.condition: scores.arm(key, metric, bounds) for key in keys}
    designed = Contrast(contrast.name, dict(contrast.weights), tested=not is_cost)
    (change,) = measure(arms, [designed], rng=rng)
    if change.n < 2:
        return None
    on_answered = change.test.p_value
    if scores.missing == "bound":
        change = hold_test_under_missing(change, arms, rng=rng)
    treated, control = _sides(scores, contrast, weights, change)
    linearised = scores.is_pooled(keys[0].task, metric)
    record: dict[str, Any] = {
        **names,
        "baseline": contrast.baseline,
        "contrast": contrast.name,
        "kind": contrast.kind,
        "operator": contrast.operator or None,
        "metric": metric,
        "measure": "micro-F1" if change.counted else "micro-F1, linearised" if linearised else ITEM_MEANS,
        "n_items": change.n,
        "control": control,
        "treated": treated,
        **tested_columns("delta", change.estimate, change.test),
    }
    if change.clusters is not None:
        record["n_clusters"] = change.n_clusters
    if change.reason:
        record["caution"] = change.reason
    elif is_reliable(on_answered) and not is_reliable(change.test.p_value):
        record["caution"] = UNDONE
    if not is_pair or is_cost:
        return record, change
    if metric == SCORE:
        record["ambiguous_control"] = change.ambiguous.get(contrast.baseline)
        record["ambiguous_treated"] = change.ambiguous.get(contrast.condition)
    sizes = {"cohens_d": cohens_d_z(first, second)}
    if change.missing is not None:
        failures = _failures(change.missing, contrast.condition, contrast.baseline, bounded=within)
        cautions = [text for text in (record.get("caution"), failures.get("caution")) if text]
        record |= failures | {"caution": "; ".join(cautions) or None}
    if within:
        sizes["odds_ratio"] = odds_ratio_paired(first, second)
        is_failure = spec.higher_is_better is False
        # A failure is a low value of what should be high, or a high value of what should be low.
        risk = absolute_risk_reduction(*((first, second) if is_failure else (1 - first, 1 - second)))
        sizes["risk_reduction"] = risk.reduction
        # Infinite in one direction or in both: ``number`` leaves those empty.
        record["number_needed"] = number(risk.number_needed_to_treat)
        record["number_harmed"] = number(risk.number_needed_to_harm)
    for name, size in sizes.items():
        # Limits of effect sizes take items for unrelated; of related ones the difference alone has limits.
        limited = size if change.clusters is None else replace(size, low=np.nan, high=np.nan)
        record |= estimate_columns(name, limited)
    return record, change


def _sides(
    scores: ItemScores, contrast: ConditionContrast, weights: Mapping[CellKey, float], change: Measurement
) -> tuple[float, float]:
    """What stands on either side of a contrast: levels, or of an interaction the effect with and without the second."""
    means, weighted = np.array(list(change.levels.values())), np.array(list(weights.values()))
    if contrast.kind != "interaction":
        return float(means[weighted > 0].mean()), float(means[weighted < 0].mean())
    second = contrast.operator.partition(" × ")[2]
    present = np.array([second in scores.operators_in(key) for key in weights])
    return float(means[present] @ weighted[present]), -float(means[~present] @ weighted[~present])


def _failures(missing: Missing, treated: str, control: str, *, bounded: bool) -> dict[str, Any]:
    """How often the two sides failed, and between what the difference lies whatever the failures hide."""
    record: dict[str, Any] = {
        "failed_control": missing.failed[control],
        "failed_treated": missing.failed[treated],
        "p_failures": number(missing.p_value),
    }
    # Not corrected: a caution that is given too often costs less than one that is missing.
    if is_reliable(missing.p_value):
        record["caution"] = f"{UNEQUAL_FAILURES}: see delta_least and delta_most"
    if bounded:
        record |= {"delta_least": number(missing.least), "delta_most": number(missing.most)}
    return record


def tested_columns(name: str, effect: Estimate, test: TestResult) -> dict[str, Any]:
    """An effect with its interval and p-value, and how each was made."""
    return {
        **estimate_columns(name, effect),
        "interval_method": effect.method,
        "p_value": number(test.p_value),
        "p_method": test.method,
    }


def add_corrected_p(
    records: Sequence[dict[str, Any]],
    families: Sequence[Hashable],
    columns: Sequence[str] = ("p_bh", "p_holm", "stars"),
) -> None:
    """Add to each record its ``p_value`` corrected within its family: after Benjamini–Hochberg, after Holm, as stars.

    ``families`` names the family of each record, ``columns`` which of the three the table has. A record without a
    p-value counts for no family and has no corrected one.
    """
    p_values = [np.nan if record.get("p_value") is None else record["p_value"] for record in records]
    false_discovery, family_wise = (
        corrected_within(p_values, families, correction=correction) for correction in ("bh", "holm")
    )
    for record, bh, strict in zip(records, false_discovery, family_wise, strict=True):
        corrected = {"p_bh": number(bh), "p_holm": number(strict), "stars": stars(number(bh))}
        record |= {name: corrected[name] for name in columns}


def stars(p_adjusted: float | None) -> str:
    """Stars of a p-value *after* adjustment (* 0.05, ** 0.01, *** 0.001): none without it."""
    if p_adjusted is None or not np.isfinite(p_adjusted):
        return ""
    return "***" if p_adjusted < 0.001 else "**" if p_adjusted < 0.01 else "*" if p_adjusted < 0.05 else ""
