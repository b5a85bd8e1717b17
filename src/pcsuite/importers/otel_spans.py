"""OpenTelemetry spans of generative AI (OTLP as JSON) with evaluation results, by the semantic conventions.

A span whose attributes begin with ``gen_ai.`` is an answer; events ``gen_ai.evaluation.result`` on it, or log records
of that name which refer to it, carry its scores. The conventions name no item: ``--item`` says which attribute does,
and without it the recorded input is the item.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite.errors import ConfigError, DataError
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
    short_name,
)

_RESULT = "gen_ai.evaluation.result"
_NAME, _VALUE, _LABEL = (
    "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.value",
    "gen_ai.evaluation.score.label",
)
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "input.value")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "output.value")
_MODELS = ("gen_ai.request.model", "gen_ai.response.model")
_ERROR = 2
"""``STATUS_CODE_ERROR`` of a span."""


class OtelFormat:
    """Spans of OTLP as JSON: one document, or one a line as the collector's file exporter writes them."""

    def recognises(self, shape: FileShape) -> bool:
        """By the envelope of OTLP and the prefix of the conventions."""
        return (shape.has("resourceSpans") or shape.has("resourceLogs")) and b'"gen_ai.' in shape.head

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the spans of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each model, and for each value of the arm's attribute where one is named."""
        document = FileShape.of(path).document
        records = [document] if isinstance(document, dict) else read_records(path)
        spans, logged = [], []
        for record in records:
            spans += list(_entries(as_mapping(record), "resourceSpans", "scopeSpans", "spans"))
            logged += list(_entries(as_mapping(record), "resourceLogs", "scopeLogs", "logRecords"))
        answers = [
            (span, attributes)
            for span, attributes in spans
            if any(key.startswith("gen_ai.") for key in attributes)
        ]
        if not answers:
            raise DataError(f"{path}: no span has an attribute of generative AI ('gen_ai.…')")
        results = _results(answers, logged)
        groups: dict[tuple[str, str], list[ImportedSample]] = {}
        epochs: Counter[tuple[str, str, str]] = Counter()
        for span, attributes in answers:
            scores = results.get(str(span.get("spanId")), {})
            failed = as_mapping(span.get("status")).get("code") in (_ERROR, "STATUS_CODE_ERROR")
            if not scores and not failed:
                continue  # a step of a program that nobody evaluated
            name = _item_name(attributes, options, path, span)
            model = options.model or next(
                (str(attributes[key]) for key in _MODELS if key in attributes), UNKNOWN
            )
            arm = str(attributes.get(options.arm, "")) if options.arm else ""
            epochs[model, arm, name] += 1
            sample = _sample(span, attributes, name, epochs[model, arm, name], scores, failed=failed)
            groups.setdefault((model, arm), []).append(sample)
        if not groups:
            raise DataError(f"{path}: no span has an evaluation result (event '{_RESULT}')")
        return [_evaluation(model, arm, samples, path) for (model, arm), samples in groups.items()]


FORMAT = OtelFormat()


def _entries(
    document: Mapping[str, Any], outer: str, scopes: str, inner: str
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Spans or log records with their attributes, those of their resource below."""
    for resource in document.get(outer) or []:
        about = _attributes(as_mapping(as_mapping(resource).get("resource")).get("attributes"))
        for scope in as_mapping(resource).get(scopes) or []:
            for entry in as_mapping(scope).get(inner) or []:
                yield as_mapping(entry), {**about, **_attributes(as_mapping(entry).get("attributes"))}


def _attributes(listed: object) -> dict[str, Any]:
    """Attributes of OTLP, a list of keys with typed values, as a mapping."""
    pairs = listed if isinstance(listed, list) else []
    return {str(as_mapping(pair).get("key")): _plain(as_mapping(pair).get("value")) for pair in pairs}


def _plain(value: object) -> Any:
    """A typed value of OTLP's JSON; whole numbers come as text there."""
    for kind, held in as_mapping(value).items():
        if kind == "intValue":
            return int(held)
        if kind == "arrayValue":
            return [_plain(entry) for entry in as_mapping(held).get("values") or []]
        if kind == "kvlistValue":
            return _attributes(as_mapping(held).get("values"))
        return held
    return None


def _results(
    answers: Sequence[tuple[Mapping[str, Any], dict[str, Any]]],
    logged: Sequence[tuple[Mapping[str, Any], dict[str, Any]]],
) -> dict[str, dict[str, float | str | None]]:
    """Evaluation results by the id of their span: a number, or the label where there is none."""
    results: dict[str, dict[str, float | str | None]] = {}

    def add(span: str, attributes: Mapping[str, Any]) -> None:
        number = as_number(attributes.get(_VALUE))
        label = attributes.get(_LABEL)
        known = number if number is not None else None if label is None else str(label)
        results.setdefault(span, {})[str(attributes.get(_NAME) or "evaluation")] = known

    responses = {
        str(attributes["gen_ai.response.id"]): str(span.get("spanId"))
        for span, attributes in answers
        if "gen_ai.response.id" in attributes
    }
    for span, _ in answers:
        for event in span.get("events") or []:
            if as_mapping(event).get("name") == _RESULT:
                add(str(span.get("spanId")), _attributes(event.get("attributes")))
    for record, attributes in logged:
        if _RESULT in (record.get("eventName"), attributes.get("event.name")):
            by_response = responses.get(str(attributes.get("gen_ai.response.id")), "")
            add(str(record.get("spanId") or by_response), attributes)
    return results


def _item_name(
    attributes: Mapping[str, Any], options: ReadOptions, path: Path, span: Mapping[str, Any]
) -> str:
    if options.item:
        if options.item not in attributes:
            raise DataError(f"{path}: span {span.get('spanId')} has no attribute '{options.item}' (--item)")
        return short_name(as_text(attributes[options.item]))
    for key in _INPUTS:
        if key in attributes:
            return short_name(as_text(attributes[key]))
    raise ConfigError(
        f"{path}: span {span.get('spanId')} does not say what was asked, so nothing names its item",
        hint="--item ATTRIBUTE names the attribute that does",
    )


def _sample(
    span: Mapping[str, Any],
    attributes: Mapping[str, Any],
    name: str,
    epoch: int,
    scores: Mapping[str, float | str | None],
    *,
    failed: bool,
) -> ImportedSample:
    asked = next((as_text(attributes[key]) for key in _INPUTS if key in attributes), "")
    output = next((as_text(attributes[key]) for key in _OUTPUTS if key in attributes), None)
    reasons = attributes.get("gen_ai.response.finish_reasons")
    times = [span.get(key) for key in ("startTimeUnixNano", "endTimeUnixNano")]
    known_times = all(str(time).isdigit() for time in times)
    message = as_mapping(span.get("status")).get("message")
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps([name, asked], ensure_ascii=False),
        prompt=asked,
        text=output,
        answer=output,
        scores={key: value if isinstance(value, float) else None for key, value in scores.items()},
        finish_reason=str(reasons[0]) if isinstance(reasons, list) and reasons else "unknown",
        latency_ms=(int(str(times[1])) - int(str(times[0]))) / 1e6 if known_times else None,
        usage=counted_tokens(
            attributes.get("gen_ai.usage.input_tokens"), attributes.get("gen_ai.usage.output_tokens")
        ),
        error=str(message or attributes.get("error.type") or "error") if failed and not scores else None,
        unscored="no evaluation result of that name is a number",
        remarks=tuple(
            f"{key} is '{value}', no number" for key, value in scores.items() if isinstance(value, str)
        ),
        attributes=scalar_texts(attributes),
    )


def _evaluation(model: str, arm: str, samples: Sequence[ImportedSample], path: Path) -> SampleList:
    header = LogHeader(
        tool="otel",
        tool_version=UNKNOWN,
        source=path.stem,
        task="otel",
        split=UNKNOWN,
        model=model,
        measures=measures_of(samples),
        epochs=epochs_of(samples),
        condition=arm or None,
        fields={"file": path.stem, "arm": arm},
    )
    return SampleList(header, samples)
