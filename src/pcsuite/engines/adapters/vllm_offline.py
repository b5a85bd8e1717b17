"""``vllm-offline``: a model that vLLM runs on this computer's GPU, without a server.

One engine of vLLM's, in a process that it starts itself; requests join its running batch as they come, and what prompts
share at their beginning is read once. Constraints are enforced by llguidance from the grammars that the embedded engine
gets too. A row draws its random numbers from its own seed, but a batch of other rows rounds differently and so changes
texts now and then, even greedy ones: ``seed_honoured`` is false, unless ``batch_invariant`` asks for vLLM's kernels
that do not depend on the batch, which are slower.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, Field

from pcsuite._util.hashing import sha256_hex
from pcsuite.engines.adapters._chat_template import TemplateOptions, token_counter
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Replica,
    Request,
    token_usage,
)
from pcsuite.engines.grammar import llguidance_grammar
from pcsuite.engines.weights import cached_sha256
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError, require

Result = TypeVar("Result")
CONSTRAINT_BACKEND = "native:vllm+llguidance"
START_WAIT_S = 1800.0
"""Loading, compiling and recording a large model takes minutes."""


class VllmOptions(TemplateOptions):
    """Keys of a model whose provider is ``vllm-offline``."""

    path: str
    """A folder of safetensors, or a name on the Hugging Face hub."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Precision of the weights; ``auto`` is that of the files."""
    batch_size: int = Field(default=128, ge=1)
    """Rows that run together at most."""
    context_tokens: int | None = Field(default=None, ge=256)
    """Room for prompt and answer together, instead of the model's own."""
    gpu_memory: float = Field(default=0.9, gt=0, le=1)
    """Share of the card's memory that the engine takes."""
    gpus: int = Field(default=1, ge=1)
    """GPUs that the model is spread over."""
    batch_invariant: bool = False
    """Use kernels whose rounding does not depend on the batch, so that a row's text is that of the row alone."""
    engine: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of vLLM's engine, by its own names (``quantization``, ``max_num_batched_tokens``, …)."""


class VllmOfflineAdapter(ModelAdapter):
    """A model in vLLM's own engine."""

    Options: ClassVar[type[BaseModel]] = VllmOptions
    native_constraints: frozenset[ConstraintKind] = frozenset({"json_schema", "regex", "cfg"})
    writes_grammars: ClassVar[bool] = True
    exclusive: ClassVar[bool] = True
    options: VllmOptions

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        if options is None:
            raise ConfigError(f"model '{model_id}' needs 'path'")
        super().__init__(model_id, options)
        self.max_concurrency = 2 * self.options.batch_size
        # Read by vLLM when it is imported; nothing is reported to anybody.
        os.environ["VLLM_NO_USAGE_STATS"] = "1"
        os.environ["VLLM_BATCH_INVARIANT"] = "1" if self.options.batch_invariant else "0"
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        # A process that has threads, or has asked whether there is a GPU, must not be forked.
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
        self._vllm = require("vllm", "vllm")
        self._numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        try:
            self._engine, self._tokenizer = self._run(self._start()).result(START_WAIT_S)
        except Exception as error:
            self._stop_loop()
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise EngineError(
                f"model '{model_id}': vLLM cannot start: {reason[0]}",
                hint="its own log is above; VLLM_LOGGING_LEVEL=INFO shows more",
            ) from error
        chat = self.options.chat
        self._chat = bool(getattr(self._tokenizer, "chat_template", None)) if chat is None else chat
        self._count = token_counter(self._tokenizer)

    @classmethod
    def replica(cls, options: BaseModel) -> Replica:
        """The model on as many GPUs as its ``gpus`` says."""
        assert isinstance(options, VllmOptions)
        return Replica(options, gpus=options.gpus)

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, in the batch that is running.

        A prompt that leaves no room in the model's context is an ``EngineError``.
        """
        return self._run(self._answer(Request(prompt, decoding, seed))).result()

    def generate_constrained(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint
    ) -> Generation:
        """Answer one prompt within a JSON schema, a regular expression or a Lark grammar.

        One that llguidance cannot compile is a ``ConstraintUnavailableError`` with its reason.
        """
        return self._run(self._answer(Request(prompt, decoding, seed, constraint))).result()

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt; works in any event loop, several at once included."""
        return await asyncio.wrap_future(self._run(self._answer(request)))

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` itself; the chat template's own tokens (``usage`` has them) are not counted."""
        return self._count(text)

    def identity(self) -> Mapping[str, str]:
        """Version, hash of the weights, and the options that change answers."""
        options = self.options
        facts = {
            "engine": f"vllm {self._vllm.__version__}",
            "weights_sha256": _weights_identity(options.path, options.revision),
            "dtype": options.dtype,
            **options.chat_facts(self._chat),
            "batch_invariant": str(options.batch_invariant),
        }
        if options.engine:
            facts["engine_options"] = repr(sorted(options.engine.items()))
        if not options.batch_invariant:
            facts["batch_size"] = str(options.batch_size)
        return facts

    def close(self) -> None:
        """End the engine's process; calls that still wait fail."""
        if not self._loop.is_closed():
            self._engine.shutdown()
            self._stop_loop()

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _stop_loop(self) -> None:
        def cancel_and_stop() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_soon(self._loop.stop)  # after the tasks have heard of it

        self._loop.call_soon_threadsafe(cancel_and_stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> tuple[Any, Any]:
        """The engine, made in the loop that it answers in, and the model's tokenizer."""
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        options = self.options
        arguments = AsyncEngineArgs(
            **{
                "model": str(Path(options.path).expanduser()) if _is_folder(options.path) else options.path,
                "revision": options.revision,
                "dtype": options.dtype,
                "max_num_seqs": options.batch_size,
                "max_model_len": options.context_tokens,
                "gpu_memory_utilization": options.gpu_memory,
                "tensor_parallel_size": options.gpus,
                "enable_log_requests": False,
                "disable_log_stats": True,
                "seed": 0,
                # The default backend drops keywords of a schema; this one reads the embedded engine's grammars.
                "structured_outputs_config": {"backend": "guidance"},
                # The model's own sampling defaults (top_k, repetition penalty) would be merged into every call.
                "generation_config": "vllm",
                **options.engine,
            }
        )
        engine = AsyncLLM.from_engine_args(arguments)
        tokenizer = engine.get_tokenizer()
        return engine, (await tokenizer) if asyncio.iscoroutine(tokenizer) else tokenizer

    async def _answer(self, request: Request) -> Generation:
        decoding, constraint = request.decoding, request.constraint
        settings: dict[str, Any] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
            "seed": request.seed % (1 << 63),
        }
        if constraint is not None:
            from vllm.sampling_params import StructuredOutputsParams

            settings["structured_outputs"] = StructuredOutputsParams(grammar=llguidance_grammar(constraint))
        started = time.perf_counter()
        final = None
        try:
            stream = self._engine.generate(
                {"prompt_token_ids": self._prompt_tokens(request.prompt)},
                self._vllm.SamplingParams(**settings),
                f"{self.model_id}-{next(self._numbers)}",
            )
            async for part in stream:
                final = part
        except ValueError as error:
            reason = str(error).strip().splitlines()[0]
            if constraint is not None and "gramma" in reason.casefold():
                raise ConstraintUnavailableError(
                    f"model '{self.model_id}': llguidance cannot enforce this {constraint.kind}: {reason}"
                ) from error
            too_long = "longer than" in reason or "maximum" in reason
            hint = (
                f"raise context_tokens of model '{self.model_id}' or shorten the prompt" if too_long else None
            )
            raise EngineError(
                f"model '{self.model_id}': {reason}", hint=hint, outcome="too_long" if too_long else "failed"
            ) from error
        if final is None:
            raise EngineError(f"model '{self.model_id}': vLLM gave no answer", retryable=True)
        answer = final.outputs[0]
        generation: Generation = {
            "text": answer.text,
            "finish_reason": str(answer.finish_reason or "stop"),
            "latency_ms": (time.perf_counter() - started) * 1000,
            "usage": token_usage(
                len(final.prompt_token_ids or ()), len(answer.token_ids), final.num_cached_tokens
            ),
            "seed_honoured": self.options.batch_invariant,
        }
        if constraint is not None:
            generation["constraint_backend"] = CONSTRAINT_BACKEND
        return generation

    def _prompt_tokens(self, prompt: str) -> list[int]:
        """Token ids of the prompt in the chat template, which brings its special tokens itself."""
        text = self.options.render(self._tokenizer, prompt, self._chat)
        return list(self._tokenizer.encode(text, add_special_tokens=not self._chat))


def _is_folder(path: str) -> bool:
    return Path(path).expanduser().is_dir()


def _weights_identity(path: str, revision: str | None) -> str:
    """The hash of a folder's weights, or a hub model's name and revision."""
    if not _is_folder(path):
        return f"{path}@{revision or 'main'}"
    files = sorted(Path(path).expanduser().glob("*.safetensors"))
    return sha256_hex("".join(cached_sha256(file) for file in files))
