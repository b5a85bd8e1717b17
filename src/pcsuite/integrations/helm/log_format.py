"""HELM's run folders as logs to import: each instance of a finished run with every score of its per-instance file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pcsuite.errors import DataError
from pcsuite.importers.base import UNKNOWN, ImportedSample, LogHeader, ReadOptions, SampleList
from pcsuite.importers.shapes import FileShape
from pcsuite.integrations.helm.results import HelmRun, main_score, read_helm_runs

_PER_INSTANCE = "per_instance_stats.json"


class HelmFormat:
    """HELM's per-instance files, with what lies beside them."""

    def recognises(self, shape: FileShape) -> bool:
        """By the file's name and the words of an instance's figures."""
        return shape.path.name == _PER_INSTANCE and shape.has("instance_id", "stats")

    def find(self, path: Path) -> list[Path]:
        """The file itself, or those of every run below a folder."""
        return sorted(path.rglob(_PER_INSTANCE)) if path.is_dir() else [path]

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """The one evaluation of a run folder; one that is not finished is a :class:`DataError` with the reason."""
        if path.name != _PER_INSTANCE:
            raise DataError(
                f"{path}: not HELM's {_PER_INSTANCE}", hint="name a run's folder, or this file in it"
            )
        (run,) = read_helm_runs(path.parent)
        if run.status != "complete":
            raise DataError(f"{path.parent}: {run.reason}")
        return [SampleList(_header(run, options), [*_samples(run)])]


FORMAT = HelmFormat()


def _header(run: HelmRun, options: ReadOptions) -> LogHeader:
    first = main_score(run)
    measures = tuple(dict.fromkeys(metric for metric, _ in run.metrics))
    splits = {instance.split for instance in run.instances}
    # HELM's means are by split: of several there is none over all of them.
    reported = {metric: mean for (metric, split), mean in run.means.items() if splits == {split}}
    repeated = max(instance.trials for instance in run.instances)
    return LogHeader(
        tool="helm",
        tool_version=UNKNOWN,
        source=run.name,
        task=run.scenario,
        split=splits.pop() if len(splits) == 1 else UNKNOWN,
        model=options.model or run.model,
        measures=measures,
        reported={metric: mean for metric, mean in reported.items() if metric in measures},
        primary=first[0] if first is not None else None,
        fields={"suite": run.suite, "name": run.name, "deployment": run.deployment},
        remarks=(f"{repeated} trials an instance, averaged",) if repeated > 1 else (),
    )


def _samples(run: HelmRun) -> list[ImportedSample]:
    return [
        ImportedSample(
            item_id=instance.instance_id,
            epoch=1,
            content=json.dumps([instance.instance_id, instance.correct_references], ensure_ascii=False),
            prompt="",
            text=instance.output,
            answer=instance.output,
            scores=instance.scores,
            finish_reason=instance.finish_reason or "unknown",
            unscored="HELM has no figure of that name for the instance",
            attributes={"split": instance.split},
        )
        for instance in run.instances
    ]
