"""The robustness tables and figures alone, as ``pcsuite promptbench`` writes them after a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pcsuite.analysis.interventions import interventions_table
from pcsuite.analysis.item_scores import item_scores
from pcsuite.analysis.robustness_tables import robustness_tables
from pcsuite.analysis.tables import RunTables
from pcsuite.report.plots_grid import robustness_figures


@dataclass(frozen=True, slots=True)
class RobustnessFiles:
    """What was written, and what a reader must know of it."""

    tables: list[Path]
    figures: list[Path]
    notes: list[str]


def write_robustness(logs: Sequence[Path], output_dir: Path, *, plots: bool = True) -> RobustnessFiles:
    """Write ``robustness_worst_case.csv``, ``robustness_by_attack.csv``, ``interventions.csv`` and the figures."""
    with RunTables(logs, output_dir / "tables") as loaded:
        worst, by_attack = robustness_tables(item_scores(loaded))
        made = (worst, by_attack, interventions_table(loaded))
        written = [table.write_csv(loaded.folder / f"{table.name}.csv") for table in made]
    figures = robustness_figures(by_attack, output_dir / "plots") if plots else []
    notes = [
        f"{record['task']} × {record['model']} × {record['condition']}: the clean score is 0, so no drop rate"
        for record in worst.records()
        if record["clean"] == 0
    ]
    if not worst.rows:
        notes.append("no cell has at least 2 items both clean and perturbed: the tables are empty")
    return RobustnessFiles(written, [figure.png for figure in figures if figure.png is not None], notes)
