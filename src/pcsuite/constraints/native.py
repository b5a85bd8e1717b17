"""``native``: the model's own engine or server enforces the constraint."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Generation, ModelAdapter, Request
from pcsuite.engines.constrained import ConstraintBackend


class NativeBackend(ConstraintBackend):
    """llama.cpp, and what OpenAI-compatible servers offer; the row names the engine or the dialect."""

    name: ClassVar[str] = "native"

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Whether the provider says so; the canary says whether it is true."""
        return kind in provider.enforceable(options)

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Ask the adapter."""
        return adapter.generate_constrained(request.prompt, request.decoding, request.seed, constraint)

    async def agenerate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Ask the adapter in its own asynchronous way."""
        return await adapter.agenerate(request)
