"""Providers' batch APIs: OpenAI's files and batches, which others speak too, and Anthropic's message batches.

A batch is made of lines with an id of ours. A service sends them, says how far they are and brings the results; what it
has sent can be found again on the server, so that a process that died between sending and noting sends nothing twice.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pcsuite._util.http import encode_body
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters._openai_wire import CHAT, WireRequest, failed_generation
from pcsuite.engines.adapters._wire_errors import STATUS_OF, status_error
from pcsuite.errors import ConstraintUnavailableError, EngineError

if TYPE_CHECKING:
    from pcsuite.engines.adapters._http_adapter import HttpAdapter

LARGEST_FILE = 1 << 30
"""Bytes of a results file that are read."""
TRANSFER_S = 1800.0
"""Longest wait for a file to be sent or fetched."""
MAX_CLOCK_SKEW = timedelta(minutes=10)
"""How far a server's clock may be behind ours where a batch is looked for by its time."""
_PAGES = 50


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


PLANNED, UPLOADED, SENDING, SENT, COLLECTED = "planned", "uploaded", "sending", "sent", "collected"


@dataclass(slots=True)
class Batch:
    """A batch as the journal has it."""

    token: str
    """Our name for it."""
    model: str
    at: datetime
    """When it was planned, then when it was to be sent (UTC)."""
    event: str = PLANNED
    """The last thing that happened to it."""
    file_id: str = ""
    batch_id: str = ""
    ids: frozenset[str] = frozenset()
    """Ids of its requests, while it is not collected."""


class BatchService(ABC):
    """One provider's batch API, for the model of an adapter."""

    def __init__(self, adapter: HttpAdapter) -> None:
        self.adapter = adapter

    @abstractmethod
    def encode(self, request_id: str, wire: WireRequest) -> bytes:
        """A request as a line of a file, newline included."""

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
    async def find(self, batch: Batch, others: Collection[str]) -> str | None:
        """The id of a batch that may have been sent before, or ``None`` where it never arrived.

        ``others`` are ids of batches that are known to be others. Raises a retryable :class:`EngineError` where it
        is too early to know.
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
        with adapter.clean_errors():
            return adapter.decoded(await adapter.send(adapter.session(), "GET", adapter.url(path)))

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
        with adapter.clean_errors():
            reply = await adapter.send(
                adapter.session(), "POST", adapter.url(path), content, headers=headers, timeout_s=TRANSFER_S
            )
            return adapter.decoded(reply)

    async def content(self, path: str) -> bytes:
        """A file of the server."""
        adapter = self.adapter
        url = adapter.url(path)
        with adapter.clean_errors():
            session = adapter.session()
            reply = await adapter.send(session, "GET", url, max_bytes=LARGEST_FILE, timeout_s=TRANSFER_S)
            if reply.status != 200:
                adapter.decoded(reply)  # raises
                raise EngineError(f"HTTP {reply.status} for a file of results", status=reply.status)
            return reply.body

    async def batch(self, path: str, status: str) -> dict[str, Any]:
        """The server's own account of a batch, which must have the key ``status``."""
        account = await self.get(path)
        if not isinstance(account, dict) or status not in account:
            raise EngineError("the server's answer about a batch has no status", retryable=True)
        return account


class OpenAIBatches(BatchService):
    """Files and batches as OpenAI has them, for requests to one ``path``, which it writes after ``prefix``."""

    def __init__(self, adapter: HttpAdapter, path: str = CHAT, prefix: str = "/v1") -> None:
        super().__init__(adapter)
        self.path, self.prefix = path, prefix

    def encode(self, request_id: str, wire: WireRequest) -> bytes:
        """The line that vLLM's ``run-batch`` reads too."""
        if wire.path != self.path:
            raise ConstraintUnavailableError(
                f"batches take {self.path} only, and this request goes to {wire.path}"
            )
        return openai_line(request_id, wire, self.prefix)

    async def upload(self, content: bytes, token: str) -> str:
        """A file of purpose ``batch``, named after the token."""
        # The token is random, so nothing in the content can be taken for the boundary.
        boundary = f"pcsuite-{token}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{token}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return _id_of(await self.post("/files", body, f"multipart/form-data; boundary={boundary}"))

    async def create(self, content: bytes, file_id: str, token: str) -> str:
        """A batch of the file, with the token in its metadata."""
        body = {
            "input_file_id": file_id,
            "endpoint": f"{self.prefix}{self.path}",
            "completion_window": "24h",
            "metadata": {"pcsuite": token},
        }
        return _id_of(await self.post("/batches", json.dumps(body).encode()))

    async def find(self, batch: Batch, others: Collection[str]) -> str | None:
        """By the token in the metadata or, where a server keeps none, by the file."""
        async for entry in self.listed("/batches", "after"):
            same_token = (entry.get("metadata") or {}).get("pcsuite") == batch.token
            if same_token or (batch.file_id and entry.get("input_file_id") == batch.file_id):
                return _id_of(entry)
        return None

    async def state(self, batch_id: str) -> BatchState:
        """From ``validating`` to one of the four ends; results may be spread over two files."""
        batch = await self.batch(f"/batches/{batch_id}", "status")
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
    """Anthropic's message batches; their list says nothing of what is in them before they have ended."""

    def encode(self, request_id: str, wire: WireRequest) -> bytes:
        """One entry of ``requests``."""
        return json.dumps({"custom_id": request_id, "params": wire.body}).encode() + b"\n"

    async def create(self, content: bytes, file_id: str, token: str) -> str:
        """The requests themselves make the batch."""
        body = b'{"requests": [' + b",".join(result_lines(content)) + b"]}"
        return _id_of(await self.post("/messages/batches", body))

    async def find(self, batch: Batch, others: Collection[str]) -> str | None:
        """By time and size, then by the ids in the results: nothing else distinguishes batches."""
        async for entry in self.listed("/messages/batches", "after_id"):
            created = datetime.fromisoformat(str(entry["created_at"]).replace("Z", "+00:00"))
            if created < batch.at - MAX_CLOCK_SKEW:
                return None  # newest first: what follows is older still
            batch_id = _id_of(entry)
            if batch_id in others or sum(_counts(entry).values()) != len(batch.ids):
                continue
            if entry.get("processing_status") != "ended":
                raise EngineError(
                    f"batch {batch_id} may be the one that was sent before the last process ended: its results"
                    " will tell",
                    retryable=True,
                )
            content = await self.content(f"/messages/batches/{batch_id}/results")
            first = next(iter(result_lines(content)), None)
            if first is not None and self.read(first).id in batch.ids:
                return batch_id
        return None

    async def state(self, batch_id: str) -> BatchState:
        """``in_progress``, ``canceling`` or ``ended``."""
        batch = await self.batch(f"/messages/batches/{batch_id}", "processing_status")
        counts = _counts(batch)
        failed = sum(counts.get(name, 0) for name in ("errored", "expired", "canceled"))
        return BatchState(batch["processing_status"] == "ended", counts.get("succeeded", 0), failed)

    async def results(self, batch_id: str, state: BatchState) -> bytes:
        """From the batch's own address: the one in its ``results_url`` may be another host's, which gets no key."""
        return await self.content(f"/messages/batches/{batch_id}/results")

    def read(self, line: bytes) -> BatchResult:
        """A line of results: succeeded, errored, canceled or expired."""
        entry = _result_entry(line)
        request_id, result = entry["custom_id"], entry.get("result") or {}
        kind = result.get("type")
        if kind == "succeeded":
            return BatchResult(request_id, 200, result.get("message"))
        if kind == "errored":
            error = (result.get("error") or {}).get("error") or result.get("error") or {}
            # A result carries no HTTP status: the kind of error says whether another try can succeed.
            status = STATUS_OF.get(str(error.get("type")), 500)
            return BatchResult(request_id, status, None, json.dumps({"error": error}))
        return BatchResult(request_id, 0, None, f"the batch ended with the request {kind}")


def openai_line(request_id: str, wire: WireRequest, prefix: str = "/v1") -> bytes:
    """A request as a line of OpenAI's batch format, newline included."""
    entry = {"custom_id": request_id, "method": "POST", "url": f"{prefix}{wire.path}", "body": wire.body}
    return encode_body(entry) + b"\n"


def openai_result(line: bytes) -> BatchResult:
    """The result in a line of OpenAI's batch format; raises :class:`ValueError` for another line."""
    entry = _result_entry(line)
    response, error = entry.get("response"), entry.get("error")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], response.get("body")
        invalid = failed_generation(json.dumps(body)) if status == 400 else None
        if invalid is not None:
            return BatchResult(entry["custom_id"], 200, invalid)
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
    server_id = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(server_id, str) or not server_id.replace("-", "").replace("_", "").isalnum():
        raise EngineError("the server's answer has no id that could be asked for again", retryable=True)
    return server_id


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    names = ("processing", "succeeded", "errored", "canceled", "expired")
    return {name: _count(batch.get("request_counts") or {}, name) for name in names}
