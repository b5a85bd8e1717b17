"""Test runs of deepeval (``DEEPEVAL_RESULTS_FOLDER``, ``.deepeval/.latest_run_full.json``), read without that package.

A test run has test cases with the score of every metric. A case is known by its input and expected output: its name
counts places. A metric that ended in an error left the case unscored by it, as in the tool's own figures.
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
    scalar_texts,
    short_name,
    unread_remark,
)

PASS = "pass"
_CASE_KEYS = frozenset({
    "name", "input", "actualOutput", "expectedOutput", "context", "retrievalContext", "toolsCalled", "expectedTools",
    "success", "metricsData", "runDuration", "order", "additionalMetadata", "metadata", "comments", "tags", "flaky",
    "evaluationCost", "tokenCost", "completionTime", "trace", "turns", "imagesMapping", "multimodalInput",
    "multimodalInputActualOutput", "multimodalExpectedOutput", "multimodalRetrievalContext", "multimodalContext",
    "customColumnKeyValues", "mcpServers", "traceUuid",
})  # fmt: skip
_RUN_KEYS = frozenset({
    "testCases", "conversationalTestCases", "metricsScores", "traceMetricsScores", "hyperparameters", "prompts",
    "testPassed", "testFailed", "runDuration", "evaluationCost", "identifier", "testFile", "datasetAlias", "datasetId",
    "deployment", "official", "configurations",
})  # fmt: skip


class DeepevalFormat:
    """deepeval's test runs."""

    def recognises(self, shape: FileShape) -> bool:
        """By the words of a test case."""
        return shape.has("testCases", "metricsData", "actualOutput")

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the test runs of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """The one evaluation of a test run."""
        document = read_document(path)
        cases = document.get("testCases")
        if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
            hint = "deepeval writes one to the folder that DEEPEVAL_RESULTS_FOLDER names"
            raise DataError(f"{path}: not a test run of deepeval (no list 'testCases')", hint=hint)
        if not cases:
            raise DataError(f"{path}: the test run has no test case", hint="conversations are not read")
        return [_evaluation(document, cases, path, options)]


FORMAT = DeepevalFormat()


def _evaluation(
    document: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions
) -> SampleList:
    samples = [_sample(case, name, epoch) for case, name, epoch in by_epoch(cases, _item_name)]
    settings = as_mapping(document.get("hyperparameters"))
    unread = [key for key in document if key not in _RUN_KEYS]
    unread += [f"testCases.{key}" for case in cases for key in case if key not in _CASE_KEYS]
    conversations = document.get("conversationalTestCases")
    remarks = unread_remark(unread)
    if isinstance(conversations, list) and conversations:
        remarks += (f"{len(conversations)} conversations are not read: only single-turn cases are",)
    model = settings.get("model")
    return SampleList(
        LogHeader(
            tool="deepeval",
            tool_version=UNKNOWN,
            source=str(document.get("identifier") or path.stem),
            task=short_name(str(document.get("datasetAlias") or document.get("testFile") or "deepeval")),
            split=UNKNOWN,
            model=options.model or (str(model) if isinstance(model, str) and model else UNKNOWN),
            measures=measures_of(samples),
            epochs=epochs_of(samples),
            reported=_reported(document),
            # With a single metric that is the score; a case passes where all of its metrics do.
            primary=PASS,
            ranges={PASS: (0.0, 1.0)},
            fields={"hyperparameters": dict(settings), "file": path.stem},
            remarks=remarks,
        ),
        samples,
    )


def _item_name(case: Mapping[str, Any]) -> str:
    question, expected = as_text(case.get("input") or ""), case.get("expectedOutput")
    return short_name(question if expected is None else f"{question} → {as_text(expected)}")


def _sample(case: Mapping[str, Any], name: str, epoch: int) -> ImportedSample:
    listed = case.get("metricsData")
    scores: dict[str, float | None] = {}
    errors = []
    for metric in listed if isinstance(listed, list) else []:
        label = str(metric.get("name") or "metric")
        scores[f"metric {PASS}" if label == PASS else label] = as_number(metric.get("score"))
        if metric.get("error"):
            errors.append(f"{label}: {metric['error']}")
    # Where a metric could not be computed nobody knows whether the case would have passed; the tool calls it failed.
    scores[PASS] = None if errors else as_number(case.get("success"))
    answer = case.get("actualOutput")
    metadata = as_mapping(case.get("additionalMetadata")) or as_mapping(case.get("metadata"))
    seconds = as_number(case.get("completionTime"))
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps([case.get("input"), case.get("expectedOutput")], ensure_ascii=False),
        prompt=as_text(case.get("input") or ""),
        text=None if answer is None else as_text(answer),
        answer=None if answer is None else as_text(answer),
        scores=scores,
        latency_ms=None if seconds is None else seconds * 1000,
        cost_usd=as_number(case.get("tokenCost")),
        unscored="; ".join(errors) or "no number in the test run",
        attributes=scalar_texts(metadata),
    )


def _reported(document: Mapping[str, Any]) -> dict[str, float]:
    """The tool's own figures: the mean of the scores that it lists for each metric, and its pass rate.

    The pass rate counts a case whose metric failed as failed: it is ours only where none did.
    """
    reported = {}
    errors = 0.0
    listed = document.get("metricsScores")
    for entry in listed if isinstance(listed, list) else []:
        values = [as_number(score) for score in entry.get("scores") or []]
        numbers = [value for value in values if value is not None]
        errors += as_number(entry.get("errors")) or 0.0
        if numbers and len(numbers) == len(values):
            name = str(entry.get("metric"))
            reported[f"metric {PASS}" if name == PASS else name] = sum(numbers) / len(numbers)
    passed, failed = as_number(document.get("testPassed")), as_number(document.get("testFailed"))
    if passed is not None and failed is not None and passed + failed and not errors:
        reported[PASS] = passed / (passed + failed)
    return reported
