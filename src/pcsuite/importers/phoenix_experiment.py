"""Experiments of Arize Phoenix, as its interface and ``GET /v1/experiments/ID/json`` give them, read without it.

The file is a list of runs: a dataset's example, a repetition, the task's output or error, and annotations with a score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.errors import DataError
from pcsuite.importers.base import (
    UNKNOWN,
    ImportedSample,
    LogHeader,
    ReadOptions,
    SampleList,
    epochs_of,
    measures_of,
)
from pcsuite.importers.shapes import FileShape, matching_files
from pcsuite.importers.values import (
    as_mapping,
    as_number,
    as_text,
    counted_tokens,
    read_records,
    scalar_texts,
    unread_remark,
)

_RUN_KEYS = frozenset({
    "example_id", "repetition_number", "input", "reference_output", "output", "error", "latency_ms", "start_time",
    "end_time", "trace_id", "prompt_token_count", "completion_token_count", "annotations", "metadata",
})  # fmt: skip


class PhoenixFormat:
    """Phoenix's experiments."""

    def recognises(self, shape: FileShape) -> bool:
        """By the words of a run."""
        return shape.has("example_id", "repetition_number", "annotations", "reference_output")

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the experiments of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """The one evaluation of an experiment."""
        runs = read_records(path)
        for number, run in enumerate(runs, start=1):
            if not run.get("example_id") or not isinstance(run.get("annotations"), list):
                raise DataError(f"{path}: run {number} has no 'example_id' or no list 'annotations'")
        if not runs:
            raise DataError(f"{path}: no run in it")
        samples = [_sample(run) for run in runs]
        unread = [key for run in runs for key in run if key not in _RUN_KEYS]
        header = LogHeader(
            tool="phoenix",
            tool_version=UNKNOWN,
            source=path.stem,
            task="phoenix",
            split=UNKNOWN,
            model=options.model or UNKNOWN,
            measures=measures_of(samples),
            epochs=epochs_of(samples),
            created=min((str(run.get("start_time") or "") for run in runs), default=""),
            fields={"file": path.stem},
            remarks=unread_remark(unread),
        )
        return [SampleList(header, samples)]


FORMAT = PhoenixFormat()


def _sample(run: Mapping[str, Any]) -> ImportedSample:
    scores: dict[str, float | None] = {}
    problems = []
    for annotation in run["annotations"]:
        name = str(as_mapping(annotation).get("name") or "annotation")
        scores[name] = as_number(annotation.get("score"))
        if annotation.get("error"):
            problems.append(f"{name}: {annotation['error']}")
    output, repetition = run.get("output"), run.get("repetition_number")
    return ImportedSample(
        item_id=str(run["example_id"]),
        epoch=repetition if isinstance(repetition, int) and repetition > 0 else 1,
        content=json.dumps(
            [run.get("input"), run.get("reference_output")], sort_keys=True, ensure_ascii=False
        ),
        prompt=as_text(run.get("input")),
        text=None if output is None else as_text(output),
        answer=None if output is None else as_text(output),
        scores=scores,
        latency_ms=as_number(run.get("latency_ms")),
        usage=counted_tokens(run.get("prompt_token_count"), run.get("completion_token_count")),
        error=as_text(run["error"]) if run.get("error") else None,
        unscored="; ".join(problems) or "no annotation of that name has a score",
        attributes=scalar_texts({**as_mapping(run.get("metadata")), **as_mapping(run.get("input"))}),
    )
