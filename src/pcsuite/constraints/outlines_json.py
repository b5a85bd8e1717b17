"""``outlines_json``: Outlines masks the tokens of the model's own decoding, in batches.

Outlines' llguidance engine is used, not its default: the default drops ``minimum``, ``maximum`` and
``uniqueItems`` in silence. llguidance enforces what it accepts and refuses the rest by name.
"""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import Future
from typing import Any, ClassVar

from pcsuite.constraints._steering import LocalHfBackend, end_preferred_from, refuse_uncompilable
from pcsuite.engines.adapters._hf_loading import quiet_libraries
from pcsuite.engines.adapters.base import (
    Constraint,
    Generation,
    ModelAdapter,
    Request,
)
from pcsuite.engines.adapters.local_hf import LocalHfAdapter


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
        engine = _engine(model)
        grammar = self.grammar(constraint)
        refuse_uncompilable(grammar, model, constraint, self.name)
        processor = engine.get_cfg_logits_processor(grammar)

        end_from, stop_tokens = (
            end_preferred_from(constraint, request.decoding),
            sorted(model.loaded.stop_tokens),
        )
        steps = itertools.count()

        def mask(input_ids: Any, logits: Any) -> Any:
            import torch

            # Not compiled: the kernel is tiny and a C++ compiler may be missing.
            with torch.compiler.set_stance("force_eager"):
                masked = processor(input_ids, logits)
            if next(steps) >= end_from and torch.isfinite(masked[..., stop_tokens]).any():
                ends = torch.full_like(masked, -torch.inf)
                ends[..., stop_tokens] = masked[..., stop_tokens]
                return ends
            return masked

        return model.submit(request.prompt, request.decoding, request.seed, mask)


def _engine(adapter: LocalHfAdapter) -> Any:
    """Outlines' llguidance engine on the model; it indexes the vocabulary, so it is made once per model."""
    if "outlines" not in adapter.backend_state:
        import torch

        with quiet_libraries():
            import llguidance.torch
            import outlines
            from outlines.backends.llguidance import LLGuidanceBackend

            with torch.compiler.set_stance("force_eager"):
                # The first call loads torch's compiler, whose modules warn of their own age.
                llguidance.torch.apply_token_bitmask_inplace(
                    torch.zeros(1, 32), torch.zeros(1, 1, dtype=torch.int32)
                )
            model = outlines.from_transformers(adapter.loaded.model, adapter.loaded.tokenizer)
            adapter.backend_state["outlines"] = LLGuidanceBackend(model)
    return adapter.backend_state["outlines"]
