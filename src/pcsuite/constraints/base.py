"""The interface of a constraint backend."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from importlib.metadata import version
from importlib.util import find_spec
from typing import ClassVar

from pydantic import BaseModel

from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Generation, ModelAdapter, Request


class ConstraintBackend(ABC):
    """Enforces constraints on the answers of a model. Backends hold no state of their own."""

    name: ClassVar[str]
    """Name in the registry and, with the libraries' versions, in every row."""
    extra: ClassVar[str | None] = None
    """The optional extra that brings the backend's libraries."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions the row names."""

    @abstractmethod
    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Whether constraints of that kind can be enforced on such a model, known without building it.

        ``provider`` is the adapter's class, ``options`` its validated keys of the model entry.
        """

    @abstractmethod
    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Answer one request within the constraint (the request's own); sets ``constraint_backend``.

        What cannot be enforced in full is refused by name (:class:`ConstraintUnavailableError`).
        """

    async def agenerate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """The same without blocking the event loop; by default in a thread."""
        return await asyncio.to_thread(self.generate_constrained, adapter, request, constraint)

    def missing(self) -> str | None:
        """The first of :attr:`libraries` that is not installed, or ``None``.

        Nothing is imported to find out.
        """
        return next((name for name in self.libraries if find_spec(name) is None), None)

    def label(self) -> str:
        """How rows name the backend, for example ``guidance_cfg (guidance 0.3.0, llguidance 1.3.0)``.

        Rows of other versions of a library stay apart by it.
        """
        if not self.libraries:
            return self.name
        return f"{self.name} ({', '.join(f'{name} {version(name)}' for name in self.libraries)})"
