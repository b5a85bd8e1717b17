"""``hypotheses.csv``: H1 to H4 and the criteria of a publishable result, each with a verdict and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np

from pcsuite.analysis.load.item_scores import SCORE, ItemScores
from pcsuite.analysis.table import Table, number
from pcsuite.analysis.tables.mixed import ALL_TASKS, MixedResults
from pcsuite.analysis.twins import LOOP, is_open_loop
from pcsuite.analysis.verdicts.findings import (
    HYPOTHESES,
    Averaged,
    Finding,
    Record,
    Verdict,
    against_bare,
    average_effect,
    paired_disagreement,
    paired_twins,
)
from pcsuite.stats.emmeans import interaction_contrasts
from pcsuite.stats.equal_tokens import affordable_share
from pcsuite.stats.equivalence import Equivalence, tost_contrast

DOMAINS, SCALES = 3, 3
"""Tasks and model sizes on which an effect must show to count as replicated."""
BASIS_SHARE = 0.8
"""Share of the best gain that a small basis of operators must reach."""
SCALE_BOUND = 0.05
"""A condition's effect is called the same at two sizes where it differs by less than this."""


def hypotheses(tables: Mapping[str, Table], scores: ItemScores, mixed: MixedResults) -> Table:
    """``hypotheses.csv``: judge every hypothesis and criterion.

    ``tables`` are the finished tables by name; ``mixed`` has the fits that H4 rests on.
    """
    findings = [
        structure_informs(tables, scores),
        restriction_steadies(tables, scores),
        restriction_beats_retry(tables),
        loop_grounds(scores),
        scale_keeps(mixed),
    ]
    findings += criteria(tables, scores, findings)
    return Table.of(HYPOTHESES, [asdict(finding) for finding in findings])


def structure_informs(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H1: a shown structure lets outputs carry more information about the truth.

    Rests on the mutual information of open-loop conditions with SCHEMA against the bare one.
    """
    statement = "H1: showing the structure of the answer (SCHEMA) raises the information outputs carry."
    rows = [row for row in tables["information"].records() if row["measure"] == "mutual information"]
    pairs = against_bare(rows, scores, lambda operators: "SCHEMA" in operators and is_open_loop(operators))
    averaged = average_effect(pairs)
    if averaged is None:
        why = (
            "no mutual information of a condition with SCHEMA and of its control: it needs the items' truths"
        )
        return Finding(
            "H1",
            statement,
            "not tested",
            f"{why} (report with --config), a closed label set and ten items at least.",
        )
    return _finding(
        "H1", statement, averaged, "positive", f"I(prediction; truth) in nats: {averaged.words()}."
    )


def restriction_steadies(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H2: restricting the support at decoding lowers the variation of outputs.

    Rests on the disagreement of replicates, constrained less free, item by item.
    """
    statement = (
        "H2: restricting the outputs at decoding lowers their entropy over replicates, against free decoding."
    )
    averaged = average_effect(paired_disagreement(tables["entropy_per_item"], scores))
    if averaged is None:
        return Finding(
            "H2", statement, "not tested", "no constrained condition with replicates beside its free twin."
        )
    words = f"disagreement of replicates, constrained less free: {averaged.words()}."
    return _finding("H2", statement, averaged, "negative", words)


def restriction_beats_retry(tables: Mapping[str, Table]) -> Finding:
    """H2R: the same against retries that may spend the tokens the constraint spent.

    Rests on ``constraint_vs_retry``, whose prices the evidence names.
    """
    statement = "H2R: restricting the outputs lowers their entropy more than retries do at the same tokens."
    rows = [row for row in tables["constraint_vs_retry"].records() if row["disagreement_delta"] is not None]
    averaged = average_effect(rows, "disagreement_delta")
    if averaged is None:
        why = "it needs a constrained condition, the same one free, and the same one with RETRY_ON_FAIL"
        return Finding("H2R", statement, "not tested", f"{why} (C6, C4, C4R), with replicates.")
    parts = [f"disagreement of replicates, constrained less retry at equal tokens: {averaged.words()}"]
    for name, value in (("validity", "validity_delta"), ("score", "score_delta")):
        other = average_effect(rows, value)
        if other is not None:
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
    return _finding("H2R", statement, averaged, "negative", words)


def loop_grounds(scores: ItemScores) -> Finding:
    """H3: a closed loop lowers unsupported content.

    Rests on the unsupported rate of conditions with the loop less that of their twins, where both make a claim.
    """
    statement = "H3: a closed loop (REACT_LOOP) lowers unsupported content against the open loop."
    pairs = paired_twins(scores, LOOP, "unsupported_rate")
    averaged = average_effect(pairs)
    if averaged is None:
        why = (
            "no REACT_LOOP condition beside its open-loop twin, or no item where both make a claim to check."
        )
        return Finding("H3", statement, "not tested", why)
    used, shared = (sum(pair[name] for pair in pairs) for name in ("n_items", "n_shared"))
    words = f"unsupported rate: {averaged.words()}"
    if used < shared:
        words += f", on the {used} of {shared} pairs of answers where both make a claim to check"
    return _finding("H3", statement, averaged, "negative", f"{words}.")


def scale_keeps(mixed: MixedResults) -> Finding:
    """H4: a condition's effect is the same at every model size.

    Rests on TOST of the interaction condition × size within ±``SCALE_BOUND``, task by task.
    """
    statement = f"H4: effects of conditions are the same at every model size (within ±{SCALE_BOUND})."
    results: list[Equivalence] = []
    scopes = [scope for scope, metric in mixed.fits if metric == SCORE and scope != ALL_TASKS]
    for scope in scopes:
        fit = mixed.fits[scope, SCORE]
        if "size" in fit.design.factors and "condition" in fit.design.factors:
            for contrast in interaction_contrasts(fit, "condition", "size"):
                if np.isfinite(contrast.contrast.estimate):
                    results.append(tost_contrast(contrast.contrast, bound=SCALE_BOUND))
    if not results:
        return Finding("H4", statement, "not tested", "the run has one model size only.")
    level = 0.05 / len(results)
    same = [result for result in results if result.p_value <= 0.05]
    differing = [result for result in results if result.difference_p <= level and result.p_value > 0.05]
    widest = max(results, key=lambda result: abs(result.estimate))
    verdict: Verdict = "inconclusive"
    if differing:
        verdict = "contradicted"
    elif len(same) == len(results):
        verdict = "supported"
    words = (
        f"{len(same)} of {len(results)} condition × size contrasts are equivalent by TOST, {len(differing)} differ"
        f" beyond chance (Bonferroni); the widest is {widest.name}: {widest.estimate:+.3f}, 90 % interval"
        f" {widest.low:.3f} to {widest.high:.3f}."
    )
    return Finding(
        "H4", statement, verdict, words, number(widest.estimate), number(widest.low), number(widest.high),
        number(max(result.p_value for result in results)), len(results), len(scopes), 0,
    )  # fmt: skip


def _finding(
    name: str, statement: str, averaged: Averaged, expected: Literal["positive", "negative"], words: str
) -> Finding:
    return Finding(
        name, statement, averaged.verdict(expected=expected), words, averaged.value, averaged.low, averaged.high,
        None, averaged.cells, averaged.tasks, averaged.models,
    )  # fmt: skip


def criteria(tables: Mapping[str, Table], scores: ItemScores, findings: Sequence[Finding]) -> list[Finding]:
    """What a publishable result would need, judged on this run, in the order a reviewer asks.

    ``findings`` are those of the hypotheses, on which P2 and P3 build.
    """
    by_id = {finding.id: finding for finding in findings}
    return [
        replicated(tables, scores),
        constraint_tradeoff(tables, by_id["H2"]),
        loop_tradeoff(scores, by_id["H3"]),
        small_basis(tables, scores),
    ]


def replicated(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """P1: an effect that shows on enough tasks and model sizes.

    Effects on the score that hold after correction, of the same sign, on ``DOMAINS`` tasks and ``SCALES`` sizes.
    """
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
    """P2: constraints reduce entropy, with what they cost.

    The verdict is that of H2; the price is in score, tokens and failures.
    """
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


def loop_tradeoff(scores: ItemScores, grounds: Finding) -> Finding:
    """P3: closed loop against open loop, hallucination and score together.

    The verdict is that of H3 unless the score is lost.
    """
    statement = "P3: the closed loop beats the open loop on unsupported content without losing score."
    if grounds.verdict == "not tested":
        return Finding("P3", statement, "not tested", grounds.evidence)
    gain = average_effect(paired_twins(scores, LOOP, SCORE))
    if gain is None:
        return Finding("P3", statement, "inconclusive", f"{grounds.evidence} The score could not be paired.")
    lost = gain.verdict(expected="positive") == "contradicted"
    verdict: Verdict = "contradicted" if lost else grounds.verdict
    return Finding(
        "P3", statement, verdict, f"{grounds.evidence} Score: {gain.words()}.", gain.value, gain.low, gain.high,
        None, gain.cells, gain.tasks, gain.models,
    )  # fmt: skip


def small_basis(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """P4: a few operators carry most of the gain.

    The smallest bundle that reaches ``BASIS_SHARE`` of the best gain, as a share of the largest bundle, on average.
    """
    statement = f"P4: a small basis of operators carries at least {BASIS_SHARE:.0%} of the gain."
    shares = []
    counts = []
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in tables["effects"].records():
        if row["metric"] == SCORE and row["delta"] is not None:
            groups.setdefault((row["task"], row["model"], row["decoding"]), []).append(row)
    for group in groups.values():
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


def _mean_words(values: Sequence[float], form: str) -> str:
    return form.format(float(np.mean(values))) if values else "unknown"
