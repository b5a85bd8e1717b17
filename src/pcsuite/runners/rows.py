"""From a unit of work and what came of it to a row of the log."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from pcsuite import __version__
from pcsuite.config.load import Suite
from pcsuite.evaluation.base import Answer, Evaluation
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    ParsedRecord,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
)
from pcsuite.programs.base import Outcome, Reply
from pcsuite.prompts.conditions.conditions import PromptCondition, PromptConstraint
from pcsuite.prompts.length import MeasuredPrompt
from pcsuite.runners.plan import Unit

PROGRAM_METRIC = "program_"
"""What the names of metrics begin with that a program logs, so that scoring anew leaves them alone."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt ready to be sent, with what the log keeps about it."""

    condition: PromptCondition
    measured: MeasuredPrompt
    record: PromptRecord


def prepare(condition: PromptCondition, measured: MeasuredPrompt) -> PreparedPrompt:
    """Hash a measured prompt."""
    schema = condition.constraint.value if condition.constraint is not None else None
    record = PromptRecord(
        prompt_hash=hashlib.sha256(measured.text.encode("utf-8", "surrogatepass")).hexdigest(),
        schema_hash=hashlib.sha256(schema.encode()).hexdigest() if schema else None,
        template=condition.tree.template,
        rendered_chars=len(measured.text),
        prompt_tokens=measured.tokens,
        padded=measured.padded,
        band=measured.band,
        tokens_exact=measured.exact,
    )
    return PreparedPrompt(condition, measured, record)


class RowBuilder:
    """Makes rows; holds what is the same for a whole run."""

    def __init__(self, suite: Suite, commit: str | None) -> None:
        self._suite = suite
        self._profile = suite.path.stem
        self._commit = commit

    def finished(
        self,
        unit: Unit,
        prepared: PreparedPrompt,
        outcome: Outcome,
        evaluation: Evaluation,
        engine: dict[str, str],
    ) -> RunRow:
        """The row of an answered unit."""
        usage = total_usage(outcome.replies)
        model = self._suite.models[unit.cell.model_id]
        metrics: dict[str, object] = dict(evaluation.metrics)
        metrics["token_cost"] = usage.total_tokens
        metrics["cost_usd"] = model.cost(usage.prompt_tokens, usage.completion_tokens)
        if unit.cell.task.spec.retrieval:
            metrics["retrieval"] = outcome.retrieved is not None
        for name, value in outcome.metrics.items():
            metrics[f"{PROGRAM_METRIC}{name}"] = value
        generation = GenerationRecord(
            text=outcome.text,
            finish_reason=outcome.finish_reason,
            latency_ms=round(sum(reply.latency_ms for reply in outcome.replies), 3),
            usage=usage,
            constraint_backend=next(
                (r.constraint_backend for r in outcome.replies if r.constraint_backend), None
            ),
            cache_hit=all(reply.cache_hit for reply in outcome.replies),
            react_steps=outcome.react_steps,
            tool_calls=outcome.tool_calls,
            attempts=sum(max(1, reply.attempts) for reply in outcome.replies),
            transcript=outcome.transcript,
        )
        if prepared.condition.constraint is not None:
            metrics["constraint_failed"] = constraint_failed(
                prepared.condition.constraint, outcome, evaluation
            )
        honoured = all(reply.seed_honoured for reply in outcome.replies)
        return self._row(unit, prepared, generation, parsed_record(evaluation), metrics, [], honoured, engine)

    def failed(self, unit: Unit, prepared: PreparedPrompt, error: str, engine: dict[str, str]) -> RunRow:
        """The row of a unit that could not be answered; it is tried again on resume."""
        return self._row(unit, prepared, None, None, {}, [error], False, engine)

    def _row(
        self,
        unit: Unit,
        prepared: PreparedPrompt,
        generation: GenerationRecord | None,
        parsed: ParsedRecord | None,
        metrics: dict[str, object],
        errors: list[str],
        seed_honoured: bool,
        engine: dict[str, str],
    ) -> RunRow:
        cell = unit.cell
        model = self._suite.models[cell.model_id]
        decoding = cell.decoding
        return RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=self._profile,
            config_hash=self._suite.config_hash,
            pcsuite_version=__version__,
            git_commit=self._commit,
            task=TaskRef(cell.task.id, cell.task.spec.split, unit.item.item_id),
            model=ModelRef(cell.model_id, model.family, model.size, model.provider),
            condition=ConditionRef(cell.condition.id, cell.operators),
            decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
            seed=unit.seed,
            seed_honoured=seed_honoured,
            perturbation=unit.perturbation,
            prompt=prepared.record,
            generation=generation,
            parsed=parsed,
            metrics=metrics,
            errors=errors,
            engine=engine,
        )


def constraint_failed(constraint: PromptConstraint, outcome: Outcome, evaluation: Evaluation) -> bool:
    """Whether a constrained answer is not what the constraint promises; being cut off counts.

    A mask keeps every token legal but cannot make an answer end in time. Grammars are judged by their end
    alone: nothing here parses them a second time.
    """
    if outcome.finish_reason != "stop":
        return True
    if constraint.kind == "json_schema":
        return evaluation.parsed.schema_valid is not True
    if constraint.kind == "regex":
        return re.fullmatch(constraint.value, outcome.text) is None
    return False


def parsed_record(evaluation: Evaluation) -> ParsedRecord:
    """What the log keeps of the parse."""
    parsed = evaluation.parsed
    return ParsedRecord(
        parsed.json_valid,
        parsed.schema_valid,
        parsed.json_mode,
        parsed.answer,
        parsed.fields,
        parsed.parse_errors,
    )


def total_usage(replies: Sequence[Reply]) -> UsageRecord:
    """Tokens of all calls of a row; a cached answer counts what it took when it was made."""
    return UsageRecord(
        sum(reply.usage["prompt_tokens"] for reply in replies),
        sum(reply.usage["completion_tokens"] for reply in replies),
        sum(reply.usage["total_tokens"] for reply in replies),
    )


def answer_of(outcome: Outcome) -> Answer:
    """What the evaluator sees of an outcome."""
    return Answer(outcome.text, outcome.finish_reason, outcome.retrieved)


def utc_now() -> str:
    """The time, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@lru_cache(maxsize=8)
def git_commit(folder: Path) -> str | None:
    """Commit of the checkout a profile lies in, or ``None``."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
