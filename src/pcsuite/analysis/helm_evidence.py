"""HELM's figures beside our own: read back from ``helm_*.csv``, joined by model and benchmark, never pooled."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.analysis.helm_tables import METRIC_COLUMNS, RUN_COLUMNS
from pcsuite.analysis.table import Table

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
