"""Services as targets: a request made from a template, and where in the response the answer lies."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pcsuite._util.http import HttpResponse, encode_body, new_session, send
from pcsuite._util.secrets import redact, remember
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters._wire_errors import retry_after_seconds, status_error
from pcsuite.engines.adapters.base import Generation
from pcsuite.engines.targets.calls import ANSWER_KEYS, AnswerReader, TargetCall, out_of_time
from pcsuite.errors import ConfigError, EngineError, did_you_mean

if TYPE_CHECKING:
    from aiohttp import ClientSession

_LOGGER = logging.getLogger("pcsuite")
PLACEHOLDERS = ("prompt", "messages", "item", "input", "seed", "files")
"""What a template may show; ``item.COLUMN`` is one column of the item."""
READABLE = tuple(key for key in ANSWER_KEYS if key != "output")
"""What may be read from a response beside the answer."""
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_CHARSET = re.compile(r"charset=\s*[\"']?([\w.:-]+)")
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)\}|([A-Za-z_]\w*))")
_SLACK_S = 30.0
"""Seconds by which the connection's own limit is longer than the target's, which is an outcome and goes first."""


class AddressTarget:
    """Posts a JSON body to an address; one answer a call, never redirected."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        seconds: float,
        connect_seconds: float,
        headers: Mapping[str, str],
        body: Any = None,
        answer: str | None = None,
        read: Mapping[str, str] | None = None,
    ) -> None:
        """``body`` is the template, ``None`` for the call's document; ``answer`` and ``read`` are JMESPaths.

        Raises ``ConfigError`` for a header that names a variable which is not set.
        """
        self.name = name
        self._url = url
        self._seconds, self._connect_seconds = seconds, connect_seconds
        self._headers = {key: filled_header(key, value) for key, value in headers.items()}
        self._body = body
        self._answer = answer
        self._paths = {} if answer is None else {"output": answer}
        self._paths |= read or {}
        self._reader = AnswerReader(name)
        self._warned_of_page = False
        self._sessions: dict[asyncio.AbstractEventLoop, ClientSession] = {}

    async def ask(self, call: TargetCall) -> Generation:
        """The answer to a call; what goes wrong on the way is an :class:`EngineError`, retryable where that helps."""
        body = encode_body(call.document() if self._body is None else self._filled(call))
        started = time.monotonic()
        sending = send(self._session(), "POST", self._url, body, timeout_s=self._seconds + _SLACK_S)
        try:
            reply = await asyncio.wait_for(sending, self._seconds)
        except (asyncio.TimeoutError, TimeoutError):
            return out_of_time(time.monotonic() - started)
        except EngineError as error:
            raise error.reworded(redact(f"{self.name}: {error.message}"), hint=error.hint) from None
        answer = self._read(reply)
        answer["latency_ms"] = round((time.monotonic() - started) * 1000, 3)
        return answer

    def ask_blocking(self, call: TargetCall) -> Generation:
        """The answer to a call, from a thread without a loop."""

        async def once() -> Generation:
            try:
                return await self.ask(call)
            finally:
                await self.aclose()

        return asyncio.run(once())

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def close(self) -> None:
        """Nothing is held beside a loop's connections (:meth:`aclose`)."""

    def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            headers = {"Content-Type": "application/json", **self._headers}
            self._sessions[loop] = new_session(
                self._url,
                headers=headers,
                timeout_s=self._seconds + _SLACK_S,
                connect_timeout_s=self._connect_seconds,
            )
        return self._sessions[loop]

    def _filled(self, call: TargetCall) -> Any:
        """The template with a call in it."""
        values = {
            "prompt": call.prompt,
            "messages": call.messages,
            "item": dict(call.item),
            "input": call.item.get("input", ""),
            "seed": call.seed,
            "files": dict(call.files),
        }

        def value_of(name: str) -> Any:
            if name == "prompt" and call.prompt is None:
                raise EngineError(
                    f"{self.name}: the template shows the prompt, and that is a chat of messages",
                    hint="put {{ messages }} in its place",
                    refuses_all=True,
                    unasked=True,
                )
            kind, dot, key = name.partition(".")
            if not dot:
                return values[name]
            mapping: Mapping[str, Any] = values[kind]
            if key not in mapping:
                have = ", ".join(map(str, mapping)) or "nothing"
                raise EngineError(
                    f"{self.name}: the template shows {name}, and the {kind} has {have}",
                    refuses_all=True,
                    unasked=True,
                )
            return mapping[key]

        def fill(node: Any) -> Any:
            if isinstance(node, Mapping):
                return {key: fill(entry) for key, entry in node.items()}
            if isinstance(node, list):
                return [fill(entry) for entry in node]
            if not isinstance(node, str):
                return node
            whole = _PLACEHOLDER.fullmatch(node.strip())
            if whole:  # a value of its own kind: a list of messages, a number
                return value_of(whole[1])
            return _PLACEHOLDER.sub(lambda match: _shown(value_of(match[1])), node)

        return fill(self._body)

    def _read(self, reply: HttpResponse) -> Generation:
        kind = reply.headers.get("Content-Type", "").casefold()
        text = _decoded_by(reply.body, kind)
        if not 200 <= reply.status < 300:
            error = status_error(reply.status, text, retry_after_seconds(reply.headers), None)
            raise error.reworded(
                redact(f"{self.name}: {error.message}"), hint=_status_hint(reply.status, error.hint)
            )
        if "event-stream" in kind:
            raise EngineError(
                f"{self.name} streams events, and an answer is read whole",
                hint='ask it not to stream, for example "stream": false in --target-body',
                refuses_all=True,
            )
        if "text/html" in kind and not self._warned_of_page:
            self._warned_of_page = True
            _LOGGER.warning(
                "%s: its answers are web pages (%s)", self.name, shorten(redact(text.strip()), 60)
            )
        if not self._paths:
            return self._reader.value(self._decoded(text)) if "json" in kind else self._reader.text(text)
        import jmespath

        document = self._decoded(text)
        found = {key: jmespath.search(path, document) for key, path in self._paths.items()}
        if self._answer is None:
            found["output"] = document.get("output") if isinstance(document, dict) else document
        elif found["output"] is None:
            have = ", ".join(list(document)[:8]) if isinstance(document, dict) else type(document).__name__
            raise EngineError(
                f"{self.name}: '{self._answer}' finds nothing in the response, which has {have or 'nothing'}",
                hint="--target-answer is a JMESPath, such as choices[0].message.content",
                refuses_all=True,
            )
        return self._reader.value({key: value for key, value in found.items() if value is not None})

    def _decoded(self, text: str) -> Any:
        try:
            return read_json(text)
        except ValueError as error:
            raise EngineError(
                f"{self.name}: the response is no JSON ({shorten(str(error), 80)})", retryable=True
            ) from None


def _status_hint(status: int, hint: str | None) -> str | None:
    """What to do about a status, in the words of targets: what a model's entry calls otherwise is not theirs."""
    if status in (401, 403):
        return "a secret goes by its variable: --target-header 'Authorization: Bearer $APP_TOKEN'"
    if status == 404 or 300 <= status < 400:
        return "--target must be the final address that answers a POST"
    return hint


def _decoded_by(body: bytes, kind: str) -> str:
    """A response's text by the character set that its content type names; UTF-8 where that is none we know.

    >>> _decoded_by("né".encode("latin-1"), "text/plain; charset=iso-8859-1"), _decoded_by("né".encode(), "text/plain")
    ('né', 'né')
    """
    named = _CHARSET.search(kind)
    with suppress(LookupError):
        return body.decode(named[1] if named else "utf-8", "replace")
    return body.decode("utf-8", "replace")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def template_names(node: Any) -> Iterator[str]:
    """Every placeholder of a template."""
    if isinstance(node, Mapping):
        for entry in node.values():
            yield from template_names(entry)
    elif isinstance(node, list):
        for entry in node:
            yield from template_names(entry)
    elif isinstance(node, str):
        yield from _PLACEHOLDER.findall(node)


def checked_template(body: Any) -> Any:
    """A request template, given as JSON text or as the value itself; ``ConfigError`` for what no call can fill."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise ConfigError(
                f"the request template is no JSON: {error}", hint='{"question": "{{ item.question }}"}'
            ) from None
    names = list(template_names(body))
    for name in names:
        kind, dot, key = name.partition(".")
        if kind not in PLACEHOLDERS or (dot and (kind not in ("item", "files") or not key)):
            known = [*PLACEHOLDERS, "item.COLUMN"]
            raise ConfigError(
                f"the request template has an unknown placeholder {{{{ {name} }}}}",
                hint=did_you_mean(name, known),
            )
    if not {name.partition(".")[0] for name in names} & {"prompt", "messages"}:
        raise ConfigError(
            "the request template has no place for the prompt",
            hint="put {{ prompt }} or {{ messages }} there",
        )
    return body


def checked_path(path: str) -> str:
    """A JMESPath that can be read; ``ConfigError`` for another text."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(path)
    except JMESPathError as error:
        raise ConfigError(
            f"'{shorten(path, 200)}' is no JMESPath: {shorten(' '.join(str(error).split()), 120)}"
        ) from None
    except RecursionError:
        raise ConfigError(
            f"'{shorten(path, 200)}' is no JMESPath that can be read: it is nested too deep"
        ) from None
    return path


def filled_header(name: str, value: str) -> str:
    """A header's value with its variables, ``$NAME`` or ``${NAME}``, which are secrets from then on.

    ``$$`` is a dollar. Raises ``ConfigError`` for a variable that is not set.
    """

    def variable(match: re.Match[str]) -> str:
        key = match[1] or match[2]
        if key is None:
            return "$"
        held = os.environ.get(key, "").strip()
        if not held:
            raise ConfigError(
                f"the header '{name}' names the variable {key}, which is not set", hint=f"export {key}=…"
            )
        remember(held)
        return held

    return _VARIABLE.sub(variable, value)


def names_variable(value: str) -> bool:
    """Whether a header's value names a variable."""
    return any(match[1] or match[2] for match in _VARIABLE.finditer(value))
