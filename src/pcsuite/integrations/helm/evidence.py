"""HELM's figures beside our own, in tables and on the page; joined by model and benchmark, never pooled."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.analysis.table import Table
from pcsuite.integrations.helm.results import METRIC_COLUMNS, RUN_COLUMNS
from pcsuite.report.grid import (
    Extra,
    Section,
    interval_column,
    make_grid,
    number_column,
    plain_grid,
    text_column,
)

# HELM's figures beside our own: read back from ``helm_*.csv``, joined by model and benchmark, never pooled.


Record = Mapping[str, Any]
BESIDE_COLUMNS = (
    "task", "model", "condition", "decoding", "score", "score_low", "score_high", "n_items", "helm_scenario",
    "helm_metric", "helm_value", "helm_value_low", "helm_value_high", "helm_instances",
)  # fmt: skip
_NUMBERS = ("value", "value_low", "value_high", "n_instances", "instances", "prompts_truncated", "helm_value")


@dataclass(slots=True)
class HelmEvidence:
    """What an import left in the tables folder."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Files that cannot be read, in one line each."""

    @property
    def main(self) -> list[dict[str, Any]]:
        """For every finished run the metric HELM puts first."""
        return [record for record in self.metrics if record["main"] == "true"]


def evidence_files(folders: Sequence[Path]) -> list[Path]:
    """The files that evidence is read from, there or not."""
    return [folder / name for folder in folders for name in ("helm_runs.csv", "helm_metrics.csv")]


def read_evidence(folders: Sequence[Path]) -> HelmEvidence | None:
    """The evidence in the first folder that has some; ``None`` where HELM was never imported."""
    for folder in folders:
        if (folder / "helm_runs.csv").is_file():
            evidence = HelmEvidence()
            evidence.runs = _read(folder / "helm_runs.csv", RUN_COLUMNS, evidence.problems)
            evidence.metrics = _read(folder / "helm_metrics.csv", METRIC_COLUMNS, evidence.problems)
            return evidence
    return None


def beside_ours(evidence: HelmEvidence, summary: Table) -> Table:
    """One record for every cell of ours on a benchmark that HELM ran with the same model, and for every figure of
    HELM's that has no such cell."""
    ours: dict[tuple[str, str], list[Record]] = {}
    for record in summary.records():
        if record["perturbation"] == "none":
            ours.setdefault((record["task"], record["model"]), []).append(record)
    rows = []
    for figure in evidence.main:
        cells: Sequence[Record] = ours.get((figure["task"], figure["model"]), ()) if figure["task"] else ()
        rows += [_beside(figure, cell) for cell in cells or ({},)]
    return Table.of("helm_beside_ours", rows, BESIDE_COLUMNS)


def _beside(figure: Record, cell: Record) -> dict[str, Any]:
    own = {
        name: cell.get(name)
        for name in ("condition", "decoding", "score", "score_low", "score_high", "n_items")
    }
    return {
        "task": figure["task"],
        "model": figure["model"],
        **own,
        "helm_scenario": figure["scenario"],
        "helm_metric": figure["metric"],
        "helm_value": figure["value"],
        "helm_value_low": figure["value_low"],
        "helm_value_high": figure["value_high"],
        "helm_instances": figure["n_instances"],
    }


def _read(path: Path, columns: Sequence[str], problems: list[str]) -> list[dict[str, Any]]:
    """The rows of a table, numbers as numbers; nothing, and a line in ``problems``, where it is not one of ours."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"no column '{missing[0]}'")
            return [
                {name: _number(row[name]) if name in _NUMBERS else row[name] or "" for name in columns}
                for row in reader
            ]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        problems.append(f"{path.name} cannot be read ({error}): import HELM's results again.")
        return []


def _number(text: str) -> float | int | None:
    if not text:
        return None
    value = float(text)
    return int(value) if value.is_integer() and "." not in text and "e" not in text else value


# The part of the page that sets HELM's figures beside our own.


SECTION_ID = "helm"
_LEAD = (
    "HELM ran these scenarios by itself on the same models, with its own prompts, exemplars, choice of items and"
    " scorers. Its figures stand beside ours as a second opinion: they are in no table, test or verdict above, and"
    " because prompts and items differ no difference between the two columns is tested. Intervals are ours, over"
    " HELM's instances."
)
_RUN_COLUMNS = ("scenario", "model", "status", "reason", "instances", "prompts_truncated", "suite")
_METRIC_COLUMNS = ("scenario", "model", "metric", "split", "value", "value_low", "value_high", "n_instances")


def helm_section(evidence: HelmEvidence, beside: Table) -> Section:
    """External evidence, with what HELM ran and could not run folded away below."""
    records = [_named(record) for record in beside.records()]
    columns = [
        text_column("benchmark", "benchmark"),
        text_column("model", "model"),
        text_column("condition", "condition"),
        text_column("regime", "decoding"),
        interval_column("our score", "score"),
        number_column("items", "n_items"),
        interval_column("HELM", "helm_value"),
        text_column("HELM's metric", "helm_metric"),
        number_column("instances", "helm_instances"),
    ]
    unfinished = sum(run["status"] == "unfinished" for run in evidence.runs)
    lines = [_LEAD, *evidence.problems]
    if unfinished:
        lines.append(
            f"Without results: {unfinished} of HELM's {len(evidence.runs)} runs; the table below says why."
        )
    extras = [
        Extra(
            "helm-runs-table",
            f"HELM's runs ({len(evidence.runs)})",
            plain_grid(_RUN_COLUMNS, evidence.runs),
            open=bool(unfinished),
        ),
        Extra("helm-metrics-table", "All of HELM's metrics", plain_grid(_METRIC_COLUMNS, evidence.metrics)),
    ]
    return Section(
        SECTION_ID,
        "External evidence: HELM",
        " ".join(lines),
        make_grid(columns, records),
        extras=[extra for extra in extras if extra.table.rows],
        empty="HELM has no finished run.",
    )


def _named(record: dict[str, Any]) -> dict[str, Any]:
    scenario = str(record["helm_scenario"]).partition(":")[0]
    return record | {"benchmark": f"{record['task']} / {scenario}" if record["task"] else scenario}
