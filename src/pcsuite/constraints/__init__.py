"""Ways to enforce a constraint while decoding, the registry of them, and which one a model gets."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pcsuite.constraints.base import ConstraintBackend, EngineBackend
from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Generation, ModelAdapter, Request
from pcsuite.errors import ConstraintUnavailableError, MissingExtraError
from pcsuite.registry import Registry

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
"""Whom ``engine: auto`` asks first; backends of plug-ins come after these, by name."""


AUTO = "auto"


def backend_named(name: str) -> ConstraintBackend:
    """A backend by name; an engine with the specification's one method becomes one."""
    found: Any = CONSTRAINTS.get(name)
    if isinstance(found, type) and issubclass(found, ConstraintBackend):
        return found()
    return EngineBackend(name, found() if isinstance(found, type) else found)


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
            hint=f"pip install 'prompt-control-suite[{extra}]'",
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
