"""All tables of a report, computed from loaded logs and written to their files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite.analysis.embeddings import Embedder, NoEmbedder, find_embedder
from pcsuite.analysis.load.item_scores import ItemScores, item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables.effects import effects
from pcsuite.analysis.tables.efficiency import abstention_table, efficiency, unsupported_table
from pcsuite.analysis.tables.entropy import answer_counts_by_cell, entropy_tables
from pcsuite.analysis.tables.information import Truths, information_table
from pcsuite.analysis.tables.mixed import mixed_results
from pcsuite.analysis.tables.objective import objective_tables
from pcsuite.analysis.tables.replicates import constraint_vs_retry, self_consistency_table, variance_table
from pcsuite.analysis.tables.robustness import robustness_tables
from pcsuite.analysis.tables.summary import RunHealth, run_health, summary_by_condition, task_metrics
from pcsuite.analysis.verdicts.hypotheses import hypotheses
from pcsuite.logging.manifest import MergedManifest, read_manifests


@dataclass(slots=True)
class Analysis:
    """What the log says, as tables."""

    scores: ItemScores
    health: RunHealth
    manifest: MergedManifest
    tables: dict[str, Table] = field(default_factory=dict)
    total_tokens: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be computed, and why."""

    def write(self, folder: Path) -> list[Path]:
        """Write every table as CSV; returns the files."""
        return [table.write_csv(folder / f"{name}.csv") for name, table in self.tables.items()]


def analyse(
    tables: RunTables,
    truths: Truths | None = None,
    *,
    references: Truths | None = None,
    embeddings: str | None = None,
) -> Analysis:
    """Compute every table.

    ``truths`` (labels by task and item) and ``references`` (true answers of tasks with open ones) are what
    information is about; ``embeddings`` names the embedding model.
    """
    embedder = find_embedder(embeddings, tables.folder / ".parts" / "embeddings.sqlite")
    try:
        return _analyse(tables, truths, references, embedder)
    finally:
        if isinstance(embedder, Embedder):
            embedder.close()


def _analyse(
    tables: RunTables, truths: Truths | None, references: Truths | None, embedder: Embedder | NoEmbedder
) -> Analysis:
    scores = item_scores(tables)
    analysis = Analysis(scores, run_health(tables, scores), read_manifests(tables.logs))
    analysis.total_tokens = int(tables.query("SELECT coalesce(sum(total_tokens), 0) FROM runs")[0][0])
    summary = summary_by_condition(tables, scores)
    # What needs no database runs beside what does: both are mostly numpy, which leaves the interpreter free.
    with ThreadPoolExecutor(max_workers=1) as pool:
        beside = pool.submit(_tables_from_scores, scores, summary)
        mixed = mixed_results(tables, scores)
        answers = answer_counts_by_cell(tables, scores)
        made = [
            summary,
            mixed.models,
            mixed.means,
            *entropy_tables(tables, scores, embedder, answers),
            *objective_tables(scores, answers, analysis.manifest),
            self_consistency_table(tables, scores),
            variance_table(tables, scores),
            constraint_vs_retry(tables, scores),
            information_table(tables, scores, truths, references=references, embedder=embedder),
            *beside.result(),
        ]
    analysis.notes += mixed.notes
    analysis.tables = {table.name: table for table in made}
    judged = hypotheses(analysis.tables, scores, mixed)
    analysis.tables[judged.name] = judged
    return analysis


def _tables_from_scores(scores: ItemScores, summary: Table) -> list[Table]:
    return [
        task_metrics(scores),
        effects(scores),
        *robustness_tables(scores),
        efficiency(scores, summary),
        unsupported_table(scores),
        abstention_table(scores),
    ]
