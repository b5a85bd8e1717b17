"""``outlines_json``: Outlines masks the tokens of the model's own decoding, in batches.

Outlines' llguidance engine is used, not its default: the default drops ``minimum``, ``maximum`` and
``uniqueItems`` in silence. llguidance enforces what it accepts and refuses the rest by name.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from typing import Any, ClassVar

from pydantic import BaseModel

from pcsuite.constraints._steering import as_local_hf, json_schema_of, refuse_uncompilable
from pcsuite.constraints.base import ConstraintBackend
from pcsuite.engines.adapters._hf_loading import quiet_libraries
from pcsuite.engines.adapters.base import (
    LLGUIDANCE_JSON_LAYOUT,
    Constraint,
    ConstraintKind,
    Generation,
    ModelAdapter,
    Request,
)
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.errors import require


class OutlinesBackend(ConstraintBackend):
    """JSON schemas first of all; regular expressions and grammars by the same engine."""

    name: ClassVar[str] = "outlines_json"
    extra: ClassVar[str | None] = "outlines"
    libraries: ClassVar[tuple[str, ...]] = ("outlines", "llguidance")

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Models of provider ``hf``."""
        return issubclass(provider, LocalHfAdapter)

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Answer one prompt within the constraint."""
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
        model = as_local_hf(adapter, self.name)
        require("outlines", "outlines")
        processor = self._processor(model, constraint)
        return model.submit(request.prompt, request.decoding, request.seed, _EagerMask(processor))

    def _processor(self, adapter: LocalHfAdapter, constraint: Constraint) -> Any:
        """A fresh Outlines logits processor: it follows one row."""
        engine = _engine(adapter)
        if constraint.kind == "json_schema":
            schema = json_schema_of(constraint) | {"x-guidance": LLGUIDANCE_JSON_LAYOUT}
            processor = engine.get_json_schema_logits_processor(json.dumps(schema))
        elif constraint.kind == "regex":
            processor = engine.get_regex_logits_processor(constraint.value)
        else:
            processor = engine.get_cfg_logits_processor(constraint.value)
        refuse_uncompilable(processor.grammar, adapter, constraint, self.name)
        return processor


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


class _EagerMask:
    """Applies a processor without compiling it: the kernel is tiny and a C++ compiler may be missing."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __call__(self, input_ids: Any, logits: Any) -> Any:
        import torch

        with torch.compiler.set_stance("force_eager"):
            return self._processor(input_ids, logits)
