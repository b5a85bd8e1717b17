"""What a target is asked and what it may answer: one document each way, whatever carries it."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

from pcsuite._util.secrets import redact
from pcsuite._util.text import check_depth, read_json, shorten
from pcsuite.engines.adapters.base import Generation, Request, Usage, chat_messages, token_usage
from pcsuite.errors import EngineError, did_you_mean
from pcsuite.prompts.verbatim import decode_chat, without_files

_LOGGER = logging.getLogger("pcsuite")
MOST_TEXT = 4_000_000
"""Characters of an answer; a longer one is a failed call."""
MOST_BESIDE = 1_000_000
"""Characters, as JSON, of a transcript, of a list of sources and of artifacts that a row keeps."""
STDERR_KEPT = 4_000
"""Characters of standard error that a row keeps: the last ones."""
ANSWER_KEYS = (
    "output", "tokens", "cost_usd", "steps", "tool_calls", "transcript", "loaded", "artifacts", "seed_honoured",
)  # fmt: skip
"""What an answer that is an object may say; ``output`` it must."""
_NOTES, _BYTES = "\n", "\xff"
"""What stands for notes, and for bytes that are no text, among the keys that were warned of."""
_MOST_TRIES = 1_000
_MEANT = re.compile(r"\s*\{\s*[\"']output[\"']\s*:")
_PROMPT_TOKENS = ("prompt_tokens", "input_tokens", "prompt", "input")
_COMPLETION_TOKENS = ("completion_tokens", "output_tokens", "completion", "output")


@dataclass(frozen=True, slots=True)
class TargetCall:
    """One question to a target: the rendered prompt, the item without its truth, the seed, and files."""

    prompt: str | None
    """The prompt, where it is one text."""
    messages: list[dict[str, str]]
    """The prompt as messages; one text is the user's."""
    item: Mapping[str, Any]
    seed: int
    files: Mapping[str, str]
    folder: str = ""
    """Where a command is run; empty for the target's own folder."""
    number: int = 0
    """Of a worker's calls, which one it is: an answer that gives it back as ``call`` is held to it."""

    @classmethod
    def of(cls, request: Request) -> TargetCall:
        """The call of a request; one beside the rows (a judge's, a proposer's) has no item."""
        context = request.context
        prompt = without_files(request.prompt)
        is_chat = decode_chat(prompt) is not None
        return cls(
            prompt=None if is_chat else prompt,
            messages=chat_messages(None, prompt),
            item={} if context is None else dict(context.given),
            seed=request.seed,
            files={} if context is None else dict(context.files),
            folder="" if context is None else context.folder,
        )

    def document(self) -> dict[str, Any]:
        """The call as one JSON object: ``prompt`` or ``messages``, as the prompt is written, item, seed and files."""
        asked = {"messages": self.messages} if self.prompt is None else {"prompt": self.prompt}
        numbered = {"call": self.number} if self.number else {}
        return {**asked, "item": dict(self.item), "seed": self.seed, "files": dict(self.files), **numbered}

    def line(self) -> bytes:
        """The document on one line of ASCII: no line separator of Unicode can part it."""
        return json.dumps(self.document(), default=str).encode() + b"\n"


def _object_within(text: str) -> tuple[dict[str, Any], str] | None:
    """The last JSON object with ``output`` that stands on lines of its own in a text, and the text around it."""
    found, decoder, tries = None, json.JSONDecoder(), 0
    position = text.find("{") if '"output"' in text else -1
    while position >= 0 and tries < _MOST_TRIES:
        end = position + 1
        begins = text.rfind("\n", 0, position) + 1
        if not text[begins:position].strip():
            tries += 1
            try:
                value, end = decoder.raw_decode(text, position)
                rest = text[end:].partition("\n")[0]
                if isinstance(value, dict) and "output" in value and not rest.strip():
                    check_depth(text[position:end], value)
                    found = value, text[:position] + text[end:]
            except (ValueError, RecursionError):
                end = position + 1
        position = text.find("{", end)
    return found


class AnswerReader:
    """Reads a target's answers into generations; says once which of their keys mean nothing here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._told: set[str] = set()

    def decoded(self, output: bytes) -> str:
        """What a command printed, as a text; bytes that are no UTF-8 become ``�``, which is warned of once."""
        try:
            return output.decode("utf-8")
        except UnicodeDecodeError as error:
            if _BYTES not in self._told:
                self._told.add(_BYTES)
                _LOGGER.warning(
                    "%s: what it prints is not UTF-8 (byte 0x%02x at %d): have it write UTF-8, in Python for example"
                    " with PYTHONIOENCODING=utf-8",
                    self.name, output[error.start], error.start,
                )  # fmt: skip
            return output.decode("utf-8", "replace")

    def text(self, text: str) -> Generation:
        """An answer as a command prints it: a JSON object with ``output``, or anything else as it is.

        Of a text in which such an object stands on lines of its own (a program that prints notes too) the last of them
        is the answer, which is warned of once. Line ends at the end of a plain text are the program's, and are left
        out. Raises :class:`EngineError` where an object with ``output`` was meant and cannot be read.
        """
        text = text.removeprefix("\ufeff")
        if text.lstrip().startswith("{"):
            try:
                value = read_json(text)
            except ValueError:
                value = None
            if isinstance(value, dict):
                return self.value(value)
        found = _object_within(text)
        if found is not None:
            value, notes = found
            if _NOTES not in self._told:
                self._told.add(_NOTES)
                _LOGGER.warning(
                    "%s: what it prints beside its answer is left out (%r): print notes to standard error",
                    self.name, shorten(redact(" ".join(notes.split())), 80),
                )  # fmt: skip
            return self.value(value)
        if _MEANT.match(text):
            raise self._wrong(
                f"answered with what begins as an object and is no JSON: {shorten(redact(text.strip()), 100)}",
                hint="print json.dumps({…}), not the object itself",
            )
        return self.value(text.rstrip("\r\n"))

    def value(self, value: Any) -> Generation:
        """An answer as a value: a text, or a mapping with ``output``; raises :class:`EngineError` for another."""
        if not isinstance(value, Mapping):
            if not isinstance(value, str):
                raise self._wrong(
                    f"answered with {type(value).__name__}, not with a text or an object",
                    hint='answer "…", or {"output": …}',
                )
            value = {"output": value}
        if "output" not in value and value.get("error"):
            # The usual way to say in an answer that there is none: this call's, and not of every other.
            raise EngineError(f"{self.name} answered with an error: {_error_words(value['error'])}")
        if "output" not in value:
            have = ", ".join(map(str, list(value)[:6])) or "nothing"
            raise self._wrong(
                f"answered with an object without 'output' (it has {have})",
                hint='a system whose own answer is an object wraps it: {"output": {…}}',
            )
        self._say_unread([str(key) for key in value if key not in ANSWER_KEYS])
        output = value["output"]
        text = output if isinstance(output, str) else "" if output is None else _as_json(output)
        if len(text) > MOST_TEXT:
            raise self._wrong(f"answered with {len(text):,} characters; at most {MOST_TEXT:,} are kept")
        usage = self._usage(value.get("tokens"))
        answer: Generation = {
            "text": redact(text, guess=False),
            "finish_reason": "stop",
            "latency_ms": None,
            "usage": usage or token_usage(0, 0),
            "seed_honoured": value.get("seed_honoured") is True,
            "usage_reported": usage is not None,
        }
        cost = value.get("cost_usd")
        if cost is not None:
            answer["cost_usd"] = self._amount(cost, "cost_usd")
        # Some systems list what they did instead of counting it: the list is then the transcript too.
        listed = [value[key] for key in ("steps", "tool_calls") if isinstance(value.get(key), (list, tuple))]
        if value.get("steps") is not None:
            answer["steps"] = self._number_of(value["steps"], "steps")
        if value.get("tool_calls") is not None:
            answer["tool_calls"] = self._number_of(value["tool_calls"], "tool_calls")
        transcript = (
            value.get("transcript") if value.get("transcript") is not None else next(iter(listed), None)
        )
        if transcript is not None:
            answer["transcript"] = self._steps(transcript)
        if value.get("loaded") is not None:
            answer["loaded"] = self._sources(value["loaded"])
        if value.get("artifacts") is not None:
            answer["artifacts"] = _kept(value["artifacts"])
        return answer

    def _say_unread(self, keys: list[str]) -> None:
        for key in keys:
            if key not in self._told and len(self._told) < 8:
                self._told.add(key)
                _LOGGER.warning(
                    "%s: its answers have '%s', which is not read (%s)",
                    self.name, key, did_you_mean(key, ANSWER_KEYS),
                )  # fmt: skip

    def _usage(self, tokens: Any) -> Usage | None:
        """Tokens as a target says them: their number, or those of prompts and of answers."""
        if tokens is None:
            return None
        if not isinstance(tokens, Mapping):
            return {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": self._count(tokens, "tokens")}
        prompt, completion = (
            self._count(next((tokens[key] for key in keys if tokens.get(key) is not None), 0), "tokens")
            for keys in (_PROMPT_TOKENS, _COMPLETION_TOKENS)
        )
        usage = token_usage(prompt, completion)
        for key in ("total_tokens", "total"):
            if tokens.get(key) is not None:
                usage["total_tokens"] = max(usage["total_tokens"], self._count(tokens[key], "tokens"))
        return usage

    def _number_of(self, value: Any, key: str) -> int:
        return len(value) if isinstance(value, (list, tuple)) else self._count(value, key)

    def _count(self, value: Any, key: str) -> int:
        number = self._amount(value, key)
        if number != int(number):
            raise self._wrong(f"'{key}' of its answer is {value!r}, not a whole number")
        return int(number)

    def _amount(self, value: Any, key: str) -> float:
        number = math.nan
        if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):  # of numpy too
            with suppress(OverflowError):
                number = float(value)
        if not 0 <= number < math.inf:
            raise self._wrong(
                f"'{key}' of its answer is {shorten(repr(value), 60)}, not a number from 0 on",
                hint="leave the key out where it is not known",
            )
        return number

    def _steps(self, transcript: Any) -> list[dict[str, Any]]:
        if not isinstance(transcript, (list, tuple)):
            raise self._wrong("'transcript' of its answer is no list of steps")
        kept: list[dict[str, Any]] = []
        room = MOST_BESIDE
        for number, step in enumerate(transcript):
            entry = _redacted(dict(step) if isinstance(step, Mapping) else {"text": str(step)})
            room -= len(_as_json(entry))
            if room < 0:
                left = len(transcript) - number
                kept.append({"step": number, "type": "note", "text": f"{left} further steps are left out"})
                break
            kept.append({"step": number, **json.loads(_as_json(entry))})
        return kept

    def _sources(self, loaded: Any) -> list[dict[str, Any]]:
        """Sources that were read: names, mappings with ``source`` and ``sha256``, or a mapping of hashes by name."""
        if isinstance(loaded, Mapping):
            loaded = [{"source": name, "sha256": value} for name, value in loaded.items()]
        if not isinstance(loaded, (list, tuple)):
            raise self._wrong("'loaded' of its answer is no list of sources")
        sources = []
        for entry in loaded:
            source = dict(entry) if isinstance(entry, Mapping) else {"source": str(entry)}
            name = next(
                (source.pop(key) for key in ("source", "path", "file", "name") if key in source), None
            )
            if name is None:
                raise self._wrong(f"an entry of 'loaded' names no source: {shorten(_as_json(source), 80)}")
            digest = next((source.pop(key) for key in ("sha256", "hash") if source.get(key)), None)
            sources.append({"source": str(name)} | ({"sha256": str(digest)} if digest else {}))
        kept = _kept(sources)
        return kept if isinstance(kept, list) else [kept]

    def _wrong(self, problem: str, hint: str | None = None) -> EngineError:
        colon = ":" if problem.startswith("'") else ""
        return EngineError(f"{self.name}{colon} {problem}", hint=hint, refuses_all=True)


def _error_words(error: Any) -> str:
    """What an answer's ``error`` says: a text, or the message of an object as services write it."""
    if isinstance(error, Mapping):
        error = next((error[key] for key in ("message", "detail", "error") if error.get(key)), error)
    return shorten(error if isinstance(error, str) else _as_json(error))


def _as_json(value: Any) -> str:
    """A value as JSON; what JSON has no word for becomes text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _kept(value: Any) -> Any:
    """A value as a row keeps it: plain JSON without known secrets, in bounds."""
    text = _as_json(value)
    if len(text) > MOST_BESIDE:
        return {"left_out": f"{len(text):,} characters"}
    return _redacted(json.loads(text))


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value, guess=False)
    if isinstance(value, Mapping):
        return {redact(str(key), guess=False): _redacted(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(entry) for entry in value]
    return value


def out_of_time(seconds: float, stderr: str = "") -> Generation:
    """What becomes of a call that took longer than the target's own limit: an outcome of the item."""
    answer: Generation = {
        "text": "",
        "finish_reason": "out_of_time",
        "latency_ms": round(seconds * 1000, 3),
        "usage": token_usage(0, 0),
        "usage_reported": False,
    }
    if stderr:
        answer["stderr"] = stderr
    return answer
