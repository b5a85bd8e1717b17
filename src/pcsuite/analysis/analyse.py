"""All tables of a report, computed from loaded logs and written to their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite._util.files import Put, replacing
from pcsuite._util.threads import one_blas_thread
from pcsuite.analysis.alarms import Alarm, find_alarms
from pcsuite.analysis.comparison import COMPARE
from pcsuite.analysis.embeddings import Embedder, find_embedder
from pcsuite.analysis.judging import read_gold
from pcsuite.analysis.load.item_scores import CLEAN, ItemScores, item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, metrics_of
from pcsuite.analysis.pairings import CONTROL
from pcsuite.analysis.table import Table, TableSpec
from pcsuite.analysis.tables import (
    attribution,
    best,
    by_size,
    effects,
    efficiency,
    entropy,
    format_gap,
    information,
    key_fields,
    mixed,
    objective,
    pooled,
    registration,
    replicates,
    robustness,
    summary,
)  # fmt: skip
from pcsuite.analysis.tables.judges import JUDGES, JudgeStatus, judge_status
from pcsuite.analysis.verdicts.evidence import collect_evidence
from pcsuite.analysis.verdicts.findings import HYPOTHESES
from pcsuite.analysis.verdicts.hypotheses import verdict_tables
from pcsuite.analysis.verdicts.scale import SCALE
from pcsuite.analysis.verdicts.structure import STRUCTURE
from pcsuite.config.definitions import MetricSpec
from pcsuite.config.profile import AnalysisSection
from pcsuite.errors import AnalysisError, did_you_mean
from pcsuite.logging.manifest import MergedManifest, read_manifests

ALL_TABLES: tuple[TableSpec, ...] = (
    registration.REGISTRATION, registration.LOOKS, summary.SUMMARY, format_gap.FORMAT_GAP, summary.TASK_METRICS,
    effects.EFFECTS, JUDGES, HYPOTHESES, STRUCTURE, SCALE, by_size.BY_SIZE,
    attribution.ATTRIBUTION, pooled.POOLED, best.BEST,
    objective.OBJECTIVE, objective.COMPILED, objective.MAKEUP, mixed.MEANS, mixed.MODEL, efficiency.EFFICIENCY,
    entropy.PER_ITEM, entropy.BY_CONDITION, key_fields.KEY_FIELDS,
    replicates.CONSTRAINT_VS_RETRY, replicates.SELF_CONSISTENCY,
    robustness.WORST_CASE, robustness.BY_ATTACK, robustness.INTERVENTIONS, information.INFORMATION,
    efficiency.UNSUPPORTED, efficiency.ABSTENTION, replicates.VARIANCE, COMPARE,
)  # fmt: skip
"""Every table the analysis can write, in the order of the page's further tables and of the reference."""


@dataclass(slots=True)
class Analysis:
    """What the log says, as tables."""

    scores: ItemScores
    health: summary.RunHealth
    manifest: MergedManifest
    metrics: Metrics
    tables: dict[str, Table]
    total_tokens: int
    notes: list[str]
    """What could not be computed, and why."""
    registered: registration.Registered = field(default_factory=registration.Registered)
    """What was planned before the first call, and the looks that were taken."""
    alarms: list[Alarm] = field(default_factory=list)
    """What is wrong with the run, the gravest first."""
    judges: JudgeStatus = field(default_factory=JudgeStatus)
    """What is specs of the judges of judged tasks."""

    @property
    def levels(self) -> list[dict[str, Any]]:
        """Records of ``summary_by_condition.csv``, clean prompts only."""
        records = self.tables[summary.SUMMARY.name].records()
        return [record for record in records if record["perturbation"] == CLEAN]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """Records of ``effects.csv`` against the control of each group; twins and factorials are not among them."""
        return [record for record in self.tables[effects.EFFECTS.name].records() if record["kind"] == CONTROL]

    def write(self, folder: Path, put: Put = replacing) -> list[Path]:
        """Write every table as CSV into a folder; returns the files. ``put`` is how each takes its place."""
        return [table.write_csv(folder / f"{name}.csv", put) for name, table in self.tables.items()]


@one_blas_thread()
def analyse(
    tables: RunTables,
    truths: information.Truths | None = None,
    *,
    references: information.Truths | None = None,
    embeddings: str | None = None,
    metrics: Mapping[str, MetricSpec] | None = None,
    baseline: str | None = None,
    posterior: bool = False,
) -> Analysis:
    """Compute every table of loaded logs.

    ``truths`` (labels by task and item) and ``references`` (true answers of tasks with open ones) are what
    information is about; ``embeddings`` names the embedding model, ``off`` for none. ``metrics`` are specs that
    count before those of the logs' manifests and the bundled ones. ``baseline`` is the condition that others are
    compared with, in place of the control of each group; ``AnalysisError`` where no row has it. ``posterior`` adds
    probabilities to the effects.
    """
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=1) as pool:
        embedder = find_embedder(embeddings, tables.folder / ".parts" / "embeddings.sqlite")
        if isinstance(embedder, Embedder):
            stack.enter_context(embedder)
        manifest = read_manifests(tables.logs)
        specs = metrics_of(manifest.metrics, metrics)
        scores = item_scores(tables, squares=specs.compared_in("mixed_model"))
        conditions = {key.condition for key in scores.cell_keys()}
        if baseline is not None and baseline not in conditions:
            raise AnalysisError(
                f"no row has the baseline '{baseline}'", hint=did_you_mean(baseline, conditions)
            )
        scores.control = baseline
        registered = registration.Registered.of(manifest, tables.logs)
        gold = read_gold(tables.logs, manifest)
        status = judge_status(tables.logs, gold.judges, gold)
        answers = entropy.answer_counts_by_cell(tables, scores, manifest)
        levels = summary.summary_by_condition(tables, scores, specs, answers, manifest.tasks)
        # What needs no database runs beside what does: both are mostly numpy, which leaves the interpreter free.
        changes = pool.submit(effects.effects, scores, specs, registered, gold, status)
        beside = [
            changes,
            pool.submit(
                lambda: attribution.mark_divided(attribution.attribution(scores, specs), changes.result())
            ),
            pool.submit(pooled.pooled, scores, specs),
            pool.submit(best.best_conditions, scores),
            pool.submit(summary.task_metrics, scores, specs),
            # One worker takes them in order, so what it waits for is done.
            pool.submit(lambda: format_gap.format_gap(scores, changes.result())),
            pool.submit(efficiency.efficiency, scores, levels),
            pool.submit(efficiency.unsupported_table, scores),
            pool.submit(efficiency.abstention_table, scores),
        ]
        attacked = pool.submit(robustness.robustness_tables, scores)
        fitted = mixed.mixed_results(tables, scores, specs)
        retries = replicates.equal_token_arms(tables, scores)
        # A hypothesis is no place for a judge's word: what is specs of judged tasks is in their corrected effects.
        unjudged = scores.without_tasks(gold.judges)
        margin = AnalysisSection.model_validate(manifest.analysis).loss_margin
        evidence = collect_evidence(tables, unjudged, manifest, answers, truths, retries)
        computed = [
            summary.with_gold(levels, gold, status),
            fitted.models,
            fitted.means,
            *entropy.entropy_tables(tables, scores, answers, embedder),
            *objective.objective_tables(scores, answers, manifest),
            replicates.self_consistency_table(tables, scores),
            replicates.variance_table(tables, scores),
            replicates.constraint_vs_retry(retries),
            by_size.by_size(scores, evidence.sizes),
            key_fields.key_fields(tables, scores),
            information.information_table(tables, scores, truths, references=references, embedder=embedder),
            *(
                effects.with_posterior(table, specs, margin)
                if posterior and table.name == "effects"
                else table
                for table in (future.result() for future in beside)
            ),
            *attacked.result(),
            status.table(),
        ]
    computed += verdict_tables(evidence)
    notes = [*fitted.notes, *(f"{task}: judged, so no hypothesis rests on it" for task in gold.judges)]
    return _analysis(tables, scores, manifest, specs, computed, notes, registered, status)


@one_blas_thread()
def analyse_scores(tables: RunTables) -> Analysis:
    """Levels, effects, planned contrasts and alarms alone, in a fraction of the time of :func:`analyse`.

    It is what a run says at its end. The numbers are those of the whole analysis; every other table is missing.
    """
    scores, manifest = item_scores(tables), read_manifests(tables.logs)
    metrics = metrics_of(manifest.metrics)
    registered = registration.Registered.of(manifest, tables.logs)
    gold = read_gold(tables.logs, manifest)
    status = judge_status(tables.logs, gold.judges, gold)
    levels = summary.summary_by_condition(tables, scores, metrics, tasks=manifest.tasks)
    compared = effects.effects(scores, metrics, registered, gold, status)
    computed = [summary.with_gold(levels, gold, status), compared]
    return _analysis(tables, scores, manifest, metrics, computed, [], registered, status)


def _analysis(
    tables: RunTables,
    scores: ItemScores,
    manifest: MergedManifest,
    metrics: Metrics,
    computed: Iterable[Table],
    notes: list[str],
    registered: registration.Registered,
    status: JudgeStatus,
) -> Analysis:
    """What was computed, with what every analysis has: planned contrasts, tokens, the run's health and its alarms."""
    by_name = {table.name: table for table in computed}
    compared = list(by_name[effects.EFFECTS.name].records())
    by_name |= {table.name: table for table in registration.registration_tables(registered, compared)}
    total_tokens = int(tables.query("SELECT coalesce(sum(total_tokens), 0) FROM runs")[0][0])
    health, alarms = summary.run_health(tables, scores), find_alarms(tables, scores, manifest, compared)
    return Analysis(
        scores, health, manifest, metrics, by_name, total_tokens, notes, registered, alarms, status
    )
