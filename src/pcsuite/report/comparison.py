"""A comparison of two runs in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.analysis.compare import Comparison
from pcsuite.analysis.item_scores import CellKey
from pcsuite.report import markdown
from pcsuite.report.wording import figure_text, metric_name, p_text, signed

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
