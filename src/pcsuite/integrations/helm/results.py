"""What HELM left behind: finished runs read back, and tabled with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.table import LEVEL_RESAMPLES, Table
from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import bootstrap_mean

# Reading what HELM left behind: finished runs with their instances, and those that have nothing to show.
#
# A run's folder is made when it begins and filled when it ends, so an empty one was interrupted or failed.
# ``count`` in HELM's statistics is not a number of instances; instances are counted here.


FILES = ("run_spec.json", "stats.json", "per_instance_stats.json", "scenario_state.json")
"""What a finished run has, besides files that are not read here."""
FAILURES = "pcsuite_failures.json"
"""Beside the run folders of a suite: why runs have no results, by name."""
NOT_RUNS = ("eval_cache", "groups")
"""Folders of a suite that are not runs."""
BOOKKEEPING = frozenset(
    {
        "num_references", "num_train_trials", "num_prompt_tokens", "num_completion_tokens", "num_output_tokens",
        "training_co2_cost", "training_energy_cost", "inference_runtime", "batch_size", "finish_reason_length",
        "finish_reason_stop", "finish_reason_endoftext", "finish_reason_unknown", "num_train_instances",
        "prompt_truncated", "max_prob", "logprob", "num_perplexity_tokens", "num_bytes",
        "inference_denoised_runtime", "inference_idealized_runtime",
    }
)  # fmt: skip
"""Per-instance figures that are no scores: counts by a stand-in tokenizer, and log-probabilities that chat
servers do not report."""

Status = Literal["complete", "superseded", "unfinished"]
Score = tuple[str, str]
"""A metric and the split it was computed on."""


@dataclass(slots=True)
class HelmInstance:
    """One instance of a run; repeated trials are averaged."""

    id: str
    split: str
    trials: int = 0
    output: str = ""
    """What the model said at the first trial."""
    references: str = ""
    """The correct references, as HELM has them."""
    prompt_truncated: bool = False
    finish_reason: str = ""
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class HelmRun:
    """One run folder."""

    folder: Path
    suite: str
    name: str
    status: Status
    reason: str = ""
    scenario: str = ""
    """The run entry without its model."""
    model: str = ""
    deployment: str = ""
    finished: float = 0.0
    """When its last file was written (seconds)."""
    instances: list[HelmInstance] = field(default_factory=list)
    means: dict[Score, float] = field(default_factory=dict)
    """HELM's own figures, from ``stats.json``."""

    def scores(self, metric: str, split: str) -> list[float]:
        """Values of a metric, one for each instance of the split that has it."""
        return [
            instance.scores[metric]
            for instance in self.instances
            if instance.split == split and metric in instance.scores
        ]

    @property
    def metrics(self) -> list[Score]:
        """Every metric that instances have, in HELM's order."""
        found = {(metric, one.split): None for one in self.instances for metric in one.scores}
        return list(found)


def read_helm_runs(folder: Path) -> list[HelmRun]:
    """Every run below ``folder``: HELM's output, one of its suites, or a single run.

    The newest finished run of a scenario and model counts; older ones are superseded, and older unfinished
    attempts are left out.
    """
    if not folder.is_dir():
        raise AnalysisError(
            f"{folder} is not a folder", hint="give HELM's output folder, or one of its suites"
        )
    runs = [_read_run(path) for path in _run_folders(folder)]
    if not runs:
        raise AnalysisError(f"{folder} holds no HELM run", hint="run pcsuite helm, or name another folder")
    return sorted(_newest_first(runs), key=lambda run: (run.scenario, run.model, run.suite))


def _run_folders(folder: Path) -> list[Path]:
    """Run folders have one of HELM's files, or stand beside others in a suite below ``runs``."""
    if any((folder / name).exists() for name in FILES):
        return [folder]
    if (folder / "runs").is_dir():
        suites = [
            path for path in sorted((folder / "runs").iterdir()) if path.is_dir() and not path.is_symlink()
        ]
    else:
        suites = [folder]
    return [path for suite in suites for path in sorted(suite.iterdir()) if _looks_like_run(path)]


def _looks_like_run(path: Path) -> bool:
    return path.is_dir() and path.name not in NOT_RUNS and "model=" in path.name


def _newest_first(runs: list[HelmRun]) -> list[HelmRun]:
    newest: dict[tuple[str, str], HelmRun] = {}
    for run in runs:
        key = (run.scenario, run.model)
        if run.status == "complete" and (key not in newest or run.finished > newest[key].finished):
            newest[key] = run
    kept = []
    for run in runs:
        winner = newest.get((run.scenario, run.model))
        if run.status == "complete" and run is not winner:
            run.status, run.reason = "superseded", "a newer run of the same scenario and model counts"
        elif run.status == "unfinished" and winner is not None and run.finished < winner.finished:
            continue
        kept.append(run)
    return kept


def _read_run(folder: Path) -> HelmRun:
    scenario, model, deployment = _parts(folder.name)
    run = HelmRun(folder, folder.parent.name, folder.name, "unfinished", "", scenario, model, deployment)
    present = [folder / name for name in FILES if (folder / name).is_file()]
    run.finished = max(path.stat().st_mtime for path in [*present, folder])
    if len(present) < len(FILES):
        run.reason = told_reasons(folder.parent).get(folder.name) or (
            "no results: it was interrupted or failed"
            if not present
            else "interrupted: it has no "
            + ", ".join(name for name in FILES if not (folder / name).is_file())
        )
        return run
    try:
        _fill(run)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        run.instances, run.means = [], {}
        run.reason = (
            f"its files cannot be read ({type(error).__name__}: {error}): it was interrupted while writing"
        )
        return run
    if not run.instances:
        run.reason = "no instance was evaluated"
        return run
    run.status = "complete"
    return run


def _parts(name: str) -> tuple[str, str, str]:
    """Scenario, model and deployment from a run's name; HELM writes slashes of model names as underscores."""
    head, _, rest = name.partition(":")
    arguments = [part for part in rest.split(",") if part]
    values = dict(part.partition("=")[::2] for part in arguments)
    kept = [part for part in arguments if part.partition("=")[0] not in ("model", "model_deployment")]
    scenario = head + (":" + ",".join(kept) if kept else "")
    model = values.get("model", "").replace("_", "/", 1)
    return scenario, model, values.get("model_deployment", "").replace("_", "/", 1) or model


def told_reasons(suite_folder: Path) -> dict[str, str]:
    """Why runs of a suite have no results, by name, as far as it was kept."""
    try:
        told = json.loads((suite_folder / FAILURES).read_text(encoding="utf-8"))
        return {str(name): str(reason) for name, reason in told.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _fill(run: HelmRun) -> None:
    spec = _load(run.folder / "run_spec.json")
    adapter = spec["adapter_spec"]
    run.model = str(adapter["model"])
    run.deployment = str(adapter.get("model_deployment") or run.model)
    run.scenario = _parts(str(spec["name"]))[0]
    instances: dict[str, HelmInstance] = {}
    _add_outputs(_load(run.folder / "scenario_state.json"), instances)
    _add_scores(_load(run.folder / "per_instance_stats.json"), instances)
    run.instances = [one for one in instances.values() if one.scores]
    run.means = {
        (stat["name"]["name"], stat["name"].get("split", "")): float(stat["mean"])
        for stat in _load(run.folder / "stats.json")
        if _is_clean(stat) and "mean" in stat
    }


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _is_clean(stat: Mapping[str, Any]) -> bool:
    """Whether a figure belongs to the unperturbed instances of a whole split."""
    name = stat["name"]
    return "perturbation" not in name and "sub_split" not in name


def _add_outputs(state: Mapping[str, Any], instances: dict[str, HelmInstance]) -> None:
    for request in state["request_states"]:
        instance = request["instance"]
        if "perturbation" in instance:
            continue
        key = str(instance["id"])
        if key in instances:
            instances[key].prompt_truncated |= bool(request.get("prompt_truncated"))
            continue
        completions = request["result"]["completions"]
        first = completions[0] if completions else {}
        instances[key] = HelmInstance(
            key,
            str(instance.get("split", "")),
            output=str(first.get("text", "")),
            references=" | ".join(_correct(instance)),
            prompt_truncated=bool(request.get("prompt_truncated")),
            finish_reason=str((first.get("finish_reason") or {}).get("reason", "")),
        )


def _correct(instance: Mapping[str, Any]) -> Iterator[str]:
    for reference in instance.get("references", ()):
        if "correct" in reference.get("tags", ()):
            yield str(reference["output"]["text"])


def _add_scores(stats: Any, instances: dict[str, HelmInstance]) -> None:
    sums: dict[tuple[str, str], list[float]] = {}
    trials: dict[str, set[int]] = {}
    for entry in stats:
        if "perturbation" in entry:
            continue
        key = str(entry["instance_id"])
        trials.setdefault(key, set()).add(int(entry.get("train_trial_index", 0)))
        for stat in entry["stats"]:
            metric = stat["name"]["name"]
            if metric in BOOKKEEPING or not _is_clean(stat) or "mean" not in stat:
                continue
            value = float(stat["mean"])
            if math.isfinite(value):
                sums.setdefault((key, metric), []).append(value)
    for (key, metric), values in sums.items():
        instances[key].scores[metric] = sum(values) / len(values)
    for key, seen in trials.items():
        if key in instances:
            instances[key].trials = len(seen)


# ``helm_*.csv``: HELM's runs, its metrics with intervals over instances, and its instances.
#
# HELM gives no intervals. Its instances are the units, repeated trials averaged within them first.


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
