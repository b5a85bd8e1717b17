"""The canary: whether a model is really held to a constraint.

Servers that drop a constraint in silence are common, so a model gets a constrained condition only after an absurd
answer was forced and seen to happen.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from pcsuite._util.patterns import read_pattern
from pcsuite._util.text import read_json, shorten
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    Request,
)
from pcsuite.engines.kept import conforms_whole, could_conform
from pcsuite.errors import ConstraintUnavailableError, EngineError

CANARY_TASK = "canary"
"""Task id of the canary's call: simulated models neither abstain nor fail on it."""
OWN_TOKENS = 64
"""Tokens of the answer under a task's own constraint."""
SIMULATED = "native:simulated"
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


async def why_not_kept(
    force: Callable[[Request], Awaitable[Generation]], constraint: Constraint
) -> str | None:
    """Why a task's own constraint is not kept on a model, or ``None`` if it is.

    The question asks for something else than the constraint, so that an answer that conforms does so by force. An
    answer that was cut has to be the beginning of one that conforms, as far as that can be told. A server that refuses
    the constraint by its status (400, 422) is told in its own words; whatever else ``force`` raises is raised.
    """
    try:
        answer = await force(canary_request(constraint, OWN_TOKENS))
    except ConstraintUnavailableError as error:
        return str(error)
    except EngineError as error:
        if error.status in (400, 422) and not error.retryable:
            return f"the server does not take the constraint: {error}"
        raise
    if answer.get("constraint_backend", "").startswith(SIMULATED):
        return None  # its answers conform by definition, and the canary's is that of another schema
    text = answer["text"]
    if answer["finish_reason"] == "stop" and constraint.kind == "json_schema":
        kept: bool | None = conforms_whole(constraint, text)
    elif answer["finish_reason"] == "stop" and constraint.kind == "regex":
        kept = read_pattern(constraint.value, "answer").fullmatch(text)
    else:
        kept = could_conform(constraint, text)
    if kept is False:
        return f"the constraint was taken and not kept: the answer was {shorten(text, 80)!r}"
    return None


def canary_request(constraint: Constraint, max_tokens: int = 48) -> Request:
    """The question under a constraint, which may be the task's own; a simulated model gives the forced answer."""
    forced = json.dumps(_FORCED_RECORD) if constraint.kind == "json_schema" else ABSURD
    context = CallContext(
        CANARY_TASK, "canary", "canary", (), "none", gold=lambda: forced, wrong=lambda _: forced
    )
    return Request(_QUESTION, Decoding("canary", 0.0, 1.0, max_tokens), 0, constraint, context)
