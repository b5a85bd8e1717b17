"""``helm_*.csv``: HELM's runs, its metrics with intervals over instances, and its instances.

HELM gives no intervals. Its instances are the units, repeated trials averaged within them first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.analysis.bootstrap import bootstrap_mean
from pcsuite.analysis.columns import LEVEL_RESAMPLES
from pcsuite.analysis.helm_results import HelmRun, Score
from pcsuite.analysis.table import Table
from pcsuite.analysis.tables import named_rng

TASKS: Mapping[str, tuple[str, str]] = {
    "truthful_qa": ("truthfulqa_mc", "exact_match"),
    "gsm": ("gsm8k", "final_number_exact_match"),
    "commonsense": ("csqa_json", "exact_match"),
    "boolq": ("boolq", "quasi_exact_match"),
}
"""By HELM scenario: our task on the same benchmark, and the metric HELM itself puts first."""
FIRST_METRICS = ("exact_match", "quasi_exact_match")
"""What is put first for any other scenario, as far as it has it."""
RUN_COLUMNS = (
    "suite", "scenario", "model", "task", "status", "reason", "instances", "prompts_truncated", "deployment",
)  # fmt: skip
METRIC_COLUMNS = (
    "suite", "scenario", "model", "task", "metric", "main", "split", "value", "value_low", "value_high", "interval",
    "n_instances", "helm_value",
)  # fmt: skip
_INSTANCE_COLUMNS = (
    "suite", "scenario", "model", "instance_id", "split", "trials", "output", "correct_references", "finish_reason",
    "prompt_truncated",
)  # fmt: skip


def helm_tables(runs: Sequence[HelmRun], names: Mapping[str, str]) -> list[Table]:
    """The tables of an import; ``names`` gives our ids of HELM's model names."""
    complete = [run for run in runs if run.status == "complete"]
    return [
        Table.of("helm_runs", [_run_record(run, names) for run in runs], RUN_COLUMNS),
        Table.of("helm_metrics", [row for run in complete for row in _metrics(run, names)], METRIC_COLUMNS),
        _instances(complete, names),
    ]


def write_helm_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write the tables as CSV files."""
    return [table.write_csv(folder / f"{table.name}.csv") for table in tables]


def task_of(scenario: str) -> str:
    """Our task on the scenario's benchmark, or nothing."""
    name = scenario.partition(":")[0]
    if name == "commonsense" and "dataset=commonsenseqa" not in scenario:
        return ""
    return TASKS.get(name, ("", ""))[0]


def main_score(run: HelmRun) -> Score | None:
    """The metric HELM puts first for the scenario, on the split it puts first: the test split where there is one."""
    splits = list(dict.fromkeys(split for _, split in run.metrics))
    split = "test" if "test" in splits else next(iter(splits), "")
    present = [metric for metric, on in run.metrics if on == split]
    wanted = TASKS.get(run.scenario.partition(":")[0], ("", ""))[1]
    first = next((metric for metric in (wanted, *FIRST_METRICS, *present) if metric in present), None)
    return None if first is None else (first, split)


def _identity(run: HelmRun, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "suite": run.suite,
        "scenario": run.scenario,
        "model": names.get(run.model, run.model),
        "task": task_of(run.scenario),
    }


def _run_record(run: HelmRun, names: Mapping[str, str]) -> dict[str, Any]:
    return _identity(run, names) | {
        "status": run.status,
        "reason": run.reason,
        "instances": len(run.instances),
        "prompts_truncated": sum(instance.prompt_truncated for instance in run.instances),
        "deployment": run.deployment,
    }


def _metrics(run: HelmRun, names: Mapping[str, str]) -> list[dict[str, Any]]:
    first = main_score(run)
    records = []
    for metric, split in run.metrics:
        values = run.scores(metric, split)
        rng = named_rng("helm", run.scenario, run.model, metric, split)
        estimate = bootstrap_mean(values, rng=rng, resamples=LEVEL_RESAMPLES)
        records.append(
            _identity(run, names)
            | {
                "metric": metric,
                "main": (metric, split) == first,
                "split": split,
                "value": estimate.value,
                "value_low": estimate.low,
                "value_high": estimate.high,
                "interval": estimate.method,
                "n_instances": len(values),
                "helm_value": run.means.get((metric, split)),
            }
        )
    return records


def _instances(runs: Sequence[HelmRun], names: Mapping[str, str]) -> Table:
    metrics = list(dict.fromkeys(metric for run in runs for metric, _ in run.metrics))
    records = []
    for run in runs:
        identity = _identity(run, names)
        for instance in run.instances:
            records.append(
                identity
                | {
                    "instance_id": instance.id,
                    "split": instance.split,
                    "trials": instance.trials,
                    "output": instance.output,
                    "correct_references": instance.references,
                    "finish_reason": instance.finish_reason,
                    "prompt_truncated": instance.prompt_truncated,
                }
                | instance.scores
            )
    return Table.of("helm_instances", records, (*_INSTANCE_COLUMNS, *metrics))
