"""Traces of Langfuse with their scores, as its public API and exports give them.

Read are traces with whole scores (``GET /api/public/traces/ID``, one a line, in a list or under ``data``), and items of
an experiment that carry their trace's scores. A trace that belongs to a dataset item is known by that; any other by its
input. Scores that are categories are no numbers, and are named.
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
    by_epoch,
    epochs_of,
    measures_of,
)
from pcsuite.importers.shapes import FileShape, matching_files
from pcsuite.importers.values import (
    as_mapping,
    as_number,
    as_text,
    read_document,
    read_records,
    scalar_texts,
    short_name,
    unread_remark,
)

_TRACE_KEYS = frozenset({
    "id", "timestamp", "name", "input", "output", "sessionId", "release", "version", "userId", "metadata", "tags",
    "public", "environment", "htmlPath", "latency", "totalCost", "observations", "scores", "externalId", "createdAt",
    "updatedAt", "bookmarked", "projectId", "datasetItemId", "datasetRunId", "datasetRunName", "traceId",
    "observationId", "expectedOutput", "level", "statusMessage",
})  # fmt: skip


class LangfuseFormat:
    """Langfuse's traces with scores."""

    def recognises(self, shape: FileShape) -> bool:
        """By the words of a trace: ``htmlPath`` is Langfuse's own, as ``datasetRunName`` is."""
        return shape.has("scores", "input", "output") and (
            shape.has("htmlPath") or shape.has("datasetRunName") or shape.has("stringValue")
        )

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the exports of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each dataset run, or for each release of traces that belong to none."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for number, trace in enumerate(_traces(path), start=1):
            scores = trace.get("scores")
            if not isinstance(scores, list) or any(not isinstance(score, dict) for score in scores):
                raise DataError(
                    f"{path}: trace {number} has no whole scores, only their ids",
                    hint="export traces one by one (GET /api/public/traces/ID), which has them",
                )
            run = trace.get("datasetRunName") or trace.get("release") or trace.get("version") or ""
            groups.setdefault(str(run), []).append(trace)
        if not groups:
            raise DataError(f"{path}: no trace in it")
        return [_evaluation(run, traces, path, options) for run, traces in groups.items()]


FORMAT = LangfuseFormat()


def _traces(path: Path) -> list[Mapping[str, Any]]:
    document = FileShape.of(path).document
    if isinstance(document, dict) and "scores" not in document:
        listed = read_document(path).get("data")
        if not isinstance(listed, list) or not all(isinstance(trace, dict) for trace in listed):
            raise DataError(f"{path}: not an export of Langfuse (no list 'data')")
        return list(listed)
    return list(read_records(path)) if not isinstance(document, dict) else [document]


def _evaluation(
    run: str, traces: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions
) -> SampleList:
    in_order = sorted(traces, key=lambda trace: str(trace.get("timestamp") or ""))
    samples = [_sample(trace, name, epoch) for trace, name, epoch in by_epoch(in_order, _item_name)]
    header = LogHeader(
        tool="langfuse",
        tool_version=UNKNOWN,
        source=run or path.stem,
        task="langfuse",
        split=UNKNOWN,
        model=options.model or UNKNOWN,
        measures=measures_of(samples),
        epochs=epochs_of(samples),
        condition=short_name(run) or None,
        created=min(str(trace.get("timestamp") or "") for trace in traces),
        fields={"run": run, "file": path.stem},
        remarks=unread_remark(key for trace in traces for key in trace if key not in _TRACE_KEYS),
    )
    return SampleList(header, samples)


def _item_name(trace: Mapping[str, Any]) -> str:
    """The id of the data set's item, else the trace's input."""
    return str(trace.get("datasetItemId") or "") or short_name(as_text(trace.get("input")))


def _sample(trace: Mapping[str, Any], name: str, epoch: int) -> ImportedSample:
    scores: dict[str, float | None] = {}
    words = []
    # Of a score that was given twice the later one counts, as in the interface.
    for score in sorted(
        trace["scores"], key=lambda score: str(score.get("timestamp") or score.get("createdAt") or "")
    ):
        label, value = str(score.get("name") or "score"), score.get("value")
        scores[label] = as_number(value) if score.get("dataType") != "CATEGORICAL" else None
        if scores[label] is None:
            words.append(f"{label} is '{score.get('stringValue') or value}', no number")
    output, seconds = trace.get("output"), as_number(trace.get("latency"))
    failed = str(trace.get("level") or "") == "ERROR"
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps(
            [trace.get("input"), trace.get("expectedOutput")], sort_keys=True, ensure_ascii=False
        ),
        prompt=as_text(trace.get("input")),
        text=None if output is None else as_text(output),
        answer=None if output is None else as_text(output),
        scores=scores,
        latency_ms=None if seconds is None else seconds * 1000,
        cost_usd=as_number(trace.get("totalCost")),
        error=as_text(trace.get("statusMessage") or "error without a message") if failed else None,
        unscored="the trace has no score of that name",
        remarks=tuple(words),
        attributes=scalar_texts(
            {
                **as_mapping(trace.get("metadata")),
                **{key: trace.get(key) for key in ("sessionId", "userId", "environment") if trace.get(key)},
            }
        ),
        finished_at=str(trace.get("timestamp") or ""),
    )
