"""Samples files of lm-evaluation-harness (``--log_samples``), read without that package.

``samples_<task>_<date>.jsonl`` has a line for every document and filter; ``results_<date>.json`` beside it
has the model, the configuration and the figures that the tool reports. A measure is named as there:
``metric,filter``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.append import read_lines
from pcsuite.errors import DataError
from pcsuite.importers.base import UNKNOWN, ImportedSample, LogHeader, ReadOptions
from pcsuite.importers.shapes import FileShape
from pcsuite.importers.values import as_number, decode_json, scalar_texts

_NAME = re.compile(r"^samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d{2}-\d{2}T[\d.-]+))?\.jsonl$")
_NOT_MEASURES = frozenset({
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
    "prompt_hash", "target_hash",
})  # fmt: skip
_BY_LIKELIHOOD = ("multiple_choice", "loglikelihood", "loglikelihood_rolling")


class _Results(msgspec.Struct):
    """The part of a results file that is read."""

    results: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    higher_is_better: dict[str, dict[str, bool | None]] = msgspec.field(default_factory=dict)
    n_samples: dict[str, dict[str, int]] = msgspec.field(name="n-samples", default_factory=dict)
    n_shot: dict[str, Any] = msgspec.field(name="n-shot", default_factory=dict)
    date: float | None = None
    git_hash: str | None = None
    lm_eval_version: str | None = None
    model_name: str | None = None
    model_source: str | None = None
    system_instruction: str | None = None
    chat_template_sha: str | None = None
    fewshot_as_multiturn: bool | None = None


class LmEvalSamples:
    """One samples file."""

    def __init__(self, path: Path, *, model: str | None = None) -> None:
        self.path = path
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        if not path.stat().st_size:
            raise DataError(f"{path}: the file is empty")
        named = _NAME.match(path.name)
        if named is None:
            raise DataError(f"{path}: not a samples file", hint="lm-eval names them samples_TASK_DATE.jsonl")
        self._task, self._date = named["task"], named["date"] or ""
        # The results file of the same date, whatever its name begins with.
        beside = sorted(path.parent.glob(f"*_{self._date}.json")) if self._date else []
        self._results: _Results | None = None
        if beside:
            problem = f"{beside[0]}: the results cannot be read"
            try:
                self._results = decode_json(beside[0].read_bytes(), _Results, problem)
            except OSError as error:
                raise DataError(f"{problem} ({error})") from error
        self.header = self._described(model)

    def samples(self, measure: str) -> Iterator[ImportedSample]:
        """The samples under the measure's filter, one at a time.

        Raises :class:`DataError` with file and line where a line is no sample.
        """
        filter_name = measure.rpartition(",")[2]
        for line, sample in self._lines():
            if _filter(sample) == filter_name:
                try:
                    yield _imported(sample, filter_name)
                except (KeyError, TypeError, ValueError) as error:
                    raise DataError(f"{self.path}:{line}: not a sample of lm-eval ({error!r})") from error

    def close(self) -> None:
        """Nothing is held open between lines."""

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(read_lines(self.path), start=1):
            if line.strip():
                yield number, decode_json(line, dict[str, Any], f"{self.path}:{number}: not JSON")

    def _described(self, model: str | None) -> LogHeader:
        # Every measure with a number in some sample; the tool makes others over the whole set only.
        measures: dict[str, None] = {}
        others: dict[str, None] = {}
        for _, sample in self._lines():
            for name in _metric_names(sample):
                is_number = isinstance(sample.get(name), (bool, int, float))
                (measures if is_number else others).setdefault(f"{name},{_filter(sample)}")
        without = ", ".join(name for name in others if name not in measures)
        lacks = "no results file beside it: decoding is unknown, and nothing to check the mean against"
        remarks = [lacks] if self._results is None else []
        if without:
            remarks += [f"no number for single samples: {without} (the tool makes these over the whole set)"]
        results = self._results or _Results()
        model = model or results.model_name
        if not model:
            raise DataError(
                f"{self.path}: no results_{self._date or 'DATE'}.json beside it names the model",
                hint="put it there, or say --model NAME",
            )
        task = results.configs.get(self._task, {})
        generation = {**(task.get("generation_kwargs") or {}), **_mapping(results.config.get("gen_kwargs"))}
        likelihood = task.get("output_type") in _BY_LIKELIHOOD
        aggregations = {
            str(entry.get("metric")): entry.get("aggregation", "mean")
            for entry in task.get("metric_list") or []
            if isinstance(entry, dict)
        }
        # The tool's own figures; those it does not make by averaging are left out.
        reported = {
            measure: number
            for measure, value in results.results.get(self._task, {}).items()
            if measure in measures
            and (number := as_number(value)) is not None
            and aggregations.get(measure.rpartition(",")[0], "mean") == "mean"
        }
        higher = results.higher_is_better.get(self._task, {})
        limit: Any = generation.get("max_gen_toks")
        has_limit = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        greedy = generation.get("do_sample") is False  # temperature 0, whatever else is written
        condition = _mapping(task.get("metadata")).get("condition")
        created = datetime.fromtimestamp(results.date, timezone.utc) if results.date is not None else None
        return LogHeader(
            tool="lm_eval",
            tool_version=results.lm_eval_version or "unknown",
            source=f"{self._task}@{self._date or self.path.stem}",
            task=self._task,
            split=str(task.get("test_split") or task.get("validation_split") or UNKNOWN),
            model=model,
            measures=tuple(measures),
            regime="loglikelihood" if likelihood else None,
            temperature=None if likelihood else 0.0 if greedy else as_number(generation.get("temperature")),
            top_p=None if likelihood else as_number(generation.get("top_p")),
            max_tokens=int(limit) if has_limit and not likelihood else None,
            expected=results.n_samples.get(self._task, {}).get("effective"),
            condition=str(condition) if condition else None,
            created=created.isoformat(timespec="milliseconds") if created is not None else self._date,
            commit=results.git_hash,
            reported=reported,
            lower_is_better=frozenset(
                name for name in measures if higher.get(name.rpartition(",")[0]) is False
            ),
            fields={
                "config": results.config,
                "task": dict(task),
                "n_shot": results.n_shot.get(self._task),
                "model_name": results.model_name,
                "model_source": results.model_source,
                "system_instruction": results.system_instruction,
                "chat_template_sha": results.chat_template_sha,
                "fewshot_as_multiturn": results.fewshot_as_multiturn,
            },
            remarks=tuple(remarks),
        )


class LmEvalFormat:
    """lm-eval's samples files."""

    def find(self, path: Path) -> list[Path]:
        """The file itself, or every samples file below a folder.

        Sorted by path, so that logs are imported in the same order everywhere.
        """
        return sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else [path]

    def recognises(self, shape: FileShape) -> bool:
        """By the words of a sample; the name may be anything here, and is asked for when it is read."""
        return shape.has("doc_id", "doc", "arguments", "resps")

    def open(self, path: Path, options: ReadOptions) -> Sequence[LmEvalSamples]:
        return [LmEvalSamples(path, model=options.model)]


FORMAT = LmEvalFormat()


def _imported(sample: Mapping[str, Any], filter_name: str) -> ImportedSample:
    raw = sample["arguments"]  # newer files have ``gen_args_0.arg_0``, older ones lists
    requests = [request.values() for request in raw.values()] if isinstance(raw, dict) else raw
    arguments = [list(request) for request in requests]
    answers, filtered = sample.get("resps") or [], sample.get("filtered_resps") or []
    first = answers[0][0] if answers and answers[0] else None
    answer: str | None
    if isinstance(first, str):
        text, answer = first, _text(filtered[0]) if filtered else first
    else:
        # A task by log-likelihood: a line for every option, then the most likely one.
        options = [str(request[1]).strip() if len(request) > 1 else "" for request in arguments]
        values = [float(reply[0] if isinstance(reply, list) else reply) for reply in filtered]
        lines = [f"{value:.6g}\t{option}" for option, value in zip(options, values, strict=False)]
        best = max(range(len(values)), key=values.__getitem__) if len(values) > 1 else 0
        text, answer = "\n".join(lines), options[best] if options else None
    scores = {
        f"{name},{filter_name}": as_number(sample.get(name))
        for name in _metric_names(sample)
        if sample.get(name) is None or isinstance(sample[name], (bool, int, float))
    }
    repeats = len(answers[0]) if answers and isinstance(answers[0], list) else 1
    return ImportedSample(
        item_id=str(sample["doc_id"]),
        epoch=1,
        content=json.dumps([sample.get("doc"), sample.get("target")], sort_keys=True, ensure_ascii=False),
        prompt=_prompt(arguments[0][0]) if arguments and arguments[0] else "",
        text=text,
        answer=answer,
        scores=scores,
        attributes=scalar_texts(_mapping(sample.get("doc"))),
        unscored="no number in the samples file",
        remarks=(f"{repeats} answers, scored together by the tool",) if repeats > 1 else (),
    )


def _prompt(sent: Any) -> str:
    """The prompt; a conversation, which chat models get as JSON in a list of one, is written out."""
    if not (isinstance(sent, list) and len(sent) == 1 and isinstance(sent[0], str)):
        return _text(sent)
    try:
        messages = msgspec.json.decode(sent[0], type=list[dict[str, Any]])
        return "\n\n".join(f"{message['role']}: {_text(message['content'])}" for message in messages)
    except (msgspec.MsgspecError, KeyError):
        return sent[0]


def _metric_names(sample: Mapping[str, Any]) -> list[str]:
    """Metrics of a line; files before version 0.4.4 do not list them."""
    listed = sample.get("metrics")
    unlisted = (name for name in sample if name not in _NOT_MEASURES)
    return [str(name) for name in listed or unlisted]


def _filter(sample: Mapping[str, Any]) -> str:
    return str(sample.get("filter") or "none")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
