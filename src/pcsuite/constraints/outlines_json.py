"""``outlines_json``: Outlines masks the tokens of the model's own decoding, in batches.

Outlines' llguidance engine is used, not its default: the default drops ``minimum``, ``maximum`` and
``uniqueItems`` in silence. llguidance enforces what it accepts and refuses the rest by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

import numpy as np

from pcsuite.constraints._steering import LocalHfBackend, end_preferred_from
from pcsuite.engines.adapters._hf_loading import quiet_libraries
from pcsuite.engines.adapters.base import Constraint, Generation, ModelAdapter, Request
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.errors import EngineError


class OutlinesBackend(LocalHfBackend):
    """JSON schemas first of all; regular expressions and grammars by the same engine."""

    name: ClassVar[str] = "outlines_json"
    extra: ClassVar[str | None] = "outlines"
    libraries: ClassVar[tuple[str, ...]] = ("outlines", "llguidance")

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Answer one prompt within the constraint, in a batch with whatever else the model is asked just then.

        A constraint that llguidance cannot enforce in full is a ``ConstraintUnavailableError``.
        """
        return self._named(self._submit(adapter, request, constraint).result())

    async def agenerate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """The same; calls that are awaited together share a batch, each with its own mask."""
        return self._named(await asyncio.wrap_future(self._submit(adapter, request, constraint)))

    def _named(self, generation: Generation) -> Generation:
        generation["constraint_backend"] = self.label()
        return generation

    def _submit(self, adapter: ModelAdapter, request: Request, constraint: Constraint) -> Future[Generation]:
        model = self.steered(adapter)
        import llguidance.numpy
        from llguidance import LLMatcher

        engine = _engine(model)
        processor = engine.get_cfg_logits_processor(self.grammar(constraint, model))
        # The matcher that the processor would make: our decoding takes its bits and masks all rows at once.
        matcher = LLMatcher(processor.llg_tokenizer, processor.grammar)
        end_from = end_preferred_from(constraint, request.decoding)
        shape = llguidance.numpy.get_bitmask_shape(1, processor.llg_tokenizer.vocab_size)
        # As the mask is: a bit a token, packed into 32-bit words.
        ends = np.zeros(shape[1], dtype=np.uint32)
        for token in model.loaded.stop_tokens:
            ends[token // 32] |= np.uint32(1 << token % 32)

        def mask(tokens: Sequence[int]) -> np.ndarray:
            if tokens and not matcher.consume_token(tokens[-1]):
                raise EngineError(f"constraint backend '{self.name}': {matcher.get_error()}")
            words = np.empty(shape, dtype=np.int32)
            llguidance.numpy.fill_next_token_bitmask(matcher, words)
            allowed: np.ndarray = words[0]
            ending = allowed & ends.view(np.int32)
            return ending if len(tokens) >= end_from and ending.any() else allowed

        return model.submit(request.prompt, request.decoding, request.seed, mask)


def _engine(adapter: LocalHfAdapter) -> Any:
    """Outlines' llguidance engine on the model; it indexes the vocabulary, so it is made once per model."""
    if "outlines" not in adapter.backend_state:
        with quiet_libraries():
            import outlines
            from outlines.backends.llguidance import LLGuidanceBackend

            model = outlines.from_transformers(adapter.loaded.model, adapter.loaded.tokenizer)
            adapter.backend_state["outlines"] = LLGuidanceBackend(model)
    return adapter.backend_state["outlines"]
