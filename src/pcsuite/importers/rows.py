"""From a sample of a foreign log to a row of ours."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import NamedTuple

from pcsuite import __version__
from pcsuite.importers.base import UNKNOWN, ImportedSample, LogHeader
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    ParsedRecord,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
)

MARK = "imported:"
"""What profile and provider of an imported row begin with; the format's name follows."""


class CellKey(NamedTuple):
    """What a set of rows is about; each item has one row in it."""

    task: str
    model: str
    condition: str
    decoding: str
    seed: int

    @classmethod
    def of(cls, row: RunRow) -> CellKey:
        """The key of a row in the log."""
        return cls(row.task.id, row.model.id, row.condition.id, row.decoding.id, row.seed)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is the same for all rows of one imported log."""

    format: str
    header: LogHeader
    measure: str
    """The measure that becomes the score."""
    condition: str
    family: str = UNKNOWN
    size: str = UNKNOWN
    first_seed: int = 1
    by_content: bool = False
    """Whether items are named by their content instead of their id."""

    @property
    def decoding(self) -> DecodingRef:
        """The decoding regime, named after what the log says of it."""
        header = self.header
        name = header.regime or regime_name(header.temperature, header.top_p)
        return DecodingRef(name, header.temperature, header.top_p, header.max_tokens)

    @property
    def keys(self) -> list[CellKey]:
        """What its rows will be about, one key for each seed: repetitions are numbered on."""
        header = self.header
        seeds = range(self.first_seed, self.first_seed + header.epochs)
        return [CellKey(header.task, header.model, self.condition, self.decoding.id, seed) for seed in seeds]

    def row(self, sample: ImportedSample) -> RunRow:
        """A sample's row; the same sample always gives the same row."""
        header = self.header
        item = _content_id(sample.content) if self.by_content else sample.item_id
        seed = self.first_seed + sample.epoch - 1
        errors = _errors(sample, self.measure, header.tool)
        usage = sample.usage
        return RunRow(
            run_id=_digest(
                header.tool, header.task, item, header.model, self.condition, self.decoding.id, str(seed)
            ),
            timestamp_utc=sample.finished_at or header.created,
            profile=f"{MARK}{self.format}",
            config_hash="",
            pcsuite_version=__version__,
            git_commit=header.commit,
            task=TaskRef(header.task, header.split, item),
            model=ModelRef(header.model, self.family, self.size, f"{MARK}{self.format}"),
            condition=ConditionRef(self.condition, ()),
            decoding=self.decoding,
            seed=seed,
            seed_honoured=False,
            perturbation=PerturbationRef(),
            prompt=PromptRecord(
                prompt_hash=hashlib.sha256(sample.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
                schema_hash=None,
                template=f"{MARK}{self.format}",
                rendered_chars=len(sample.prompt),
                prompt_tokens=usage.prompt_tokens if usage is not None else None,
                padded=0,
            ),
            generation=_generation(sample),
            parsed=None if errors else _parsed(sample, self.measure),
            metrics={} if errors else self._metrics(sample),
            errors=errors,
            engine={"tool": header.tool, "tool_version": header.tool_version, "source": header.source},
        )

    def _metrics(self, sample: ImportedSample) -> dict[str, object]:
        """The chosen score, the other measures under the format's name, and the cost."""
        metrics: dict[str, object] = {"task_score": sample.scores[self.measure]}
        for name, value in sample.scores.items():
            if name != self.measure and value is not None:
                metrics[f"{self.format}:{name}"] = value
        if sample.usage is not None:
            metrics["token_cost"] = sample.usage.total_tokens
        if sample.cost_usd is not None:
            metrics["cost_usd"] = sample.cost_usd
        return metrics


def regime_name(temperature: float | None, top_p: float | None) -> str:
    """``t0.7-p0.95``; ``default`` where the log leaves it to the backend."""
    if temperature is None:
        return "default"
    name = f"t{temperature:g}"
    return name if top_p is None or top_p == 1 else f"{name}-p{top_p:g}"


def _errors(sample: ImportedSample, measure: str, tool: str) -> list[str]:
    if sample.error is not None:
        return [f"{tool}: {' '.join(sample.error.split())[:300]}"]
    if sample.scores.get(measure) is None:
        return [f"not scored by {measure}: {sample.unscored or 'no reason in the log'}"]
    return []


def _generation(sample: ImportedSample) -> GenerationRecord | None:
    if sample.text is None and sample.error is not None:
        return None
    return GenerationRecord(
        text=sample.text or "",
        finish_reason=sample.finish_reason,
        latency_ms=sample.latency_ms,
        usage=sample.usage,
        tool_calls=sample.tool_calls,
    )


def _parsed(sample: ImportedSample, measure: str) -> ParsedRecord:
    notes = list(sample.remarks)
    if measure in sample.unmapped:
        notes.append(f"the value '{sample.unmapped[measure]}' is no number; the tool counts it as 0")
    return ParsedRecord(None, None, "not_json", sample.answer, {}, notes)


def _content_id(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
