"""The part of the page that sets HELM's figures beside our own."""

from __future__ import annotations

from typing import Any

from pcsuite.analysis.helm_evidence import HelmEvidence
from pcsuite.analysis.table import Table
from pcsuite.report.grid import (
    Extra,
    Section,
    interval_column,
    make_grid,
    number_column,
    plain_grid,
    text_column,
)

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
