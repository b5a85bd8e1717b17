"""The report as one Markdown file, safe against what models write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pcsuite.analysis.compare import Comparison
from pcsuite.analysis.load.item_scores import CellKey
from pcsuite.report import markdown
from pcsuite.report.drawing import Figure
from pcsuite.report.grid import Section
from pcsuite.report.page import Page
from pcsuite.report.verdicts import Verdict
from pcsuite.report.wording import figure_text, metric_name, p_text, signed

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no table border, one line."""
    flat = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """A pipe table; columns listed in ``right`` are aligned right."""
    lines = [
        "| " + " | ".join(escape(heading) for heading in headings) + " |",
        "|" + "|".join("---:" if place in right else "---" for place in range(len(headings))) + "|",
    ]
    lines += ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


# A comparison of two runs in words.


_HEADINGS = (
    "task",
    "model",
    "regime",
    "condition",
    "metric",
    "A",
    "B",
    "difference",
    "p (BH)",
    "items",
    "outcome",
)


def comparison_text(comparison: Comparison, first: str, second: str) -> str:
    """For a terminal: the judgement, then the cells as an aligned table."""
    rows = [[str(cell) for cell in row] for row in _rows(comparison)]
    widths = [max(len(row[place]) for row in [list(_HEADINGS), *rows]) for place in range(len(_HEADINGS))]
    lines = [*_head(comparison, first, second), ""]
    for row in [list(_HEADINGS), *rows]:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return "\n".join(lines)


def comparison_markdown(comparison: Comparison, first: str, second: str) -> str:
    """For a pull request: the judgement, then the cells as a table."""
    head = [markdown.escape(line) for line in _head(comparison, first, second)]
    return "\n\n".join(
        [f"**{head[0]}**", *head[1:], markdown.table(_HEADINGS, _rows(comparison), (5, 6, 8, 9))]
    )


def _head(comparison: Comparison, first: str, second: str) -> list[str]:
    worse, better = comparison.regressions, comparison.improvements
    counts = f"{_counted(len(worse), 'regression')}, {_counted(len(better), 'improvement')}"
    lines = [f"{second} against {first}: {counts}."]
    for record in worse:
        lines.append(
            f"Worse: {metric_name(record['metric'])} of {record['condition']} on {record['task']} with"
            f" {record['model']} changed by {signed(record['delta'])} (95 % interval"
            f" {figure_text(record['delta_low'])} to {figure_text(record['delta_high'])}, adjusted p"
            f" {p_text(record['p_bh'])}, {record['n_items']} items)."
        )
    for name, (before, after) in comparison.renamed.items():
        lines.append(f"Paired across {name}s: {before} with {after}.")
    for run, missing in ((second, comparison.only_first), (first, comparison.only_second)):
        if missing:
            lines.append(f"Not in {run}: {_cells(missing)}.")
    return lines


def _cells(keys: Sequence[CellKey]) -> str:
    shown = [f"{key.condition} × {key.task} × {key.model} × {key.decoding}" for key in keys[:5]]
    return "; ".join(shown) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")


def _rows(comparison: Comparison) -> list[list[str]]:
    return [_row(record) for record in comparison.table.records()]


def _row(record: Mapping[str, Any]) -> list[str]:
    interval = f"[{figure_text(record['delta_low'])}, {figure_text(record['delta_high'])}]"
    return [
        record["task"], record["model"], record["decoding"], record["condition"], metric_name(record["metric"]),
        figure_text(record["first"]), figure_text(record["second"]),
        f"{signed(record['delta'])} {interval} {record['stars']}".rstrip(), p_text(record["p_bh"]),
        str(record["n_items"]), record["outcome"],
    ]  # fmt: skip


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


# The report as one Markdown file, for a repository or a paper's appendix.


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
