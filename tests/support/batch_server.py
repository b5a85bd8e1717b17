"""A server on loopback with batch APIs, OpenAI's and Anthropic's, that misbehaves on request and kills its client.

``behaviours`` are taken one a batch: ``ok``, ``slow:N`` (N looks before it ends), ``expire:0.5`` (that share done), ``partial``
(every third result is missing), ``errors:N`` (every Nth request fails), ``limited`` (refused for a limit), ``refused``.
``kills`` are taken one after the other at each step: a step (upload, create, state, results) and a moment (``before`` it is done,
``during``: done but not told, ``after`` it was told).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from support.threaded_server import ThreadedServer

LABELS = ("World", "Sports", "Business", "Sci/Tech")


def answer_text(body: dict[str, Any]) -> str:
    """What the model says: it depends on the request alone."""
    mark = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[0]
    return json.dumps({"label": LABELS[mark % 4]})


class BatchServer(ThreadedServer):
    """The server; use it in a ``with`` block."""

    def __init__(
        self, behaviours: Iterable[str] = (), kills: Iterable[tuple[str, str]] = (), *, foreign: int = 0
    ) -> None:
        super().__init__()
        self.behaviours, self.kills = deque(behaviours), list(kills)
        self.answer_text = answer_text
        self.client: int | None = None
        """Process that is killed."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.answered: Counter[str] = Counter()
        """How often each request was answered in a batch, which is what is paid for."""
        self.single = 0
        """Calls outside batches."""
        self.headers: list[dict[str, str]] = []
        for number in range(foreign):
            self._add_batch([(f"someone-{number}", {})], "ok", {}, "file-foreign")

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        add = app.router.add_route
        add("POST", "/v1/chat/completions", self._chat)
        add("POST", "/v1/messages", self._chat)
        add("POST", "/v1/files", self._step("upload", self._upload))
        add("POST", "/v1/batches", self._step("create", self._create))
        add("GET", "/v1/batches", self._list)
        add("GET", "/v1/batches/{id}", self._step("state", self._state))
        add("GET", "/v1/files/{id}/content", self._step("results", self._content))
        add("POST", "/v1/messages/batches", self._step("create", self._create_messages))
        add("GET", "/v1/messages/batches", self._list_messages)
        add("GET", "/v1/messages/batches/{id}", self._step("state", self._state_messages))
        add("GET", "/v1/messages/batches/{id}/results", self._step("results", self._results_messages))
        return app

    def _step(self, step: str, handle: Any) -> Any:
        async def handler(request: web.Request) -> web.StreamResponse:
            self.headers.append(dict(request.headers))
            moment = ""
            for kill in self.kills:
                if kill[0] == step:
                    self.kills.remove(kill)
                    moment = kill[1]
                    break
            if moment == "before":
                await self._kill()
                return web.Response()
            response: web.StreamResponse = await handle(request)
            if moment == "during":
                await self._kill()
            elif moment == "after":
                await response.prepare(request)
                await response.write_eof()
                await asyncio.sleep(0.002)
                await self._kill()
            return response

        return handler

    async def _kill(self) -> None:
        for _ in range(200):
            if self.client is not None:
                break
            await asyncio.sleep(0.01)
        assert self.client is not None
        with suppress(ProcessLookupError):
            os.kill(self.client, signal.SIGKILL)
        self.client = None

    async def _chat(self, request: web.Request) -> web.Response:
        self.single += 1
        return web.json_response(self._answer(request.path, await request.json()))

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        text = self.answer_text(body)
        if path.endswith("/messages"):
            usage = {"input_tokens": 20, "output_tokens": 5}
            return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}

    # OpenAI's files and batches.

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["purpose"] == "batch"
        found = f"file-{len(self.files)}"
        self.files[found] = form["file"].file.read()  # type: ignore[union-attr]
        return web.json_response({"id": found, "purpose": "batch"})

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == body["endpoint"] for line in lines)
        wanted = [(line["custom_id"], line["body"]) for line in lines]
        assert len({found for found, _ in wanted}) == len(wanted)
        behaviour = self.behaviours.popleft() if self.behaviours else "ok"
        batch = self._add_batch(wanted, behaviour, body.get("metadata") or {}, body["input_file_id"])
        return web.json_response(self._shown(batch))

    def _add_batch(
        self, wanted: list[tuple[str, dict[str, Any]]], behaviour: str, metadata: dict[str, str], file: str
    ) -> dict[str, Any]:
        found = f"batch_{len(self.batches)}"
        word, _, value = behaviour.partition(":")
        self.requests[found] = wanted
        batch = self.batches[found] = {
            "id": found,
            "input_file_id": file,
            "metadata": metadata,
            "behaviour": word,
            "value": float(value or 0),
            "looks": 0,
            "status": "in_progress",
            "made": time.time(),
        }
        return batch

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = {"total": len(self.requests[batch["id"]]), "completed": batch.get("done", 0), "failed": 0}
        hidden = ("behaviour", "value", "looks", "made", "lines")
        return {key: value for key, value in batch.items() if key not in hidden} | {"request_counts": counts}

    async def _list(self, request: web.Request) -> web.Response:
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        if after:
            newest = newest[[batch["id"] for batch in newest].index(after) + 1 :]
        page = newest[:2]  # small pages, so that they are turned
        return web.json_response(
            {"data": [self._shown(batch) for batch in page], "has_more": len(newest) > 2}
        )

    def _look(self, batch: dict[str, Any]) -> None:
        """Let time pass for a batch: it may end now."""
        batch["looks"] += 1
        word, value = batch["behaviour"], batch["value"]
        if batch["status"] != "in_progress" or (word == "slow" and batch["looks"] <= value):
            return
        wanted = self.requests[batch["id"]]
        if word in ("limited", "refused"):
            code = "token_limit_exceeded" if word == "limited" else "invalid_model"
            batch |= {
                "status": "failed",
                "errors": {"data": [{"code": code, "message": f"{word} for a reason"}]},
            }
            batch["lines"] = []
            return
        done = wanted[: int(len(wanted) * value)] if word == "expire" else wanted
        lines: list[tuple[str, str, Any]] = []
        for number, (found, body) in enumerate(done):
            if word == "errors" and number % int(value) == 0:
                lines.append((found, "error", None))
            elif word == "partial" and number % 3 == 0:
                continue
            else:
                self.answered[found] += 1
                lines.append((found, "ok", body))
        lines += [(found, "expired", None) for found, _ in wanted[len(done) :]]
        batch |= {
            "status": "expired" if word == "expire" else "completed",
            "lines": lines,
            "done": len(lines),
        }
        batch |= {"output_file_id": f"{batch['id']}-out", "error_file_id": f"{batch['id']}-err"}

    async def _state(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        self._look(batch)
        return web.json_response(self._shown(batch))

    async def _content(self, request: web.Request) -> web.Response:
        found, _, which = request.match_info["id"].rpartition("-")
        lines = []
        for key, kind, body in self.batches[found]["lines"]:
            if kind == "ok" and which == "out":
                response = {"status_code": 200, "body": self._answer("/chat/completions", body)}
                lines.append({"id": "x", "custom_id": key, "response": response, "error": None})
            elif kind == "error" and which == "err":
                response = {"status_code": 500, "body": {"error": {"message": "it broke"}}}
                lines.append({"id": "x", "custom_id": key, "response": response, "error": None})
            elif kind == "expired" and which == "err":
                error = {"code": "batch_expired", "message": "not in time"}
                lines.append({"id": "x", "custom_id": key, "response": None, "error": error})
        return web.Response(body="\n".join(json.dumps(line) for line in lines).encode())

    # Anthropic's message batches.

    async def _create_messages(self, request: web.Request) -> web.Response:
        assert request.headers["anthropic-version"]
        wanted = [(entry["custom_id"], entry["params"]) for entry in (await request.json())["requests"]]
        behaviour = self.behaviours.popleft() if self.behaviours else "ok"
        return web.json_response(self._shown_message(self._add_batch(wanted, behaviour, {}, "")))

    def _shown_message(self, batch: dict[str, Any]) -> dict[str, Any]:
        kinds = Counter(kind for _, kind, _ in batch.get("lines", ()))
        ended = batch["status"] != "in_progress"
        counts = {
            "succeeded": kinds["ok"],
            "errored": kinds["error"],
            "expired": kinds["expired"],
            "canceled": 0,
        }
        counts["processing"] = 0 if ended else len(self.requests[batch["id"]])
        return {
            "id": batch["id"],
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": datetime.fromtimestamp(batch["made"], timezone.utc)
            .isoformat()
            .replace("+00:00", "Z"),
            "results_url": "http://127.0.0.1:9/elsewhere" if ended else None,
        }

    async def _list_messages(self, request: web.Request) -> web.Response:
        newest = list(reversed(self.batches.values()))
        for batch in newest:
            self._look(batch)
        return web.json_response(
            {"data": [self._shown_message(batch) for batch in newest], "has_more": False}
        )

    async def _state_messages(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        self._look(batch)
        return web.json_response(self._shown_message(batch))

    async def _results_messages(self, request: web.Request) -> web.Response:
        lines = []
        for key, kind, body in self.batches[request.match_info["id"]]["lines"]:
            result: dict[str, Any] = {"type": "expired"}
            if kind == "ok":
                result = {"type": "succeeded", "message": self._answer("/messages", body)}
            elif kind == "error":
                error = {"type": "error", "error": {"type": "api_error", "message": "it broke"}}
                result = {"type": "errored", "error": error}
            lines.append(json.dumps({"custom_id": key, "result": result}))
        return web.Response(body="\n".join(lines).encode())
