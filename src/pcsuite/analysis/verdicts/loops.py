"""H3 and P3: what loops do to unsupported content, beside the same condition without one, and what they cost."""

from __future__ import annotations

from functools import partial

import numpy as np

from pcsuite.analysis.load.item_scores import SCORE, CellKey
from pcsuite.analysis.twins import LOOP_ALONE, SEARCH_LOOP, CellPair, doing
from pcsuite.analysis.verdicts.evidence import UNSUPPORTED, Effect, Evidence, pool_deltas
from pcsuite.analysis.verdicts.findings import Finding, Hypothesis, Verdict, judge, scope_words
from pcsuite.contrasts import ALPHA, shown_no_worse
from pcsuite.stats.related_rows import cluster_numbers


def _pairs(evidence: Evidence, loop: str) -> tuple[list[str], list[CellPair]]:
    """The operators that run a loop, and their cells beside the open-loop twins."""
    names = doing(evidence.scores, evidence.operators, loop)
    return names, [pair for name in names for pair in evidence.operators[name]]


def _groundedness(evidence: Evidence, loop: str) -> Effect:
    why = "no item where both sides make a claim to check"
    names, pairs = _pairs(evidence, loop)
    return pool_deltas(evidence.deltas(pairs, UNSUPPORTED), *names, UNSUPPORTED, reason=why)


def _searches(evidence: Evidence, key: CellKey) -> bool:
    return bool((evidence.measured(key, "tool_calls").values > 0).any())


def ground(evidence: Evidence, loop: str) -> Finding | None:
    """Unsupported rate of conditions with a loop less that of their twins, where both make a claim."""
    _, pairs = _pairs(evidence, loop)
    if not pairs:
        return None
    grounded = evidence.once(_groundedness, loop)
    if grounded.untested:
        return Finding(f"{grounded.untested}.", effect=Effect(cells=len(pairs)))
    words = f"unsupported rate: {grounded.words()}, {scope_words(grounded)}"
    used = sum(len(items) for _, items, _ in evidence.deltas(pairs, UNSUPPORTED).pairs)
    cells = evidence.scores.cells
    shared = sum(len(np.intersect1d(cells[pair.treated].items, cells[pair.control].items)) for pair in pairs)
    if used < shared:
        words += f", on the {used} of {shared} pairs of answers where both make a claim to check"
    if any(_searches(evidence, pair.treated) != _searches(evidence, pair.control) for pair in pairs):
        words += (
            "; only the loop searches, so this is the loop and its search together: H3L has the loop alone"
        )
    return Finding(f"{words}.", judge(grounded, -1), grounded)


def keep_score(evidence: Evidence) -> Finding | None:
    """H3, and a score that is not lower by the margin or more (a test of non-inferiority, not of no difference)."""
    margin = evidence.analysis.loss_margin
    names, pairs = _pairs(evidence, SEARCH_LOOP)
    if not pairs:
        return None
    grounded = evidence.once(_groundedness, SEARCH_LOOP)
    if grounded.untested:
        return Finding(f"{grounded.untested}.", effect=Effect(cells=len(pairs)))
    deltas = evidence.deltas(pairs, SCORE)
    score = pool_deltas(deltas, *names, SCORE, reason="no item has a score on both sides")
    if score.untested:
        return Finding(f"score: {score.untested}.", effect=Effect(cells=len(pairs)))
    # A 90 % interval above the margin is the one-sided test at 5 %.
    no_loss = score.limits(1 - 2 * ALPHA)[0] > -margin and not score.opposed
    if score.tasks == 1:
        ((task, measured),) = deltas.by_task.items()
        clusters = deltas.clusters_of(task, measured.items)
        numbers = None if clusters is None else cluster_numbers(clusters)
        exact = shown_no_worse(measured.values, margin=margin, clusters=numbers)
        no_loss = no_loss and exact is not None and exact.shown
    lost = score.limits(1 - ALPHA)[1] < -margin
    first = judge(grounded, -1)
    verdict: Verdict = (
        "contradicted"
        if lost or judge(grounded, -1, ALPHA / 2) == "contradicted"
        else "supported"
        if no_loss and first == "supported"
        else "inconclusive"
    )
    state = "is kept" if no_loss else "is lost" if lost else "may be lost"
    words = f"unsupported rate {first}: {grounded.words()}. The score {state}: {score.words()}, {scope_words(score)}."
    return Finding(words, verdict, score)


_NO_LOOP = "no REACT_LOOP condition beside its open-loop twin (C7 beside C3)"
H3 = Hypothesis(
    "H3",
    "a closed loop (REACT_LOOP) lowers unsupported content more than the open loop on grounded tasks.",
    "C7 against its open-loop twin; it says so where only the loop searches",
    _NO_LOOP,
    partial(ground, loop=SEARCH_LOOP),
)
H3L = Hypothesis(
    "H3L",
    "the loop alone, without search (REVISE_LOOP), lowers unsupported content on grounded tasks.",
    "C7L against the same twin",
    "no REVISE_LOOP condition beside its open-loop twin (C7L beside C3)",
    partial(ground, loop=LOOP_ALONE),
)
P3 = Hypothesis(
    "P3",
    "the closed loop beats the open loop on unsupported content without losing score (a loss below"
    " {analysis.loss_margin:g}).",
    "H3, and a loss of score reliably below `analysis.loss_margin`",
    _NO_LOOP,
    keep_score,
)
