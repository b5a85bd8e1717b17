"""The findings in plain words, each with the numbers it rests on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from pcsuite._util.text import counted, figure_text, p_text, signed
from pcsuite.analysis.load.item_scores import SCORE, least_random, natural_key
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.tables.judges import NOT_VALIDATED
from pcsuite.contrasts import is_reliable
from pcsuite.reporting.wording import join_words, planned_words

Tone = Literal["good", "bad", "neutral"]
Record = Mapping[str, Any]
VALIDITY, TOKENS = "json_valid", "total_tokens"
NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True)
class VerdictSentence:
    """One sentence, the numbers behind it, and whether it is good news."""

    text: str
    evidence: str = ""
    tone: Tone = "neutral"


@dataclass(slots=True)
class VerdictGroup:
    """What the run says of one task on one model."""

    task: str
    model: str
    decoding: str
    verdicts: list[VerdictSentence] = field(default_factory=list)


def verdict_groups(
    effects: Sequence[Record],
    temperature: Mapping[str, float],
    metrics: Metrics,
    constrained: Collection[str] = (),
    *,
    best: Sequence[Record] = (),
) -> list[VerdictGroup]:
    """What the run says of each task and model, under its least random regime.

    ``effects`` are records of ``effects.csv``; ``temperature`` is by regime. The best score comes first, then
    validity (of the ``constrained`` conditions, where there are any), then every reliable harm to a metric that is
    shown in verdicts, then tokens. ``best`` are records of ``best_condition.csv``: what the best score gains after
    selection is told beside what was seen.
    """
    selected = {tuple(row[name] for name in ("task", "model", "decoding")): row for row in best}
    return [
        VerdictGroup(
            task,
            model,
            regime,
            _group_verdicts(rows, metrics, constrained, selected.get((task, model, regime))),
        )
        for (task, model, regime), rows in _least_random_rows(effects, temperature).items()
    ]


def overall_verdicts(
    effects: Sequence[Record], temperature: Mapping[str, float], metrics: Metrics
) -> list[VerdictSentence]:
    """What holds over all tasks and models: one sentence per metric that any condition moved.

    Nothing for one task on one model, of which the group's own sentences say it all.
    """
    groups = _least_random_rows(effects, temperature)
    if len(groups) < 2:
        return []
    rows = [row for group in groups.values() for row in group]
    verdicts = [_across(_of(rows, metric), metric, metrics) for metric in _verdict_metrics(metrics)]
    # Tokens are read off, not tested: their ratio says more than a p-value.
    ratios: dict[str, list[float]] = {}
    for row in _of(rows, TOKENS):
        if row["control"] > 0:
            ratios.setdefault(row["condition"], []).append(row["treated"] / row["control"])
    if ratios:
        words = [f"{name} {median(ratios[name]):.1f}×" for name in sorted(ratios, key=natural_key)]
        label = _capitalised(metrics.label(TOKENS))
        verdicts.append(VerdictSentence(f"{label} against the control, in the median: {join_words(words)}"))
    return [verdict for verdict in verdicts if verdict is not None]


def headline(
    effects: Sequence[Record],
    temperature: Mapping[str, float],
    metrics: Metrics,
    planned: Sequence[Record] = (),
) -> str:
    """The run in one sentence: what moved the score beyond chance, for better and for worse, or that nothing did.

    ``effects`` are records against the control. Over several groups of task and model it counts them; of one it tells
    the largest gain and the largest loss with their intervals. Where contrasts were ``planned`` (records of
    ``registration.csv``) it begins with what came of them, and calls the rest exploratory.
    """
    explored = _explored(effects, temperature, metrics)
    return f"Registered: {planned_words(planned)}. Exploratory: {explored}" if planned else explored


def _explored(effects: Sequence[Record], temperature: Mapping[str, float], metrics: Metrics) -> str:
    groups = _least_random_rows(effects, temperature)
    compared = [row for group in groups.values() for row in _of(group, SCORE)]
    rows = [row for row in compared if row["p_value"] is not None]
    if not rows:
        reasons = {row.get("caution") or "" for row in compared}
        reason = next((text for text in sorted(reasons) if text.startswith(NOT_TESTED)), "")
        return f"Effects were {reason}." if reason else "No condition could be compared with a control."
    label = f"the {metrics.label(SCORE)}"
    regimes = {regime for _, _, regime in groups}
    others = {row["decoding"] for row in effects} - regimes
    # Other regimes may say something else, so the sentence names its own.
    where = f"Under {join_words(sorted(regimes))}: " if others else ""
    if len(groups) > 1:
        verdict = _across(rows, SCORE, metrics)
        assert verdict is not None  # of the score there is always something to say
        # Of many conditions the sentence names the best alone; the verdict below it has them all.
        others_text = f" ({verdict.evidence})" if verdict.evidence and verdict.evidence.count(";") < 3 else ""
        return f"{where}{verdict.text}{others_text}."
    moved = [row for row in rows if holds_under_both(row)]
    gains = [row for row in moved if metrics.improved(SCORE, row["delta"])]
    losses = [row for row in moved if metrics.improved(SCORE, row["delta"]) is False]
    parts = []
    for side, largest in ((gains, max), (losses, min)):
        if side:
            row = largest(side, key=lambda row: row["delta"])
            also = f", and so did {counted(len(side) - 1, 'other')}" if len(side) > 1 else ""
            limits = _joint_limits(row, "95 %", signed)
            parts.append(f"{_change(row, label)} ({signed(row['delta'])}, {limits}{_items(row)}){also}")
    formal = [
        row for row in rows if row.get("form") and (is_significant(row) or is_reliable(row["lenient_p_bh"]))
    ]
    if formal:
        row = max(formal, key=lambda row: abs(row["delta"] - row["lenient_delta"]))
        if parts:
            parts.append(f"{_change(row, 'it')}: {_form_words(row)}")
        else:
            limits = _joint_limits(row, "95 %", signed)
            parts.append(
                f"No condition moved {label} under both readings of the answers; {_change(row, 'it')}"
                f" ({limits}{_items(row)}): {_form_words(row)}"
            )
    if parts:
        return f"{where}{'; '.join(parts)}."
    tentative = [row for row in rows if row.get("clause")]
    if tentative:
        row = max(tentative, key=lambda row: abs(row["delta"]))
        limits = _joint_limits(row, "95 %", signed)
        return (
            f"{where}{_change(row, label)} ({signed(row['delta'])}, {limits}{_items(row)}) {row['clause']}; whatever"
            " the shape of the differences no change is shown."
        )
    widths = [row["delta_high"] - row["delta_low"] for row in rows if row["delta_low"] is not None]
    if not widths:
        return f"{where}No condition moved {label}: it is the same on all {rows[0]['n_items']} items."
    widest = max(widths) / 2
    return (
        f"{where}No condition moved {label} beyond chance: on {_items(rows[0])} the intervals reach"
        f" {figure_text(widest)} to either side, so smaller effects cannot be ruled out."
    )


def _verdict_metrics(metrics: Metrics) -> list[str]:
    """Metrics of the sentences: those that are better high first, then unsupported content, format and the rest."""
    order = {"primary": 0, "hallucination": 1, "format": 2}
    compared = [name for name in metrics.compared_in("effects") if metrics[name].higher_is_better is not None]
    return sorted(
        (name for name in metrics.shown_in("verdicts") if name in compared),
        key=lambda name: (metrics[name].higher_is_better is False, order.get(metrics[name].type or "", 3)),
    )


def is_significant(record: Record) -> bool:
    """Whether a difference stands after the correction for many comparisons."""
    return is_reliable(record["p_bh"])


def holds_under_both(record: Record) -> bool:
    """Whether a difference stands after correction, whichever way the answers are read."""
    return is_significant(record) and not record.get("form")


def _form_words(record: Record) -> str:
    """``the form, not the answer (+0.51 strictly read, -0.03 leniently)``."""
    readings = f"{signed(record['delta'])} strictly read, {signed(record['lenient_delta'])} leniently"
    return f"{record['form']} ({readings})"


def _least_random_rows(
    effects: Sequence[Record], temperature: Mapping[str, float]
) -> dict[tuple[str, str, str], list[Record]]:
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in effects:
        regimes = groups.setdefault((record["task"], record["model"]), {})
        regimes.setdefault(record["decoding"], []).append(record)
    least = {}
    for (task, model), regimes in sorted(groups.items()):
        regime = least_random(regimes, temperature)
        least[task, model, regime] = regimes[regime]
    return least


def _of(rows: Sequence[Record], metric: str) -> list[Record]:
    return [row for row in rows if row["metric"] == metric and row["delta"] is not None]


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _across(rows: Sequence[Record], metric: str, metrics: Metrics) -> VerdictSentence | None:
    """The condition that moved a metric most reliably, then the others; nothing where none moved it."""
    if not rows:
        return None
    tallies = []
    for condition in sorted({row["condition"] for row in rows}, key=natural_key):
        of_condition = [row for row in rows if row["condition"] == condition]
        moved = [row for row in of_condition if holds_under_both(row)]
        better = sum(metrics.improved(metric, row["delta"]) is True for row in moved)
        middle = float(median(float(row["delta"]) for row in of_condition))
        gain = -middle if metrics[metric].higher_is_better is False else middle
        tallies.append(_Tally(condition, len(of_condition), better, len(moved) - better, middle, gain))
    moving = [tally for tally in tallies if tally.better or tally.worse]
    name = metrics.label(metric)
    formal = [row for row in rows if row.get("form")]
    form_words = f"on {counted(len(formal), 'further effect')} {formal[0]['form']}" if formal else ""
    if not moving:
        pairs = tallies[0].pairs
        words = f"No condition moved the {name} beyond chance on any of {pairs} task–model pairs"
        return VerdictSentence(words, form_words) if metric == SCORE else None
    # By the share of pairs first: a large gain on one of ten is not what a reader should take home.
    best = max(moving, key=lambda tally: (tally.better / tally.pairs, tally.gain))
    if not best.better:
        worst = max(moving, key=lambda tally: tally.worse / tally.pairs)
        where = f"{worst.worse} of {worst.pairs} task–model pairs (after correction)"
        evidence = "; ".join(filter(None, (_tallies_text(moving), form_words)))
        return VerdictSentence(f"{worst.condition} made the {name} worse on {where}", evidence, "bad")
    where = f"{best.better} of {best.pairs} task–model pairs (after correction)"
    text = f"{best.condition} improved the {name} on {where}, by {signed(best.median)} in the median"
    others = [tally for tally in moving if tally is not best]
    harm = any(tally.worse > tally.better for tally in moving)
    evidence = "; ".join(filter(None, (f"Others: {_tallies_text(others)}" if others else "", form_words)))
    return VerdictSentence(text, evidence, "neutral" if harm else "good")


@dataclass(frozen=True, slots=True)
class _Tally:
    """How often a condition moved a metric beyond chance, over task–model pairs."""

    condition: str
    pairs: int
    better: int
    worse: int
    median: float
    gain: float


def _tallies_text(tallies: Sequence[_Tally]) -> str:
    parts = []
    for tally in tallies:
        sides = [f"better on {tally.better}"] if tally.better else []
        sides += [f"worse on {tally.worse}"] if tally.worse else []
        parts.append(f"{tally.condition} {join_words(sides)} of {tally.pairs} ({signed(tally.median)})")
    return "; ".join(parts)


def _group_verdicts(
    rows: Sequence[Record], metrics: Metrics, constrained: Collection[str], selected: Record | None
) -> list[VerdictSentence]:
    verdicts = []
    scores = _of(rows, SCORE)
    if scores:
        # What changed the form alone is no best score as long as something changed the answers.
        raising = [row for row in scores if holds_under_both(row) and row["delta"] > 0]
        best = max(scores, key=lambda row: row["delta"])
        if best.get("form") and raising:
            best = max(raising, key=lambda row: row["delta"])
        evidence = _evidence(best)
        # What selection takes off a judge's scores says nothing of corrected ones.
        if selected is not None and selected["condition"] == best["condition"] and not best.get("judge"):
            evidence += (
                f"; as the best of {selected['n_conditions']} it is worth {signed(selected['adjusted'])} after"
                f" selection, 95 % interval {figure_text(selected['adjusted_low'])} to"
                f" {figure_text(selected['adjusted_high'])}"
            )
        label = f"the {metrics.label(SCORE)}"
        if raising:
            # What a judge says that nobody has checked is told, and praised by nothing.
            sure: Tone = "neutral" if best.get("judge") == NOT_VALIDATED else "good"
            verdicts.append(VerdictSentence(_change(best, label), evidence, sure))
        elif best["delta"] >= 0:
            surely = "under both readings of the answers" if best.get("form") else "beyond chance"
            text = f"No condition raised {label} {surely}; at most, {_change(best, 'it')}"
            verdicts.append(VerdictSentence(text, evidence))
        else:  # nothing raised it at all, so that a loss that holds is no "at most"
            least = _change(best, "it") if len(scores) == 1 else f"the least loss: {_change(best, 'it')}"
            worst: Tone = "bad" if holds_under_both(best) else "neutral"
            verdicts.append(VerdictSentence(f"Every condition lowered {label}; {least}", evidence, worst))
        verdicts += [
            VerdictSentence(f"{_change(row, label)}: {row['form']}", _evidence(row))
            for row in scores
            if row.get("form") and row is not best
        ]
    valid = _of(rows, VALIDITY)
    if valid:
        best = max(
            [row for row in valid if row["condition"] in constrained] or valid, key=lambda row: row["delta"]
        )
        if best["delta"] != 0:
            tone: Tone = "neutral" if not is_significant(best) else "good" if best["delta"] > 0 else "bad"
            verdicts.append(VerdictSentence(_change(best, metrics.label(VALIDITY)), _evidence(best), tone))
    for metric in _verdict_metrics(metrics):
        for row in _of(rows, metric) if metric != VALIDITY else ():
            if holds_under_both(row) and metrics.improved(metric, row["delta"]) is False:
                verdicts.append(
                    VerdictSentence(_change(row, f"the {metrics.label(metric)}"), _evidence(row), "bad")
                )
    tokens = [row for row in _of(rows, TOKENS) if row["control"] > 0]
    if tokens:
        ratios = [f"{row['condition']} {row['treated'] / row['control']:.1f}×" for row in tokens]
        level = f"{figure_text(tokens[0]['control'], 0)} under {tokens[0]['baseline']}"
        label = _capitalised(metrics.label(TOKENS))
        verdicts.append(VerdictSentence(f"{label}: {level}; {join_words(ratios)} that many"))
    return verdicts


def _change(record: Record, what: str) -> str:
    """``C6 raised X from a to b against C0``."""
    verb = "raised" if record["delta"] > 0 else "lowered" if record["delta"] < 0 else "left"
    levels = f"from {figure_text(record['control'])} to {figure_text(record['treated'])}"
    if verb == "left":
        levels = f"at {figure_text(record['treated'])}"
    return f"{record['condition']} {verb} {what} {levels} against {record['baseline']}"


def _joint_limits(record: Record, words: str, text: Callable[[float], str]) -> str:
    """Limits of an effect that was picked from its family, with a comma behind; empty where it has none.

    They hold for all contrasts of the family at once, so that having picked the one that looks best, or worst, or
    those that are reliable, takes nothing off them.
    """
    low, high = record.get("joint_low"), record.get("joint_high")
    if low is None or high is None:  # costs are not tested and have no family
        low, high = record["delta_low"], record["delta_high"]
        return "" if low is None else f"{words} {text(low)} to {text(high)}, "
    size = record.get("family_size") or 1
    jointly = f" for all {size} contrasts at once" if size > 1 else ""
    return f"{words} {text(low)} to {text(high)}{jointly}, "


def _items(record: Record) -> str:
    """``60 items``, or ``60 items in 20 clusters`` where some are related."""
    clusters = record.get("n_clusters")
    related = f" in {counted(clusters, 'cluster')}" if clusters else ""
    return counted(record["n_items"], "item") + related


def _evidence(record: Record) -> str:
    """The numbers behind a sentence."""
    standing = "holds after correction" if is_significant(record) else "does not hold after correction"
    if record.get("clause"):
        standing += f" whatever the shape of the differences, but does {record['clause']}"
    if record["p_value"] is None and record.get("caution"):
        standing = str(record["caution"])
    interval = _joint_limits(record, "95 % interval", figure_text)
    return (
        f"{signed(record['delta'])}, {interval}{_items(record)},"
        f" adjusted p {p_text(record['p_bh'])}: {standing}"
        + (f"; {_form_words(record)}" if record.get("form") else "")
        + (f"; {record['judge']}" if record.get("judge") else "")
    )
