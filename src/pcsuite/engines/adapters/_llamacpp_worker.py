"""One llama.cpp engine in a process of its own, driven by JSON lines. Imports nothing of the suite.

stdin, first line: ``{"model", "context_tokens", "threads", "slots", "prefix_reuse", "kept_beginnings"}``; then requests
``{"id", "op": "generate", "chat": bool, "body": {…}}`` and ``{"id", "op": "tokenize", "text"}``. ``beginning`` in a
body, ``[message, its characters, the prompt's characters]``, says how far the prompt is shared with others.
stdout: ``{"ready": version}`` or ``{"fatal": message}``, then ``{"id", "result"}`` or ``{"id", "error"}``.

stderr is a file opened for reading too: llama.cpp reports a grammar it cannot compile only in its log and
then generates *unconstrained* text, so the log is read back before a constrained answer is trusted.
The end of stdin, which the death of the parent brings about, ends the process.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

LOG_DESCRIPTOR = 2
LOG_LIMIT_BYTES = 1 << 20
LOG_WAIT_S = 5.0
GRAMMAR_ERROR = "llg error: "
REQUEST_BEGIN = "processing task"
REQUEST_END = "stop processing"
LOG_SETTLE_S = 0.02


class GrammarRefusedError(Exception):
    """The engine cannot compile the grammar."""


class _EngineLog:
    """The engine's log file, read from where we last looked."""

    def __init__(self) -> None:
        self._offset = 0

    def mark(self) -> None:
        """Forget what was logged so far, and keep the file small."""
        size = os.fstat(LOG_DESCRIPTOR).st_size
        if size > LOG_LIMIT_BYTES:
            os.ftruncate(LOG_DESCRIPTOR, 0)  # opened for appending, so writers go on at the new end
            size = 0
        self._offset = size

    def grammar_error(self) -> str | None:
        """The engine's error about the grammar since the mark, or ``None``.

        The log is written in order by a thread of its own: once the lines that begin and end the request
        are there, an error line, which comes before them, is there too.
        """
        deadline = time.monotonic() + LOG_WAIT_S
        while True:
            size = os.fstat(LOG_DESCRIPTOR).st_size
            text = os.pread(LOG_DESCRIPTOR, size - self._offset, self._offset).decode("utf-8", "replace")
            if GRAMMAR_ERROR in text:
                first, *following = text.split(GRAMMAR_ERROR, 1)[1].splitlines()
                # A reason goes on over lines that are indented or begin a word of their own; log lines do neither.
                further = takewhile(lambda line: line.startswith((" ", "error:", "note:")), following)
                return " ".join(" ".join([first, *further]).split())
            begin = text.find(REQUEST_BEGIN)
            if begin >= 0 and text.find(REQUEST_END, begin) >= 0:
                return None
            if time.monotonic() > deadline:
                raise TimeoutError("the engine did not confirm that it uses the grammar")
            time.sleep(0.002)


END_BIAS = 100.0
"""Added to the end token's logit where an end is preferred: it comes wherever the grammar lets it."""


LEAST_BEGINNING = 24
"""Tokens that a beginning must have to be read by itself: each answer then costs one token's reading more."""
BEGINNINGS_KNOWN = 1000
"""Beginnings whose tokens are remembered."""
STATES_OF = 4
"""Kept beginnings have at most so many times the context's tokens together, which bounds their memory."""
ITEM = "\ue000"
"""Stands for what follows the beginning while the chat template is asked where that ends (a private character)."""


class _States:
    """What the engine's memory is after a beginning was read, by the beginning's tokens, the one used last at the end.

    They lie in files without a name, so that nothing is left of them however the process ends. Where the system has
    none of these, nothing is kept here: a beginning is then known only while the engine's slot holds it.
    """

    folder = "/proc/self/fd/" if hasattr(os, "memfd_create") else None

    def __init__(self, kept: int, most_tokens: int) -> None:
        self._kept, self._most_tokens = kept if self.folder else 0, most_tokens
        self._files: dict[tuple[int, ...], int] = {}

    def get(self, tokens: list[int]) -> str | None:
        """Name of the file with the state after these tokens."""
        descriptor = self._files.pop(tuple(tokens), None)
        if descriptor is None:
            return None
        self._files[tuple(tokens)] = descriptor
        return str(descriptor)

    def add(self, tokens: list[int]) -> str | None:
        """Name of a file for the state after these tokens; what was used least lately makes room for it."""
        if not self._kept or len(tokens) > self._most_tokens:
            return None
        while self._files and (
            len(self._files) >= self._kept or sum(map(len, self._files)) + len(tokens) > self._most_tokens
        ):
            self.drop(next(iter(self._files)))
        self._files[tuple(tokens)] = os.memfd_create("beginning")
        return str(self._files[tuple(tokens)])

    def drop(self, tokens: Iterable[int]) -> None:
        """Forget the state after these tokens."""
        descriptor = self._files.pop(tuple(tokens), None)
        if descriptor is not None:
            os.close(descriptor)


class _Engine:
    """The in-process llama.cpp server. With one slot it answers one request at a time: that makes it repeatable.

    The kernels for one token and for many round differently, so a text can depend on how its prompt was cut into
    readings. Here that depends on the prompt alone, never on what was asked before. Its beginning is read in one go
    from an empty slot, its last token once more by itself; then the rest in one go; then the last prompt token by
    itself. What is still known of these, to the letter, need not be read again: the whole prompt for its replicates,
    while the slot holds it, and the beginning for the prompts that share it, whose state is kept and put back. What a
    prompt shares by chance is never used, since then the cut would lie elsewhere. A prompt without a beginning is read
    in one go from an empty slot.

    With several slots as many requests are answered in the same passes, and a prompt is read on from whatever its slot
    holds of it, as llama.cpp does by itself: texts then depend on what is asked beside them and was asked before.
    """

    def __init__(
        self,
        model: str,
        context_tokens: int,
        threads: int,
        slots: int,
        prefix_reuse: bool,
        kept_beginnings: int,
    ) -> None:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        import xllamacpp

        self.version = str(xllamacpp.__version__)
        key = secrets.token_hex(16)
        params = xllamacpp.CommonParams()
        params.model.path = model
        params.n_parallel = slots
        params.n_ctx = context_tokens * slots  # divided over them
        params.kv_unified = False
        if _States.folder:
            params.slot_save_path = _States.folder
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_prompt = False
        params.cache_ram_mib = 0
        params.swa_full = prefix_reuse  # a sliding window would have forgotten what an answer overran
        params.api_keys = [key]
        self._server = xllamacpp.Server(params)
        address = urlsplit(self._server.listening_address)
        self._http = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=60)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        self._asking = threading.Lock()  # tokens are counted in another thread than answers are made in
        self._log = _EngineLog()
        self._verdicts: dict[str, str | None] = {}
        self._slots = slots
        self._free = threading.Semaphore(slots)
        self._entering = threading.Lock()
        self._reads_on = prefix_reuse and slots > 1
        self._reuses = prefix_reuse and slots == 1
        self._cuts = self._reuses and kept_beginnings > 0
        self._reused_before = False
        self._prompt: str | None = None
        """The prompt that the slot holds, ``None`` where it holds none, or only a part of one."""
        self._cut: int | None = None
        """Characters of it that were read by themselves, ``None`` where it was read whole."""
        self._beginning: list[int] | None = None
        """The tokens of the beginning that the slot holds, maybe with more behind it."""
        self._states = _States(kept_beginnings, STATES_OF * context_tokens)
        self._beginnings: dict[str, tuple[list[int], int]] = {}
        self._end: int | None = None

    def generate(self, body: dict[str, Any], chat: bool) -> dict[str, Any]:
        """Answer one request; a grammar that is not in force is an error. ``cut`` says how the prompt was read.

        ``prefer_end`` in the body: an answer that is cut is written once more, and then ends at the first place where
        the grammar allows an end. The tokens of both are counted.
        """
        grammar: str | None = body.get("grammar")
        # What the log says of a grammar is found beside no other request's lines.
        with self._turn(alone=grammar is not None and grammar not in self._verdicts):
            return self._generate(body, chat, grammar)

    @contextmanager
    def _turn(self, alone: bool) -> Iterator[None]:
        """Wait for a slot, or for all of them."""
        wanted = self._slots if alone else 1
        with self._entering:
            for _ in range(wanted):
                self._free.acquire()
        try:
            yield
        finally:
            self._free.release(wanted)

    def _generate(self, body: dict[str, Any], chat: bool, grammar: str | None) -> dict[str, Any]:
        prefers_end = body.pop("prefer_end", False)
        beginning = body.pop("beginning", None)
        unknown = grammar is not None and grammar not in self._verdicts
        if grammar is not None and not unknown:
            self._enforce(grammar)
        if self._reuses:
            prompt = json.dumps([chat, beginning, body["messages" if chat else "prompt"]])
            if prompt != self._prompt:
                refusal = self._read(body, chat, beginning)
                if refusal is not None:  # it does not fit
                    return refusal
                self._prompt = prompt
        if self._slots == 1:
            body = {**body, "id_slot": 0}
        if unknown:
            time.sleep(LOG_SETTLE_S)  # let the lines of the request before reach the log
        if unknown or self._slots == 1:
            self._log.mark()
        result = self._answer(body, chat)
        if grammar is not None and unknown and "error" not in result:
            self._verdicts[grammar] = self._log.grammar_error()
            self._enforce(grammar)
        if prefers_end and "error" not in result and result["choices"][0]["finish_reason"] == "length":
            ended = self._answer({**body, "logit_bias": [[self._end_token(), END_BIAS]]}, chat)
            if "error" not in ended and ended["choices"][0]["finish_reason"] != "length":
                for name in ("completion_tokens", "total_tokens"):
                    ended["usage"][name] += result["usage"]["completion_tokens"]
                result = ended
        return result if "error" in result or self._cut is None else {**result, "cut": self._cut}

    def _read(self, body: dict[str, Any], chat: bool, beginning: list[int] | None) -> dict[str, Any] | None:
        """Have the slot hold the prompt; the engine's error where it could not be read."""
        reading = {name: value for name, value in body.items() if name != "grammar"}
        reading |= {"max_tokens": 0, "id_slot": 0}
        tokens, cut = self._beginning_of(body, chat, beginning) if self._cuts and beginning else ([], 0)
        self._prompt = self._cut = None
        if len(tokens) >= LEAST_BEGINNING and self._hold(tokens):
            answer = self._call({**reading, "cache_prompt": True}, chat)
            if "error" in answer:
                self._beginning = None
                return answer
            if answer["timings"].get("cache_n") == len(tokens):
                self._cut = cut
                return None
        # No beginning, or one whose last token goes on into the rest of this prompt: always read whole.
        self._beginning = None
        answer = self._call({**reading, "cache_prompt": False}, chat)
        return answer if "error" in answer else None

    def _hold(self, tokens: list[int]) -> bool:
        """Have the slot hold the beginning and no more, its last token read by itself; whether that worked."""
        kept = self._states.get(tokens)
        if kept is not None:
            restored = self._ask("POST", "/slots/0?action=restore", {"filename": kept})
            if restored.get("n_restored") == len(tokens):
                self._beginning = tokens
                return True
            self._states.drop(tokens)
            self._beginning = None
        body = {"prompt": tokens, "max_tokens": 0, "id_slot": 0}
        if self._beginning != tokens:
            self._beginning = None
            if "error" in self._call({**body, "cache_prompt": False}, chat=False):
                return False
        again = self._call({**body, "cache_prompt": True}, chat=False)
        if "error" in again or again["timings"]["prompt_n"] != 1:
            # A recurrent model cannot take a token back.
            self._beginning, self._cuts = None, False
            return False
        self._beginning = tokens
        new = self._states.add(tokens)
        if new is not None:
            saved = self._ask("POST", "/slots/0?action=save", {"filename": new})
            if saved.get("n_saved") != len(tokens):
                self._states.drop(tokens)  # no memory for it: it is read again when the slot holds another
        return True

    def _beginning_of(self, body: dict[str, Any], chat: bool, beginning: list[int]) -> tuple[list[int], int]:
        """The tokens that the prompt begins with, and the characters of it that they are.

        The last word goes with the rest: how it is split into tokens may depend on what follows. So do further words
        whose last token goes on into what follows them, as a full stop does before an empty line in Qwen's vocabulary.
        """
        index, count, characters = beginning
        if chat:
            messages = body["messages"]
            last = {**messages[index], "content": messages[index]["content"][:count] + ITEM}
            shared = [*messages[:index], last]
            known = json.dumps(shared)
        else:
            known = body["prompt"][:count]
        if known not in self._beginnings:
            if chat:
                text = self._ask("POST", "/apply-template", {"messages": shared})["prompt"].split(ITEM)[0]
            else:
                text = known
            whole, words = self._tokens(text), text.rstrip()
            tokens = whole
            while words and (tokens is whole or whole[: len(tokens)] != tokens):
                words = words[: max(words.rfind(" "), words.rfind("\n"), 0)].rstrip()
                tokens = self._tokens(words)
            if len(self._beginnings) >= BEGINNINGS_KNOWN:
                self._beginnings.clear()
            self._beginnings[known] = tokens, len(text) - len(words)
        tokens, left_out = self._beginnings[known]
        return tokens, max(0, characters - left_out)

    def _tokens(self, text: str) -> list[int]:
        """The tokens of a prompt, or of its beginning."""
        asked = {"content": text, "add_special": True, "parse_special": True}
        tokens: list[int] = self._ask("POST", "/tokenize", asked)["tokens"]
        return tokens

    def _end_token(self) -> int:
        """The token that ends an answer."""
        if self._end is None:
            text = self._ask("GET", "/props")["eos_token"]
            body = {"content": text, "add_special": False, "parse_special": True}
            self._end = int(self._ask("POST", "/tokenize", body)["tokens"][0])
        return self._end

    def _answer(self, body: dict[str, Any], chat: bool) -> dict[str, Any]:
        if not self._reuses:
            return self._call({**body, "cache_prompt": self._reads_on}, chat)
        result = self._call({**body, "cache_prompt": True}, chat)
        if "error" in result:
            self._prompt = self._beginning = None
            return result
        if result["timings"]["prompt_n"] == 1:
            self._reused_before = True
            return result
        if self._reused_before:
            raise RuntimeError("it read the prompt again; set prefix_reuse: false for this model")
        # Recurrent models cannot take a token back: the first answer of all shows it, and none reuses then.
        self._reuses = self._cuts = False
        return self._answer(body, chat)

    def _call(self, body: dict[str, Any], chat: bool) -> dict[str, Any]:
        handler = self._server.handle_chat_completions if chat else self._server.handle_completions
        answer = handler(body)
        result: dict[str, Any] = json.loads(answer) if isinstance(answer, (str, bytes)) else answer
        return result

    def _enforce(self, grammar: str) -> None:
        refusal = self._verdicts[grammar]
        if refusal is not None:
            raise GrammarRefusedError(refusal)

    def count_tokens(self, text: str) -> int:
        """Tokens of the text itself: no chat template, no special tokens added or recognised.

        Asked of the engine's own HTTP endpoint on loopback, behind a key only we know.
        """
        body = {"content": text, "add_special": False, "parse_special": False}
        return len(self._ask("POST", "/tokenize", body)["tokens"])

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the engine's own HTTP endpoint answers."""
        data = None if body is None else json.dumps(body).encode()
        with self._asking:
            try:
                self._http.request(method, path, data, self._headers)
                answer = self._http.getresponse().read()
            except (http.client.HTTPException, OSError):  # an idle keep-alive connection was closed
                self._http.close()
                self._http.request(method, path, data, self._headers)
                answer = self._http.getresponse().read()
        return json.loads(answer)


class _Replies:
    """The private copy of stdout; library prints go to the log instead."""

    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(LOG_DESCRIPTOR, 1)
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()


def _answer(engine: _Engine, replies: _Replies, request: dict[str, Any]) -> None:
    reply: dict[str, Any] = {"id": request["id"]}
    started = time.perf_counter()
    try:
        if request["op"] == "generate":
            result = engine.generate(request["body"], request["chat"])
            reply["error" if "error" in result else "result"] = result.get("error", result)
        else:
            reply["result"] = engine.count_tokens(request["text"])
    except Exception as error:
        kind = "grammar" if isinstance(error, GrammarRefusedError) else type(error).__name__
        reply["error"] = {"type": kind, "message": str(error)}
    reply["latency_ms"] = (time.perf_counter() - started) * 1000
    replies.send(reply)


def serve() -> None:
    """Load the model, then answer until stdin ends. Tokenizing does not wait for a running generation."""
    replies = _Replies()
    settings = json.loads(sys.stdin.readline())
    try:
        engine = _Engine(**settings)
    except BaseException as error:
        replies.send({"fatal": f"{type(error).__name__}: {error}"})
        os._exit(1)
    replies.send({"ready": engine.version})
    requests: queue.Queue[dict[str, Any]] = queue.Queue()

    def generate() -> None:
        while True:
            _answer(engine, replies, requests.get())

    for _ in range(settings["slots"]):
        threading.Thread(target=generate, daemon=True).start()
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "generate":
            requests.put(request)
        else:
            _answer(engine, replies, request)
    os._exit(0)  # the engine's own threads must not keep an orphan alive


if __name__ == "__main__":
    sys.path.pop(0)  # the adapters' folder: its module names must not shadow others
    serve()
