"""Providers' batch APIs: OpenAI's files and batches, which others speak too, and Anthropic's message batches.

A batch is made of lines with an id of ours. A service sends them, says how far they are and brings the results; what it
has sent can be found again on the server, so that a process that died between sending and noting sends nothing twice.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pcsuite._util.http import encode_body, send
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters._openai_wire import status_error
from pcsuite.errors import ConstraintUnavailableError, EngineError

if TYPE_CHECKING:
    from pcsuite.engines.adapters._http_adapter import HttpAdapter

LARGEST_FILE = 1 << 30
"""Bytes of a results file that are read."""
TRANSFER_S = 1800.0
"""Longest wait for a file to be sent or brought."""
CHAT = "/chat/completions"
MAX_CLOCK_SKEW = timedelta(minutes=10)
"""How far a server's clock may be behind ours where a batch is looked for by its time."""
_PAGES = 50


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One request of a batch."""

    id: str
    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one request: the server's answer, or why there is none."""

    id: str
    status: int
    """HTTP status of the request; 0 where it never ran."""
    body: Any = None
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether the request was answered."""
        return 200 <= self.status < 300

    def error(self) -> EngineError:
        """Why there is no answer; what never ran can be tried again."""
        if self.status:
            return status_error(self.status, self.message, None, None)
        return EngineError(self.message or "the batch ended without an answer", retryable=True)


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is."""

    ended: bool
    done: int
    failed: int
    files: tuple[str, ...] = ()
    """Files of results, where the service has such."""
    problem: str = ""
    """Why the whole batch was refused."""
    retry: bool = False
    """Whether it was refused for a limit that will pass."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """What is known of a batch that may have been sent."""

    token: str
    """Our name for it."""
    count: int
    at: datetime
    """When it was to be sent (UTC)."""
    file_id: str = ""
    others: Collection[str] = field(default=())
    """Ids of batches that are known to be others."""


class BatchService(ABC):
    """One provider's batch API, for the model of an adapter."""

    def __init__(self, adapter: HttpAdapter) -> None:
        self.adapter = adapter

    @abstractmethod
    def encode(self, line: BatchLine) -> bytes:
        """A line of a file of requests, newline included."""

    async def upload(self, content: bytes, token: str) -> str:
        """Bring the requests to the server; returns the file's id, empty where they go with the batch itself.

        ``token`` names them, so that they can be found again. Raises :class:`EngineError`, retryable where another try
        may help.
        """
        return ""

    @abstractmethod
    async def create(self, content: bytes, file_id: str, token: str) -> str:
        """Send the batch; returns its id.

        ``file_id`` is what :meth:`upload` returned. Raises :class:`EngineError`; one without a status below 500 leaves
        open whether the batch was made, and :meth:`find` has to look.
        """

    @abstractmethod
    async def find(self, sent: SentBatch, ids: Collection[str]) -> str | None:
        """The id of a batch that was sent before, or ``None`` where it never arrived.

        ``ids`` are those of its requests. Raises a retryable :class:`EngineError` where that cannot be told yet.
        """

    @abstractmethod
    async def state(self, batch_id: str) -> BatchState:
        """How far a batch is."""

    @abstractmethod
    async def results(self, batch_id: str, state: BatchState) -> bytes:
        """The results of a batch that has ended, as the server writes them, one a line.

        Lines are in any order, and requests may be missing. Raises :class:`EngineError`.
        """

    @abstractmethod
    def read(self, line: bytes) -> BatchResult:
        """One result; raises :class:`ValueError` for a line that is none."""

    async def get(self, path: str) -> Any:
        """A JSON value of the server.

        Raises :class:`EngineError` for any failure, with the model named and secrets removed.
        """
        adapter = self.adapter
        try:
            return adapter.decoded(await send(adapter.session(), "GET", adapter.url(path)))
        except EngineError as error:
            raise adapter.clean(error) from None

    async def listed(self, path: str, cursor: str) -> AsyncIterator[Any]:
        """Entries of one of the server's lists, page by page; ``cursor`` names the parameter that turns the page.

        No more than fifty pages of a hundred are read. Raises as :meth:`get` does.
        """
        after = ""
        for _ in range(_PAGES):
            page = await self.get(f"{path}?limit=100{f'&{cursor}={after}' if after else ''}")
            entries = page.get("data") if isinstance(page, dict) else None
            for entry in entries or ():
                yield entry
            if not entries or not page.get("has_more"):
                return
            after = _id_of(entries[-1])

    async def post(self, path: str, content: bytes, content_type: str = "application/json") -> Any:
        """Send something and return the server's JSON value.

        Uploads may take minutes (``TRANSFER_S``). Raises :class:`EngineError` for any failure.
        """
        adapter, headers = self.adapter, {"Content-Type": content_type}
        try:
            reply = await send(
                adapter.session(), "POST", adapter.url(path), content, headers=headers, timeout_s=TRANSFER_S
            )
            return adapter.decoded(reply)
        except EngineError as error:
            raise adapter.clean(error) from None

    async def content(self, path: str) -> bytes:
        """A file of the server."""
        adapter = self.adapter
        try:
            reply = await send(
                adapter.session(),
                "GET",
                adapter.url(path),
                max_bytes=LARGEST_FILE,
                timeout_s=TRANSFER_S,
            )
            if reply.status != 200:
                adapter.decoded(reply)  # raises
                raise EngineError(f"HTTP {reply.status} for a file of results", status=reply.status)
            return reply.body
        except EngineError as error:
            raise adapter.clean(error) from None


class OpenAIBatches(BatchService):
    """Files and batches as OpenAI has them."""

    def encode(self, line: BatchLine) -> bytes:
        """The line that vLLM's ``run-batch`` reads too."""
        if line.path != CHAT:
            raise ConstraintUnavailableError(
                f"batches take {CHAT} only, and this request goes to {line.path}"
            )
        return openai_line(line)

    async def upload(self, content: bytes, token: str) -> str:
        """A file of purpose ``batch``, named after the token."""
        # The token is random, so nothing in the content can be taken for the boundary.
        mark = f"pcsuite-{token}"
        head = (
            f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{token}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{mark}--\r\n".encode()
        return _id_of(await self.post("/files", body, f"multipart/form-data; boundary={mark}"))

    async def create(self, content: bytes, file_id: str, token: str) -> str:
        """A batch of the file, with the token in its metadata."""
        body = {
            "input_file_id": file_id,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"pcsuite": token},
        }
        return _id_of(await self.post("/batches", json.dumps(body).encode()))

    async def find(self, sent: SentBatch, ids: Collection[str]) -> str | None:
        """By the token in the metadata or, where a server keeps none, by the file."""
        async for entry in self.listed("/batches", "after"):
            metadata = entry.get("metadata") or {}
            mine = metadata.get("pcsuite") == sent.token
            if mine or (sent.file_id and entry.get("input_file_id") == sent.file_id):
                return _id_of(entry)
        return None

    async def state(self, batch_id: str) -> BatchState:
        """From ``validating`` to one of the four ends; results may be spread over two files."""
        batch = await self.get(f"/batches/{batch_id}")
        if not isinstance(batch, dict) or "status" not in batch:
            raise EngineError("the server's answer about a batch has no status", retryable=True)
        counts = batch.get("request_counts") or {}
        files = [batch.get("output_file_id"), batch.get("error_file_id")]
        errors = (batch.get("errors") or {}).get("data") or []
        return BatchState(
            ended=batch["status"] in ("completed", "failed", "expired", "cancelled"),
            done=_count(counts, "completed"),
            failed=_count(counts, "failed"),
            files=tuple(file for file in files if isinstance(file, str) and file),
            problem="; ".join(shorten(str(entry.get("message", entry)), 200) for entry in errors[:3])
            if batch["status"] == "failed"
            else "",
            retry=any("limit" in str(entry.get("code")) for entry in errors),
        )

    async def results(self, batch_id: str, state: BatchState) -> bytes:
        """Both files one after the other."""
        contents = [await self.content(f"/files/{file}/content") for file in state.files]
        return b"\n".join(contents)

    def read(self, line: bytes) -> BatchResult:
        """A line of an output or error file, also of vLLM's ``run-batch``."""
        return openai_result(line)


class AnthropicBatches(BatchService):
    """Anthropic's message batches; their list tells nothing of what is in them before they have ended."""

    def encode(self, line: BatchLine) -> bytes:
        """One entry of ``requests``."""
        return json.dumps({"custom_id": line.id, "params": line.body}).encode() + b"\n"

    async def create(self, content: bytes, file_id: str, token: str) -> str:
        """The requests themselves make the batch."""
        body = b'{"requests": [' + b",".join(content.splitlines()) + b"]}"
        return _id_of(await self.post("/messages/batches", body))

    async def find(self, sent: SentBatch, ids: Collection[str]) -> str | None:
        """By time and size, then by the ids in the results: nothing else tells batches apart."""
        async for entry in self.listed("/messages/batches", "after_id"):
            made = datetime.fromisoformat(str(entry["created_at"]).replace("Z", "+00:00"))
            if made < sent.at - MAX_CLOCK_SKEW:
                return None  # newest first: what follows is older still
            batch_id = _id_of(entry)
            if batch_id in sent.others or sum(_counts(entry).values()) != sent.count:
                continue
            if entry.get("processing_status") != "ended":
                raise EngineError(
                    f"batch {batch_id} may be the one that was sent before the last process ended: its results"
                    " will tell",
                    retryable=True,
                )
            lines = (await self.content(f"/messages/batches/{batch_id}/results")).splitlines()
            if lines and self.read(lines[0]).id in ids:
                return batch_id
        return None

    async def state(self, batch_id: str) -> BatchState:
        """``in_progress``, ``canceling`` or ``ended``."""
        batch = await self.get(f"/messages/batches/{batch_id}")
        if not isinstance(batch, dict) or "processing_status" not in batch:
            raise EngineError("the server's answer about a batch has no status", retryable=True)
        counts = _counts(batch)
        failed = sum(counts.get(name, 0) for name in ("errored", "expired", "canceled"))
        return BatchState(batch["processing_status"] == "ended", counts.get("succeeded", 0), failed)

    async def results(self, batch_id: str, state: BatchState) -> bytes:
        """From the batch's own address: the one in its ``results_url`` may be another host's, which gets no key."""
        return await self.content(f"/messages/batches/{batch_id}/results")

    def read(self, line: bytes) -> BatchResult:
        """A line of results: succeeded, errored, canceled or expired."""
        entry = _result_entry(line)
        found, result = entry["custom_id"], entry.get("result") or {}
        kind = result.get("type")
        if kind == "succeeded":
            return BatchResult(found, 200, result.get("message"))
        if kind == "errored":
            error = (result.get("error") or {}).get("error") or result.get("error") or {}
            # A result carries no HTTP status: what cannot succeed is told from what may by the kind of error.
            status = 400 if error.get("type") in ("invalid_request_error", "request_too_large") else 500
            return BatchResult(found, status, None, json.dumps({"error": error}))
        return BatchResult(found, 0, None, f"the batch ended with the request {kind}")


def openai_line(line: BatchLine) -> bytes:
    """A request as a line of OpenAI's batch format, newline included."""
    entry = {"custom_id": line.id, "method": "POST", "url": f"/v1{line.path}", "body": line.body}
    return encode_body(entry) + b"\n"


def openai_result(line: bytes) -> BatchResult:
    """What a line of OpenAI's batch format says became of a request; raises :class:`ValueError` for another line."""
    entry = _result_entry(line)
    response, error = entry.get("response"), entry.get("error")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], response.get("body")
        return BatchResult(entry["custom_id"], status, body, "" if status < 300 else json.dumps(body))
    message = error.get("message") or error.get("code") if isinstance(error, dict) else error
    return BatchResult(entry["custom_id"], 0, None, shorten(str(message or "no response")))


def _result_entry(line: bytes) -> dict[str, Any]:
    """A line of results as the object it must be; raises :class:`ValueError` for one without an id of ours."""
    entry = read_json(line)
    if not isinstance(entry, dict) or not isinstance(entry.get("custom_id"), str):
        raise ValueError("no custom_id")
    return entry


def result_lines(content: bytes) -> Iterator[bytes]:
    """The lines of a file of results that are not blank."""
    return (line for line in content.split(b"\n") if line.strip())


def _id_of(entry: Any) -> str:
    found = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(found, str) or not found or not found.replace("-", "").replace("_", "").isalnum():
        raise EngineError("the server's answer has no id that could be asked for again", retryable=True)
    return found


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    names: Sequence[str] = ("processing", "succeeded", "errored", "canceled", "expired")
    return {name: _count(batch.get("request_counts") or {}, name) for name in names}
