"""Constrained answers: the interface of a backend, the registry of backends, and which one a model gets.

The backends themselves (:mod:`pcsuite.constraints`) steer adapters and are named here only by the registry's targets.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import BaseModel

from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Request,
    token_usage,
)
from pcsuite.errors import ConstraintUnavailableError, EngineError, MissingExtraError, install_words
from pcsuite.registry import Registry


class ConstraintBackend(ABC):
    """Enforces constraints on the answers of a model. Backends hold no state of their own."""

    name: ClassVar[str]
    """Name in the registry and, with the libraries' versions, in every row."""
    extra: ClassVar[str | None] = None
    """The optional extra that brings the backend's libraries."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions the row names."""
    writes_grammars: ClassVar[bool] = False
    """Whether schemas are enforced as a grammar of :mod:`pcsuite.engines.grammar`."""

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


class ConstraintEngine(ABC):
    """The specification's interface of a constraint engine: one method, given what a call is made of.

    Subclassing it is a matter of taste: any class with the method can be registered under the entry-point group
    ``pcsuite.constraints``, and is named in an operator's ``engine``.
    """

    @abstractmethod
    def generate_constrained(
        self, adapter: ModelAdapter, prompt: str, decoding: Decoding, schema_or_grammar: Any, seed: int
    ) -> Any:
        """Answer a prompt within a constraint: what ``ModelAdapter.generate`` returns, or the text alone.

        ``schema_or_grammar`` is a JSON schema as a mapping, or a pattern or grammar as text.
        """


class EngineBackend(ConstraintBackend):
    """A ``ConstraintEngine`` as a backend. What it can enforce is not declared anywhere: the canary finds out."""

    def __init__(self, name: str, engine: Any) -> None:
        self.name = name  # type: ignore[misc]  # of the class for the suite's own, of the object here
        self._engine = engine

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        return True

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Ask the engine; what it leaves out of its answer (usage, latency) is counted or timed here."""
        value = json.loads(constraint.value) if constraint.kind == "json_schema" else constraint.value
        started = time.perf_counter()
        reply = self._engine.generate_constrained(
            adapter, request.prompt, request.decoding, value, request.seed
        )
        elapsed = (time.perf_counter() - started) * 1000
        answer: dict[str, Any] = dict(reply) if isinstance(reply, Mapping) else {"text": reply}
        if not isinstance(answer.get("text"), str):
            raise EngineError(f"constraint engine '{self.name}' returned no text, but {type(reply).__name__}")
        counted = [adapter.count_tokens(text) for text in (request.prompt, answer["text"])]
        generation = Generation(
            text=answer["text"],
            finish_reason=str(answer.get("finish_reason", "stop")),
            latency_ms=float(answer.get("latency_ms", elapsed)),
            usage=answer.get("usage") or token_usage(counted[0] or 0, counted[1] or 0),
            seed_honoured=bool(answer.get("seed_honoured", False)),
            constraint_backend=self.label(),
        )
        if "usage" not in answer and None in counted:
            generation["usage_reported"] = False
        return generation


CONSTRAINTS: Registry[type[ConstraintBackend]] = Registry(
    "constraint backend",
    "pcsuite.constraints",
    {
        "native": "pcsuite.constraints.native:NativeBackend",
        "outlines_json": "pcsuite.constraints.outlines_json:OutlinesBackend",
        "guidance_cfg": "pcsuite.constraints.guidance_cfg:GuidanceBackend",
        "lmql_program": "pcsuite.constraints.lmql_program:LmqlBackend",
    },
)

AUTO_ORDER = ("native", "outlines_json", "guidance_cfg", "lmql_program")
"""The order in which ``engine: auto`` tries backends; those of plug-ins come after these, by name."""
AUTO = "auto"


def backend_named(name: str) -> ConstraintBackend:
    """A backend by name; an engine with the specification's one method becomes one."""
    registered: Any = CONSTRAINTS.get(name)
    engine = registered() if isinstance(registered, type) else registered
    return engine if isinstance(engine, ConstraintBackend) else EngineBackend(name, engine)


def choose_backend(
    engine: str, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind
) -> ConstraintBackend:
    """The backend that ``engine`` stands for on such a model.

    ``auto`` takes the model's own enforcement where there is one, else the first installed backend that can
    steer the model. Nothing is built for it: ``provider`` is the adapter's class, ``options`` the model's keys. A
    refusal is a ``ConstraintUnavailableError`` or ``MissingExtraError`` that says what is missing.
    """
    if engine != AUTO:
        backend = backend_named(engine)
        if provider.stands_in:  # a rehearsal shows what the profile would do with any backend
            return backend_named("native")
        if not backend.steers(provider, options, kind):
            raise ConstraintUnavailableError(
                f"constraint backend '{engine}' cannot enforce a {kind} constraint on this model"
            )
        missing = backend.missing()
        if missing is not None:
            raise MissingExtraError(missing, backend.extra or engine)
        return backend
    extra = None
    # Backends of plug-ins come last, and those that are not reached are not loaded.
    for name in (*AUTO_ORDER, *(name for name in CONSTRAINTS if name not in AUTO_ORDER)):
        backend = backend_named(name)
        if not backend.steers(provider, options, kind):
            continue
        if backend.missing() is None:
            return backend
        extra = extra or backend.extra
    if extra is not None:
        raise ConstraintUnavailableError(
            f"no installed backend can enforce a {kind} constraint on this model",
            hint=install_words(extra),
        )
    raise ConstraintUnavailableError(f"the model cannot enforce a {kind} constraint while decoding")


def backend_for(adapter: ModelAdapter, constraint: Constraint) -> ConstraintBackend:
    """The backend that enforces a constraint on a built model, by the constraint's own ``backend``.

    Refusals are those of :func:`choose_backend`.
    """
    return choose_backend(constraint.backend, type(adapter), adapter.options, constraint.kind)


async def generate_constrained(adapter: ModelAdapter, request: Request) -> Generation:
    """Answer one request that has a constraint, by the backend that enforces it on this model.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` where nothing does.
    """
    assert request.constraint is not None, "without a constraint the adapter is asked itself"
    backend = backend_for(adapter, request.constraint)
    return await backend.agenerate_constrained(adapter, request, request.constraint)
