"""``verify-all.html``: all evals of a folder on one page, evals by fields, worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite.verifier.report import MAX_ROWS, load_template
from pcsuite.verifier.scores import ERROR_TYPES, Counts, PooledScores

OVERVIEW = "verify-all.html"
_MAX_COLUMNS = 40
"""Fields of the heat map; those of the lowest F1 over all evals."""


class EvalRow(NamedTuple):
    """One eval of the page: its results, the counts by field, its best score before, and its own page."""

    document: Mapping[str, Any]
    by_field: Mapping[str, Counts]
    best_before: float | None
    report: Path | None


class HeatCell(NamedTuple):
    """One field of one eval: F1, errors and values of the truth."""

    f1: float
    errors: int
    fields: int

    @property
    def shade(self) -> str:
        """Background from red (0) over yellow to green (1).

        A CSS colour whose lightness the page's theme sets. The square makes low scores look low: 0.7 is still orange.
        """
        return f"hsl({round(130 * self.f1**2)} 62% var(--heat))"


def render_overview(root: Path, rows: Sequence[EvalRow], pooled: PooledScores) -> str:
    """The page over all evals: macro- and micro-F1 with their intervals, and F1 of every eval on its worst fields.

    Evals and fields of the lowest F1 come first. ``root`` is the folder that the page will lie in, which the links to
    the pages of the evals start from.
    """
    totals: dict[str, Counts] = {}
    for row in rows:
        for name, counts in row.by_field.items():
            held = totals.setdefault(name, Counts())
            for part in ("matches", *ERROR_TYPES):
                setattr(held, part, getattr(held, part) + getattr(counts, part))
    worst = sorted(totals, key=lambda name: (totals[name].f1, -_errors(totals[name]), name))
    wrong = [name for name in worst if _errors(totals[name])]
    columns = wrong[:_MAX_COLUMNS]
    entries = []
    for row in sorted(rows, key=lambda row: (row.document["metrics"]["f1"], row.document["eval_id"])):
        counted = [row.by_field.get(name) for name in columns]
        cells = [
            None if one is None else HeatCell(one.f1, _errors(one), int(one.matches + one.false_negatives))
            for one in counted
        ]
        link = row.report.resolve().relative_to(root.resolve()).as_posix() if row.report else None
        entries.append({"row": row, "cells": cells, "link": link, "metrics": row.document["metrics"]})
    return load_template("verify-all.html.j2").render(
        name=root.resolve().name,
        entries=entries[:MAX_ROWS],
        hidden_evals=max(0, len(entries) - MAX_ROWS),
        columns=columns,
        hidden_columns=len(wrong) - len(columns),
        fields=[(name, totals[name].as_dict()) for name in wrong[:MAX_ROWS]],
        right=len(totals) - len(wrong),
        pooled=pooled,
        first=rows[0].document,
        error_types=ERROR_TYPES,
    )


def _errors(counts: Counts) -> int:
    return sum(counts.errors_by_type().values())
