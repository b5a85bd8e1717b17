"""``hf``: a transformers model on the CPU or a GPU of this computer, in batches, repeatable by seed.

Requests that arrive together run as one batch, in which a prompt is read once for all its rows; the batch ends with the
last of them. Only where rows depend on their batch anyway, and others wait, the last few do not hold it up: they go on
in the next batch, on a CPU with what was kept of them, which also reads once what several prompts begin with. Where
that is too slow on a GPU, ``vllm-offline`` runs the same weights.
Each row is sampled by its own random numbers, a function of prompt, seed and position, so that in float32 on the
CPU a row's text does not depend on its neighbours. In other precisions, and on a GPU in any, the batch changes
rounding enough to change text, even greedy: there ``seed_honoured`` is false unless ``batch_size`` is 1.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator

from pcsuite.engines.adapters._chat_template import TemplateOptions, token_counter
from pcsuite.engines.adapters._hf_decoding import (
    BatchingThread,
    EagerSteps,
    Steps,
    can_share_cache,
    decode,
    generate_recurrent,
    nearest,
)
from pcsuite.engines.adapters._hf_loading import LoadedModel, converted_folder, load_model, require_stack
from pcsuite.engines.adapters._hf_sampler import BatchRow, RowMask, draw_key
from pcsuite.engines.adapters._hf_tree import TreeSteps, neighbours, reads_trees
from pcsuite.engines.adapters.base import (
    Decoding,
    Generation,
    ModelAdapter,
    Replica,
    Request,
    token_usage,
)
from pcsuite.engines.weights import catalogue_entry
from pcsuite.errors import ConfigError, EngineError

_LOGGER = logging.getLogger("pcsuite")
Result = TypeVar("Result")
BATCHES_AHEAD = 16
"""Batches whose rows are taken on at a time, so that each can have rows of about the same length."""
STRAGGLERS = 1 / 4
"""Share of a batch's rows, at most, that go on in the next batch, where they are read again."""
CARRIED = 1 / 2
"""The same where what was kept of them goes along."""


class HfOptions(TemplateOptions):
    """Keys of a model whose provider is ``hf``."""

    path: str | None = None
    """A folder of safetensors, or a name on the Hugging Face hub; give this or ``weights``."""
    weights: str | None = None
    """Model file of the catalogue (``pcsuite models list``), converted to safetensors on first use."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Precision of the weights. Only float32 on the CPU makes a row independent of its batch."""
    device_map: str | dict[str, int | str] = "auto"
    """Where the layers go, as in transformers; ``auto`` is the GPUs where there are any, else the CPU."""
    replica_gpus: int = Field(default=1, ge=1)
    """GPUs that one copy of the model takes on a cluster (``--executor ray``), where there are any."""
    batch_size: int = Field(default=8, ge=1)
    """Rows that run together at most."""
    batch_wait_ms: float = Field(default=5.0, ge=0)
    """How long an incomplete batch waits for more requests."""
    prefix_reuse: bool = True
    """Read a prompt once for all its rows of a batch, where the model can keep what it has read.

    On a CPU in another precision than float32 so is what several prompts of a batch begin with.
    """
    cuda_graphs: bool | None = None
    """Does nothing any more: no decoding steps are recorded. It is still taken, and a line says so."""

    @model_validator(mode="after")
    def _one_source(self) -> HfOptions:
        if (self.weights is None) == (self.path is None):
            raise ValueError("give either 'weights' (a catalogue id) or 'path' (a folder or a hub name)")
        return self


class LocalHfAdapter(ModelAdapter):
    """A model that transformers runs in this process."""

    Options: ClassVar[type[BaseModel]] = HfOptions
    exclusive: ClassVar[bool] = True
    options: HfOptions

    def __init__(
        self, model_id: str, options: BaseModel | None = None, *, loaded: LoadedModel | None = None
    ) -> None:
        if options is None:
            raise ConfigError(f"model '{model_id}' needs 'weights' or 'path'")
        super().__init__(model_id, options)
        require_stack()
        self.max_concurrency = BATCHES_AHEAD * self.options.batch_size
        if loaded is None:
            keys = self.options
            local = Path(str(keys.path)).expanduser()
            folder = converted_folder(keys.weights) if keys.weights is not None else local
            source = folder if folder.is_dir() else str(keys.path)  # else a name on the hub
            loaded = load_model(source, dtype=keys.dtype, device_map=keys.device_map, revision=keys.revision)
        self.loaded = loaded
        chat = self.options.chat
        if chat is None and self.options.weights is not None:
            chat = catalogue_entry(self.options.weights).chat
        self.chat = bool(self.loaded.tokenizer.chat_template) if chat is None else chat
        if self.options.cuda_graphs is not None:
            _LOGGER.warning(
                "model '%s': cuda_graphs does nothing any more, hf runs plain batches: leave it out (provider"
                " vllm-offline is the fast one on a GPU)",
                model_id,
            )
        self.backend_state: dict[str, Any] = {}
        """What constraint backends keep per model (their wrapped tokenizers and compiled grammars)."""
        # Only where rows depend on their batch anyway: what is added up in another order rounds otherwise. On a GPU,
        # which reads a batch in one go, it was not tried.
        self._reads_trees = (
            self.options.prefix_reuse
            and not self.repeatable
            and self.loaded.device == "cpu"
            and reads_trees(self.loaded.model)
        )
        self._thread: BatchingThread[BatchRow, Generation] = BatchingThread(
            self._answer_batch,
            self.options.batch_size,
            self.options.batch_wait_ms / 1000,
            choose=neighbours
            if self._reads_trees
            else nearest(lambda row: (len(row.read), row.decoding.max_tokens)),
        )
        self._count = token_counter(self.loaded.tokenizer)

    @classmethod
    def replica(cls, options: BaseModel) -> Replica:
        """The model on the GPUs that ``replica_gpus`` says, or on a CPU slot where ``device_map`` is ``cpu``.

        The options stay as they are.
        """
        assert isinstance(options, HfOptions)
        return Replica(options, gpus=0 if options.device_map == "cpu" else options.replica_gpus)

    @property
    def repeatable(self) -> bool:
        """Whether a row's text is the same whatever is in the batch beside it.

        A GPU chooses its kernels by the shape of the batch, which changes rounding even in float32.
        """
        exact = self.loaded.dtype == "float32" and self.loaded.device == "cpu"
        return exact or self.options.batch_size == 1

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, in a batch with whatever else is asked just then.

        A prompt that leaves no room in the model's context, and a device out of memory, is an ``EngineError``.
        """
        return self.submit(prompt, decoding, seed).result()

    async def agenerate(self, request: Request) -> Generation:
        """Answer one prompt; calls that are awaited together share a batch.

        A model of this provider enforces no constraint itself: one is refused (constraint backends use :meth:`submit`).
        """
        if request.constraint is not None:
            return await super().agenerate(request)
        return await asyncio.wrap_future(self.submit(request.prompt, request.decoding, request.seed))

    def submit(
        self, prompt: str, decoding: Decoding, seed: int, mask: RowMask | None = None
    ) -> Future[Generation]:
        """Queue a prompt, with a mask over its tokens where a constraint backend gives one.

        The future gets the answer, or the ``EngineError`` that ended this row alone or its whole batch.
        """
        token_ids = tuple(self.prompt_tokens(prompt))
        fitted = self.fitted(decoding, len(token_ids))
        return self._thread.submit(BatchRow(fitted, draw_key(prompt, seed), token_ids, mask))

    def fitted(self, decoding: Decoding, prompt_tokens: int) -> Decoding:
        """The decoding with no more tokens to answer than the prompt leaves of the model's context.

        A prompt that fills the context by itself is an ``EngineError``.
        """
        limit = self.loaded.context_tokens
        if limit is None or prompt_tokens + decoding.max_tokens <= limit:
            return decoding
        if prompt_tokens >= limit:
            raise EngineError(
                f"model '{self.model_id}': a prompt of {prompt_tokens} tokens leaves no room to answer "
                f"in its context of {limit}",
                hint="shorten the prompt or take a model with a longer context",
            )
        return replace(decoding, max_tokens=limit - prompt_tokens)

    def run_alone(self, job: Callable[[], Result]) -> Future[Result]:
        """Run a job that uses the model by itself, between batches, in the thread that owns the model.

        The future gets what the job returns or raises.
        """
        return self._thread.alone(job)  # type: ignore[arg-type,return-value]

    def render(self, prompt: str) -> str:
        """The prompt as the model reads it: in its chat template where it has one.

        A system prompt is the template's system message, or stands before the prompt with a blank line between.
        """
        return self.options.render(self.loaded.tokenizer, prompt, self.chat)

    def prompt_tokens(self, prompt: str) -> list[int]:
        """Token ids of the rendered prompt; a chat template brings its special tokens itself."""
        encoded = self.loaded.tokenizer(self.render(prompt), add_special_tokens=not self.chat)
        tokens = [int(token) for token in encoded["input_ids"]]
        first = self.loaded.first_token
        return tokens if self.chat or first is None or tokens[:1] == [first] else [first, *tokens]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of completion tokens, without special tokens."""
        decode = self.loaded.tokenizer.decode
        return str(decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` itself; the chat template's own tokens (``usage`` has them) are not counted."""
        return self._count(text)

    def identity(self) -> Mapping[str, str]:
        """Versions, hash of the weights, and the options that change answers.

        The batch size is among them where rows are not :attr:`repeatable`.
        """
        torch, transformers = require_stack()
        facts = {
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "weights_sha256": self.loaded.weights_sha256,
            "dtype": self.loaded.dtype,
            "device": self.loaded.device,
            **self.options.chat_facts(self.chat),
            "prefix_reuse": "tree" if self._reads_trees else str(self.options.prefix_reuse),
            # What it says where steps are not recorded, which they never are now: stored answers stay known by it.
            "cuda_graphs": "off: the model is not on a GPU" if self.loaded.device == "cpu" else "off",
        }
        if not self.repeatable:
            facts["batch_size"] = str(self.options.batch_size)
        return facts

    def close(self) -> None:
        """End the model's thread after the batch that is running; what still waits fails.

        The model's memory is freed with the adapter.
        """
        self._thread.close()

    def _answer_batch(self, rows: Sequence[BatchRow]) -> list[Generation | Exception | None]:
        """Answer the rows of a batch; ``None`` for those that go on in the next one."""
        torch, _ = require_stack()
        started = time.perf_counter()
        loaded = self.loaded
        try:
            with torch.inference_mode():
                if can_share_cache(loaded.model):
                    decode(rows, self._steps(rows), loaded.stop_tokens, self._may_go_on_later)
                else:
                    generate_recurrent(loaded.model, rows, loaded.pad_token, loaded.stop_tokens)
        except torch.OutOfMemoryError as error:
            raise EngineError(
                f"model '{self.model_id}': the device is out of memory with {len(rows)} rows",
                hint=f"lower batch_size of model '{self.model_id}'",
            ) from error
        elapsed_ms = (time.perf_counter() - started) * 1000
        for row in rows:
            row.ms += elapsed_ms
        return [None if row.finish_reason is None else self._generation(row) for row in rows]

    def _steps(self, rows: Sequence[BatchRow]) -> Steps:
        """The batch with its prompts read."""
        loaded = self.loaded
        # Of prompts of one token nothing is read before the first step.
        if self._reads_trees and any(len(row.read) > 1 for row in rows):
            return TreeSteps(loaded.model, rows, loaded.pad_token)
        return EagerSteps(
            loaded.model, [row.read for row in rows], loaded.pad_token, self.options.prefix_reuse
        )

    def _may_go_on_later(self, live: int) -> bool:
        """Whether the rows that are left of a batch are so few, and others so many, that they go on beside those.

        Going on beside others rounds differently, so never where a row's text must not depend on its batch.
        """
        few = live <= (CARRIED if self._reads_trees else STRAGGLERS) * self.options.batch_size
        return few and not self.repeatable and self._thread.fills_batch(live)

    def _generation(self, row: BatchRow) -> Generation | Exception:
        if isinstance(row.error, EngineError):
            return row.error
        if row.error is not None:
            return EngineError(f"model '{self.model_id}': {type(row.error).__name__}: {row.error}")
        return {
            "text": self.decode(row.tokens),
            "finish_reason": row.finish_reason or "length",
            "latency_ms": row.ms,
            "usage": token_usage(len(row.prompt), len(row.tokens)),
            "seed_honoured": self.repeatable,
        }
