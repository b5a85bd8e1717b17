"""One sample of an inspect_ai log, from its JSON to what we keep of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pcsuite.importers.base import ImportedSample
from pcsuite.importers.values import as_number, scalar_texts
from pcsuite.logging.row import UsageRecord

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MEANS = ("accuracy", "mean")
"""Metrics of the tool that are plain means over samples."""


class Score(msgspec.Struct):
    """A score of a sample as it is logged."""

    value: Any = None
    answer: str | None = None
    reason: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def why_unscored(self) -> str | None:
        """The logged reason of an abnormal score; older logs keep it in the metadata."""
        older = (self.metadata or {}).get("unscored_reason")
        return self.reason or (str(older) if older else None)


class Metric(msgspec.Struct):
    """A metric over all samples."""

    value: float | None = None


class ScoreResult(msgspec.Struct):
    """What the tool reports for one scorer, or for one key of its values."""

    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    metrics: dict[str, Metric] = msgspec.field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The name by which the score is chosen: the scorer's, with the key of its value where it has several."""
        return self.name if self.name == self.scorer else f"{self.scorer}.{self.name}"


def value_as_number(value: object) -> tuple[float | None, str | None]:
    """A scalar as inspect_ai's ``value_to_float`` takes it; then the value itself, where that is a guess of 0.

    The number is ``None`` for NaN, the tool's mark of a sample that is left unscored, and for nothing at all.
    """
    if isinstance(value, (bool, int, float)):
        return as_number(value), None
    if value is None:
        return None, None
    if isinstance(value, str):
        mapped = _LETTERS.get(value, _WORDS.get(value.lower()))
        if mapped is not None:
            return mapped, None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number, None
    return 0.0, str(value)[:40]


def flat_values(scores: Mapping[str, Score]) -> Iterator[tuple[str, object]]:
    """Every scalar by its measure: the scorer, or ``scorer.key`` where a scorer gives several values.

    The values of a list are numbered from 0: ``scorer.0``.
    """
    for scorer, score in scores.items():
        if not isinstance(score.value, dict | list):
            yield scorer, score.value
            continue
        parts = score.value.items() if isinstance(score.value, dict) else enumerate(score.value)
        yield from ((f"{scorer}.{key}", value) for key, value in parts)


def reported_means(results: list[ScoreResult]) -> dict[str, float]:
    """The tool's own mean by measure, epochs averaged; other reducers answer other questions.

    A metric that is no plain mean over samples, or not finite, is left out.
    """
    means: dict[str, float] = {}
    for result in results:
        if result.reducer not in (None, "mean"):
            continue
        for metric in _MEANS:
            value = result.metrics[metric].value if metric in result.metrics else None
            if value is not None and math.isfinite(value):
                means.setdefault(result.measure, value)
    return means


_ATTACHMENT = re.compile(r"attachment://([0-9a-zA-Z]+)")
_FINISH = {"max_tokens": "length", "model_length": "length"}
"""What the tool calls a truncated answer, in our log's word."""


class ModelUsage(msgspec.Struct):
    """Tokens of one model."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    total_cost: float | None = None


class Message(msgspec.Struct):
    """A message of the conversation."""

    content: Any = ""
    role: str = ""


class Choice(msgspec.Struct):
    """One completion."""

    message: Message = msgspec.field(default_factory=Message)
    stop_reason: str = "unknown"


class Output(msgspec.Struct):
    """What the model gave."""

    choices: list[Choice] = msgspec.field(default_factory=list)
    usage: ModelUsage | None = None
    time: float | None = None
    error: str | None = None


class Sample(msgspec.Struct):
    """The part of a sample that is read; events and store are passed over."""

    id: int | str
    epoch: int = 1
    input: Any = ""
    target: Any = ""
    choices: list[Any] | None = None
    messages: list[Message] = msgspec.field(default_factory=list)
    output: Output = msgspec.field(default_factory=Output)
    score: Score | None = None
    scores: dict[str, Score] | None = None
    model_usage: dict[str, ModelUsage] = msgspec.field(default_factory=dict)
    completed_at: str | None = None
    total_time: float | None = None
    error: dict[str, Any] | None = None
    error_retries: list[Any] | None = None
    limit: dict[str, Any] | None = None
    invalidation: dict[str, Any] | None = None
    attachments: dict[str, str] = msgspec.field(default_factory=dict)
    message_refs: list[Any] | None = None
    metadata: dict[str, Any] | None = None

    def restore(self, message_pool: list[Any], attachments: dict[str, str]) -> None:
        """Put back what a sample in chunks keeps beside its shell.

        ``message_refs`` names messages of the pool by index or by range.
        """
        self.attachments = attachments
        pooled = msgspec.convert(message_pool, type=list[Message])
        for reference in self.message_refs or []:
            start, end = reference if isinstance(reference, list) else (reference, reference + 1)
            self.messages += pooled[start:end]


def imported_sample(sample: Sample, measure: str, model: str) -> ImportedSample:
    """What we keep of a sample; ``measure`` is the score that will count, ``model`` the one whose tokens count.

    A sample that was scored in spite of an error counts as scored, with a remark.
    """
    scores = sample.scores or {}
    numbers = {name: value_as_number(value) for name, value in flat_values(scores)}
    chosen = scores.get(measure) or scores.get(measure.rpartition(".")[0])
    unscored = "no score in the log"
    if chosen is not None:
        explained = (chosen.explanation or "").strip()[:120]
        unscored = chosen.why_unscored or explained or "unscored by its scorer"
    text, finish = None, "unknown"
    if sample.output.choices:
        choice = sample.output.choices[0]
        text = _text(choice.message.content, sample.attachments)
        finish = _FINISH.get(choice.stop_reason, choice.stop_reason)
    seconds = sample.output.time if sample.output.time is not None else sample.total_time
    spent = sample.model_usage.get(model)
    # What a model is counted for includes what it was asked as a grader. One answer has its own count.
    if (
        sample.output.usage is not None
        and sum(message.role == "assistant" for message in sample.messages) <= 1
    ):
        spent = sample.output.usage
    usage = None
    if spent is not None:
        # Prompt tokens are all that went in: the tool counts cached ones apart.
        cached = (spent.input_tokens_cache_read or 0) + (spent.input_tokens_cache_write or 0)
        prompt = spent.input_tokens + cached
        usage = UsageRecord(prompt, spent.output_tokens, spent.total_tokens or prompt + spent.output_tokens)
    scored = numbers.get(measure, (None, None))[0] is not None
    error = str(sample.error.get("message") or "unknown error").strip() if sample.error else None
    return ImportedSample(
        item_id=str(sample.id),
        epoch=sample.epoch,
        content=json.dumps([sample.input, sample.choices, sample.target], sort_keys=True, ensure_ascii=False),
        prompt=_prompt(sample),
        text=text,
        answer=(chosen.answer if chosen is not None else None) or (text.strip() if text else None),
        scores={name: number for name, (number, _) in numbers.items()},
        finish_reason=finish,
        latency_ms=round(seconds * 1000, 3) if seconds is not None else None,
        usage=usage,
        cost_usd=spent.total_cost if spent is not None else None,
        tool_calls=sum(message.role == "tool" for message in sample.messages),
        error=None if scored else error,
        unscored=unscored,
        remarks=tuple(_remarks(sample, error if scored else None)),
        unmapped={name: guess for name, (_, guess) in numbers.items() if guess is not None},
        finished_at=sample.completed_at or "",
        attributes=scalar_texts(sample.metadata or {}),
    )


def _remarks(sample: Sample, error: str | None) -> Iterable[str]:
    if error is not None:
        yield f"scored in spite of an error: {error}"
    if sample.limit:
        yield f"stopped by the {sample.limit.get('type', 'unknown')} limit"
    if sample.invalidation:
        yield "marked as invalid in the log"
    if sample.error_retries:
        yield f"tried again after {len(sample.error_retries)} errors"


def _prompt(sample: Sample) -> str:
    """The conversation up to the last answer, or the input where none is logged."""
    messages = sample.messages
    while messages and messages[-1].role != "assistant":
        messages = messages[:-1]
    before = messages[:-1] or sample.messages
    if not before and isinstance(sample.input, list):
        before = msgspec.convert(sample.input, type=list[Message])
    if not before:
        return _text(sample.input, sample.attachments)
    return "\n\n".join(f"{m.role}: {_text(m.content, sample.attachments)}" for m in before)


def _text(content: Any, attachments: Mapping[str, str]) -> str:
    """The text of a message's content, its attachments put back; other media are named only."""
    if isinstance(content, list):
        parts = [
            str(part.get("text") or "") if part.get("type") == "text" else f"[{part.get('type')}]"
            for part in content
            if isinstance(part, dict) and part.get("type") != "reasoning"
        ]
        content = "\n".join(parts)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if "attachment://" in text:
        text = _ATTACHMENT.sub(lambda match: attachments.get(match.group(1), match.group()), text)
    return text
