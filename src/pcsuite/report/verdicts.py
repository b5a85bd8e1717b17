"""The findings in plain words, each with the numbers it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.tables.effects import LOWER_IS_BETTER
from pcsuite.report.wording import figure_text, join_words, metric_name, p_text, signed

Tone = Literal["good", "bad", "neutral"]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
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
    verdicts: list[Verdict] = field(default_factory=list)


def verdict_groups(effects: Sequence[Record], temperature: Mapping[str, float]) -> list[VerdictGroup]:
    """What the run says of each task and model, under its least random regime."""
    return [
        VerdictGroup(task, model, regime, [*_score(rows), *_validity(rows), *_harm(rows), *_cost(rows)])
        for (task, model, regime), rows in _least_random(effects, temperature).items()
    ]


def overview(effects: Sequence[Record], temperature: Mapping[str, float]) -> list[Verdict]:
    """What holds over all tasks and models: one sentence per metric that any condition moved."""
    groups = _least_random(effects, temperature)
    if len(groups) < 2:
        return []
    rows = [row for group in groups.values() for row in group]
    found = []
    for metric in ("score", "json_valid", "unsupported_rate", "truncated", "abstain_misuse"):
        verdict = _across(_of(rows, metric), metric)
        if verdict is not None:
            found.append(verdict)
    return found + _across_cost(rows)


def is_significant(record: Record) -> bool:
    """Whether a difference stands after the correction for many comparisons."""
    return record["p_bh"] is not None and record["p_bh"] < 0.05


def evidence(record: Record) -> str:
    """The numbers behind a sentence."""
    standing = "holds after correction" if is_significant(record) else "does not hold after correction"
    return (
        f"{signed(record['delta'])}, 95 % interval {figure_text(record['delta_low'])} to"
        f" {figure_text(record['delta_high'])}, {record['n_items']} items,"
        f" adjusted p {p_text(record['p_bh'])}: {standing}"
    )


def change(record: Record, what: str) -> str:
    """``C6 raised X from a to b against C0``."""
    verb = "raised" if record["delta"] > 0 else "lowered" if record["delta"] < 0 else "left"
    levels = f"from {figure_text(record['control'])} to {figure_text(record['treated'])}"
    if verb == "left":
        levels = f"at {figure_text(record['treated'])}"
    return f"{record['condition']} {verb} {what} {levels} against {record['baseline']}"


def _least_random(
    effects: Sequence[Record], temperature: Mapping[str, float]
) -> dict[tuple[str, str, str], list[Record]]:
    """Effects by task and model under the regime with the lowest temperature."""
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in effects:
        regimes = groups.setdefault((record["task"], record["model"]), {})
        regimes.setdefault(record["decoding"], []).append(record)
    chosen = {}
    for (task, model), regimes in sorted(groups.items()):
        regime = min(regimes, key=lambda name: (temperature.get(name) or 0.0, name))
        chosen[task, model, regime] = regimes[regime]
    return chosen


def _of(rows: Sequence[Record], metric: str) -> list[Record]:
    return [row for row in rows if row["metric"] == metric and row["delta"] is not None]


def _is_better(row: Record) -> bool:
    return bool((row["delta"] > 0) != (row["metric"] in LOWER_IS_BETTER))


def _across(rows: Sequence[Record], metric: str) -> Verdict | None:
    """The condition that moved a metric most reliably, then the others; nothing where none moved it."""
    if not rows:
        return None
    names = sorted({row["condition"] for row in rows}, key=natural_key)
    tallies = [_Tally.of(name, [row for row in rows if row["condition"] == name]) for name in names]
    moved = [tally for tally in tallies if tally.better or tally.worse]
    name = metric_name(metric)
    if not moved:
        if metric != "score":
            return None
        return Verdict(
            f"No condition moved the {name} beyond chance on any of {tallies[0].pairs} task–model pairs"
        )
    best = max(moved, key=lambda tally: (tally.better / tally.pairs, tally.gain))
    if not best.better:
        worst = max(moved, key=lambda tally: tally.worse / tally.pairs)
        return Verdict(
            f"{worst.condition} made the {name} worse on {worst.words('worse')}", _listed(moved), "bad"
        )
    text = f"{best.condition} improved the {name} on {best.words('better')}, by {signed(best.median)} in the median"
    others = [tally for tally in moved if tally is not best]
    harm = any(tally.worse > tally.better for tally in moved)
    return Verdict(text, f"Others: {_listed(others)}" if others else "", "neutral" if harm else "good")


@dataclass(frozen=True, slots=True)
class _Tally:
    """How often a condition moved a metric beyond chance, over task–model pairs."""

    condition: str
    pairs: int
    better: int
    worse: int
    median: float
    gain: float

    @classmethod
    def of(cls, condition: str, rows: Sequence[Record]) -> _Tally:
        moved = [row for row in rows if is_significant(row)]
        better = sum(_is_better(row) for row in moved)
        middle = float(median(float(row["delta"]) for row in rows))
        gain = -middle if rows[0]["metric"] in LOWER_IS_BETTER else middle
        return cls(condition, len(rows), better, len(moved) - better, middle, gain)

    def words(self, which: Literal["better", "worse"]) -> str:
        count = self.better if which == "better" else self.worse
        return f"{count} of {self.pairs} task–model pairs (after correction)"


def _listed(tallies: Sequence[_Tally]) -> str:
    parts = []
    for tally in tallies:
        sides = [f"better on {tally.better}"] if tally.better else []
        sides += [f"worse on {tally.worse}"] if tally.worse else []
        parts.append(f"{tally.condition} {join_words(sides)} of {tally.pairs} ({signed(tally.median)})")
    return "; ".join(parts)


def _across_cost(rows: Sequence[Record]) -> list[Verdict]:
    ratios: dict[str, list[float]] = {}
    for row in _of(rows, "total_tokens"):
        if row["control"] > 0:
            ratios.setdefault(row["condition"], []).append(row["treated"] / row["control"])
    if not ratios:
        return []
    words = [f"{name} {median(ratios[name]):.1f}×" for name in sorted(ratios, key=natural_key)]
    return [Verdict(f"Tokens per answer against the control, in the median: {join_words(words)}")]


def _score(rows: Sequence[Record]) -> list[Verdict]:
    scores = _of(rows, "score")
    if not scores:
        return []
    best = max(scores, key=lambda row: row["delta"])
    helped = [row for row in scores if is_significant(row) and row["delta"] > 0]
    if not helped:
        text = f"No condition raised the score beyond chance; at most, {change(best, 'it')}"
        return [Verdict(text, evidence(best))]
    return [Verdict(change(best, "the score"), evidence(best), "good")]


def _validity(rows: Sequence[Record]) -> list[Verdict]:
    valid = _of(rows, "json_valid")
    if not valid:
        return []
    constrained = [row for row in valid if row["condition"] == "C6"] or valid
    best = max(constrained, key=lambda row: row["delta"])
    if best["delta"] == 0:
        return []
    tone: Tone = "neutral" if not is_significant(best) else "good" if best["delta"] > 0 else "bad"
    return [Verdict(change(best, "JSON validity"), evidence(best), tone)]


def _harm(rows: Sequence[Record]) -> list[Verdict]:
    found = []
    for metric in ("score", "unsupported_rate", "truncated", "abstain_misuse"):
        what = f"the {metric_name(metric)}"
        for row in _of(rows, metric):
            if is_significant(row) and not _is_better(row):
                found.append(Verdict(change(row, what), evidence(row), "bad"))
    return found


def _cost(rows: Sequence[Record]) -> list[Verdict]:
    tokens = [row for row in _of(rows, "total_tokens") if row["control"] > 0]
    if not tokens:
        return []
    ratios = [f"{row['condition']} {row['treated'] / row['control']:.1f}×" for row in tokens]
    baseline, level = tokens[0]["baseline"], tokens[0]["control"]
    return [
        Verdict(
            f"Tokens per answer: {figure_text(level, 0)} under {baseline}; {join_words(ratios)} that many"
        )
    ]
