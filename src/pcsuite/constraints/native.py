"""``native``: the model's own engine or server enforces the constraint."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from pcsuite.constraints.base import ConstraintBackend
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
)


class NativeBackend(ConstraintBackend):
    """llama.cpp, and what OpenAI-compatible servers offer; the row names the engine or the dialect."""

    name: ClassVar[str] = "native"

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Whether the provider says so; the canary says whether it is true."""
        return kind in provider.enforceable(options)

    def generate_constrained(
        self, adapter: ModelAdapter, prompt: str, decoding: Decoding, constraint: Constraint, seed: int
    ) -> Generation:
        """Ask the adapter."""
        return adapter.generate_constrained(prompt, decoding, seed, constraint)

    async def agenerate_constrained(
        self,
        adapter: ModelAdapter,
        prompt: str,
        decoding: Decoding,
        constraint: Constraint,
        seed: int,
        context: CallContext | None = None,
    ) -> Generation:
        """Ask the adapter in its own asynchronous way."""
        return await adapter.agenerate(prompt, decoding, seed, constraint, context)
