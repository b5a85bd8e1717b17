"""Does a mask bite? Force an absurd answer and see it happen.

Servers that drop a constraint in silence are common; a model gets a constrained condition only after this.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
)
from pcsuite.errors import ConstraintUnavailableError

CANARY_TASK = "canary"
"""Task id of the canary's call: simulated models neither abstain nor fail on it."""
ABSURD = "zqx7 violet marmot"
ABSURD_NUMBER = 733
QUESTION = "What is two plus two? Reply with the number only."
_DECODING = Decoding("canary", temperature=0.0, top_p=1.0, max_tokens=48)

Generate = Callable[[str, Decoding, int, Constraint], Awaitable[Generation]]
"""A way to generate under a constraint, for backends that are not the adapter's own."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A constraint with one possible answer, and the test of it."""

    constraint: Constraint
    expected: str

    def bites(self, text: str) -> bool:
        """Whether the text is the forced one (JSON may differ in white space)."""
        if self.constraint.kind != "json_schema":
            return text.strip() == self.expected
        try:
            return bool(json.loads(text) == json.loads(self.expected))
        except ValueError:
            return False


def canary_for(kind: ConstraintKind) -> Canary:
    """The canary of a kind of constraint."""
    if kind == "json_schema":
        # A word and a number: backends enforce the two in different ways.
        forced = {"reply": ABSURD, "size": ABSURD_NUMBER}
        schema = {
            "type": "object",
            "properties": {
                "reply": {"type": "string", "enum": [ABSURD]},
                "size": {"type": "integer", "enum": [ABSURD_NUMBER]},
            },
            "required": list(forced),
            "additionalProperties": False,
        }
        return Canary(Constraint(kind, json.dumps(schema)), json.dumps(forced))
    if kind == "regex":
        return Canary(Constraint(kind, "zqx7 violet marmot"), ABSURD)
    grammar = 'start: first " " second\nfirst: "zqx7 violet"\nsecond: "marmot"\n'
    return Canary(Constraint(kind, grammar), ABSURD)


async def mask_bites(adapter: ModelAdapter, kind: ConstraintKind, generate: Generate | None = None) -> bool:
    """Whether a constraint of that kind is really enforced; other failures of the call are raised.

    ``generate`` replaces the adapter's own way, to test another backend on the same model.
    """
    canary = canary_for(kind)
    try:
        if generate is not None:
            answer = await generate(QUESTION, _DECODING, 0, canary.constraint)
        else:
            context = _simulation_context(canary)
            answer = await adapter.agenerate(QUESTION, _DECODING, 0, canary.constraint, context)
    except ConstraintUnavailableError:
        return False
    return canary.bites(answer["text"])


async def refusal_of(
    adapter: ModelAdapter, constraint: Constraint, generate: Generate | None = None
) -> str | None:
    """Why a constraint cannot be enforced, by asking for one token under it; ``None`` if it can."""
    brief = replace(_DECODING, max_tokens=1)
    try:
        if generate is not None:
            await generate(QUESTION, brief, 0, constraint)
        else:
            await adapter.agenerate(QUESTION, brief, 0, constraint, _simulation_context(canary_for("regex")))
    except ConstraintUnavailableError as error:
        return str(error)
    return None


def _simulation_context(canary: Canary) -> CallContext:
    """What a simulated model answers from; real models ignore it."""
    return CallContext(
        task_id=CANARY_TASK,
        item_id="canary",
        condition_id="canary",
        operators=(),
        perturbation="none",
        gold=lambda: canary.expected,
        wrong=lambda _: canary.expected,
    )
