"""What a publishable result would need, judged on this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcsuite.analysis.findings import Finding, Verdict, average_effect, paired_twins
from pcsuite.analysis.item_scores import SCORE, ItemScores
from pcsuite.analysis.table import Table

DOMAINS, SCALES = 3, 3
BASIS_SHARE = 0.8
Record = Mapping[str, Any]


def criteria(tables: Mapping[str, Table], scores: ItemScores, findings: Sequence[Finding]) -> list[Finding]:
    """The four criteria, in the order a reviewer asks for them."""
    by_id = {finding.id: finding for finding in findings}
    return [
        replicated(tables, scores),
        constraint_tradeoff(tables, by_id["H2"]),
        loop_tradeoff(tables, scores, by_id["H3"]),
        small_basis(tables, scores),
    ]


def replicated(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """P1: an effect that shows on at least three tasks and three model sizes."""
    statement = f"P1: an effect replicates over at least {DOMAINS} tasks and {SCALES} model sizes."
    sizes = {model.size for model in scores.models.values()}
    if len(scores.tasks) < DOMAINS or len(sizes) < SCALES:
        words = f"tasks in the run: {len(scores.tasks)}; model sizes: {len(sizes)}."
        return Finding(
            "P1", statement, "not tested", words, tasks=len(scores.tasks), models=len(scores.models)
        )
    found: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
    for row in tables["effects"].records():
        if row["metric"] == SCORE and row["p_bh"] is not None and row["p_bh"] < 0.05:
            sign = 1 if row["delta"] > 0 else -1
            tasks, seen = found.setdefault((row["condition"], sign), (set(), set()))
            tasks.add(row["task"])
            seen.add(scores.models[row["model"]].size)
    whole = {key: pair for key, pair in found.items() if len(pair[0]) >= DOMAINS and len(pair[1]) >= SCALES}
    best = max(found.items(), key=lambda entry: (len(entry[1][0]), len(entry[1][1])), default=None)
    if best is None:
        return Finding(
            "P1", statement, "contradicted", "no condition's effect on the score holds after correction."
        )
    (condition, sign), (tasks, seen) = best
    words = (
        f"{condition} {'raises' if sign > 0 else 'lowers'} the score, after correction, on {len(tasks)} tasks and"
        f" {len(seen)} sizes; {len(whole)} conditions meet both numbers."
    )
    verdict: Verdict = "supported" if whole else "inconclusive"
    return Finding("P1", statement, verdict, words, tasks=len(tasks), models=len(scores.models))


def constraint_tradeoff(tables: Mapping[str, Table], steadies: Finding) -> Finding:
    """P2: constraints reduce entropy, with what they cost."""
    statement = "P2: constraints reduce entropy, and the price in score and tokens is known."
    rows = [row for row in tables["efficiency"].records() if row["unconstrained"]]
    if not rows or steadies.verdict == "not tested":
        return Finding(
            "P2", statement, "not tested", "no constrained condition with replicates beside its free twin."
        )
    by_cell = {
        (row["task"], row["model"], row["decoding"], row["condition"]): row
        for row in tables["efficiency"].records()
    }
    gaps = []
    for row in rows:
        twin = by_cell.get((row["task"], row["model"], row["decoding"], row["unconstrained"]))
        if twin is not None and row["score"] is not None and twin["score"] is not None:
            gaps.append(row["score"] - twin["score"])
    overhead = [row["token_overhead_share"] for row in rows if row["token_overhead_share"] is not None]
    failures = [row["constraint_failure_rate"] for row in rows if row["constraint_failure_rate"] is not None]
    words = (
        f"entropy: {steadies.verdict}; score against the free twin {_mean_words(gaps, '{:+.3f}')}, tokens"
        f" {_mean_words(overhead, '{:+.1%}')}, constraint failures (truncation counted)"
        f" {_mean_words(failures, '{:.1%}')}, over {len(rows)} cells."
    )
    return Finding("P2", statement, steadies.verdict, words, cells=len(rows))


def loop_tradeoff(tables: Mapping[str, Table], scores: ItemScores, grounds: Finding) -> Finding:
    """P3: closed loop against open loop, hallucination and score together."""
    statement = "P3: the closed loop beats the open loop on unsupported content without losing score."
    if grounds.verdict == "not tested":
        return Finding("P3", statement, "not tested", grounds.evidence)
    gain = average_effect(paired_twins(scores, "REACT_LOOP", SCORE))
    if gain is None:
        return Finding("P3", statement, "inconclusive", f"{grounds.evidence} The score could not be paired.")
    lost = gain.verdict(expected="positive") == "contradicted"
    verdict: Verdict = "contradicted" if lost else grounds.verdict
    return Finding(
        "P3", statement, verdict, f"{grounds.evidence} Score: {gain.words()}.", gain.value, gain.low, gain.high,
        None, gain.cells, gain.tasks, gain.models,
    )  # fmt: skip


def small_basis(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """P4: a few operators carry most of the gain."""
    statement = f"P4: a small basis of operators carries at least {BASIS_SHARE:.0%} of the gain."
    shares = []
    counts = []
    for group in _score_gains(tables).values():
        best = max(group, key=lambda row: row["delta"])
        if best["delta"] <= 0 or (best["p_bh"] or 1.0) >= 0.05:
            continue
        total = max(len(scores.operators.get((row["task"], row["condition"]), ())) for row in group)
        enough = [row for row in group if row["delta"] >= BASIS_SHARE * best["delta"]]
        smallest = min(len(scores.operators.get((row["task"], row["condition"]), ())) for row in enough)
        shares.append(smallest / total if total else 1.0)
        counts.append(smallest)
    if not shares:
        return Finding(
            "P4", statement, "not tested", "no group of conditions has a gain that holds after correction."
        )
    mean = float(np.mean(shares))
    verdict: Verdict = "supported" if mean <= 0.5 else "contradicted" if mean > 0.8 else "inconclusive"
    words = (
        f"the smallest bundle that reaches {BASIS_SHARE:.0%} of the best gain has {np.mean(counts):.1f} operators on"
        f" average, {mean:.0%} of the largest bundle, over {len(shares)} groups (up to half counts as small)."
    )
    return Finding("P4", statement, verdict, words, effect=mean, cells=len(shares))


def _score_gains(tables: Mapping[str, Table]) -> dict[tuple[str, str, str], list[Record]]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in tables["effects"].records():
        if row["metric"] == SCORE and row["delta"] is not None:
            groups.setdefault((row["task"], row["model"], row["decoding"]), []).append(row)
    return groups


def _mean_words(values: Sequence[float], form: str) -> str:
    return form.format(float(np.mean(values))) if values else "unknown"
