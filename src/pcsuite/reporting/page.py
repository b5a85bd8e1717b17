"""The page: what it says and in which order; its template writes it as one self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcsuite import __version__
from pcsuite._util.text import counted
from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.analysis.tables.registration import registration_notices
from pcsuite.analysis.twins import constraints
from pcsuite.logging.manifest import MergedManifest, differing_settings
from pcsuite.pages.figures.declare import Figure
from pcsuite.reporting import sections
from pcsuite.reporting.answer import Answer, answer_of
from pcsuite.reporting.flips import BlockFlips
from pcsuite.reporting.grid import Section
from pcsuite.reporting.samples import SampleRow
from pcsuite.reporting.verdicts import (
    VerdictGroup,
    VerdictSentence,
    headline,
    overall_verdicts,
    verdict_groups,
)
from pcsuite.reporting.wording import join_words, planned_lines

MOST_SHOWN_FIRST = 2
"""Alarms that stand on the first screen beside the answer and its figure; the rest is folded behind them."""
_MOST_SETTINGS = 6
"""Settings named where rows were written under several configurations."""


@dataclass(slots=True)
class ReportPage:
    """Everything the template needs."""

    title: str
    subtitle: str
    alarms: list[str]
    """What is wrong with the run, before anything else."""
    notices: list[str]
    facts: list[tuple[str, str]]
    overview: list[VerdictSentence]
    verdicts: list[VerdictGroup]
    hypotheses: list[dict[str, Any]]
    sections: list[Section]
    figures: Sequence[Figure]
    samples: Sequence[SampleRow]
    excluded: list[str]
    errors: list[tuple[str, int]]
    tasks: list[str]
    models: list[str]
    conditions: list[str]
    compared: Section
    answer: Answer
    """What the first screen says and shows."""
    flips: Sequence[BlockFlips] = ()
    """Items that blocks fixed and broke."""
    external: list[Section] = field(default_factory=list)
    """Evidence of other tools, apart from everything the run itself says."""
    headline: str = ""
    """The run in one sentence, by its conditions."""
    view: str = ""
    """The command that looks into the run."""
    run: str = ""
    """Its name there."""
    citation: str = ""
    """What identifies the run and what was made of it, hashes included."""
    footer: str = ""
    most_alarms: int = MOST_SHOWN_FIRST
    folded_alarms: str = ""
    """What the alarms behind the first are about, in a few words each."""

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return self.answer.sentence

    @property
    def figure_kinds(self) -> list[str]:
        """Kinds that the figures are filtered by."""
        return sorted({figure.spec.kind for figure in self.figures})

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Links of the contents bar."""
        return [
            *([("behind", "Answers")] if self.flips else []),
            *(("verdicts", "Verdicts"), ("hypotheses", "Hypotheses"), ("matrix", "Effects")),
            *([("figures", "Figures")] if self.figures else []),
            *(
                ("levels", "Levels"),
                ("attribution", "Operators"),
                ("pooled", "New tasks"),
                ("objective", "Objective"),
                ("tables", "Tables"),
            ),
            *((section.id, section.id.upper()) for section in self.external),
            *(("rows", "Rows"), ("excluded", "Left out"), ("cite", "Cite"), ("method", "How to read")),
        ]


def build_page(
    analysis: Analysis,
    figures: Sequence[Figure],
    samples: Sequence[SampleRow],
    *,
    title: str,
    external: Sequence[Section] = (),
    view: str = "",
    answer: Answer | None = None,
    flips: Sequence[BlockFlips] = (),
    log_hashes: Mapping[str, str] | None = None,
) -> ReportPage:
    """Put the page together: sentences first, then tables, figures and rows to read, then what was left out.

    ``external`` are sections of other packages, shown apart from what the run itself says; ``view`` is the command
    that looks into the run. ``answer`` is what the first screen says, made here where it is not given; ``flips`` are
    the answers behind it; ``log_hashes`` are the sha256 of the logs by name, for who cites them.
    """
    health, scores = analysis.health, analysis.scores
    effects = analysis.effects
    tasks = scores.tasks
    models = sorted(scores.models)
    conditions = sorted({key.condition for key in scores.cell_keys()}, key=natural_key)
    constrained = {
        condition
        for (_, condition), operators in scores.operators.items()
        if constraints(operators, scores.operator_types)
    }
    return ReportPage(
        title=title,
        subtitle=(
            f"Which parts of the prompt helped, on {counted(len(tasks), 'task')} and"
            f" {counted(len(models), 'model')}, how surely, and at what cost."
        ),
        alarms=[alarm.text for alarm in analysis.alarms],
        folded_alarms="; ".join(
            dict.fromkeys(alarm.in_few_words for alarm in analysis.alarms[MOST_SHOWN_FIRST:])
        ),
        notices=_notices(analysis),
        facts=[
            ("answers", f"{health.rows:,}"),
            ("items", f"{sum(len(names) for names in scores.item_names.values()):,}"),
            ("tasks", str(len(tasks))),
            ("models", str(len(models))),
            ("conditions", " ".join(conditions)),
            ("tokens", f"{analysis.total_tokens:,}"),
            ("failed calls", f"{health.error_rows:,}"),
            ("last row", health.last[:16].replace("T", " ") or "unknown"),
        ],
        overview=overall_verdicts(effects, scores.temperature, analysis.metrics),
        verdicts=verdict_groups(
            effects,
            scores.temperature,
            analysis.metrics,
            constrained,
            best=list(analysis.tables["best_condition"].records()),
        ),
        hypotheses=sections.hypotheses_of(analysis),
        sections=sections.with_judges(
            analysis,
            [
                sections.matrix_section(analysis),
                sections.levels_section(analysis),
                sections.effects_section(analysis),
                sections.attribution_section(analysis),
                sections.pooled_section(analysis),
                sections.objective_section(analysis),
                sections.folded_section(analysis),
            ],
        ),
        compared=sections.conditions_section(analysis),
        external=list(external),
        answer=answer or answer_of(analysis),
        flips=flips,
        headline=headline(
            effects,
            scores.temperature,
            analysis.metrics,
            list(analysis.tables["registration"].records()),
        ),
        view=view,
        run=health.loaded.logs[0].removesuffix(".jsonl"),
        citation=_citation(analysis, log_hashes or {}),
        figures=figures,
        samples=samples,
        excluded=_excluded(analysis),
        errors=health.errors,
        tasks=tasks,
        models=models,
        conditions=conditions,
        footer=f"Written by pcsuite {__version__} from {join_words(health.loaded.logs)}.",
    )


def _notices(analysis: Analysis) -> list[str]:
    health, manifest = analysis.health, analysis.manifest
    notices = []
    if health.imported:
        notices.append(
            f"Imported from {join_words(health.imported)}: prompts, answers and scores are as that tool logged"
            " them; nothing was scored again. Rows without a score count as failed."
        )
    if analysis.judges.unvalidated:
        notices.append(
            f"Judge not validated: the scores of {join_words(analysis.judges.unvalidated)} are a model's opinion."
            " pcsuite judge sample and judge check hold it against gold labels."
        )
    notes = manifest.tasks
    samples = [
        task for task in analysis.scores.tasks if task in notes and notes[task].source == "bundled sample"
    ]
    if samples:
        notices.append(
            f"The items of {join_words(samples)} are the small bundled sample, not the published dataset:"
            " good for trying things out, too few for a claim."
        )
    if len(health.config_hashes) > 1:
        notices.append(_configurations(health.config_hashes, manifest))
    notices += registration_notices(analysis.registered)
    if planned := planned_lines(list(analysis.tables["registration"].records())):
        notices.append(f"What came of it: {'; '.join(planned)}.")
    return notices + manifest.problems


def _citation(analysis: Analysis, log_hashes: Mapping[str, str]) -> str:
    """Lines that name the run: what was asked of whom and when, by which version, and hashes of what it rests on."""
    health, scores, plan = analysis.health, analysis.scores, analysis.registered.plan
    items = ", ".join(f"{task} ({counted(len(names), 'item')})" for task, names in scores.item_names.items())
    lines = [
        f"run: {join_words([name.removesuffix('.jsonl') for name in health.loaded.logs])}",
        f"answers: {health.rows:,} of {join_words(sorted(scores.models))} to {items}, the last {health.last[:16]} UTC",
        f"software: prompt-control-suite {__version__}",
        f"configuration (sha256): {', '.join(health.config_hashes) or 'not recorded'}",
        *(f"{name} (sha256): {digest}" for name, digest in log_hashes.items()),
    ]
    if plan is not None and plan.hash:
        lines.append(
            f"registration (sha256): {plan.hash}, {plan.registered_utc[:16]} UTC, before the first call"
        )
    return "\n".join(lines)


def _configurations(hashes: list[str], manifest: MergedManifest) -> str:
    """What the configurations of the rows differ in, as far as manifests have kept them."""
    stored = [manifest.configurations[name] for name in hashes if name in manifest.configurations]
    differing = differing_settings(stored)
    lines = []
    if differing:
        named = differing[:_MOST_SETTINGS]
        more = len(differing) - len(named)
        lines.append(f"they differ in {join_words([*named, *([f'{more} more'] if more else [])])}")
    if missing := len(hashes) - len(stored):
        lines.append(f"what {missing} of them said was not kept when the rows were written")
    about = "; ".join(lines)
    return (
        f"Rows were written under {len(hashes)} configurations: {about}. For each cell the newest row counts."
    )


def _excluded(analysis: Analysis) -> list[str]:
    health = analysis.health
    loaded = health.loaded
    lines = [f"{loaded.lines:,} lines were read from {join_words(loaded.logs)}."]
    if loaded.malformed_count:
        named = "; ".join(f"{log}: {', '.join(map(str, rows))}" for log, rows in loaded.malformed.items())
        lines.append(
            f"{loaded.malformed_count:,} malformed lines were left out (first of them, by line: {named})."
        )
    else:
        lines.append("No malformed line.")
    if loaded.altered_count:
        named = "; ".join(f"{log}: {', '.join(map(str, rows))}" for log, rows in loaded.altered.items())
        lines.append(
            f"{counted(loaded.altered_count, 'row')} of the log left out: not as written, the checksum differs"
            f" (first of them, by line: {named})."
        )
    if loaded.torn:
        lines.append(f"The last line of {join_words(loaded.torn)} is unfinished and was left out.")
    if loaded.superseded:
        lines.append(
            f"{loaded.superseded:,} rows were replaced by newer rows of the same cell, item and seed."
        )
    for kind, count in health.kinds.items():
        lines.append(f"{count:,} rows of the auxiliary kind “{kind}” stay out of the tables above.")
    lines.append(
        f"{health.error_rows:,} calls failed; they are left out of averages and counted"
        " (the column score_if_errors_were_wrong of summary_by_condition.csv shows the other extreme)."
    )
    ending = "." if health.imported else "; both score 0."
    lines.append(
        f"{health.unparsed:,} answers could not be read, {health.truncated:,} were truncated{ending}"
    )
    for count, what in (
        (health.refused, "answers are refusals, by the provider's own field for them"),
        (health.filtered, "answers were held back by a provider's filter; they stay in the comparison"),
        (health.too_long, "prompts were too long for the model's context; they stay in the comparison"),
        (health.stopped_scorers, "answers score 0 because their scorer ran out of time or memory"),
        (health.seed_not_honoured, "answers came from an engine that does not honour the seed"),
        (health.tokens_estimated, "prompts were counted by estimate, not by the model's own tokenizer"),
        (health.outside_band, "prompts lie outside their length band"),
    ):
        lines += [f"{count:,} {what}."] if count else []
    lines += analysis.notes
    for note in analysis.manifest.not_applicable:
        lines.append(f"Not applicable: {note.condition} on {note.task} with {note.model}: {note.reason}.")
    for note in analysis.manifest.enforced_in_part:
        lines.append(
            f"Enforced in part: {note.condition} on {note.task} with {note.model}; left to the check afterwards:"
            f" {note.reason}. No evidence for H2."
        )
    # A gap that has its reason above is not listed a second time.
    explained = {(note.task, note.model, note.condition) for note in analysis.manifest.not_applicable}
    for task, model, gap in health.gaps:
        if missing := [name for name in gap if (task, model, name) not in explained]:
            lines.append(
                f"{task} on {model} has no rows for {join_words(missing)}: not applicable, or not run."
            )
    return lines
