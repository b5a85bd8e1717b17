"""The findings in plain words, each with the numbers it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pcsuite.analysis.effects import LOWER_IS_BETTER
from pcsuite.report.wording import figure_text, join_words, p_text, signed

Tone = Literal["good", "bad", "neutral"]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, what it is about, and whether it is good news."""

    text: str
    tone: Tone
    task: str
    model: str


def verdicts(effects: Sequence[Record], temperature: Mapping[str, float]) -> list[Verdict]:
    """What the run says of each task and model, under its least random regime."""
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in effects:
        regimes = groups.setdefault((record["task"], record["model"]), {})
        regimes.setdefault(record["decoding"], []).append(record)
    found: list[Verdict] = []
    for (task, model), regimes in sorted(groups.items()):
        regime = min(regimes, key=lambda name: (temperature.get(name) or 0.0, name))
        rows = regimes[regime]
        where = f"{task}, {model}" + (f", {regime}" if len(regimes) > 1 else "")
        for text, tone in (*_score(rows), *_validity(rows), *_harm(rows), *_cost(rows)):
            found.append(Verdict(f"{where}: {text}", tone, task, model))
    return found


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
    """``C6 raised X from a to b (…)``."""
    verb = "raised" if record["delta"] > 0 else "lowered" if record["delta"] < 0 else "left"
    levels = f"from {figure_text(record['control'])} to {figure_text(record['treated'])}"
    if verb == "left":
        levels = f"at {figure_text(record['treated'])}"
    return f"{record['condition']} {verb} {what} {levels} against {record['baseline']} ({evidence(record)})."


def _of(rows: Sequence[Record], metric: str) -> list[Record]:
    return [row for row in rows if row["metric"] == metric and row["delta"] is not None]


def _score(rows: Sequence[Record]) -> list[tuple[str, Tone]]:
    scores = _of(rows, "score")
    if not scores:
        return []
    best = max(scores, key=lambda row: row["delta"])
    helped = [row for row in scores if is_significant(row) and row["delta"] > 0]
    if not helped:
        text = (
            f"no condition raised the score beyond chance; the largest change is {change(best, 'the score')}"
        )
        return [(text, "neutral")]
    return [(change(best, "the score"), "good")]


def _validity(rows: Sequence[Record]) -> list[tuple[str, Tone]]:
    valid = _of(rows, "json_valid")
    if not valid:
        return []
    constrained = [row for row in valid if row["condition"] == "C6"] or valid
    best = max(constrained, key=lambda row: row["delta"])
    if best["delta"] == 0:
        return []
    tone: Tone = "neutral" if not is_significant(best) else "good" if best["delta"] > 0 else "bad"
    return [(change(best, "JSON validity"), tone)]


def _harm(rows: Sequence[Record]) -> list[tuple[str, Tone]]:
    harmful = [row for row in _of(rows, "score") if is_significant(row) and row["delta"] < 0]
    worse: list[tuple[str, Tone]] = [(change(row, "the score"), "bad") for row in harmful]
    for metric, name in (("unsupported_rate", "the unsupported rate"), ("truncated", "the truncation rate")):
        for row in _of(rows, metric):
            if is_significant(row) and (row["delta"] > 0) == (metric in LOWER_IS_BETTER):
                worse.append((change(row, name), "bad"))
    return worse


def _cost(rows: Sequence[Record]) -> list[tuple[str, Tone]]:
    tokens = [row for row in _of(rows, "total_tokens") if row["control"] > 0]
    if not tokens:
        return []
    ratios = [f"{row['condition']} {row['treated'] / row['control']:.1f} times" for row in tokens]
    baseline, level = tokens[0]["baseline"], tokens[0]["control"]
    text = f"against {figure_text(level)} tokens an answer under {baseline}, {join_words(ratios)} as many."
    return [(text, "neutral")]
