"""Proof, before a run spends anything, that a model's constraints are enforced."""

from __future__ import annotations

from dataclasses import replace

from pcsuite.constraints.choose import backend_for, generate_routed
from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Decoding, Generation, ModelAdapter
from pcsuite.engines.canary import Generate, mask_bites, refusal_of
from pcsuite.prompts.conditions.conditions import PromptCondition


def constraint_of(condition: PromptCondition) -> Constraint | None:
    """What a condition asks for, as an engine takes it."""
    wanted = condition.constraint
    if wanted is None:
        return None
    program = condition.lmql_query if wanted.backend == "lmql_program" else ""
    return Constraint(wanted.kind, wanted.value, wanted.backend, program)


class ConstraintProofs:
    """Tries constraints on one model: each kind once with an absurd answer, each constraint with one token."""

    def __init__(self, adapter: ModelAdapter) -> None:
        self._adapter = adapter
        self._bites: dict[tuple[str, ConstraintKind], bool] = {}
        self._refusals: dict[Constraint, str | None] = {}

    async def why_not(self, constraint: Constraint) -> str | None:
        """Why the constraint is not enforced on the model, or ``None`` if it is."""
        backend = backend_for(self._adapter, constraint)
        # The adapter itself is asked where it enforces: a simulated model needs to know what is asked.
        generate = None if backend.name == "native" else self._steered(backend.name)
        proof = (backend.name, constraint.kind)
        if proof not in self._bites:
            self._bites[proof] = await mask_bites(self._adapter, constraint.kind, generate)
        if not self._bites[proof]:
            whose = "the model's" if backend.name == "native" else f"{backend.name}'s"
            return f"{whose} {constraint.kind} constraint did not bite: a forced answer was not produced"
        if constraint not in self._refusals:
            self._refusals[constraint] = await refusal_of(self._adapter, constraint, generate)
        return self._refusals[constraint]

    def _steered(self, backend: str) -> Generate:
        async def generate(prompt: str, decoding: Decoding, seed: int, constraint: Constraint) -> Generation:
            asked = replace(constraint, backend=backend)
            return await generate_routed(self._adapter, prompt, decoding, seed, asked)

        return generate
