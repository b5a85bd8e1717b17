"""``llamacpp``: a GGUF model on the CPU, embedded by worker processes, repeatable to the letter.

Each worker answers one request at a time with one thread, without flash attention: parallel slots change
llama.cpp's text even when greedy. ``workers`` scales instead; ``slots`` are there for whoever can do without
repeatable texts, and rows name them. Rows that ask the same prompt in a row (seeds,
greedy and sampled) have it read once, and so has the beginning that the prompts of a condition share before the item,
in a way that leaves every text what it is for a row alone.

Sampling is temperature, then top-p, and nothing else: the order other engines use (llama.cpp's own default
applies top-p first and adds top-k and min-p).
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, model_validator

from pcsuite.engines.adapters._chat_template import ChatOptions
from pcsuite.engines.adapters._llamacpp_pool import LlamaCppPool, Reading
from pcsuite.engines.adapters.base import (
    LOCAL_TOKEN_COUNTS_KEPT,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Replica,
    Request,
    chat_messages,
    token_usage,
)
from pcsuite.engines.grammar import is_gbnf, llguidance_grammar
from pcsuite.engines.weights import cached_sha256, catalogue_entry, pulled_path
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError, require

CONSTRAINT_BACKEND = "native:llama.cpp"
RANDOM_SEED = 0xFFFFFFFF
"""llama.cpp reads this seed as "choose one": it must never be sent."""
CALLS_PER_WORKER = 8
"""Calls taken on for each worker, so that a free one finds prompts that begin as the one that it has read."""

WIDER_THAN_WHEELS = ("AVX512", "AVX_VNNI", "AMX")
"""How instructions are called that the published builds for x86 use none of: one that does was made for a machine."""

MOST_KEPT = 1000 if hasattr(os, "memfd_create") else 1
"""Beginnings that a worker can keep: without files in memory that which it read last."""


@lru_cache(1)
def built_for() -> str:
    """The instructions that the installed engine uses beyond those of the published builds; empty for one of these.

    Other instructions add in another order, so that an answer may differ.
    """
    return wider_instructions(str(require("xllamacpp", "local").get_system_info()))


def wider_instructions(system_info: str) -> str:
    """What of llama.cpp's list of instructions published builds do not use.

    >>> wider_instructions("CPU : AVX = 1 | AVX2 = 1 | AVX512_VNNI = 1 | AVX512 = 1 | AMX_INT8 = 0 | ")
    'AVX512 AVX512_VNNI'
    """
    used = re.findall(r"(\w+) = 1\b", system_info)
    return " ".join(sorted(name for name in used if name.startswith(WIDER_THAN_WHEELS)))


class LlamaCppOptions(ChatOptions):
    """Keys of a model whose provider is ``llamacpp``."""

    weights: str | None = None
    """Model file of the catalogue (``pcsuite models list``); give this or ``path``."""
    path: Path | None = None
    """A GGUF file of your own."""
    workers: int = Field(default_factory=lambda: min(2, os.cpu_count() or 1), ge=1)
    """Worker processes, which is also how many calls are answered at a time."""
    threads: int = Field(default=1, ge=1)
    """Threads of each worker."""
    slots: int = Field(default=1, ge=1, le=64)
    """Answers that each worker writes in the same passes. With more than one texts depend on what else is asked: rows
    say ``seed_honoured: false``, and their engine names the slots."""
    context_tokens: int = Field(default=4096, ge=256)
    """Room for prompt and answer together."""
    prefix_reuse: bool = True
    """Read a prompt once for the rows that ask it one after the other; changes rounding, so text, if changed."""
    kept_beginnings: int = Field(default=32, ge=0)
    """Beginnings of prompts, up to the item, that each worker keeps so that prompts which share one read on from there,
    with four times ``context_tokens`` together at most. How many they are changes no text; 0 reads every prompt whole,
    which rounds differently. Only Linux keeps more than one."""
    timeout_s: float = Field(default=600.0, gt=0)
    """A call that takes longer ends its worker and is reported as retryable."""

    @model_validator(mode="after")
    def _one_source(self) -> LlamaCppOptions:
        if (self.weights is None) == (self.path is None):
            raise ValueError("give either 'weights' (a catalogue id) or 'path' (a GGUF file)")
        return self


class LlamaCppAdapter(ModelAdapter):
    """A GGUF model run by llama.cpp in worker processes of this computer."""

    Options: ClassVar[type[BaseModel]] = LlamaCppOptions
    native_constraints: frozenset[ConstraintKind] = frozenset({"json_schema", "regex", "cfg"})
    writes_grammars: ClassVar[bool] = True
    exclusive: ClassVar[bool] = True
    options: LlamaCppOptions

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        if options is None:
            raise ConfigError(f"model '{model_id}' needs 'weights' or 'path'")
        super().__init__(model_id, options)
        self.max_concurrency = max(CALLS_PER_WORKER, 2 * self.options.slots) * self.options.workers
        self._chat = True if self.options.chat is None else self.options.chat
        if self.options.weights is not None:
            entry = catalogue_entry(self.options.weights)
            self._path = pulled_path(entry)
            if self.options.chat is None:
                self._chat = entry.chat
        else:
            assert self.options.path is not None
            self._path = self.options.path.expanduser()
            if not self._path.is_file():
                raise EngineError(f"model '{model_id}': there is no file {self._path}")
        self._cuts = (
            self.options.prefix_reuse and self.options.kept_beginnings > 0 and self.options.slots == 1
        )
        self._version = str(require("xllamacpp._version", "local").get_versions()["version"])
        settings = {
            "model": str(self._path.resolve()),
            **self.options.model_dump(include={"context_tokens", "threads", "slots", "prefix_reuse"}),
            "kept_beginnings": min(self.options.kept_beginnings, MOST_KEPT),
        }
        self._pool = LlamaCppPool(settings, self.options.workers, self.options.timeout_s)
        self._finalizer = weakref.finalize(self, LlamaCppPool.close, self._pool)
        # Around the pool, not around a method of ours: the cache must not keep the adapter.
        self._count = lru_cache(LOCAL_TOKEN_COUNTS_KEPT)(self._pool.count_tokens)

    @classmethod
    def replica(cls, options: BaseModel) -> Replica:
        """One worker process with its threads, a CPU for each of them.

        A worker's text does not depend on how many there are, so the copies answer as the model does.
        """
        assert isinstance(options, LlamaCppOptions)
        return Replica(options.model_copy(update={"workers": 1}), cpus=options.threads)

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, waiting for a free worker.

        The same prompt, decoding and seed give the same text. A worker that dies or takes longer than ``timeout_s`` is
        a retryable ``EngineError``, a prompt that is too long one with the remedy.
        """
        return self._generation(self._submit(Request(prompt, decoding, seed)).result(), None)

    def generate_constrained(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint
    ) -> Generation:
        """Answer one prompt within a JSON schema, a regular expression or a Lark grammar.

        One that llguidance cannot compile is a ``ConstraintUnavailableError`` with its reason.
        """
        request = Request(prompt, decoding, seed, constraint)
        return self._generation(self._submit(request).result(), constraint)

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt; works in any event loop, several at once included."""
        return self._generation(await asyncio.wrap_future(self._submit(request)), request.constraint)

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` itself; the chat template's own tokens (``usage`` has them) are not counted."""
        return self._count(text)

    def identity(self) -> Mapping[str, str]:
        """Engine version, hash of the weights, and the options that change answers.

        The hash of a large file is remembered, so that it is read once.
        """
        return {
            "engine": f"xllamacpp {self._version}",
            "weights_sha256": cached_sha256(self._path),
            **self.options.chat_facts(self._chat),
            "threads": str(self.options.threads),
            "prefix_reuse": str(self.options.prefix_reuse),
            **({"beginnings": "apart, between words"} if self._cuts else {}),
            **({"slots": str(self.options.slots)} if self.options.slots > 1 else {}),
            **({"built_for": built} if (built := built_for()) else {}),
        }

    def close(self) -> None:
        """End the workers; calls that still wait fail.

        It also happens when the adapter is garbage-collected or the interpreter ends.
        """
        self._finalizer()

    def _submit(self, request: Request) -> Future[Any]:
        decoding, constraint = request.decoding, request.constraint
        body: dict[str, Any] = {
            "max_tokens": decoding.max_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": 0,
            "min_p": 0.0,
            "repeat_penalty": 1.0,
            "samplers": ["top_k", "temperature", "top_p"],
            "seed": request.seed % RANDOM_SEED,
        }
        if constraint is not None:
            gbnf = constraint.kind == "cfg" and is_gbnf(constraint.value)
            body["grammar"] = constraint.value if gbnf else llguidance_grammar(constraint)
            # A grammar may allow an end in many places; schemas and patterns are bounded by those who write them.
            body["prefer_end"] = constraint.kind == "cfg"
        messages = chat_messages(self.options.system_prompt, request.prompt)
        if self._chat:
            body["messages"] = messages
        else:
            body["prompt"] = "\n\n".join(message["content"] for message in messages)
        cut = self._cut(request, messages)
        if cut is not None:
            body["beginning"] = cut
        shared = request.prompt[: request.shared_chars] if cut is not None else None
        return self._pool.generate(body, self._chat, Reading(request.prompt, shared))

    def _cut(self, request: Request, messages: list[dict[str, str]]) -> tuple[int, int, int] | None:
        """How far the shared beginning goes: the message that it ends in, the characters of that, and of the prompt."""
        if not self._cuts or not 0 < request.shared_chars < len(request.prompt):
            return None
        shared = chat_messages(self.options.system_prompt, request.prompt[: request.shared_chars])
        index, count = len(shared) - 1, len(shared[-1]["content"])
        if index >= len(messages) or messages[index]["content"][:count] != shared[-1]["content"]:
            return None
        # Without a chat template the messages are one text, of which the first is the beginning.
        return (index, count, request.shared_chars) if self._chat or index == 0 else None

    def _generation(self, reply: Mapping[str, Any], constraint: Constraint | None) -> Generation:
        if "error" in reply:
            error = reply["error"]
            where, reason, code = f"model '{self.model_id}'", error.get("message", error), error.get("code")
            # The server reports a GBNF grammar that cannot be read, the worker any other.
            refused = error.get("type") == "grammar" or "parse grammar" in str(reason)
            if refused and constraint is not None:
                raise ConstraintUnavailableError(
                    f"{where}: llama.cpp cannot enforce this {constraint.kind}: {reason}"
                )
            if error.get("type") == "exceed_context_size_error":
                hint = f"raise context_tokens of {where} or shorten the prompt"
                raise EngineError(f"{where}: {reason}", hint=hint)
            status = code if isinstance(code, int) else None
            raise EngineError(
                f"{where}: {reason}", status=status, retryable=status is not None and status >= 500
            )
        answer = reply["result"]
        try:
            choice, counts = answer["choices"][0], answer["usage"]
            text = choice["message"]["content"] if self._chat else choice["text"]
            generation: Generation = {
                "text": text or "",
                "finish_reason": str(choice["finish_reason"]),
                "latency_ms": float(reply["latency_ms"]),
                "usage": token_usage(int(counts["prompt_tokens"]), int(counts["completion_tokens"])),
                "seed_honoured": self.options.slots == 1,
            }
        except (KeyError, IndexError, TypeError) as error:
            raise EngineError(f"model '{self.model_id}': llama.cpp's answer lacks {error}") from error
        if "cut" in answer:
            generation["prompt_cut"] = int(answer["cut"])
        if constraint is not None:
            generation["constraint_backend"] = CONSTRAINT_BACKEND
        return generation
