"""Results of promptfoo: ``-o results.json``, ``-o results.jsonl`` and ``promptfoo export eval``, read without it.

A file has a result for every test, prompt, provider and repetition. Each prompt under each provider is an evaluation
of its own. A test has no id that outlasts an edit of the configuration (``testIdx`` counts places), so that an item is
known by its variables; results with the same ones are repetitions (``--repeat``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

from pcsuite._util.append import read_lines
from pcsuite._util.hashing import sha256_hex
from pcsuite.errors import DataError
from pcsuite.importers.base import (
    UNKNOWN,
    ImportedSample,
    LogHeader,
    ReadOptions,
    SampleList,
    by_epoch,
    epochs_of,
)
from pcsuite.importers.shapes import FileShape, matching_files
from pcsuite.importers.values import (
    as_mapping,
    as_number,
    as_text,
    counted_tokens,
    decode_json,
    read_document,
    scalar_texts,
    short_name,
    unread_remark,
)

PASS, SCORE = "pass", "score"
_FAILED_CALL = 2
"""``failureReason`` of a result whose call or assertion ended in an error; 1 is an assertion that did not hold."""
_RESULT_KEYS = frozenset({
    "cost", "description", "error", "evalId", "failureReason", "gradingResult", "id", "latencyMs", "metadata",
    "namedScores", "prompt", "promptId", "promptIdx", "provider", "response", "score", "success", "testCase",
    "testIdx", "tokenUsage",
    "vars", "createdAt", "updatedAt", "persisted", "pluginId",
})  # fmt: skip
_DOCUMENT_KEYS = frozenset({
    "evalId", "results", "config", "shareableUrl", "metadata", "vars", "runtimeOptions", "author", "createdAt",
    "datasetId", "description", "id", "prompts", "relationships",
})  # fmt: skip
_OF_A_SESSION = ("sessionId",)
"""Variables that promptfoo puts in anew at each run."""


class PromptfooFormat:
    """promptfoo's results files."""

    def recognises(self, shape: FileShape) -> bool:
        """By the keys of a result; ``testIdx`` and ``gradingResult`` are promptfoo's own words."""
        return not shape.is_zip and shape.has("promptIdx", "testIdx") and shape.has("success", "vars")

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the JSON files of a folder that are results."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each prompt under each provider."""
        document, results = _read(path)
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for result in results:
            groups.setdefault(_evaluation_of(result), []).append(result)
        if not groups:
            raise DataError(f"{path}: no results in it", hint="did the evaluation end?")
        return [_evaluation(document, listed, path, options) for listed in groups.values()]


FORMAT = PromptfooFormat()


def _read(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The document around the results, empty for JSON lines, and the results."""
    if path.suffix.lower() == ".jsonl":
        with closing(read_lines(path)) as lines:
            return {}, [
                decode_json(line, dict[str, Any], f"{path}:{number}: not a result of promptfoo")
                for number, line in enumerate(lines, start=1)
                if line.strip()
            ]
    document = read_document(path)
    results = as_mapping(document.get("results")).get("results")
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        hint = "promptfoo eval -o results.json writes one"
        raise DataError(f"{path}: not a results file of promptfoo (no list 'results.results')", hint=hint)
    return document, results


def _evaluation_of(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the results of one prompt under one provider have in common."""
    provider, prompt = _provider(result), as_mapping(result.get("prompt"))
    # Files of before version 3 do not number the prompts.
    return (result.get("promptIdx"), provider, prompt.get("label"))


def _provider(result: Mapping[str, Any]) -> str:
    provider = result.get("provider")
    if isinstance(provider, Mapping):
        return str(provider.get("label") or provider.get("id") or "")
    return str(provider or "")


def _evaluation(
    document: Mapping[str, Any], results: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions
) -> SampleList:
    first = results[0]
    whole, config = as_mapping(document.get("results")), as_mapping(document.get("config"))
    about = as_mapping(document.get("metadata"))
    prompts, index = whole.get("prompts"), first.get("promptIdx")
    template: Mapping[str, Any] = {}
    if isinstance(prompts, list) and isinstance(index, int) and 0 <= index < len(prompts):
        template = as_mapping(prompts[index])
    label = str(template.get("label") or as_mapping(first.get("prompt")).get("label") or "")
    provider = _provider(first)
    named = dict.fromkeys(name for result in results for name in as_mapping(result.get("namedScores")))
    measures = {PASS: None, SCORE: None} | {_measure(name): None for name in named}
    samples = _samples(results, path)
    created = str(about.get("evaluationCreatedAt") or whole.get("timestamp") or "")
    settings = _settings(config, first)
    unread = [key for key in document if key not in _DOCUMENT_KEYS]
    unread += [f"results.{key}" for result in results for key in result if key not in _RESULT_KEYS]
    limit = settings.get("max_tokens")
    header = LogHeader(
        tool="promptfoo",
        tool_version=str(about.get("promptfooVersion") or UNKNOWN),
        source=str(document.get("evalId") or created or path.stem),
        task=short_name(str(config.get("description") or "promptfoo")),
        split=UNKNOWN,
        model=options.model or provider or UNKNOWN,
        measures=tuple(measures),
        temperature=as_number(settings.get("temperature")),
        top_p=as_number(settings.get("top_p")),
        max_tokens=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        epochs=epochs_of(samples),
        expected=_expected(template),
        condition=short_name(label) or None,
        created=created,
        reported=_reported(as_mapping(template.get("metrics"))),
        primary=PASS,
        ranges={PASS: (0.0, 1.0)},
        fields={
            "evalId": document.get("evalId"),
            "provider": provider,
            "prompt": {"label": label, "raw": template.get("raw"), "id": template.get("id"), "index": index},
            "config": dict(config),
        },
        remarks=unread_remark(unread),
    )
    return SampleList(header, samples)


def _measure(name: str) -> str:
    """The measure of a named score; an assertion's metric may well be called what the result's own figures are."""
    return f"metric {name}" if name in (PASS, SCORE) else name


def _settings(config: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The generation settings that the configuration gives the provider of a result."""
    listed = config.get("providers")
    provider = as_mapping(result.get("provider"))
    names = {str(provider.get(key)) for key in ("id", "label") if provider.get(key)}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, Mapping) and {str(entry.get("id")), str(entry.get("label"))} & names:
            return as_mapping(entry.get("config"))
    return {}


def _expected(template: Mapping[str, Any]) -> int | None:
    metrics = as_mapping(template.get("metrics"))
    counts = [metrics.get(f"test{kind}Count") for kind in ("Pass", "Fail", "Error")]
    return sum(counts) if all(isinstance(count, int) for count in counts) else None  # type: ignore[arg-type]


def _reported(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The tool's own figures as means over the results that were scored: it sums scores and counts passes."""
    passed, failed = as_number(metrics.get("testPassCount")), as_number(metrics.get("testFailCount"))
    if passed is None or failed is None or not passed + failed:
        return {}
    reported = {PASS: passed / (passed + failed)}
    total = as_number(metrics.get("score"))
    if total is not None:
        reported[SCORE] = total / (passed + failed)
    counts, weights = as_mapping(metrics.get("namedScoresCount")), metrics.get("namedScoreWeights")
    for name, value in as_mapping(metrics.get("namedScores")).items():
        count, figure = as_number(counts.get(name)), as_number(value)
        # Assertions of unequal weight make a weighted sum, which is the mean of no sample's figure.
        weighted = isinstance(weights, Mapping) and as_number(weights.get(name)) != count
        if count and figure is not None and not weighted:
            reported[_measure(name)] = figure / count
    return reported


def _samples(results: Sequence[Mapping[str, Any]], path: Path) -> list[ImportedSample]:
    for number, result in enumerate(results, start=1):
        if not isinstance(result.get("success"), bool):
            raise DataError(f"{path}: result {number} does not say whether it passed ('success')")
    named = zip(results, _item_names(results), strict=True)
    return [_sample(result, name, epoch) for (result, _), name, epoch in by_epoch(named, itemgetter(1))]


def _variables(result: Mapping[str, Any]) -> dict[str, Any]:
    variables = as_mapping(as_mapping(result.get("testCase")).get("vars")) or as_mapping(result.get("vars"))
    return {key: value for key, value in variables.items() if key not in _OF_A_SESSION}


def _item_names(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """What each result's test is called: its variables, and its assertions where only these tell tests apart."""
    labels, checks = [], []
    for result in results:
        test, variables = as_mapping(result.get("testCase")), _variables(result)
        label = "; ".join(
            as_text(value) if len(variables) == 1 else f"{key}={as_text(value)}"
            for key, value in variables.items()
        )
        # Without variables a test is known by its description, and by its place where it has none.
        labels.append(label or str(test.get("description") or f"test {result.get('testIdx')}"))
        checks.append(json.dumps(test.get("assert") or [], sort_keys=True, ensure_ascii=False))
    kinds: dict[str, set[str]] = {}
    for label, check in zip(labels, checks, strict=True):
        kinds.setdefault(label, set()).add(check)
    return [
        short_name(label) if len(kinds[label]) == 1 else f"{short_name(label)} [{sha256_hex(check)[:6]}]"
        for label, check in zip(labels, checks, strict=True)
    ]


def _sample(result: Mapping[str, Any], name: str, epoch: int) -> ImportedSample:
    response, grading = as_mapping(result.get("response")), as_mapping(result.get("gradingResult"))
    variables = _variables(result)
    reason = result.get("failureReason")
    failed = reason == _FAILED_CALL if reason is not None else bool(result.get("error")) and not grading
    scores = {
        PASS: as_number(result.get("success")),
        SCORE: as_number(result.get("score")),
        **{_measure(key): as_number(value) for key, value in as_mapping(result.get("namedScores")).items()},
    }
    output = response.get("output")
    tokens = as_mapping(response.get("tokenUsage")) or as_mapping(result.get("tokenUsage"))
    # A cached answer cost no tokens, and its numbers are those of another call.
    fresh = not tokens.get("cached") and tokens.get("total") != 0
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps(variables or name, sort_keys=True, ensure_ascii=False),
        prompt=as_text(as_mapping(result.get("prompt")).get("raw") or ""),
        text=None if output is None else as_text(output),
        answer=None if output is None else as_text(output),
        scores={} if failed else scores,
        finish_reason=str(response.get("finishReason") or "unknown"),
        latency_ms=as_number(result.get("latencyMs")),
        usage=counted_tokens(tokens.get("prompt"), tokens.get("completion")) if fresh else None,
        cost_usd=as_number(result.get("cost")),
        error=as_text(result.get("error") or "error without a message") if failed else None,
        attributes=scalar_texts(
            {
                **as_mapping(result.get("metadata")),
                **as_mapping(as_mapping(result.get("testCase")).get("metadata")),
                **variables,
            }
        ),
    )
