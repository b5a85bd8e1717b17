"""Evaluations of MLflow: traces with assessments, and the table of the older ``mlflow.models.evaluate``.

``mlflow.genai.evaluate`` keeps its scores as assessments of traces: a file of ``Trace.to_json`` lines, or the table
that ``search_traces`` or ``result_df`` give as JSON records. ``eval_results_table.json`` has columns and rows, and
scores in columns that end in ``/score``. None of them has the figures that MLflow reports over the whole run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite._util.text import read_json
from pcsuite.errors import ConfigError, DataError
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
    quoted_names,
    read_document,
    read_records,
    scalar_texts,
    short_name,
)

_TRUTH = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""MLflow's built-in judges answer yes or no, and its own means count them so."""
_SCORE = "/score"
_TABLE_LATER = frozenset({"outputs", "predictions"})


class MlflowFormat:
    """MLflow's evaluations."""

    def recognises(self, shape: FileShape) -> bool:
        """By the words of a trace with assessments, or by a table with columns that end in ``/score``."""
        if shape.has("trace_id", "assessments"):
            return True
        document = as_mapping(shape.document)
        columns = document.get("columns")
        return (
            isinstance(columns, list)
            and "data" in document
            and any(str(name).endswith(_SCORE) for name in columns)
        ) or any("mlflow" in key for key in shape.keys if shape.has("trace_id", "trace"))

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the evaluations of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each run whose traces a file has, or the one of a table."""
        if isinstance(as_mapping(FileShape.of(path).document).get("columns"), list):
            return [_tabled(read_document(path), path, options)]
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for number, record in enumerate(read_records(path), start=1):
            trace = _trace_of(record, f"{path}: record {number}")
            metadata = as_mapping(trace["info"].get("trace_metadata"))
            runs.setdefault(str(metadata.get("mlflow.sourceRun") or ""), []).append(trace)
        if not runs:
            raise DataError(f"{path}: no trace in it")
        return [_evaluation(run, traces, path, options, alone=len(runs) == 1) for run, traces in runs.items()]


FORMAT = MlflowFormat()


def _trace_of(record: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The trace of a record: the record itself, or the JSON in its column ``trace``."""
    held = record.get("trace")
    try:
        trace = record if "info" in record else read_json(held) if isinstance(held, str) else held
    except ValueError as error:
        raise DataError(f"{where}: the trace is no JSON ({error})") from error
    if not isinstance(as_mapping(trace).get("info"), dict):
        raise DataError(f"{where}: no trace of MLflow (no 'info', and no 'trace' with one)")
    return as_mapping(trace)


def _evaluation(
    run: str, traces: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions, *, alone: bool
) -> SampleList:
    in_order = sorted(traces, key=lambda trace: str(trace["info"].get("request_time") or ""))
    asked = [(trace, _root_value(trace, "mlflow.spanInputs", "mlflow.traceInputs")) for trace in in_order]
    samples = [
        _sample(trace, name, content, epoch)
        for (trace, content), name, epoch in by_epoch(asked, lambda entry: short_name(_readable(entry[1])))
    ]
    header = LogHeader(
        tool="mlflow",
        tool_version=UNKNOWN,
        source=run or path.stem,
        task="mlflow",
        split=UNKNOWN,
        model=options.model or UNKNOWN,
        measures=measures_of(samples),
        epochs=epochs_of(samples),
        condition=None if alone else run or None,
        created=min(str(trace["info"].get("request_time") or "") for trace in traces),
        fields={"run": run, "file": path.stem},
    )
    return SampleList(header, samples)


def _root_value(trace: Mapping[str, Any], attribute: str, shortened: str) -> str:
    """Inputs or outputs of a trace as JSON: whole from its root span, else as its header keeps them, cut."""
    spans = as_mapping(trace.get("data")).get("spans")
    for span in spans if isinstance(spans, list) else []:
        if not as_mapping(span).get("parent_span_id") and attribute in as_mapping(span.get("attributes")):
            return as_text(span["attributes"][attribute])
    return as_text(as_mapping(trace["info"].get("trace_metadata")).get(shortened) or "")


def _readable(value: str) -> str:
    """JSON of one text as that text, of an object with one key as its value; else as it is."""
    try:
        held = read_json(value)
    except ValueError:
        return value
    if isinstance(held, dict) and len(held) == 1:
        held = next(iter(held.values()))
    return as_text(held)


def _sample(trace: Mapping[str, Any], name: str, content: str, epoch: int) -> ImportedSample:
    info = trace["info"]
    scores: dict[str, float | None] = {}
    problems, unmapped, expected = [], {}, {}
    for entry in info.get("assessments") or []:
        label = str(entry.get("assessment_name") or "assessment")
        if "expectation" in entry:
            expected[label] = as_mapping(entry["expectation"]).get("value")
            continue
        if entry.get("valid") is False:  # replaced by a later one
            continue
        feedback = as_mapping(entry.get("feedback"))
        value = feedback.get("value")
        number = as_number(value)
        if number is None and isinstance(value, str):
            number = _TRUTH.get(value.casefold())
            if number is None:
                unmapped[label] = value
        scores[label] = number
        if error := as_mapping(feedback.get("error")):
            problems.append(f"{label}: {error.get('error_message') or error.get('error_code')}")
    output = _readable(_root_value(trace, "mlflow.spanOutputs", "mlflow.traceOutputs"))
    inputs = as_mapping(_value(content))
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps([content, expected], sort_keys=True, ensure_ascii=False),
        prompt=content,
        text=output,
        answer=output,
        scores=scores,
        latency_ms=_milliseconds(info),
        error="the traced call ended in an error" if info.get("state") == "ERROR" else None,
        unscored="; ".join(problems) or "no assessment of that name is a number",
        remarks=tuple(f"{label} is '{text}', no number" for label, text in unmapped.items()),
        attributes=scalar_texts({**as_mapping(info.get("tags")), **inputs}),
    )


def _value(text: str) -> object:
    try:
        return read_json(text)
    except ValueError:
        return text


def _milliseconds(info: Mapping[str, Any]) -> float | None:
    duration = info.get("execution_duration_ms")
    if duration is None and str(info.get("execution_duration", "")).endswith("s"):
        try:
            return float(str(info["execution_duration"])[:-1]) * 1000
        except ValueError:
            return None
    return as_number(duration)


def _tabled(document: Mapping[str, Any], path: Path, options: ReadOptions) -> SampleList:
    """The evaluation of an ``eval_results_table.json``."""
    columns = [str(name) for name in document["columns"]]
    measures = [name.removesuffix(_SCORE) for name in columns if name.endswith(_SCORE)]
    if not measures:
        raise DataError(f"{path}: no column ends in '{_SCORE}'")
    asked = [name for name in columns if "/" not in name and name not in _TABLE_LATER]
    item = options.item or (asked[0] if len(asked) == 1 else "")
    if item not in columns:
        listed = quoted_names(asked)
        raise ConfigError(f"{path}: which column names the item? There are {listed}", hint="--item COL")
    rows = []
    for number, cells in enumerate(document.get("data") or [], start=1):
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise DataError(f"{path}: row {number} has another number of cells than there are columns")
        rows.append(dict(zip(columns, cells, strict=True)))
    samples = [
        ImportedSample(
            item_id=name,
            epoch=epoch,
            content=as_text(row[item]),
            prompt=as_text(row[item]),
            text=None,
            answer=None,
            scores={measure: as_number(row[measure + _SCORE]) for measure in measures},
            attributes=scalar_texts(row),
        )
        for row, name, epoch in by_epoch(rows, lambda row: short_name(as_text(row[item])))
    ]
    header = LogHeader(
        tool="mlflow",
        tool_version=UNKNOWN,
        source=path.stem,
        task="mlflow",
        split=UNKNOWN,
        model=options.model or UNKNOWN,
        measures=tuple(measures),
        epochs=epochs_of(samples),
        fields={"file": path.stem},
    )
    return SampleList(header, samples)
