"""``hypotheses.csv``: H1 to H4 and the criteria of a publishable result, each with a verdict and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pcsuite.analysis.contrasts import CONTROL
from pcsuite.analysis.load.item_scores import SCORE, ItemScores
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables.mixed import ALL_TASKS, MixedResults
from pcsuite.analysis.twins import LOOP, is_open_loop
from pcsuite.analysis.verdicts import findings
from pcsuite.analysis.verdicts.findings import Finding, Verdict, average_effect, by_group
from pcsuite.stats.emmeans import interaction_contrasts
from pcsuite.stats.equal_tokens import affordable_share
from pcsuite.stats.equivalence import tost_contrast

DOMAINS, SCALES = 3, 3
"""Tasks and model sizes on which an effect must show to count as replicated."""
BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must reach."""
SCALE_BOUND = 0.05
"""A condition's effect is called the same at two sizes where it differs by less than this."""


def hypotheses(tables: Mapping[str, Table], scores: ItemScores, mixed: MixedResults) -> Table:
    """``hypotheses.csv``: judge every hypothesis, then what a publishable result would need, as a reviewer asks.

    ``tables`` are the finished tables by name; ``mixed`` has the fits that H4 rests on.
    """
    steadies, grounds = _restriction_steadies(tables, scores), _loop_grounds(scores)
    found = [
        _structure_informs(tables, scores),
        steadies,
        _restriction_beats_retry(tables),
        grounds,
        _scale_keeps(mixed),
        _replicated(tables, scores),
        _constraint_tradeoff(tables, steadies),
        _loop_tradeoff(scores, grounds),
        _small_basis(tables, scores),
    ]
    return Table.of(findings.HYPOTHESES, [{"id": finding.id, **asdict(finding)} for finding in found])


def _structure_informs(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """Mutual information of open-loop conditions with SCHEMA against the bare one."""
    statement = "H1: showing the structure of the answer (SCHEMA) raises the information outputs carry."
    rows = [row for row in tables["information"].records() if row["measure"] == "mutual information"]
    averaged = average_effect(
        findings.against_bare(
            rows, scores, lambda names: "SCHEMA" in names and is_open_loop(names, scores.operator_types)
        )
    )
    if averaged is None:
        return Finding(
            statement,
            "no mutual information of a condition with SCHEMA and of its control: it needs the items' truths"
            " (report with --config), a closed label set and ten items at least.",
        )
    words = f"I(prediction; truth) in nats: {averaged.words()}."
    return averaged.finding(statement, words, averaged.verdict(expected="positive"))


def _restriction_steadies(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """Disagreement of replicates, constrained less free, item by item."""
    statement = (
        "H2: restricting the outputs at decoding lowers their entropy over replicates, against free decoding."
    )
    averaged = average_effect(findings.paired_disagreement(tables["entropy_per_item"], scores))
    if averaged is None:
        return Finding(statement, "no constrained condition with replicates beside its free twin.")
    words = f"disagreement of replicates, constrained less free: {averaged.words()}."
    return averaged.finding(statement, words, averaged.verdict(expected="negative"))


def _restriction_beats_retry(tables: Mapping[str, Table]) -> Finding:
    """The same against retries that may spend the tokens the constraint spent; the evidence names their prices."""
    statement = "H2R: restricting the outputs lowers their entropy more than retries do at the same tokens."
    rows = [row for row in tables["constraint_vs_retry"].records() if row["disagreement_delta"] is not None]
    averaged = average_effect(rows, "disagreement_delta")
    if averaged is None:
        why = "it needs a constrained condition, the same one free, and the same one with RETRY_ON_FAIL"
        return Finding(statement, f"{why} (C6, C4, C4R), with replicates.")
    parts = [f"disagreement of replicates, constrained less retry at equal tokens: {averaged.words()}"]
    for name in ("validity", "score"):
        if (other := average_effect(rows, f"{name}_delta")) is not None:
            parts.append(f"{name} {other.value:+.3f} ({other.low:.3f} to {other.high:.3f})")
    constrained, retried, free = (
        np.array([np.mean([row[name] for row in rows])])
        for name in ("constrained_tokens", "retry_tokens", "free_tokens")
    )
    afforded = affordable_share(free, retried, constrained)
    words = (
        f"{'; '.join(parts)}. An answer took {constrained[0]:.0f} tokens constrained, {retried[0]:.0f} with every"
        f" retry and {free[0]:.0f} free, so {afforded[0]:.0%} of the retries could be paid for."
    )
    unrestricted = average_effect(rows, "unrestricted_delta")
    if unrestricted is not None:
        words += (
            " Against every retry that fits in the same completion limit, whatever it cost:"
            f" {unrestricted.value:+.3f} ({unrestricted.low:.3f} to {unrestricted.high:.3f})."
        )
    return averaged.finding(statement, words, averaged.verdict(expected="negative"))


def _loop_grounds(scores: ItemScores) -> Finding:
    """Unsupported rate of conditions with the loop less that of their twins, where both make a claim."""
    statement = "H3: a closed loop (REACT_LOOP) lowers unsupported content against the open loop."
    pairs = findings.paired_twins(scores, LOOP, "unsupported_rate")
    averaged = average_effect(pairs)
    if averaged is None:
        why = (
            "no REACT_LOOP condition beside its open-loop twin, or no item where both make a claim to check."
        )
        return Finding(statement, why)
    used, shared = (sum(pair[name] for pair in pairs) for name in ("n_items", "n_shared"))
    words = f"unsupported rate: {averaged.words()}"
    if used < shared:
        words += f", on the {used} of {shared} pairs of answers where both make a claim to check"
    return averaged.finding(statement, f"{words}.", averaged.verdict(expected="negative"))


def _scale_keeps(mixed: MixedResults) -> Finding:
    """TOST of the interaction condition × size within ±``SCALE_BOUND``, task by task."""
    statement = f"H4: effects of conditions are the same at every model size (within ±{SCALE_BOUND})."
    fits = [fit for (scope, metric), fit in mixed.fits.items() if metric == SCORE and scope != ALL_TASKS]
    results = [
        tost_contrast(found.contrast, bound=SCALE_BOUND)
        for fit in fits
        if "size" in fit.design.factors and "condition" in fit.design.factors
        for found in interaction_contrasts(fit, "condition", "size")
        if np.isfinite(found.contrast.p_value)
    ]
    if not results:
        return Finding(statement, "the run has one model size only.")
    level = 0.05 / len(results)
    same = [result for result in results if result.p_value <= 0.05]
    differing = [result for result in results if result.difference_p <= level and result.p_value > 0.05]
    widest = max(results, key=lambda result: abs(result.estimate))
    all_same = len(same) == len(results)
    verdict: Verdict = "contradicted" if differing else "supported" if all_same else "inconclusive"
    words = (
        f"{len(same)} of {len(results)} condition × size contrasts are equivalent by TOST, {len(differing)} differ"
        f" beyond chance (Bonferroni); the widest is {widest.name}: {widest.estimate:+.3f}, 90 % interval"
        f" {widest.low:.3f} to {widest.high:.3f}."
    )
    effect, low, high = map(number, (widest.estimate, widest.low, widest.high))
    p_value = number(max(result.p_value for result in results))
    return Finding(statement, words, verdict, effect, low, high, p_value, len(results), len(fits))


def _replicated(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """Effects on the score that hold after correction, of the same sign, on enough tasks and sizes."""
    statement = f"P1: an effect replicates over at least {DOMAINS} tasks and {SCALES} model sizes."
    sizes, models = {model.size for model in scores.models.values()}, len(scores.models)
    if len(scores.tasks) < DOMAINS or len(sizes) < SCALES:
        words = f"tasks in the run: {len(scores.tasks)}; model sizes: {len(sizes)}."
        return Finding(statement, words, tasks=len(scores.tasks), models=models)
    found: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
    for row in _against_control(tables):
        if row["p_bh"] is not None and row["p_bh"] < 0.05:
            sign = 1 if row["delta"] > 0 else -1
            tasks, seen = found.setdefault((row["condition"], sign), (set(), set()))
            tasks.add(row["task"])
            seen.add(scores.models[row["model"]].size)
    if not found:
        words = "no condition's effect on the score holds after correction."
        return Finding(statement, words, "contradicted")
    whole = sum(len(tasks) >= DOMAINS and len(seen) >= SCALES for tasks, seen in found.values())
    (condition, sign), (tasks, seen) = max(
        found.items(), key=lambda entry: (len(entry[1][0]), len(entry[1][1]))
    )
    words = (
        f"{condition} {'raises' if sign > 0 else 'lowers'} the score, after correction, on {len(tasks)} tasks and"
        f" {len(seen)} sizes; {whole} conditions meet both numbers."
    )
    return Finding(
        statement, words, "supported" if whole else "inconclusive", tasks=len(tasks), models=models
    )


def _against_control(tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Effects on the score against the control."""
    records = tables["effects"].records()
    return [row for row in records if row["metric"] == SCORE and row["kind"] == CONTROL]


def _constraint_tradeoff(tables: Mapping[str, Table], steadies: Finding) -> Finding:
    """The verdict of H2 with its price in score, tokens and failures."""
    statement = "P2: constraints reduce entropy, and the price in score and tokens is known."
    by_cell = {
        (row["task"], row["model"], row["decoding"], row["condition"]): row
        for row in tables["efficiency"].records()
    }
    rows = [row for row in by_cell.values() if row["unconstrained"]]
    if not rows or steadies.verdict == "not tested":
        return Finding(statement, "no constrained condition with replicates beside its free twin.")
    gaps = []
    for row in rows:
        twin = by_cell.get((row["task"], row["model"], row["decoding"], row["unconstrained"]))
        if twin is not None and row["score"] is not None and twin["score"] is not None:
            gaps.append(row["score"] - twin["score"])
    overhead, failures = (
        [row[name] for row in rows if row[name] is not None]
        for name in ("token_overhead_share", "constraint_failure_rate")
    )
    words = (
        f"entropy: {steadies.verdict}; score against the free twin {_mean_words(gaps, '{:+.3f}')}, tokens"
        f" {_mean_words(overhead, '{:+.1%}')}, constraint failures (truncation counted)"
        f" {_mean_words(failures, '{:.1%}')}, over {len(rows)} cells."
    )
    return Finding(statement, words, steadies.verdict, cells=len(rows))


def _mean_words(values: Sequence[float], form: str) -> str:
    return form.format(float(np.mean(values))) if values else "unknown"


def _loop_tradeoff(scores: ItemScores, grounds: Finding) -> Finding:
    """The verdict of H3 unless the score is lost."""
    statement = "P3: the closed loop beats the open loop on unsupported content without losing score."
    if grounds.verdict == "not tested":
        return Finding(statement, grounds.evidence)
    gain = average_effect(findings.paired_twins(scores, LOOP, SCORE))
    if gain is None:
        return Finding(statement, f"{grounds.evidence} The score could not be paired.", "inconclusive")
    lost = gain.verdict(expected="positive") == "contradicted"
    words = f"{grounds.evidence} Score: {gain.words()}."
    return gain.finding(statement, words, "contradicted" if lost else grounds.verdict)


def _small_basis(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """The smallest bundle that reaches ``BASIS_SHARE`` of the best gain, as a share of the largest, on average."""
    statement = f"P4: a small basis of operators carries at least {BASIS_SHARE:.0%} of the gain."
    shares, counts = [], []
    rows = [row for row in _against_control(tables) if row["delta"] is not None]
    for group in by_group(rows):
        best = max(group, key=lambda row: row["delta"])
        if best["delta"] <= 0 or (best["p_bh"] or 1.0) >= 0.05:
            continue
        sizes = [len(scores.operators.get((row["task"], row["condition"]), ())) for row in group]
        enough = [row["delta"] >= BASIS_SHARE * best["delta"] for row in group]
        smallest = min(size for size, reached in zip(sizes, enough, strict=True) if reached)
        shares.append(smallest / max(sizes) if max(sizes) else 1.0)
        counts.append(smallest)
    if not shares:
        return Finding(statement, "no group of conditions has a gain that holds after correction.")
    mean = float(np.mean(shares))
    words = (
        f"the smallest bundle that reaches {BASIS_SHARE:.0%} of the best gain has {np.mean(counts):.1f} operators on"
        f" average, {mean:.0%} of the largest bundle, over {len(shares)} groups (up to half counts as small)."
    )
    verdict: Verdict = "supported" if mean <= 0.5 else "contradicted" if mean > 0.8 else "inconclusive"
    return Finding(statement, words, verdict, effect=mean, cells=len(shares))
