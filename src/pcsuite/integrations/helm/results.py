"""What HELM left behind: finished runs read back, and tabled with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.table import Column, Table, TableSpec, estimate_columns, interval
from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, bootstrap_mean

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

TASKS: Mapping[str, tuple[str, str]] = {
    "truthful_qa": ("truthfulqa_mc", "exact_match"),
    "gsm": ("gsm8k", "final_number_exact_match"),
    "commonsense": ("csqa_json", "exact_match"),
    "boolq": ("boolq", "quasi_exact_match"),
}
"""By HELM scenario: our task on the same benchmark, and the metric HELM itself puts first."""
FIRST_METRICS = ("exact_match", "quasi_exact_match")
"""What is put first for any other scenario, as far as it has it."""
_RUN = (
    Column("suite", "HELM's suite", late=True),
    Column("scenario", "HELM's scenario"),
    Column("model", "id of the model"),
)
_TASK = Column("task", "our task on the same benchmark", shown=False)
RUNS = TableSpec(
    "helm_runs",
    "HELM's runs",
    "run of HELM's",
    (
        *_RUN,
        _TASK,
        Column("status", "complete or unfinished"),
        Column("reason", "why it is unfinished"),
        Column("instances", "instances asked"),
        Column("prompts_truncated", "instances whose prompt HELM cut"),
        Column("deployment", "HELM's name of the served model", shown=False),
    ),
)
METRICS = TableSpec(
    "helm_metrics",
    "All of HELM's metrics",
    "finished run, metric and split",
    (
        Column("suite", "HELM's suite", shown=False),
        *_RUN[1:],
        _TASK,
        Column("metric", "HELM's metric"),
        Column("main", "the one HELM puts first", shown=False),
        Column("split", "HELM's split"),
        *interval("value", "mean over instances, with our interval"),
        Column("interval", "how the interval was made", shown=False),
        Column("n_instances", "instances scored"),
        Column("helm_value", "the mean as HELM states it", shown=False),
    ),
)
INSTANCES = TableSpec(
    "helm_instances",
    "HELM's instances",
    "instance of a finished run; HELM's metrics follow as further columns",
    (
        *_RUN,
        Column("instance_id", "HELM's id"),
        Column("split", "HELM's split"),
        Column("trials", "times it was asked"),
        Column("output", "the model's text"),
        Column("correct_references", "what would have been right"),
        Column("finish_reason", "how the text ended"),
        Column("prompt_truncated", "HELM cut the prompt"),
    ),
)

Status = Literal["complete", "superseded", "unfinished"]
MetricKey = tuple[str, str]
"""A metric and the split it was computed on."""


@dataclass(slots=True)
class HelmInstance:
    """One instance of a run; repeated trials are averaged."""

    instance_id: str
    split: str
    trials: int = 0
    output: str = ""
    """What the model said at the first trial."""
    correct_references: str = ""
    """As HELM has them."""
    finish_reason: str = ""
    prompt_truncated: bool = False
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
    means: dict[MetricKey, float] = field(default_factory=dict)
    """HELM's own figures, from ``stats.json``."""

    def scores(self, metric: str, split: str) -> list[float]:
        """Values of a metric, one for each instance of the split that has it, in HELM's order.

        Empty where no instance of that split has the metric.
        """
        instances = [instance for instance in self.instances if instance.split == split]
        return [instance.scores[metric] for instance in instances if metric in instance.scores]

    @property
    def metrics(self) -> list[MetricKey]:
        """Every metric that instances have, with the split, in HELM's order."""
        return list(dict.fromkeys((metric, one.split) for one in self.instances for metric in one.scores))


def read_helm_runs(folder: Path) -> list[HelmRun]:
    """Every run below ``folder``: HELM's output, one of its suites, or a single run.

    The newest finished run of a scenario and model counts; older ones are superseded, and older unfinished
    attempts are left out. Raises :class:`~pcsuite.errors.AnalysisError` where there is no run at all.
    """
    if not folder.is_dir():
        raise AnalysisError(
            f"{folder} is not a folder", hint="give HELM's output folder, or one of its suites"
        )
    if any((folder / name).exists() for name in FILES):
        folders = [folder]
    else:
        has_suites = (folder / "runs").is_dir()
        suites = sorted((folder / "runs").iterdir()) if has_suites else [folder]
        folders = [
            path
            for suite in suites
            # HELM links its newest suite, whose runs would be read twice.
            if suite.is_dir() and not (has_suites and suite.is_symlink())
            for path in sorted(suite.iterdir())
            if path.is_dir() and path.name not in NOT_RUNS and "model=" in path.name
        ]
    runs = [_read_run(path) for path in folders]
    if not runs:
        raise AnalysisError(f"{folder} holds no HELM run", hint="run pcsuite helm, or name another folder")
    newest: dict[tuple[str, str], HelmRun] = {}
    for run in runs:
        key = (run.scenario, run.model)
        if run.status == "complete" and (key not in newest or run.finished > newest[key].finished):
            newest[key] = run
    current = []
    for run in runs:
        winner = newest.get((run.scenario, run.model))
        if run.status == "complete" and run is not winner:
            run.status, run.reason = "superseded", "a newer run of the same scenario and model counts"
        if run.status != "unfinished" or winner is None or run.finished >= winner.finished:
            current.append(run)
    return sorted(current, key=lambda run: (run.scenario, run.model, run.suite))


def _read_run(folder: Path) -> HelmRun:
    """One run; HELM makes its folder when it begins and fills it when it ends, so an empty one did not end."""
    scenario, model, deployment = _name_parts(folder.name)
    run = HelmRun(folder, folder.parent.name, folder.name, "unfinished", "", scenario, model, deployment)
    present = [folder / name for name in FILES if (folder / name).is_file()]
    run.finished = max(path.stat().st_mtime for path in [*present, folder])
    if len(present) < len(FILES):
        missing = ", ".join(name for name in FILES if not (folder / name).is_file())
        why = f"interrupted: it has no {missing}" if present else "no results: it was interrupted or failed"
        run.reason = failure_reasons(folder.parent).get(folder.name) or why
        return run
    try:
        files = (json.loads((folder / name).read_text(encoding="utf-8")) for name in FILES)
        spec = next(files)
        adapter = spec["adapter_spec"]
        run.model = str(adapter["model"])
        run.deployment = str(adapter.get("model_deployment") or run.model)
        run.scenario = _name_parts(str(spec["name"]))[0]
        stats, per_instance, state = files
        run.instances = _instances(state["request_states"], per_instance)
        clean = [(stat["name"], float(stat["mean"])) for stat in stats if _is_clean(stat)]
        run.means = {(name["name"], name.get("split", "")): mean for name, mean in clean}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        run.instances, run.means = [], {}
        why = f"{type(error).__name__}: {error}"
        run.reason = f"its files cannot be read ({why}): it was interrupted while writing"
        return run
    run.status, run.reason = (
        ("complete", "") if run.instances else ("unfinished", "no instance was evaluated")
    )
    return run


def _name_parts(name: str) -> tuple[str, str, str]:
    """Scenario, model and deployment from a run's name; HELM writes slashes of model names as underscores."""
    head, _, listed = name.partition(":")
    arguments = [part for part in listed.split(",") if part]
    values = dict(part.partition("=")[::2] for part in arguments)
    own_arguments = [
        part for part in arguments if part.partition("=")[0] not in ("model", "model_deployment")
    ]
    scenario = head + (":" + ",".join(own_arguments) if own_arguments else "")
    model = values.get("model", "").replace("_", "/", 1)
    return scenario, model, values.get("model_deployment", "").replace("_", "/", 1) or model


def failure_reasons(suite_folder: Path) -> dict[str, str]:
    """Why runs of a suite have no results, by name, as far as it was kept in ``pcsuite_failures.json``.

    Empty where no such file was kept, or it cannot be read: then the folders alone say which runs have no results.
    """
    try:
        reasons = json.loads((suite_folder / FAILURES).read_text(encoding="utf-8"))
        return {str(name): str(reason) for name, reason in reasons.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _is_clean(stat: Mapping[str, Any]) -> bool:
    """Whether a figure is a mean over the unperturbed instances of a whole split."""
    return "perturbation" not in stat["name"] and "sub_split" not in stat["name"] and "mean" in stat


def _instances(requests: Any, per_instance: Any) -> list[HelmInstance]:
    """What the model said to each instance and how it scored; instances without a score are left out."""
    instances: dict[str, HelmInstance] = {}
    for request in requests:
        instance, truncated = request["instance"], bool(request.get("prompt_truncated"))
        key = str(instance["id"])
        if "perturbation" in instance:
            continue
        if key in instances:
            instances[key].prompt_truncated |= truncated
            continue
        completions = request["result"]["completions"]
        first = completions[0] if completions else {}
        listed = instance.get("references", ())
        correct = [str(one["output"]["text"]) for one in listed if "correct" in one.get("tags", ())]
        instances[key] = HelmInstance(
            key,
            str(instance.get("split", "")),
            output=str(first.get("text", "")),
            correct_references=" | ".join(correct),
            finish_reason=str((first.get("finish_reason") or {}).get("reason", "")),
            prompt_truncated=truncated,
        )
    values: dict[tuple[str, str], list[float]] = {}
    trials: dict[str, set[int]] = {}
    for entry in per_instance:
        if "perturbation" in entry:
            continue
        key = str(entry["instance_id"])
        trials.setdefault(key, set()).add(int(entry.get("train_trial_index", 0)))
        for stat in entry["stats"]:
            metric = stat["name"]["name"]
            if metric not in BOOKKEEPING and _is_clean(stat) and math.isfinite(value := float(stat["mean"])):
                values.setdefault((key, metric), []).append(value)
    for (key, metric), trial_scores in values.items():
        instances[key].scores[metric] = sum(trial_scores) / len(trial_scores)
    for key, indices in trials.items():
        if key in instances:
            instances[key].trials = len(indices)
    return [instance for instance in instances.values() if instance.scores]


def helm_tables(runs: Sequence[HelmRun], names: Mapping[str, str]) -> list[Table]:
    """``helm_runs``, ``helm_metrics`` and ``helm_instances``; ``names`` gives our ids of HELM's model names.

    HELM gives no intervals, and ``count`` in its statistics is not a number of instances. Instances are the units here,
    repeated trials averaged within them first.
    """
    run_records: list[dict[str, Any]] = []
    metric_records: list[dict[str, Any]] = []
    instance_records: list[dict[str, Any]] = []
    scores: dict[str, None] = {}
    for run in runs:
        instance_of = {"suite": run.suite, "scenario": run.scenario, "model": names.get(run.model, run.model)}
        identity = instance_of | {"task": task_of(run.scenario)}
        truncated = sum(instance.prompt_truncated for instance in run.instances)
        outcome = {"status": run.status, "reason": run.reason, "deployment": run.deployment}
        counts = {"instances": len(run.instances), "prompts_truncated": truncated}
        run_records.append(identity | outcome | counts)
        if run.status != "complete":
            continue
        first = main_score(run)
        for metric, split in run.metrics:
            scores[metric] = None
            values = run.scores(metric, split)
            rng = named_rng("helm", run.scenario, run.model, metric, split)
            estimate = bootstrap_mean(values, rng=rng, resamples=LEVEL_RESAMPLES)
            figures = {
                "metric": metric,
                "main": (metric, split) == first,
                "split": split,
                **estimate_columns("value", estimate),
                "interval": estimate.method,
                "n_instances": len(values),
                "helm_value": run.means.get((metric, split)),
            }
            metric_records.append(identity | figures)
        for instance in run.instances:
            fields = asdict(instance)
            scored = fields.pop("scores")
            instance_records.append(instance_of | fields | scored)
    return [
        Table.of(RUNS, run_records),
        Table.of(METRICS, metric_records),
        Table.of(INSTANCES.extended(Column(metric, "HELM's metric") for metric in scores), instance_records),
    ]


def task_of(scenario: str) -> str:
    """Our task on the scenario's benchmark, or an empty text.

    task_of("gsm") == "gsm8k" and task_of("mmlu:subject=anatomy") == ""
    """
    name = scenario.partition(":")[0]
    if name == "commonsense" and "dataset=commonsenseqa" not in scenario:
        return ""
    return TASKS.get(name, ("", ""))[0]


def main_score(run: HelmRun) -> MetricKey | None:
    """The metric HELM puts first for the scenario, on the split it puts first: the test split where there is one.

    ``None`` for a run without scores.
    """
    splits = list(dict.fromkeys(split for _, split in run.metrics))
    split = "test" if "test" in splits else next(iter(splits), "")
    present = [metric for metric, on in run.metrics if on == split]
    helms_metric = TASKS.get(run.scenario.partition(":")[0], ("", ""))[1]
    first = next((metric for metric in (helms_metric, *FIRST_METRICS, *present) if metric in present), None)
    return None if first is None else (first, split)
