"""The verifier pass: the same model, at temperature 0, judges an answer that it gave before.

It is asked two things: whether the answer contradicts itself, and whether it is right as far as the model can
tell. It sees the task's bare instruction, the input and the answer; never the truth, and no operator's text.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, load_items
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, ModelAdapter
from pcsuite.engines.limits import Budget, RetryPolicy
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache
from pcsuite.engines.session import ModelClient
from pcsuite.errors import BudgetExceededError, EngineError, LogError, PcsuiteError
from pcsuite.evaluation.base import Parsed
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.logging.log import RunLog, RunPaths, newest_rows
from pcsuite.logging.row import (
    DecodingRef,
    GenerationRecord,
    ParsedRecord,
    PromptRecord,
    RunRow,
)
from pcsuite.logging.segments import log_exists
from pcsuite.programs.base import Reply
from pcsuite.runners.pipeline import total_usage, utc_now
from pcsuite.runners.plan import build_model
from pcsuite.runners.progress import Progress

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
class Verdict:
    """What the model judged; ``None`` where it could not be read."""

    contradiction: bool | None
    correct: bool | None
    parsed: Parsed


def verdict_prompt(instruction: str, input_label: str, input_text: str, answer: str) -> str:
    """The question about one answer."""
    shown = answer.strip()
    if len(shown) > ANSWER_CHARACTERS:
        half = ANSWER_CHARACTERS // 2
        shown = f"{shown[:half]}\n[…]\n{shown[-half:]}"
    return (
        "Judge an answer that was given to a task. Do not solve the task anew and do not continue the answer.\n\n"
        f"Task:\n{instruction}\n\n{input_label}:\n{input_text}\n\nAnswer:\n{shown}\n\n"
        "Two questions:\n"
        "1. contradiction: does one part of the answer contradict another part of it?\n"
        "2. correct: is the answer right?\n"
        'Reply with one JSON object and nothing else: {"contradiction": true or false, "correct": true or false}'
    )


def verdict_text(*, contradiction: bool, correct: bool) -> str:
    """A verdict as it should be written."""
    return json.dumps({"contradiction": contradiction, "correct": correct})


def read_verdict(text: str, finish_reason: str) -> Verdict:
    """Read a verdict: from JSON, else from lines such as ``contradiction: no``; never guess one."""
    cleaned = clean_text(text)
    parsed = parse_object(cleaned, SCHEMA)
    if finish_reason == "length" and not parsed.schema_valid:
        parsed.parse_errors.append("truncated: generation ended at the token limit")
        return Verdict(None, None, parsed)
    contradiction = _truth_value(parsed.fields.get("contradiction"))
    correct = _truth_value(parsed.fields.get("correct"))
    if not parsed.json_valid:
        contradiction, correct = _stated(cleaned, "contradiction"), _stated(cleaned, "correct")
    return Verdict(contradiction, correct, parsed)


def _truth_value(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return _WORDS.get(value.strip().casefold()) if isinstance(value, str) else None


def _stated(text: str, name: str) -> bool | None:
    """The one value a text states for a name; ``None`` where it states none, or both."""
    pattern = rf"^[\s\d.)*\"'-]*{name}[\s\"'*]*[:=][\s\"'*]*(true|false|yes|no)\b"
    stated = {_WORDS[word.casefold()] for word in re.findall(pattern, text, re.IGNORECASE | re.MULTILINE)}
    return stated.pop() if len(stated) == 1 else None


# Running the verifier pass over a log: one more row for every answer, of kind ``verifier``.
#
# A verifier row repeats task, model, condition, regime id, seed and perturbation of the row it judges, so that
# it joins on the same columns; its decoding parameters, prompt and generation are those of its own call.
# ``metrics`` has ``contradiction``, ``verifier_correct`` and ``verifier_score`` (1, 0, or ``None`` where the
# verdict could not be read) and ``judged_run_id``. Main tables leave these rows out by their kind.


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


def verifier_pass(
    suite: Suite, *, quiet: bool = False, policy: RetryPolicy | None = None, use_cache: bool = True
) -> VerifierSummary:
    """Judge every stored answer that the profile selects and that was not judged yet."""
    return asyncio.run(_run(suite, quiet=quiet, policy=policy or RetryPolicy(), use_cache=use_cache))


def contradiction_rates(rows: Iterable[RunRow]) -> dict[tuple[str, str, str], ContradictionRate]:
    """Rates by task, model and condition from verifier rows; replicates are averaged within the item first."""
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
    """Run id of the row that judges another: its run id and its very answer."""
    assert judged.generation is not None
    answer = sha256_hex(judged.generation.text)
    return sha256_hex(f"{KIND}|{VERSION}|{judged.run_id}|{answer}")


async def _run(suite: Suite, *, quiet: bool, policy: RetryPolicy, use_cache: bool) -> VerifierSummary:
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
        adapters = {model_id: build_model(suite, model_id) for model_id in models}
        cache = ResponseCache(Path(run.cache_dir) / FILE_NAME) if use_cache else None
        try:
            with Progress(len(pending), quiet=quiet) as progress:
                runner = _VerifierRunner(suite, log, cache, policy, progress)
                await runner.run(adapters, pending)
        finally:
            if cache is not None:
                cache.close()
            for adapter in adapters.values():
                await adapter.aclose()
    wanted = {verifier_run_id(row) for row in judged}
    rates = contradiction_rates(row for row in newest_rows(paths.log) if row.run_id in wanted)
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


class _VerifierRunner:
    """Asks about answers and logs the verdicts."""

    def __init__(
        self, suite: Suite, log: RunLog, cache: ResponseCache | None, policy: RetryPolicy, progress: Progress
    ) -> None:
        self._suite = suite
        self._log = log
        self._cache = cache
        self._policy = policy
        self._progress = progress
        limits = suite.profile.limits
        self._budget = Budget(limits.max_tokens_overall, limits.max_cost_usd)
        self._items: dict[tuple[str, str], dict[str, Item]] = {}
        self._stop: PcsuiteError | None = None

    async def run(self, adapters: Mapping[str, ModelAdapter], pending: Sequence[RunRow]) -> None:
        """Judge all rows, one model after the other."""
        inflight = self._suite.profile.repro.max_inflight
        for model_id, adapter in adapters.items():
            client = ModelClient(
                model_id,
                self._suite.models[model_id],
                adapter,
                gate=asyncio.Semaphore(inflight),
                max_inflight=inflight,
                budget=self._budget,
                cache=self._cache,
                policy=self._policy,
            )
            enforced = "json_schema" in adapter.native_constraints and await client.enforces("json_schema")
            rows = iter([row for row in pending if row.model.id == model_id])
            constraint = CONSTRAINT if enforced else None
            await asyncio.gather(*(self._work(client, rows, constraint) for _ in range(client.concurrency)))
        if self._stop is not None:
            raise self._stop

    async def _work(self, client: ModelClient, rows: Iterator[RunRow], constraint: Constraint | None) -> None:
        """Take rows until there are none; the iterator is shared, so each is taken once."""
        for row in rows:
            if self._stop is not None:
                return
            try:
                await self._judge(client, row, constraint)
            except BudgetExceededError as error:
                self._stop = self._stop or error

    async def _judge(self, client: ModelClient, row: RunRow, constraint: Constraint | None) -> None:
        assert row.generation is not None
        task = self._suite.tasks[row.task.id]
        item = self._item(row)
        prompt = verdict_prompt(task.instruction, task.input_label, item.input_text, row.generation.text)
        try:
            reply = await client.ask(prompt, DECODING, 0, constraint, _context(row))
        except EngineError as error:
            failed = self._row(
                row, prompt, client, generation=None, parsed=None, metrics={}, errors=[str(error)]
            )
            self._log.append(failed, prompt)
            self._progress.advance(tokens=0, cost_usd=0.0, failed=True, cache_hit=False)
            return
        verdict = read_verdict(reply.text, reply.finish_reason)
        self._log.append(self._judged(row, prompt, client, reply, verdict), prompt)
        tokens = 0 if reply.cache_hit else reply.usage["total_tokens"]
        cost = 0.0 if reply.cache_hit else _cost(client, reply)
        self._progress.advance(tokens=tokens, cost_usd=cost, failed=False, cache_hit=reply.cache_hit)

    def _item(self, row: RunRow) -> Item:
        key = (row.task.id, row.task.split)
        if key not in self._items:
            dataset = self._suite.tasks[row.task.id].dataset
            loaded = load_items(dataset, row.task.split, Path(self._suite.profile.run.cache_dir))
            self._items[key] = {item.item_id: item for item in loaded.items}
        item = self._items[key].get(row.task.item_id)
        if item is None:
            raise LogError(
                f"{self._log.paths.log}: item '{row.task.item_id}' of task '{row.task.id}' is not in its dataset",
                hint="the log and run.cache_dir do not belong together",
            )
        return item

    def _judged(
        self, row: RunRow, prompt: str, client: ModelClient, reply: Reply, verdict: Verdict
    ) -> RunRow:
        generation = GenerationRecord(
            text=reply.text,
            finish_reason=reply.finish_reason,
            latency_ms=reply.latency_ms,
            usage=total_usage([reply]),
            constraint_backend=reply.constraint_backend,
            cache_hit=reply.cache_hit,
            attempts=max(1, reply.attempts),
        )
        found = verdict.parsed
        parsed = ParsedRecord(
            found.json_valid, found.schema_valid, found.json_mode, None, found.fields, found.parse_errors
        )
        metrics: dict[str, object] = {
            "contradiction": verdict.contradiction,
            "verifier_correct": verdict.correct,
            "verifier_score": None if verdict.correct is None else float(verdict.correct),
            "token_cost": reply.usage["total_tokens"],
            "cost_usd": _cost(client, reply),
        }
        return self._row(
            row, prompt, client, generation=generation, parsed=parsed, metrics=metrics, errors=[]
        )

    def _row(
        self,
        row: RunRow,
        prompt: str,
        client: ModelClient,
        *,
        generation: GenerationRecord | None,
        parsed: ParsedRecord | None,
        metrics: dict[str, object],
        errors: list[str],
    ) -> RunRow:
        tokens = client.adapter.count_tokens(prompt)
        record = PromptRecord(
            prompt_hash=sha256_hex(prompt),
            schema_hash=None,
            template=f"{KIND}_pass_v{VERSION}",
            rendered_chars=len(prompt),
            prompt_tokens=len(prompt) // 4 if tokens is None else tokens,
            padded=0,
            tokens_exact=tokens is not None,
        )
        return msgspec.structs.replace(
            row,
            run_id=verifier_run_id(row),
            timestamp_utc=utc_now(),
            config_hash=self._suite.config_hash,
            pcsuite_version=__version__,
            decoding=DecodingRef(row.decoding.id, DECODING.temperature, DECODING.top_p, DECODING.max_tokens),
            prompt=record,
            generation=generation,
            parsed=parsed,
            metrics={**metrics, "judged_run_id": row.run_id},
            errors=errors,
            kind=KIND,
            engine=client.identity,
        )


def _cost(client: ModelClient, reply: Reply) -> float:
    return client.spec.cost(reply.usage["prompt_tokens"], reply.usage["completion_tokens"])


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
