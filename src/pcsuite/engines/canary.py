"""The canary: whether a model is really held to a constraint.

Servers that drop a constraint in silence are common, so a model gets a constrained condition only after an absurd
answer was forced and seen to happen.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from pcsuite._util.text import read_json
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    Request,
)
from pcsuite.errors import ConstraintUnavailableError

CANARY_TASK = "canary"
"""Task id of the canary's call: simulated models neither abstain nor fail on it."""
ABSURD = "zqx7 violet marmot"
_QUESTION = "What is two plus two? Reply with the number only."
# A word and a number: backends enforce the two in different ways.
_FORCED_RECORD = {"reply": ABSURD, "size": 733}
_CANARIES: dict[ConstraintKind, str] = {
    "json_schema": json.dumps(
        {
            "type": "object",
            "properties": {
                "reply": {"type": "string", "enum": [_FORCED_RECORD["reply"]]},
                "size": {"type": "integer", "enum": [_FORCED_RECORD["size"]]},
            },
            "required": list(_FORCED_RECORD),
            "additionalProperties": False,
        }
    ),
    "regex": ABSURD,
    "cfg": 'start: first " " second\nfirst: "zqx7 violet"\nsecond: "marmot"\n',
}


async def is_enforced(
    force: Callable[[Request], Awaitable[Generation]], kind: ConstraintKind, backend: str = "native"
) -> bool:
    """Whether a constraint of that kind is really enforced: force an absurd answer and see it happen.

    ``force`` asks the model under the request's constraint; what it raises but for
    :class:`ConstraintUnavailableError` is raised. ``backend`` names who is to enforce it.
    """
    try:
        answer = await force(canary_request(Constraint(kind, _CANARIES[kind], backend)))
    except ConstraintUnavailableError:
        return False
    if kind != "json_schema":
        return answer["text"].strip() == ABSURD
    try:
        return bool(read_json(answer["text"]) == _FORCED_RECORD)  # white space may differ
    except ValueError:
        return False


def canary_request(constraint: Constraint, max_tokens: int = 48) -> Request:
    """The question under a constraint; a simulated model gives the forced answer, from its context.

    A single token (``max_tokens``) is enough to learn whether a constraint is taken at all.
    """
    forced = json.dumps(_FORCED_RECORD) if constraint.kind == "json_schema" else ABSURD
    context = CallContext(
        CANARY_TASK, "canary", "canary", (), "none", gold=lambda: forced, wrong=lambda _: forced
    )
    return Request(_QUESTION, Decoding("canary", 0.0, 1.0, max_tokens), 0, constraint, context)
