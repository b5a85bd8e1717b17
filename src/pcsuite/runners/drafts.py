"""A row of the log while it is made: what is known of it by stages, and what becomes of it when one of them fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from pcsuite import __version__
from pcsuite._util.patterns import read_pattern
from pcsuite._util.text import describe, shorten, utc_now
from pcsuite.config.load import Suite
from pcsuite.config.prices import Price
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.kept import conforms_whole, could_conform
from pcsuite.engines.limits import RetriesExhaustedError, calls_cost
from pcsuite.engines.session import ModelClient
from pcsuite.errors import CallOutcome, EngineError, OutOfMemoryError, OutOfTimeError, PcsuiteError
from pcsuite.evaluation.answer_probability import (
    LABEL_PROBABILITY,
    PERPLEXITY,
    label_probability,
    perplexity,
)
from pcsuite.evaluation.base import (
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    Answer,
    Evaluation,
    JudgeCall,
    MetricValue,
    NamedScore,
    Parsed,
    conclude,
)
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
    decode_row,
    encode_row,
    outcome_of,
)
from pcsuite.programs.base import Outcome
from pcsuite.runners.plan import Unit

PROGRAM_METRIC = "program_"
"""What the names of metrics begin with that a program logs, so that scoring anew leaves them alone."""
ROW_OUT_OF_TIME = "row_out_of_time"
"""Metric of rows that took longer than ``limits.row_seconds``; no other row has it."""
PREPARING, ASKING, JUDGING, SCORING, WRITING = "preparing", "asking", "judging", "scoring", "writing"
CHECKING = "checking"
"""What an error that became a row's begins with: where it happened."""
NO_PROMPT = PromptRecord("", None, "", 0, None, 0)
"""Of a row whose prompt could not be made."""
LONGEST_ERROR = 2000
"""Characters of an error that a row keeps."""


class FinishedRow(msgspec.Struct, frozen=True):
    """A row as the log takes it, and what the progress display wants to know of it."""

    run_id: str
    line: bytes
    prompt_hash: str
    prompt: str
    error: str | None
    tokens: int
    """Tokens that were paid for now; none for a stored answer."""
    cost_usd: float | None
    """What is paid now in US dollars; ``None`` where the model's price is not known."""
    cache_hit: bool
    lost: bool = False
    """Whether the model's server failed it, whatever was asked."""
    stopped_scorer: bool = False
    """Whether its scorer was ended because it took too long or too much."""

    @classmethod
    def of(cls, row: RunRow, prompt: str, *, lost: bool = False) -> FinishedRow:
        """A row with the prompt that was sent for it.

        Tokens and cost are what is paid now: nothing for a stored answer or a failed call.
        """
        answer = row.generation
        paid = answer is not None and not answer.cache_hit
        judged = [call for call in row.judge or () if not call.cache_hit]
        costs = [row.metrics.get("cost_usd", 0.0) if paid else 0.0, *(call.cost_usd for call in judged)]
        known = [cost for cost in costs if cost is not None]
        return cls(
            run_id=row.run_id,
            line=encode_row(row),
            prompt_hash=row.prompt.prompt_hash,
            prompt=prompt,
            error=row.errors[0] if row.errors else None,
            tokens=(answer.usage.total_tokens if paid and answer and answer.usage else 0)
            + sum(call.prompt_tokens + call.completion_tokens for call in judged),
            cost_usd=sum(known) if len(known) == len(costs) else None,
            cache_hit=answer is not None and answer.cache_hit,
            lost=lost,
            stopped_scorer=OUT_OF_TIME in row.metrics or OUT_OF_MEMORY in row.metrics,
        )


@dataclass(slots=True)
class RowDraft:
    """What is known of a row so far; each stage that is passed adds to it, and one that fails leaves the rest."""

    stage: str = PREPARING
    """Where the row is, for the error that it may end in."""
    prompt: str = ""
    """The prompt as it is sent."""
    record: PromptRecord = NO_PROMPT
    outcome: Outcome | None = None
    generation: GenerationRecord | None = None
    became: CallOutcome = "failed"
    honoured: bool = False
    """Whether every call kept to the seed."""
    judged: list[JudgeCall] | msgspec.UnsetType = msgspec.UNSET
    parsed: Parsed | None = None
    scores: dict[str, NamedScore] | msgspec.UnsetType = msgspec.UNSET
    metrics: dict[str, object] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    lost: bool = False
    """Whether the model's server failed it, whatever was asked."""

    def take_prompt(self, prompt: str, record: PromptRecord) -> None:
        """Add the prompt that is made; what comes next is the call."""
        self.prompt, self.record, self.stage = prompt, record, ASKING

    def take_outcome(self, outcome: Outcome, price: Price | None) -> None:
        """Add the answer, with what its calls used and cost (US dollars, ``None`` where ``price`` is not known)."""
        self.outcome = outcome
        self.generation, usage = generation_record(outcome)
        self.became = outcome_of(outcome.finish_reason)
        cut = next((call["prompt_cut"] for call in outcome.calls if "prompt_cut" in call), None)
        if cut is not None:
            self.record = msgspec.structs.replace(self.record, cut=cut)
        self.metrics["token_cost"] = usage.total_tokens if usage is not None else None
        self.metrics["cost_usd"] = calls_cost(price, outcome.calls)
        self.honoured = bool(outcome.calls) and all(
            call.get("seed_honoured", False) for call in outcome.calls
        )

    def take_verdicts(self, outcome: Outcome, judged: list[JudgeCall]) -> Outcome:
        """Add what a judge said of the answer, with what that cost; returns the outcome with the verdicts."""
        self.judged = judged
        self.outcome = replace(outcome, verdicts=judged)
        self.metrics["judge_tokens"] = sum(c.prompt_tokens + c.completion_tokens for c in judged)
        costs = [call.cost_usd for call in judged if call.cost_usd is not None]
        self.metrics["judge_cost_usd"] = sum(costs) if len(costs) == len(judged) else None
        return self.outcome

    def take_evaluation(self, evaluation: Evaluation, more: Mapping[str, object]) -> None:
        """Add the scored answer; what was measured of the call, and ``more``, go before a scorer's own metrics."""
        self.metrics = {**evaluation.metrics, **self.metrics, **more}
        self.parsed, self.scores = evaluation.parsed, evaluation.scores or msgspec.UNSET

    def run_out_of_time(self, seconds: float) -> None:
        """End a row that took longer than its ``seconds``: no answer, which scores 0; what was answered is kept."""
        self.became, self.honoured, self.judged = "out_of_time", False, msgspec.UNSET
        if self.generation is None:
            self.generation = GenerationRecord("", "out_of_time", seconds * 1000.0, UsageRecord(0, 0, 0))
        why = f"row ran out of time: {seconds:g} s (limits.row_seconds) while {self.stage}"
        evaluation = unanswered_evaluation(why, {ROW_OUT_OF_TIME: True})
        self.metrics, self.parsed = {**evaluation.metrics, **self.metrics}, evaluation.parsed
        self.parsed.settle_reading()

    def fail(self, error: Exception) -> None:
        """Make an error the row's: it is tried again on resume. An answer that could not be scored is kept."""
        if not isinstance(error, EngineError):
            self.errors.append(unforeseen(self.stage, error))
            return
        answered = self.stage in (JUDGING, CHECKING)  # the call itself was
        self.errors.append(f"{self.stage}: " * answered + shorten(str(error), LONGEST_ERROR))
        self.lost = isinstance(error, RetriesExhaustedError) and error.lost
        if not answered:
            self.became = error.outcome

    def finish(self, unit: Unit, client: ModelClient, suite: Suite, commit: str | None) -> FinishedRow:
        """The row as the log takes it; of one that the log could not hold only the error is kept."""
        cell, item, outcome = unit.cell, unit.item, self.outcome
        task, model, decoding = cell.task, client.spec, cell.decoding
        row = RunRow(
            run_id=unit.run_id,
            timestamp_utc=utc_now(),
            profile=suite.profile.run.name,
            config_hash=suite.config_hash,
            pcsuite_version=__version__,
            git_commit=commit,
            task=TaskRef(task.id, task.spec.split, item.item_id, item.cluster),
            model=ModelRef(cell.model_id, model.family, model.size, model.provider),
            condition=ConditionRef(cell.condition.id, cell.operators),
            decoding=DecodingRef(decoding.id, decoding.temperature, decoding.top_p, decoding.max_tokens),
            seed=unit.seed,
            seed_honoured=self.honoured,
            perturbation=unit.perturbation,
            prompt=self.record,
            generation=self.generation,
            parsed=self.parsed,
            metrics=self.metrics,
            errors=self.errors,
            engine=client.identity,
            judge=self.judged,
            outcome=self.became,
            scores=self.scores,
            changed=outcome.changed or msgspec.UNSET if outcome else msgspec.UNSET,
            checks=dict(outcome.checks) or msgspec.UNSET if outcome else msgspec.UNSET,
        )
        try:
            finished = FinishedRow.of(row, self.prompt, lost=self.lost)
            decode_row(finished.line)  # what an adapter or a scorer put in must come back, or the row is lost
            return finished
        except Exception as error:
            errors = [*self.errors, unforeseen(WRITING, error)]
            bare = msgspec.structs.replace(row, generation=None, parsed=None, metrics={}, errors=errors)
            return FinishedRow.of(bare, self.prompt)


def generation_record(outcome: Outcome) -> tuple[GenerationRecord, UsageRecord | None]:
    """What the log keeps of the answer, and what its calls used: over all calls of the row.

    Calls that were answered from the cache count as they were when made. Where the server does not say what one of them
    used, nobody knows the sum: it is ``None``, not 0.
    """
    calls = outcome.calls
    is_known = all(call.get("usage_reported", True) for call in calls)
    cached = [call["usage"]["cached_tokens"] for call in calls if "cached_tokens" in call["usage"]]
    thoughts = [call["usage"]["reasoning_tokens"] for call in calls if "reasoning_tokens" in call["usage"]]
    usage = UsageRecord(
        sum(call["usage"]["prompt_tokens"] for call in calls),
        sum(call["usage"]["completion_tokens"] for call in calls),
        sum(call["usage"]["total_tokens"] for call in calls),
        sum(cached) if cached else None,
        sum(thoughts) if thoughts else None,
    )
    latencies = [call["latency_ms"] for call in calls]
    timed = [latency for latency in latencies if latency is not None]
    steps = [call["steps"] for call in calls if "steps" in call]
    steps_told = [step for call in calls for step in call.get("transcript", ())]
    loaded = [source for call in calls for source in call.get("loaded", ())]
    stderr = "\n".join(call["stderr"] for call in calls if "stderr" in call)
    record = GenerationRecord(
        text=outcome.text,
        finish_reason=outcome.finish_reason,
        latency_ms=round(sum(timed, 0.0), 3) if calls and len(timed) == len(latencies) else None,
        usage=usage if calls and is_known else None,  # a call that a filter ended has no figures
        constraint_backend=next(filter(None, (call.get("constraint_backend") for call in calls)), None),
        cache_hit=bool(calls) and all(call.get("cache_hit", False) for call in calls),
        react_steps=outcome.react_steps,
        tool_calls=outcome.tool_calls + sum(call.get("tool_calls", 0) for call in calls),
        attempts=sum(max(1, call.get("attempts", 1)) for call in calls) or 1,
        transcript=outcome.transcript if not steps_told else [*(outcome.transcript or ()), *steps_told],
        batch=next(filter(None, (call.get("batch") for call in calls)), None),
        steps=sum(steps) if steps else None,
        loaded=loaded or msgspec.UNSET,
        artifacts=next((call["artifacts"] for call in reversed(calls) if "artifacts" in call), msgspec.UNSET),
        stderr=stderr or msgspec.UNSET,
    )
    return record, usage if is_known else None


def more_metrics(unit: Unit, outcome: Outcome, evaluation: Evaluation) -> dict[str, object]:
    """What a row logs of an answer that its scorer does not measure.

    Whether it looked anything up, what its program counted, how probable its tokens were, whether its constraint held.
    """
    # A row has one answer and no entropy; the name stands for what summaries fill in.
    metrics: dict[str, object] = {"entropy_cat": None}
    if unit.cell.task.spec.retrieval:
        metrics["retrieval"] = outcome.retrieved is not None
    for name, value in outcome.metrics.items():
        metrics[f"{PROGRAM_METRIC}{name}"] = value
    if any(call.get("usage_estimated", False) for call in outcome.calls):
        metrics["usage_estimated"] = True
    last = outcome.calls[-1] if outcome.calls else None
    if last is not None and "logprobs" in last and last["text"] == outcome.text:
        tokens, read = last["logprobs"], evaluation.parsed
        metrics[PERPLEXITY] = perplexity(tokens)
        metrics[LABEL_PROBABILITY] = label_probability(tokens, read.answer, read.fields)
    if unit.cell.constraint is not None:
        failed = constraint_failed(unit.cell.constraint, outcome, evaluation)
        metrics["constraint_failed"] = failed
        metrics["constraint_broken"] = constraint_broken(unit.cell.constraint, outcome, failed)
    return metrics


def constraint_failed(constraint: Constraint, outcome: Outcome, evaluation: Evaluation) -> bool:
    """Whether a constrained answer is not what the constraint promises; being cut off counts.

    A mask keeps every token legal but cannot make an answer end in time. Grammars are judged by their end
    alone: nothing here parses them a second time.
    """
    if outcome.finish_reason != "stop":
        return True
    if constraint.kind == "json_schema":
        return evaluation.parsed.schema_valid is not True
    if constraint.kind == "regex":
        try:
            return not read_pattern(constraint.value, "answer").fullmatch(outcome.text)
        except (OutOfTimeError, OutOfMemoryError):
            return True  # nobody could see that it was kept
    return False


def constraint_broken(constraint: Constraint, outcome: Outcome, failed: bool) -> bool | None:
    """Whether a constrained answer is something that the constraint should not have let through.

    ``failed`` is :func:`constraint_failed`. An answer that was cut at its limit is kept as long as it is the beginning
    of something that conforms; ``None`` where that cannot be told (llguidance is not installed). What was enforced in
    part is judged by that part.
    """
    if not failed:
        return False
    if outcome.finish_reason == "stop":
        return not conforms_whole(constraint, outcome.text) if constraint.kind == "json_schema" else True
    kept = could_conform(constraint, outcome.text)
    return None if kept is None else not kept


def unanswered_evaluation(why: str, extra: Mapping[str, MetricValue] | None = None) -> Evaluation:
    """The outcome of an item that ran out of time: no answer, which scores 0 and says why."""
    parsed = Parsed(parse_errors=[why])
    return conclude(parsed, Answer("", "out_of_time"), score=0.0, exact_match=False, extra=extra or {})


def unforeseen(stage: str, error: Exception) -> str:
    """What a row says of an error that no part of the suite foresaw, or that concerns this unit alone.

    >>> unforeseen(SCORING, KeyError("label"))
    "scoring: KeyError: 'label'"
    """
    message = shorten(str(error), LONGEST_ERROR) if isinstance(error, PcsuiteError) else describe(error)
    return f"{stage}: {message}"
