"""The report as one Markdown file, for a repository or a paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence

from pcsuite.report import markdown
from pcsuite.report.drawing import Figure
from pcsuite.report.grid import Section
from pcsuite.report.page import Page
from pcsuite.report.verdicts import Verdict

FIGURE_KINDS = ("ladder", "Pareto front")
"""Figures shown; the plots folder has them all."""


def render_markdown(page: Page) -> str:
    """The page's words, its main tables and figures."""
    parts = [f"# {markdown.escape(page.title)}", markdown.escape(page.subtitle)]
    parts += [f"> {markdown.escape(notice)}" for notice in page.notices]
    parts.append(markdown.table(("", ""), page.facts))
    parts.append("## What the run says")
    parts += _listed(page.overview)
    for group in page.verdicts:
        where = f"{group.task} on {group.model} ({group.decoding})"
        parts.append(f"### {markdown.escape(where)}")
        parts += _listed(group.verdicts)
    parts.append("## Hypotheses and criteria")
    parts.append(
        "\n".join(
            f"- **{finding['verdict']}**: {markdown.escape(finding['statement'] + ' ' + finding['evidence'])}"
            for finding in page.hypotheses
        )
    )
    for section in page.sections[:2]:
        parts += _section(section)
    parts += _figures(page.figures)
    for section in [*page.external, page.compared]:
        parts += _section(section)
    parts.append("## What failed or was left out")
    parts.append("\n".join(f"- {markdown.escape(line)}" for line in page.excluded))
    if page.errors:
        parts.append(
            markdown.table(("rows", "error"), [(count, message) for message, count in page.errors], (0,))
        )
    parts.append(f"*{markdown.escape(page.footer)}*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _listed(verdicts: Sequence[Verdict]) -> list[str]:
    lines = []
    for verdict in verdicts:
        numbers = f" ({markdown.escape(verdict.evidence)})" if verdict.evidence else ""
        lines.append(f"- {markdown.escape(verdict.text)}{numbers}.")
    return ["\n".join(lines)] if lines else []


def _section(section: Section) -> list[str]:
    if section.table is None or not section.table.rows:
        return []
    headings = [column.label for column in section.table.columns]
    right = [place for place, column in enumerate(section.table.columns) if column.numeric]
    rows = [[cell.text for cell in row.cells] for row in section.table.rows]
    parts = [f"## {markdown.escape(section.title)}", markdown.escape(section.lead)]
    return [*parts, markdown.table(headings, rows, right)]


def _figures(figures: Sequence[Figure]) -> list[str]:
    shown = [figure for figure in figures if figure.kind in FIGURE_KINDS and figure.png is not None]
    if not shown:
        return []
    pictures = [
        f"![{markdown.escape(figure.caption)}](../plots/{figure.name}.png)\n\n*{markdown.escape(figure.caption)}*"
        for figure in shown
    ]
    return ["## Figures", *pictures]
