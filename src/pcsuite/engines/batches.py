"""Calls through a provider's batch API, and the folder beside the log that remembers them.

A :class:`BatchClient` answers the calls of one model: it collects what is asked until nothing more comes, sends it as a
batch, waits for the end, and gives each call its answer. The pipeline above does not know: a row is made as ever.

Everything is noted in the folder before it is done and after, so a process may die between any two steps: what was
planned is sent by the next one, what may have been sent is looked for on the server before it is sent again, what ended
is collected, and an answer that was collected is never asked for again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from pcsuite._util.append import append_durably, read_lines
from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.secrets import redact
from pcsuite._util.text import describe, shorten, utc_now
from pcsuite.config.profile import BatchSection
from pcsuite.engines.adapters._batch_wire import (
    COLLECTED,
    PLANNED,
    SENDING,
    SENT,
    UPLOADED,
    Batch,
    BatchResult,
    BatchService,
    openai_line,
    openai_result,
    result_lines,
)
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters._openai_wire import CHAT
from pcsuite.engines.adapters.base import Generation, ModelAdapter, Request
from pcsuite.errors import ConfigError, EngineError, LogError

_LOGGER = logging.getLogger("pcsuite")
ReturnT = TypeVar("ReturnT")
_JOURNAL = "journal.jsonl"
SEND_ATTEMPTS = 8
"""Tries to send a batch before its calls fail."""
IMPORTED = "imported"
"""Stands for the batch of answers that a file brought."""


def request_id(request: Request) -> str:
    """The id of a call in batches and files: a hash of its row, its step in the row's program, and the prompt.

    48 hexadecimal digits, which every provider takes; the same call has the same id in every process.
    """
    return sha256_hex(f"{request.row}|{request.step}|{sha256_hex(request.prompt)}")[:48]


class _Note(msgspec.Struct, omit_defaults=True):
    """A line of the journal."""

    token: str
    event: str
    at: str
    model: str = ""
    file_id: str = ""
    batch_id: str = ""


class BatchStore:
    """The folder of a run's batches: what was sent, under which ids, and what came back.

    One process at a time may use it; the lock of the run's log sees to that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: dict[str, Batch] = {}
        self._results: dict[tuple[str, str], tuple[str, bytes]] = {}
        """Model and request id to the batch's id and the line of its newest result."""
        try:
            for line in read_lines(folder / _JOURNAL):
                # A torn line is the last of a process that died: nothing had relied on it.
                with suppress(msgspec.MsgspecError):
                    self._apply(msgspec.json.decode(line, type=_Note))
            for batch in self.batches.values():
                self._load(batch)
        except OSError as error:
            raise LogError(f"{folder}: cannot be read ({error.strerror or error})") from error

    def _apply(self, note: _Note) -> None:
        batch = self.batches.get(note.token)
        if batch is None:
            moment = datetime.fromisoformat(note.at)
            batch = self.batches[note.token] = Batch(note.token, note.model, moment)
        batch.event = note.event
        batch.file_id = note.file_id or batch.file_id
        batch.batch_id = note.batch_id or batch.batch_id
        if note.event == SENDING:
            batch.at = datetime.fromisoformat(note.at)

    def _load(self, batch: Batch) -> None:
        if batch.event != COLLECTED:
            lines = result_lines(self.requests(batch))
            batch.ids = frozenset(str(msgspec.json.decode(line)["custom_id"]) for line in lines)
            return
        for line in result_lines(self.path(batch, "results").read_bytes()):
            with suppress(msgspec.MsgspecError, KeyError):
                key = str(msgspec.json.decode(line)["custom_id"])
                self._results[batch.model, key] = (batch.batch_id, line)

    def path(self, batch: Batch, what: str) -> Path:
        """The file of a batch's ``requests`` or ``results``."""
        return self.folder / f"{batch.token}.{what}.jsonl"

    def requests(self, batch: Batch) -> bytes:
        """The requests of a batch as they were or will be sent."""
        return self.path(batch, "requests").read_bytes()

    def plan(self, model: str, lines: Mapping[str, bytes]) -> Batch:
        """Write down a batch that is to be sent: first its requests, then that there is one.

        ``lines`` are the requests by their ids. Raises :class:`LogError` where the folder cannot be written.
        """
        batch = Batch(uuid4().hex[:16], model, datetime.now(timezone.utc), ids=frozenset(lines))
        with write_errors(LogError, self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_atomically(self.path(batch, "requests"), b"".join(lines.values()))
        self.batches[batch.token] = batch
        self.note(batch, PLANNED)
        return batch

    def note(self, batch: Batch, event: str, *, file_id: str = "", batch_id: str = "") -> None:
        """Write down what has happened to a batch, on the disk before this returns.

        A process that dies goes on from the last note. Raises :class:`LogError` where it cannot be written.
        """
        at = utc_now()
        line = _Note(batch.token, event, at, batch.model, file_id, batch_id)
        append_durably(self.folder / _JOURNAL, msgspec.json.encode(line) + b"\n")
        self._apply(line)

    def collect(self, batch: Batch, content: bytes) -> None:
        """Keep the results of a batch: first the file, then the note that makes it count.

        ``content`` is empty for a batch that was refused. Raises :class:`LogError` where the folder cannot be written.
        """
        with write_errors(LogError, self.folder):
            replace_atomically(self.path(batch, "results"), content)
        self.note(batch, COLLECTED, batch_id=batch.batch_id)
        self._load(batch)

    def keep(self, model: str, content: bytes) -> None:
        """Keep results that no batch brought, as if one had."""
        self.folder.mkdir(parents=True, exist_ok=True)
        batch = Batch(uuid4().hex[:16], model, datetime.now(timezone.utc), batch_id=IMPORTED)
        self.batches[batch.token] = batch
        self.collect(batch, content)

    def result(self, model: str, key: str) -> tuple[str, bytes] | None:
        """The batch and the newest result of a request, by the request's id, or ``None``."""
        return self._results.get((model, key))

    def open_batches(self, model: str | None = None) -> list[Batch]:
        """Batches, of one model or all, that are not collected yet."""
        batches = [batch for batch in self.batches.values() if batch.event != COLLECTED]
        return [batch for batch in batches if model in (None, batch.model)]


def service_of(adapter: ModelAdapter, model_id: str) -> BatchService:
    """The batch API of a model's provider; raises :class:`ConfigError` where it has none."""
    service = adapter.batches() if isinstance(adapter, HttpAdapter) else None
    if service is None:
        raise ConfigError(
            f"model '{model_id}' cannot be asked in batches: its provider has no batch API",
            hint="leave --batch away, name other models (--models), or use --batch-export with an offline engine",
        )
    return service


def read_result(adapter: HttpAdapter, request: Request, batch_id: str, result: BatchResult) -> Generation:
    """The answer that a batch brought for a request; raises :class:`EngineError` where it brought none.

    A request that never ran is retryable. Texts are freed of the key, should a server echo it.
    """
    with adapter.clean_errors():
        if not result.ok:
            error = result.error()
            # Of a batch's many refusals of one parameter the first teaches it; all of them are worth the next batch.
            if adapter.leave_out(error, request, adapter.wire(request)) or adapter.leaves_out(error):
                error.retryable = True
            raise error
        path = adapter.wire(request).path
        (generation, *_) = adapter.read_answer(request, path, result.body)
    generation["text"] = redact(generation["text"], guess=False)
    generation["latency_ms"] = None
    generation["batch"] = batch_id
    return generation


class BatchClient:
    """Answers the calls of one model through batches; for one event loop."""

    def __init__(self, model_id: str, service: BatchService, folder: Path, settings: BatchSection) -> None:
        self.model_id = model_id
        self.adapter = service.adapter
        self.service = service
        self.settings = settings
        self._folder = folder
        self._store: BatchStore | None = None
        self._queue: dict[str, bytes] = {}
        self._futures: dict[str, asyncio.Future[tuple[str, bytes]]] = {}
        self._unreadable: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._collecting: asyncio.Task[None] | None = None

    def stored_answer(self, request: Request) -> Generation | None:
        """The answer that an earlier batch brought, or ``None``.

        One that cannot be read is asked for again, and so is a request that failed.
        """
        key = request_id(request)
        stored = self._opened().result(self.model_id, key)
        if stored is None or key in self._unreadable:
            return None
        batch_id, line = stored
        try:
            result = self.service.read(line)
            return read_result(self.adapter, request, batch_id, result) if result.ok else None
        except (EngineError, ValueError):
            self._unreadable.add(key)  # it is asked for again
            return None

    async def answer(self, request: Request) -> Generation:
        """The answer to a request: one that was collected, of a batch under way, or of the next one.

        Raises :class:`EngineError` where the batch brought none, retryable where another batch may.
        """
        store = self._opened()
        stored = self.stored_answer(request)
        if stored is not None:
            return stored
        key = request_id(request)
        future = self._futures.get(key)
        if future is None:
            future = self._futures[key] = asyncio.get_running_loop().create_future()
            under_way = [batch for batch in store.open_batches(self.model_id) if key in batch.ids]
            for batch in under_way:
                self._ensure_running(batch)  # resumes one that had failed
            if not under_way:
                self._queue[key] = self.service.encode(key, self.adapter.wire(request))
                if self._collecting is None or self._collecting.done():
                    self._collecting = self._start(self._send_when_quiet())
        batch_id, line = await future
        try:
            return read_result(self.adapter, request, batch_id, self.service.read(line))
        except ValueError as error:
            why = f"the batch's result cannot be read: {shorten(str(error))}"
            raise EngineError(why, retryable=True) from None

    async def aclose(self) -> None:
        """Stop waiting; batches that are under way go on at the provider and are collected by the next process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _opened(self) -> BatchStore:
        """The store, read when it is first needed: the run's log, and with it the folder, is then locked."""
        if self._store is None:
            self._store = BatchStore(self._folder)
            for batch in self._store.open_batches(self.model_id):
                self._ensure_running(batch)
        return self._store

    def _ensure_running(self, batch: Batch) -> None:
        """Start the task that brings a batch to its end, unless it is running."""
        task = self._running.get(batch.token)
        if task is None or task.done():
            self._running[batch.token] = self._start(self._run_batch(batch))

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _send_when_quiet(self) -> None:
        """Wait until no further call comes, then send what there is, in batches of the configured size."""
        before = -1
        while len(self._queue) != before:
            before = len(self._queue)
            await asyncio.sleep(self.settings.gather_s)
        while self._queue:
            lines: dict[str, bytes] = {}
            size = 0
            for key in list(self._queue):
                size += len(self._queue[key])
                if lines and (len(lines) >= self.settings.max_requests or size > self.settings.max_mb * 1e6):
                    break
                lines[key] = self._queue.pop(key)
            try:
                batch = self._opened().plan(self.model_id, lines)
            except LogError as error:
                self._fail(lines, EngineError(error.message, hint=error.hint))
                continue
            self._ensure_running(batch)

    async def _run_batch(self, batch: Batch) -> None:
        """Bring a batch from wherever it is to its end, and give its answers to those who wait."""
        try:
            await self._send(batch)
            await self._wait(batch)
        except EngineError as error:
            _LOGGER.warning("batch %s: %s", batch.batch_id or batch.token, error.message)
            if error.status == 404:
                error.hint = f"if the provider no longer has the batch, delete {self._folder} to send it anew"
            self._fail(batch.ids, error)
        except LogError as error:
            self._fail(batch.ids, EngineError(error.message, hint=error.hint))
        except Exception as error:  # whatever a server sent: nobody may wait for ever
            why = f"batch {batch.batch_id or batch.token}: {describe(error)}"
            _LOGGER.warning("%s", why)
            self._fail(batch.ids, EngineError(why))
        else:
            for key in batch.ids:
                stored = self._opened().result(self.model_id, key)
                future = self._futures.get(key)
                if stored is not None and stored[0] == batch.batch_id and future and not future.done():
                    future.set_result(stored)
                    del self._futures[key]
            missing = EngineError("the batch ended without an answer to this request", retryable=True)
            self._fail(batch.ids, missing)

    def _fail(self, keys: Iterable[str], error: EngineError) -> None:
        for key in keys:
            future = self._futures.pop(key, None)
            if future is not None and not future.done():
                future.set_exception(error)

    async def _send(self, batch: Batch) -> None:
        """Upload and create, each once; where it is not known whether a batch was created, it is looked for first."""
        store, service = self._opened(), self.service
        content = store.requests(batch)
        if batch.event == PLANNED:
            file_id = await self._with_retries(lambda: service.upload(content, batch.token), SEND_ATTEMPTS)
            store.note(batch, UPLOADED, file_id=file_id)
        doubtful = batch.event == SENDING
        if batch.event == UPLOADED:
            store.note(batch, SENDING)
        attempt = 0
        while batch.event == SENDING:
            if doubtful and (batch_id := await self._find(batch)) is not None:
                store.note(batch, SENT, batch_id=batch_id)
                break
            try:
                batch_id = await service.create(content, batch.file_id, batch.token)
            except EngineError as error:
                attempt += 1
                # An answer below 500 says that nothing was made; anything else leaves it open.
                doubtful = error.status is None or error.status >= 500
                if not error.retryable:
                    store.collect(batch, b"")  # refused for good: nothing of it will ever come
                    raise
                if attempt >= SEND_ATTEMPTS or error.unreachable:
                    raise
                _LOGGER.warning("batch %s: %s; trying again", batch.token, error.message)
                await asyncio.sleep(error.retry_after or min(self.settings.poll_s, 2.0**attempt))
                continue
            store.note(batch, SENT, batch_id=batch_id)
            _LOGGER.info("batch %s: %d requests to %s sent", batch_id, len(batch.ids), self.model_id)

    async def _find(self, batch: Batch) -> str | None:
        """The id of a batch that may have been created, looked for until a late request would have arrived."""
        others = {other.batch_id for other in self._opened().batches.values() if other.batch_id}
        while True:
            batch_id = await self._with_retries(lambda: self.service.find(batch, others))
            age = (datetime.now(timezone.utc) - batch.at).total_seconds()
            if batch_id is not None or age > self.settings.settle_s:
                return batch_id
            await asyncio.sleep(min(self.settings.poll_s, max(0.05, self.settings.settle_s - age)))

    async def _wait(self, batch: Batch) -> None:
        store, service, reported = self._opened(), self.service, (-1, -1)
        while batch.event == SENT:
            state = await self._with_retries(partial(service.state, batch.batch_id))
            # Only what changed: a batch may run for a day.
            if (state.done, state.failed) != reported:
                reported = (state.done, state.failed)
                failed = f", {state.failed} failed" if state.failed else ""
                _LOGGER.info("batch %s: %d of %d done%s", batch.batch_id, state.done, len(batch.ids), failed)
            if state.ended:
                content = await self._with_retries(partial(service.results, batch.batch_id, state))
                store.collect(batch, content)
                if state.problem:
                    raise EngineError(f"the batch was refused: {state.problem}", retryable=state.retry)
                return
            await asyncio.sleep(self.settings.poll_s)

    async def _with_retries(
        self, ask: Callable[[], Awaitable[ReturnT]], attempts: float = math.inf
    ) -> ReturnT:
        """What a request to the service returns; a server that is busy or away is asked again.

        Without a number of ``attempts`` that goes on for as long as it takes: what was sent is paid for.
        """
        attempt = 0
        while True:
            try:
                return await ask()
            except EngineError as error:
                attempt += 1
                exhausted = attempt >= attempts or (error.unreachable and attempts < math.inf)
                if exhausted or not error.retryable:
                    raise
                # Not every time: a provider may be away for hours.
                if attempt == 1 or attempt % 20 == 0:
                    _LOGGER.warning("batches of %s: %s; asking again", self.model_id, error.message)
                await asyncio.sleep(error.retry_after or min(self.settings.poll_s, 2.0**attempt))


# Files for engines that work offline, such as vLLM's run-batch.


class AnswerFile:
    """Answers of files in OpenAI's batch format, kept in the run's folder as if a batch had brought them."""

    def __init__(self, folder: Path, model_id: str) -> None:
        self.model_id = model_id
        self.store = BatchStore(folder)

    def keep(self, lines: Iterable[bytes]) -> None:
        """Keep lines of results; the newest of a request counts."""
        self.store.keep(self.model_id, b"\n".join(lines) + b"\n")

    def answer(self, adapter: HttpAdapter, request: Request) -> Generation | None:
        """The answer to a request, or ``None`` where no file had one; raises where the engine failed on it.

        The error is an :class:`EngineError` with the engine's own words.
        """
        stored = self.store.result(self.model_id, request_id(request))
        if stored is None:
            return None
        batch_id, line = stored
        return read_result(adapter, request, batch_id, openai_result(line))


def read_answer_file(path: Path) -> dict[str, bytes]:
    """The lines of a file of results in OpenAI's batch format, by request id; the last of an id counts.

    Raises :class:`ConfigError`, with the line's number, for a file that is none or holds no answer.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    lines: dict[str, bytes] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            lines[openai_result(line).id] = line
        except (ValueError, RecursionError) as error:
            hint = "give the file that the engine wrote, one answer a line"
            raise ConfigError(f"{path}:{number}: no line of batch results ({error})", hint=hint) from None
    if not lines:
        raise ConfigError(f"{path}: there are no answers in it")
    return lines


def export_line(adapter: ModelAdapter, request: Request) -> bytes:
    """A request as a line of OpenAI's batch format, which vLLM's ``run-batch`` reads; newline included.

    Raises :class:`ConfigError` for a model whose wire is another.
    """
    wire = adapter.wire(request) if isinstance(adapter, HttpAdapter) else None
    if wire is None or wire.path != CHAT:
        raise ConfigError(
            f"the wire of '{adapter.model_id}' is not OpenAI's: its requests cannot be exported",
            hint="name the model by a server of that wire, for example vllm/NAME",
        )
    return openai_line(request_id(request), wire)
