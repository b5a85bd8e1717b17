"""``hypotheses.csv``: H1–H4 and the criteria of a publishable result, each with a verdict and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from pcsuite.analysis.criteria import criteria
from pcsuite.analysis.equal_tokens import affordable_share
from pcsuite.analysis.equivalence import Equivalence, tost_contrast
from pcsuite.analysis.findings import (
    COLUMNS,
    Averaged,
    Finding,
    Verdict,
    against_bare,
    average_effect,
    is_open_loop,
    paired_disagreement,
    paired_twins,
)
from pcsuite.analysis.item_scores import SCORE, ItemScores
from pcsuite.analysis.marginal_means import interaction_contrasts
from pcsuite.analysis.mixed_tables import ALL_TASKS, MixedResults
from pcsuite.analysis.table import Table, number

SCALE_BOUND = 0.05
"""A condition's effect is called the same at two sizes where it differs by less than this."""


def hypotheses(tables: Mapping[str, Table], scores: ItemScores, mixed: MixedResults) -> Table:
    """Judge every hypothesis and criterion from the finished tables."""
    findings = [
        structure_informs(tables, scores),
        restriction_steadies(tables, scores),
        restriction_beats_retry(tables),
        loop_grounds(tables, scores),
        scale_keeps(mixed),
    ]
    findings += criteria(tables, scores, findings)
    return Table.of("hypotheses", [finding.record() for finding in findings], COLUMNS)


def structure_informs(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H1: a shown structure lets outputs carry more information about the truth."""
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
    """H2: restricting the support at decoding lowers the variation of outputs."""
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
    """H2R: the same against retries that may spend the tokens the constraint spent."""
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


def loop_grounds(tables: Mapping[str, Table], scores: ItemScores) -> Finding:
    """H3: a closed loop lowers unsupported content."""
    statement = "H3: a closed loop (REACT_LOOP) lowers unsupported content against the open loop."
    pairs = paired_twins(scores, "REACT_LOOP", "unsupported_rate")
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
    """H4: a condition's effect is the same at every model size (TOST on the interaction)."""
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
