"""Evals of OpenAI: output items of the platform's runs, and record files of the open-source ``evals`` package.

The platform's items (``GET /evals/ID/runs/ID/output_items``, pages of it, or one a line) have a result for each grader.
A record file has a line for each event; the events ``match`` and ``metrics`` carry scores, ``sampling`` the answer, and
the line ``final_report`` what the package reports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    counted_tokens,
    read_document,
    read_records,
    scalar_texts,
    short_name,
    unread_remark,
)

_ITEM = "eval.run.output_item"
PASS = "pass"
_ITEM_KEYS = frozenset({
    "id", "created_at", "datasource_item", "datasource_item_id", "eval_id", "object", "results", "run_id", "sample",
    "status",
})  # fmt: skip
_EVENTS = frozenset({"match", "metrics", "sampling", "raw_sample", "error", "cond_logp", "pick_option", "embedding",
                     "function_call", "extra"})  # fmt: skip


class OpenaiEvalsFormat:
    """OpenAI's evals, of the platform and of the package."""

    def recognises(self, shape: FileShape) -> bool:
        """By the kind of object that the platform names, or by the words of the package's events."""
        return (shape.has("datasource_item", "eval_id", "results")) or shape.has(
            "completion_fns", "eval_name"
        )

    def find(self, path: Path) -> list[Path]:
        """The file itself, or the files of a folder."""
        return matching_files(path, self.recognises)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each run of the platform, or the one of a record file."""
        document = FileShape.of(path).document
        if isinstance(document, dict) and isinstance(document.get("data"), list):
            records = [as_mapping(item) for item in read_document(path)["data"]]
            if document.get("has_more"):
                raise DataError(
                    f"{path}: one page of several (has_more is true)",
                    hint="ask for every page, and put them together",
                )
        else:
            records = list(read_records(path))
        if any("spec" in record for record in records):
            return [_recorded(records, path, options)]
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for number, item in enumerate(records, start=1):
            if item.get("object") != _ITEM or not isinstance(item.get("results"), list):
                raise DataError(
                    f"{path}: record {number} is no output item of an eval's run ('object': '{_ITEM}')"
                )
            runs.setdefault(str(item.get("run_id") or ""), []).append(item)
        if not runs:
            raise DataError(f"{path}: no output item in it")
        return [_evaluation(run, items, path, options, alone=len(runs) == 1) for run, items in runs.items()]


FORMAT = OpenaiEvalsFormat()


def _evaluation(
    run: str, items: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions, *, alone: bool
) -> SampleList:
    samples = [_platform_sample(item, name, epoch) for item, name, epoch in by_epoch(items, _item_name)]
    first = as_mapping(items[0].get("sample"))
    limit = first.get("max_completion_tokens")
    header = LogHeader(
        tool="openai-evals",
        tool_version=UNKNOWN,
        source=run or path.stem,
        task=str(items[0].get("eval_id") or "openai-evals"),
        split=UNKNOWN,
        model=options.model or str(first.get("model") or UNKNOWN),
        measures=measures_of(samples),
        temperature=as_number(first.get("temperature")),
        top_p=as_number(first.get("top_p")),
        max_tokens=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        epochs=epochs_of(samples),
        condition=None if alone else run or None,
        created=str(min((item.get("created_at") or 0) for item in items)),
        primary=PASS,
        ranges={PASS: (0.0, 1.0)},
        fields={"run": run, "eval": items[0].get("eval_id"), "file": path.stem},
        remarks=unread_remark(key for item in items for key in item if key not in _ITEM_KEYS),
    )
    return SampleList(header, samples)


def _item_name(item: Mapping[str, Any]) -> str:
    """The number of the data source's item: the same in every run of an eval; its content where there is none."""
    number = item.get("datasource_item_id")
    return str(number) if number is not None else short_name(as_text(item.get("datasource_item")))


def _platform_sample(item: Mapping[str, Any], name: str, epoch: int) -> ImportedSample:
    sample = as_mapping(item.get("sample"))
    scores: dict[str, float | None] = {}
    passes = []
    for result in item["results"]:
        label = str(as_mapping(result).get("name") or "grader")
        scores[f"grader {PASS}" if label == PASS else label] = as_number(result.get("score"))
        passes.append(result.get("passed"))
    known = bool(passes) and all(isinstance(passed, bool) for passed in passes)
    scores[PASS] = float(all(passes)) if known else None
    error, usage = as_mapping(sample.get("error")), as_mapping(sample.get("usage"))
    output = _said(sample.get("output"))
    return ImportedSample(
        item_id=name,
        epoch=epoch,
        content=json.dumps(item.get("datasource_item"), sort_keys=True, ensure_ascii=False),
        prompt=_said(sample.get("input")) or "",
        text=output,
        answer=output,
        scores=scores,
        finish_reason=str(sample.get("finish_reason") or "unknown"),
        usage=counted_tokens(usage.get("prompt_tokens"), usage.get("completion_tokens")),
        error=str(error.get("message") or error.get("code") or "error without a message") if error else None,
        unscored="no grader of that name gave a number",
        attributes=scalar_texts(as_mapping(item.get("datasource_item"))),
    )


def _said(messages: object) -> str | None:
    """Messages as text; the content alone where there is one."""
    if not isinstance(messages, list) or not messages:
        return None
    texts = [(str(as_mapping(m).get("role") or ""), as_text(as_mapping(m).get("content"))) for m in messages]
    return texts[0][1] if len(texts) == 1 else "\n\n".join(f"{role}: {text}" for role, text in texts)


def _recorded(records: Sequence[Mapping[str, Any]], path: Path, options: ReadOptions) -> SampleList:
    """The evaluation of a record file of the package."""
    spec = next(as_mapping(record["spec"]) for record in records if "spec" in record)
    report = next((as_mapping(r["final_report"]) for r in records if "final_report" in r), {})
    events: dict[str, list[Mapping[str, Any]]] = {}
    kinds: Counter[str] = Counter()
    for record in records:
        if record.get("sample_id") is not None:
            events.setdefault(str(record["sample_id"]), []).append(record)
            kinds[str(record.get("type"))] += 1
    samples = [_recorded_sample(name, listed) for name, listed in events.items()]
    measures = measures_of(samples)
    if not measures:
        raise DataError(f"{path}: no event 'match' or 'metrics' has a score")
    functions = spec.get("completion_fns")
    model = str(functions[0]) if isinstance(functions, list) and functions else UNKNOWN
    accuracy = as_number(report.get("accuracy"))
    created = str(spec.get("created_at") or "")
    header = LogHeader(
        tool="openai-evals",
        tool_version=UNKNOWN,
        source=str(spec.get("run_id") or path.stem),
        task=str(spec.get("base_eval") or spec.get("eval_name") or "openai-evals"),
        split=str(spec.get("split") or UNKNOWN),
        model=options.model or model,
        measures=measures,
        created=created,
        reported={} if accuracy is None or "correct" not in measures else {"correct": accuracy},
        ranges={"correct": (0.0, 1.0)} if "correct" in measures else {},
        fields={"spec": dict(spec)},
        remarks=(
            *unread_remark(f"event {kind}" for kind in kinds if kind not in _EVENTS),
            *(() if report else ("no final report: the evaluation did not end",)),
        ),
    )
    return SampleList(header, samples)


def _recorded_sample(name: str, events: Iterable[Mapping[str, Any]]) -> ImportedSample:
    scores: dict[str, float | None] = {}
    text = prompt = error = None
    expected: object = None
    for event in events:
        data, kind = as_mapping(event.get("data")), event.get("type")
        if kind == "match":
            scores["correct"] = as_number(data.get("correct"))
            expected = data.get("expected")
        elif kind == "metrics":
            scores |= {
                str(key): number for key, value in data.items() if (number := as_number(value)) is not None
            }
        elif kind == "sampling":
            prompt = prompt or as_text(data.get("prompt") or "")
            sampled = data.get("sampled")
            text = as_text(sampled[0] if isinstance(sampled, list) and len(sampled) == 1 else sampled)
        elif kind == "error":
            error = as_text(data.get("error") or data.get("message") or "error without a message")
    return ImportedSample(
        item_id=name,
        epoch=1,
        content=json.dumps([prompt or name, expected], ensure_ascii=False),
        prompt=prompt or "",
        text=text,
        answer=text,
        scores=scores,
        error=error if not scores else None,
        unscored="no event of the sample has a score",
    )
