"""What is sent in place of a constraint, and whether that is all of it: decided before a model is asked.

Where a grammar is written here (llama.cpp, transformers) the schema is worked out beforehand; a service that enforces
by itself keeps what it documents. What goes beyond either is refused by name or, with ``enforce: in_part``, taken out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from pydantic import BaseModel

from pcsuite.engines.adapters.base import Constraint, ModelAdapter
from pcsuite.engines.constrained import ConstraintBackend
from pcsuite.engines.schema_in_part import Change, relax_for_engine, relax_for_limits, why_refused
from pcsuite.engines.schema_limits import beyond_limits, schema_limits, service_of
from pcsuite.errors import ConstraintUnavailableError

IN_PART = "_IN_PART"
"""Ends the name of a constraint operator in rows whose schema was enforced in part."""
_WAY_OUT = (
    "enforce: in_part (as in the condition C6P) takes out what cannot be enforced and checks it afterwards"
)
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class SentConstraint:
    """What a model's engine or server is given, and what of the constraint was changed for it."""

    constraint: Constraint
    changes: tuple[Change, ...] = ()

    @property
    def in_full(self) -> bool:
        """Whether every answer that ends conforms to the constraint itself."""
        return not self.changes


def sent_constraint(
    backend: ConstraintBackend,
    provider: type[ModelAdapter],
    options: BaseModel,
    constraint: Constraint,
    *,
    in_part: bool = False,
) -> SentConstraint:
    """What is sent in place of a constraint to such a model; nothing is started for it.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` with the keyword, its place and the way out where the
    whole cannot be enforced and ``in_part`` is not asked for, or where no part can be.
    """
    if constraint.kind != "json_schema":
        return SentConstraint(constraint)
    engine = engine_of(backend, provider, options)
    if engine is None:
        return SentConstraint(constraint)
    refusal = why_not_whole(engine, constraint.value)
    if refusal is None:
        return SentConstraint(constraint)
    if not in_part:
        raise ConstraintUnavailableError(refusal, hint=_WAY_OUT)
    text, changes = relaxed_schema(engine, constraint.value)
    return SentConstraint(replace(constraint, value=text), changes)


def engine_of(backend: ConstraintBackend, provider: type[ModelAdapter], options: BaseModel) -> str | None:
    """Who decides what of a schema is kept: ``llguidance``, a service of ``schema_limits_v1.yaml``, or nobody known."""
    if backend.writes_grammars or (backend.name == "native" and provider.writes_grammars):
        return "llguidance"
    return service_of(provider, options) if backend.name == "native" else None


@lru_cache(maxsize=512)
def why_not_whole(engine: str, text: str) -> str | None:
    """Why a schema (its JSON text) cannot be enforced whole; ``None`` where it can.

    ``engine`` is ``llguidance`` or a service of ``schema_limits_v1.yaml``.
    """
    schema = json.loads(text)
    if engine == "llguidance":
        refusal = why_refused(schema)
        return None if refusal is None else refusal.message
    limits = schema_limits()[engine]
    beyond = beyond_limits(schema, limits)
    if not beyond:
        return None
    more = f" and {len(beyond) - _SHOWN} more" if len(beyond) > _SHOWN else ""
    return (
        f"{engine} does not enforce all of the schema: {'; '.join(map(str, beyond[:_SHOWN]))}{more} (documented,"
        f" {limits.checked})"
    )


@lru_cache(maxsize=512)
def relaxed_schema(engine: str, text: str) -> tuple[str, tuple[Change, ...]]:
    """The JSON text of what is enforced of a schema in part, and what was changed for it.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` where no part can be.
    """
    schema = json.loads(text)
    if engine == "llguidance":
        relaxed, changes = relax_for_engine(schema)
    else:
        relaxed, changes = relax_for_limits(schema, schema_limits()[engine])
    return json.dumps(relaxed, ensure_ascii=False), tuple(changes)
