"""Findings with verdicts, and the rules by which effects become words.

``supported`` and ``contradicted`` are claims: they are said only where the 95 % interval of the pooled effect excludes
zero *and* the exact sign-flip test rejects at 5 % (where the two disagree, neither is said), and no cell reliably says
the opposite. ``not tested`` says why nothing could be said; everything else is ``inconclusive``. A claim that has
several parts is supported where all of them are, which needs no correction (Berger 1982), and contradicted where one of
them is at 5 % divided by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pcsuite._util.text import counted, figure_text
from pcsuite.analysis.table import N_CLUSTERS, Column, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.verdicts.evidence import RANDOM_FROM, Effect, Evidence
from pcsuite.contrasts import ALPHA

Verdict = Literal["supported", "contradicted", "inconclusive", "not tested"]
HYPOTHESES = TableSpec(
    "hypotheses",
    "Hypotheses and criteria",
    "hypothesis (H) or criterion of a publishable result (P)",
    (
        Column("id", "short name", paper="Id"),
        Column("statement", "what is claimed"),
        Column("verdict", "supported, contradicted, inconclusive or not tested", paper="Verdict"),
        *interval(
            "effect", "the pooled effect it rests on, the weakest of several", form="interval", paper="Effect"
        ),
        Column(
            "p_value",
            "exact two-sided sign-flip test of the effect, or of equivalence; over three or more tasks the larger of it"
            " and the test over tasks",
            form="p",
            paper="$p$",
        ),
        Column("items", "items it rests on"),
        Column("cells", "pairs of cells that were averaged; 0 where the run has no arm for it"),
        Column("tasks", "tasks among them"),
        Column("models", "models among them"),
        Column("new_task_low", "with three tasks or more: where the effect on a new task of this kind lies, from"),
        Column("new_task_high", "the same, to"),
        Column("evidence", "the numbers in words, or why it was not tested"),
        replace(N_CLUSTERS, meaning="clusters of those items, where some are related; else empty", shown=False),
    ),
    caption="Hypotheses (H) and criteria (P) with their verdicts.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a hypothesis or criterion, with its numbers and what they say in words."""

    evidence: str
    verdict: Verdict = "not tested"
    effect: Effect = field(default_factory=Effect)
    """The pooled effect it rests on, or nothing but what was compared."""

    def columns(self) -> dict[str, Any]:
        """The columns of ``hypotheses.csv`` that are not of the claim."""
        effect = self.effect
        low, high = effect.new_task or (None, None)
        return {
            "verdict": self.verdict,
            **estimate_columns("effect", effect),
            "p_value": number(effect.p_value),
            **{name: getattr(effect, name) for name in ("items", "cells", "tasks", "models")},
            "new_task_low": number(low),
            "new_task_high": number(high),
            "evidence": self.evidence,
            "n_clusters": effect.n_clusters,
        }


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis (H) or a criterion of a publishable result (P): all that is known of it.

    ``hypotheses.csv``, the page, LaTeX and the table of ``docs/how-to/read-a-report.md`` are made of these entries, in
    the order of :data:`pcsuite.analysis.verdicts.hypotheses.CLAIMS`.
    """

    id: str
    """Short name: ``H1``."""
    claim: str
    """What is claimed, in words; ``{analysis.…}`` stands for a bound of the profile's ``analysis``."""
    rests_on: str
    """What it is judged by, for who reads a report."""
    needs: str
    """What is missing in a run that cannot test it."""
    criterion: Callable[[Evidence], Finding | None]
    """The verdict on the evidence; ``None`` where the run lacks what it needs."""

    def statement(self, evidence: Evidence, finding: Finding) -> str:
        """The claim under its id, with the bounds that the run's profile sets, as far as the finding may claim it.

        With fewer than three tasks nothing is known of a fourth, so the sentence names those that it is about.
        """
        claim = self.claim.format(analysis=evidence.analysis)
        tasks = finding.effect.task_names
        if finding.verdict == "not tested" or not tasks or len(tasks) >= RANDOM_FROM:
            return f"{self.id}: {claim}"
        names = " and ".join(evidence.titles.get(task, task) for task in tasks)
        return f"{self.id}: {claim.rstrip('.')}, on {names} (a general claim needs {RANDOM_FROM} tasks)."

    def judge(self, evidence: Evidence) -> Finding:
        """The verdict on it; not tested, with what is missing, where the run lacks what it needs."""
        return self.criterion(evidence) or Finding(f"{self.needs}.")


def judge(effect: Effect, expected: Literal[1, -1], alpha: float = ALPHA) -> Verdict:
    """Whether an effect has the expected sign, the other one, neither for certain, or was not tested."""
    if effect.untested:
        return "not tested"
    sign = effect.sign(alpha)
    return "supported" if sign == expected else "contradicted" if sign == -expected else "inconclusive"


def judge_all(effects: Iterable[Effect], expected: Literal[1, -1]) -> Verdict:
    """Whether every effect that could be tested has the expected sign; contradicted where one has the other."""
    tested = [effect for effect in effects if not effect.untested]
    return combine(
        [judge(effect, expected) for effect in tested],
        [judge(effect, expected, ALPHA / len(tested)) for effect in tested],
    )


def combine(verdicts: list[Verdict], strict: list[Verdict]) -> Verdict:
    """The verdict on a claim of several parts from those on the parts that were tested.

    ``strict`` are the parts' verdicts at a level divided by their number, which alone can contradict the whole.
    """
    if not verdicts:
        return "not tested"
    if all(verdict == "supported" for verdict in verdicts):
        return "supported"
    # Support needs all parts, so none is corrected; a contradiction needs one of several, so each is.
    return "contradicted" if "contradicted" in strict else "inconclusive"


def weakest(effects: Mapping[str, Effect], expected: Literal[1, -1]) -> Effect:
    """The effect that is least in the expected direction, which a claim on all of them rests on."""
    tested = [effect for effect in effects.values() if not effect.untested]
    return min(
        tested, key=lambda effect: expected * effect.value, default=Effect(untested="no pair of cells")
    )


def scope_words(effect: Effect) -> str:
    """``over 6 pairs of cells, 3 tasks (a new task of this kind: 0.010 to 0.200)``, and what speaks against it."""
    cells, tasks = effect.cells, effect.tasks
    words = f"over {counted(cells, 'pair')} of cells, {counted(tasks, 'task')}, {effect.items} items"
    if effect.n_clusters:
        words += f" in {counted(effect.n_clusters, 'cluster')}"
    if effect.new_task:
        words += (
            f" (a new task of this kind: {' to '.join(figure_text(limit, 3) for limit in effect.new_task)})"
        )
    if effect.opposed:
        words += f"; reliably the other way on {', '.join(effect.opposed)}"
    return words
