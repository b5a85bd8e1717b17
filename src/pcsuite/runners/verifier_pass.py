"""The verifier pass: the same model, at temperature 0, judges an answer that it gave before.

It is asked two things: whether the answer contradicts itself, and whether it is right as far as the model can
tell. It sees the task's bare instruction, the input and the answer; never the truth, and no operator's text.

The pass adds one row of kind ``verifier`` for every answer of a log. It repeats task, model, condition, regime id,
seed and perturbation of the row it judges, so that it joins on the same columns; its decoding parameters, prompt and
generation are those of its own call. ``metrics`` has ``contradiction``, ``verifier_correct`` and ``verifier_score``
(1, 0, or ``None`` where the verdict could not be read) and ``judged_run_id``. Main tables leave these rows out.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.loops import run_blocking
from pcsuite._util.text import utc_now
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, task_items
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, Request
from pcsuite.engines.limits import RetryPolicy, calls_cost
from pcsuite.engines.session import ModelClient, open_models
from pcsuite.errors import (
    BudgetExceededError,
    CallOutcome,
    EngineError,
    ErrorRateError,
    LogError,
    ServerDownError,
)
from pcsuite.evaluation.base import Parsed, clean_text
from pcsuite.evaluation.parsing import parse_object
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunLog, RunPaths, newest_rows
from pcsuite.logging.row import DecodingRef, PromptRecord, RunRow, outcome_of
from pcsuite.logging.segments import Beside, log_exists
from pcsuite.programs.base import Outcome
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN
from pcsuite.runners.pipeline import (
    ASKING,
    FinishedRow,
    generation_record,
    in_lanes,
    unforeseen,
)
from pcsuite.runners.progress import Progress, RowSink, halting_on_request

VERSION = 1
"""Raised when the question changes; part of the run ids of verifier rows."""
DECODING = Decoding("verifier", temperature=0.0, top_p=1.0, max_tokens=40)
ANSWER_CHARACTERS = 4_000
"""What is shown of an answer; longer ones are cut in the middle."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"contradiction": {"type": "boolean"}, "correct": {"type": "boolean"}},
    "required": ["contradiction", "correct"],
    "additionalProperties": False,
}
CONSTRAINT = Constraint("json_schema", json.dumps(SCHEMA))
"""Asked for where the model's engine enforces it, so that small models give a readable verdict."""

_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """What the model judged; ``None`` where it could not be read."""

    contradiction: bool | None
    correct: bool | None
    parsed: Parsed


def verdict_prompt(instruction: str, input_label: str, input_text: str, answer: str) -> str:
    """The question about one answer.

    Shows the bare instruction, the input and the answer; of a long answer both ends.
    """
    excerpt = answer.strip()
    if len(excerpt) > ANSWER_CHARACTERS:
        half = ANSWER_CHARACTERS // 2
        excerpt = f"{excerpt[:half]}\n[…]\n{excerpt[-half:]}"
    return (
        "Judge an answer that was given to a task. Do not solve the task anew and do not continue the answer.\n\n"
        f"Task:\n{instruction}\n\n{input_label}:\n{input_text}\n\nAnswer:\n{excerpt}\n\n"
        "Two questions:\n"
        "1. contradiction: does one part of the answer contradict another part of it?\n"
        "2. correct: is the answer right?\n"
        'Reply with one JSON object and nothing else: {"contradiction": true or false, "correct": true or false}'
    )


def verdict_text(*, contradiction: bool, correct: bool) -> str:
    """A verdict as it should be written."""
    return json.dumps({"contradiction": contradiction, "correct": correct})


def read_verdict(text: str, finish_reason: str) -> AnswerVerdict:
    """Read a verdict: from JSON, else from lines such as ``contradiction: no``; never guess one.

    A truncated verdict counts only where it is whole JSON; a value that cannot be read is ``None``.
    """
    cleaned = clean_text(text)
    parsed = parse_object(cleaned, SCHEMA)
    if finish_reason == "length" and not parsed.schema_valid:
        parsed.parse_errors.append("truncated: generation ended at the token limit")
        return AnswerVerdict(None, None, parsed)
    contradiction = _truth_value(parsed.fields.get("contradiction"))
    correct = _truth_value(parsed.fields.get("correct"))
    if not parsed.json_valid:
        contradiction, correct = _stated(cleaned, "contradiction"), _stated(cleaned, "correct")
    return AnswerVerdict(contradiction, correct, parsed)


def _truth_value(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return _WORDS.get(value.strip().casefold()) if isinstance(value, str) else None


def _stated(text: str, name: str) -> bool | None:
    """The one value a text states for a name; ``None`` where it states none, or both."""
    pattern = rf"^(?:[^\S\n]|[\d.)*\"'-])*{name}[\s\"'*]*[:=][\s\"'*]*(true|false|yes|no)\b"
    stated = {_WORDS[word.casefold()] for word in re.findall(pattern, text, re.IGNORECASE | re.MULTILINE)}
    return stated.pop() if len(stated) == 1 else None


KIND = "verifier"


@dataclass(frozen=True, slots=True)
class ContradictionRate:
    """How often the answers of one cell contradict themselves by their own model's verdict."""

    items: int
    answers: int
    unreadable: int
    """Verdicts that could not be read; they count in no rate."""
    rate: float | None
    """Mean over items of the share of an item's answers that contradict themselves."""


@dataclass(frozen=True, slots=True)
class VerifierSummary:
    """What a pass did, and the rates over all of its rows."""

    paths: RunPaths
    asked: int
    done_before: int
    empty: int
    """Answers with no text, about which there is nothing to ask."""
    failed: int
    tokens: int
    seconds: float
    rates: Mapping[tuple[str, str, str], ContradictionRate]
    """By task, model and condition."""


CONTRADICTED, VOTED, VOTED_CONDITIONS = ("truthfulqa",), ("number", "choice"), ("C4", "C5", "C8")
"""Evaluators of tasks whose answers may contradict themselves, and of those that replicates vote on, in which
conditions: what the protocol asks the verifier about."""


def protocol_parts(suite: Suite) -> list[Suite]:
    """The parts of a profile whose answers the whole protocol has judged; none where it selects none of them.

    Contradictions are asked of short free answers in every condition, tie-breaks of votes where votes are counted.
    """
    selection = suite.profile.selection
    parts = []
    for evaluators, conditions in (
        (CONTRADICTED, selection.conditions),
        (VOTED, tuple(name for name in selection.conditions if name in VOTED_CONDITIONS)),
    ):
        tasks = tuple(name for name in selection.tasks if suite.tasks[name].evaluator in evaluators)
        if tasks and conditions:
            chosen = selection.model_copy(update={"tasks": tasks, "conditions": conditions})
            parts.append(replace(suite, profile=suite.profile.model_copy(update={"selection": chosen})))
    return parts


def verifier_pass(
    suite: Suite, *, quiet: bool = False, policy: RetryPolicy | None = None, use_cache: bool = True
) -> VerifierSummary:
    """Judge every stored answer that the profile selects and that was not judged yet.

    Raises :class:`LogError` where there is no log, and what ends a run: a used-up budget, too many errors.
    """
    return run_blocking(_run(suite, quiet=quiet, policy=policy, use_cache=use_cache))


def contradiction_rates(rows: Iterable[RunRow]) -> dict[tuple[str, str, str], ContradictionRate]:
    """Rates by task, model and condition from verifier rows; replicates are averaged within the item first.

    Unreadable verdicts count in no rate; ``rate`` is ``None`` where none of a cell could be read.
    """
    by_cell: dict[tuple[str, str, str], dict[str, list[bool | None]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.kind == KIND and not row.errors:
            cell = (row.task.id, row.model.id, row.condition.id)
            by_cell[cell][row.task.item_id].append(row.metrics["contradiction"])
    rates = {}
    for cell, items in by_cell.items():
        read = [[value for value in values if value is not None] for values in items.values()]
        means = [sum(values) / len(values) for values in read if values]
        answers = sum(len(values) for values in items.values())
        rates[cell] = ContradictionRate(
            len(items),
            answers,
            answers - sum(len(values) for values in read),
            sum(means) / len(means) if means else None,
        )
    return rates


def verifier_run_id(judged: RunRow) -> str:
    """Run id of the row that judges another: its run id and its very answer.

    A rescored row keeps its judge; another answer under the same run id is judged anew.
    """
    assert judged.generation is not None
    answer = sha256_hex(judged.generation.text)
    return sha256_hex(f"{KIND}|{VERSION}|{judged.run_id}|{answer}")


async def _run(suite: Suite, *, quiet: bool, policy: RetryPolicy | None, use_cache: bool) -> VerifierSummary:
    run = suite.profile.run
    started = time.monotonic()
    paths = RunPaths.of(run.output_dir, run.name)
    if not log_exists(paths.log):
        raise LogError(f"{paths.log}: no answers to judge", hint="pcsuite run --config PROFILE writes them")
    with RunLog.of(run) as log:
        answered = [row for row in newest_rows(paths.log) if _is_selected(suite, row)]
        judged = [row for row in answered if row.generation is not None and row.generation.text.strip()]
        pending = [row for row in judged if verifier_run_id(row) not in log.index]
        models = [name for name in suite.profile.selection.models if any(r.model.id == name for r in pending)]
        async with open_models(suite, models, policy=policy, use_cache=use_cache) as session:
            session.remember_refusals(Beside.REFUSED.of(paths.log))
            with (
                counting(paths.log, session.budget, suite.profile.limits),
                Progress(len(pending), quiet=quiet) as progress,
            ):
                sink = RowSink(log, progress, suite.profile.limits.stop_on_error_rate)
                with halting_on_request(paths.log, sink):
                    for client in session.clients.values():
                        rows = (row for row in pending if row.model.id == client.model_id)
                        await _judge_rows(client, rows, sink, paths)
        if sink.stop is not None:
            raise sink.stop
    judging_ids = {verifier_run_id(row) for row in judged}
    rates = contradiction_rates(row for row in newest_rows(paths.log) if row.run_id in judging_ids)
    return VerifierSummary(
        paths,
        asked=progress.tally.done,
        done_before=len(judged) - len(pending),
        empty=len(answered) - len(judged),
        failed=progress.tally.failed,
        tokens=progress.tally.tokens,
        seconds=time.monotonic() - started,
        rates=rates,
    )


def _is_selected(suite: Suite, row: RunRow) -> bool:
    """Whether a row holds an answer that the profile selects (members of a design go by its name)."""
    selection = suite.profile.selection
    return (
        row.kind == "main"
        and not row.errors
        and row.task.id in selection.tasks
        and row.model.id in selection.models
        and (
            row.condition.id in selection.conditions
            or row.condition.id.partition(":")[0] in selection.conditions
        )
        and row.decoding.id in selection.decoding_regimes
    )


async def _judge_rows(client: ModelClient, rows: Iterator[RunRow], sink: RowSink, paths: RunPaths) -> None:
    """Ask a model about its answers and log the verdicts, as many at once as the model takes."""
    suite, constraint = client.session.suite, None
    if "json_schema" in client.adapter.native_constraints:
        constraint = CONSTRAINT if await client.why_unenforced(CONSTRAINT) is None else None
    items: dict[tuple[str, str], dict[str, Item]] = {}

    def item_of(row: RunRow) -> Item:
        key = (row.task.id, row.task.split)
        if key not in items:
            cache_dir = Path(suite.profile.run.cache_dir)
            loaded = task_items(suite.tasks[row.task.id], row.task.split, cache_dir)
            items[key] = {item.item_id: item for item in loaded.items}
        item = items[key].get(row.task.item_id)
        if item is None:
            raise LogError(
                f"{paths.log}: item '{row.task.item_id}' of task '{row.task.id}' is not in its dataset",
                hint="the log and run.cache_dir do not belong together",
            )
        return item

    async def judge(row: RunRow) -> FinishedRow:
        assert row.generation is not None
        task = suite.tasks[row.task.id]
        text = item_of(row).input_text
        prompt = verdict_prompt(task.instruction, task.input_label, text, row.generation.text)
        generation, parsed = None, None
        metrics: dict[str, object] = {}
        errors: list[str] = []
        tokens: int | None = None
        became: CallOutcome = "failed"
        try:
            if client.adapter.counts_remotely:
                tokens = await client.retried(lambda: asyncio.to_thread(client.adapter.count_tokens, prompt))
            else:
                tokens = client.adapter.count_tokens(prompt)
            answer = await client.ask(Request(prompt, DECODING, 0, constraint, _context(row)))
            outcome = Outcome(answer["text"], answer["finish_reason"], calls=[answer])
            generation, usage = generation_record(outcome)
            became = outcome_of(outcome.finish_reason)
            metrics["token_cost"] = usage.total_tokens if usage is not None else None
            metrics["cost_usd"] = calls_cost(client.price, [answer])
            verdict = read_verdict(answer["text"], answer["finish_reason"])
            parsed = verdict.parsed
            metrics["contradiction"] = verdict.contradiction
            metrics["verifier_correct"] = verdict.correct
            metrics["verifier_score"] = None if verdict.correct is None else float(verdict.correct)
        # These end the pass; noted as an error of the row, they would befall every row after it.
        except (BudgetExceededError, ErrorRateError, ServerDownError):
            raise
        except EngineError as error:
            errors.append(str(error))
            became = error.outcome
        except Exception as error:
            errors.append(unforeseen(ASKING, error))
        verdict_row = msgspec.structs.replace(
            _verifier_row(client, row, prompt, tokens),
            generation=generation,
            parsed=parsed,
            metrics={**metrics, "judged_run_id": row.run_id},
            errors=errors,
            outcome=became,
        )
        return FinishedRow.of(verdict_row, prompt)

    sources = [(rows, client.concurrency)]
    await in_lanes(sources, judge, sink.accept, sink.halt, lambda: sink.stop is not None)


def _verifier_row(
    client: ModelClient,
    row: RunRow,
    prompt: str,
    tokens: int | None,
) -> RunRow:
    """The row that judges another, with all that the two have in common; what was answered is still the other's."""
    return msgspec.structs.replace(
        row,
        run_id=verifier_run_id(row),
        timestamp_utc=utc_now(),
        config_hash=client.session.suite.config_hash,
        pcsuite_version=__version__,
        decoding=DecodingRef(row.decoding.id, DECODING.temperature, DECODING.top_p, DECODING.max_tokens),
        prompt=PromptRecord(
            prompt_hash=sha256_hex(prompt),
            schema_hash=None,
            template=f"{KIND}_pass_v{VERSION}",
            rendered_chars=len(prompt),
            prompt_tokens=len(prompt) // CHARACTERS_PER_TOKEN if tokens is None else tokens,
            padded=0,
            tokens_exact=tokens is not None,
        ),
        kind=KIND,
        engine=client.identity,
        judge=msgspec.UNSET,
        scores=msgspec.UNSET,
    )


def _context(row: RunRow) -> CallContext:
    """What a simulated model answers from: a true verdict is "consistent, and right exactly if scored 1"."""
    right = row.metrics.get("task_score") == 1.0
    return CallContext(
        task_id=row.task.id,
        item_id=row.task.item_id,
        condition_id=f"{KIND}|{row.run_id}",
        operators=(),
        perturbation="none",
        gold=lambda: verdict_text(contradiction=False, correct=right),
        wrong=lambda rng: verdict_text(contradiction=rng.random() < 0.5, correct=not right),
    )
