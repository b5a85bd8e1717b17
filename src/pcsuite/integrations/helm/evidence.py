"""HELM's figures beside our own: read back from ``helm_*.csv``, joined by model and benchmark, never pooled.

:func:`external_evidence` is all that a report needs: a table to write and a section of the page.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.integrations.helm.results import METRICS, RUNS
from pcsuite.reporting.grid import (
    Extra,
    ExtraSection,
    Section,
    interval_column,
    make_grid,
    number_column,
    table_grid,
    text_column,
)

SECTION_ID = "helm"
BESIDE_OURS = TableSpec(
    "helm_beside_ours",
    "HELM's figures beside our own",
    "cell of ours on a benchmark that HELM ran with the same model, and figure of HELM's without one",
    (
        Column("task", "id of our task"),
        Column("model", "id of the model"),
        Column("condition", "id of the condition"),
        Column("decoding", "decoding regime"),
        *interval("score", "our score"),
        Column("n_items", "our items"),
        Column("helm_scenario", "HELM's scenario"),
        Column("helm_metric", "HELM's main metric"),
        *interval("helm_value", "HELM's figure"),
        Column("helm_instances", "HELM's instances"),
    ),
    note="Joined by model and benchmark, never pooled.",
)
_NUMBERS = ("value", "value_low", "value_high", "n_instances", "instances", "prompts_truncated", "helm_value")
_OURS = ("condition", "decoding", "score", "score_low", "score_high", "n_items")
_HELMS = ("scenario", "metric", "value", "value_low", "value_high")
_LEAD = (
    "HELM ran these scenarios by itself on the same models, with its own prompts, exemplars, choice of items and"
    " scorers. Its figures stand beside ours as a second opinion: they are in no table, test or verdict above, and"
    " because prompts and items differ no difference between the two columns is tested. Intervals are ours, over"
    " HELM's instances."
)


@dataclass(slots=True)
class HelmEvidence:
    """What an import left in the tables folder."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Files that cannot be read, in one line each."""


def external_evidence(folders: Sequence[Path], analysis: Analysis) -> tuple[Section, Table] | None:
    """The section of the page and its table ``helm_beside_ours``; ``None`` where HELM was never imported.

    ``folders`` are tables folders, of which the first with an import counts; ``analysis`` has the run's own
    ``summary_by_condition``. Files that cannot be read are lines of the section, never an error.
    """
    evidence = read_helm_evidence(folders)
    if evidence is None:
        return None
    beside = beside_ours(evidence, analysis.tables["summary_by_condition"])
    return helm_section(evidence, beside), beside


def evidence_files(folders: Sequence[Path]) -> list[Path]:
    """The files that evidence is read from, whether they exist or not; a report is stale where one of them changed.

    Only the first folder with an import counts, but an import into any of them may become the first.
    """
    return [folder / name for folder in folders for name in ("helm_runs.csv", "helm_metrics.csv")]


def read_helm_evidence(folders: Sequence[Path]) -> HelmEvidence | None:
    """The evidence in the first folder that has some; ``None`` where HELM was never imported.

    A file that is not one of ours leaves a line in ``problems`` and no rows.
    """
    folder = next((folder for folder in folders if (folder / "helm_runs.csv").is_file()), None)
    if folder is None:
        return None
    evidence = HelmEvidence()
    evidence.runs = _read(folder / "helm_runs.csv", RUNS.names, evidence.problems)
    evidence.metrics = _read(folder / "helm_metrics.csv", METRICS.names, evidence.problems)
    return evidence


def _read(path: Path, columns: Sequence[str], problems: list[str]) -> list[dict[str, Any]]:
    def value(name: str, text: str) -> Any:
        if name not in _NUMBERS:
            return text or ""
        # Counts are written without a point.
        return None if not text else float(text) if "." in text or "e" in text else int(float(text))

    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"no column '{missing[0]}'")
            return [{name: value(name, row[name]) for name in columns} for row in reader]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        problems.append(f"{path.name} cannot be read ({error}): import HELM's results again.")
        return []


def beside_ours(evidence: HelmEvidence, summary: Table) -> Table:
    """One record for every cell of ours on a benchmark that HELM ran with the same model, and for every figure of
    HELM's that has no such cell. Of HELM's metrics only the one it puts first is taken."""
    ours: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in summary.records():
        if record["perturbation"] == "none":
            ours.setdefault((record["task"], record["model"]), []).append(record)
    rows = []
    for figure in evidence.metrics:
        if figure["main"] != "true":
            continue
        helm = {f"helm_{name}": figure[name] for name in _HELMS} | {"helm_instances": figure["n_instances"]}
        cells = ours.get((figure["task"], figure["model"]), []) if figure["task"] else []
        for cell in cells or [{}]:
            our_figures = {name: cell.get(name) for name in _OURS}
            rows.append({"task": figure["task"], "model": figure["model"], **our_figures, **helm})
    return Table.of(BESIDE_OURS, rows)


def helm_section(evidence: HelmEvidence, beside: Table) -> Section:
    """External evidence: the table of :func:`beside_ours`, with what HELM ran and could not run folded away below.

    The table of runs is open where some have no results.
    """
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
    records = []
    for record in beside.records():
        benchmarks = (record["task"], record["helm_scenario"].partition(":")[0])
        records.append(record | {"benchmark": " / ".join(filter(None, benchmarks))})
    runs, metrics = evidence.runs, evidence.metrics
    unfinished = sum(run["status"] == "unfinished" for run in runs)
    lines = [_LEAD, *evidence.problems]
    if unfinished:
        lines.append(f"Without results: {unfinished} of HELM's {len(runs)} runs; the table below says why.")
    of_runs, of_metrics = table_grid(RUNS, runs), table_grid(METRICS, metrics)
    extras = [
        Extra("helm-runs-table", f"HELM's runs ({len(runs)})", of_runs, open=bool(unfinished)),
        Extra("helm-metrics-table", METRICS.title, of_metrics),
    ]
    return Section(
        SECTION_ID,
        "External evidence: HELM",
        " ".join(lines),
        make_grid(columns, records),
        extras=[extra for extra in extras if extra.table.rows],
        empty="HELM has no finished run.",
    )


HELM_SECTION = ExtraSection(evidence_files, external_evidence)
"""What the report asks for HELM's part of the page."""
