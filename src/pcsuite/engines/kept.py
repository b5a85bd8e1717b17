"""Whether an answer is what its constraint let through: the whole of it, or the beginning of something that conforms.

A mask cannot make an answer end in time, so an answer that was cut at its limit is kept as long as it could still have
become a valid one; whatever else it is, somebody did not enforce the constraint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pcsuite._util.json_schema import map_schema, schema_validator
from pcsuite._util.text import read_json
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.enforced_schema import enforceable_schema
from pcsuite.engines.grammar import is_gbnf, llguidance_grammar
from pcsuite.errors import ConstraintUnavailableError, OutOfMemoryError, OutOfTimeError

_FREE_LAYOUT = {"whitespace_flexible": True}
"""Servers lay out JSON as they like; what it says is judged."""


def could_conform(constraint: Constraint, text: str) -> bool | None:
    """Whether a text is the beginning of something that conforms to a constraint; ``None`` where nobody can tell.

    White space in JSON and the order of properties are free. It takes llguidance (extra ``outlines`` or ``guidance``),
    and a constraint that it can follow: not GBNF, nor a schema that only a server enforces.

    >>> yes_or_no = Constraint("regex", "yes|no")
    >>> could_conform(yes_or_no, "ye"), could_conform(yes_or_no, "maybe")
    (True, False)
    """
    try:
        import llguidance
    except ImportError:
        return None
    if constraint.kind == "cfg" and is_gbnf(constraint.value):
        return None
    text = text.lstrip() if constraint.kind == "json_schema" else text
    order = _order_of(constraint.value, text) if constraint.kind == "json_schema" else ()
    try:
        grammar = _judging_grammar(constraint, order)
    except ConstraintUnavailableError:
        return None
    tokenizer = _byte_tokenizer()
    if grammar is None or llguidance.LLMatcher.validate_grammar(grammar, tokenizer):
        return None
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    # Half a character at the end is one that was cut; nobody wrote U+FFFD.
    tokens = tokenizer.tokenize_bytes(text.rstrip("\ufffd").encode("utf-8", "replace"))
    return bool(matcher.try_consume_tokens(tokens) == len(tokens))


@lru_cache(maxsize=1)
def _byte_tokenizer() -> Any:
    import llguidance

    return llguidance.LLTokenizer("byte")


@lru_cache(maxsize=256)
def _judging_grammar(constraint: Constraint, order: tuple[str, ...]) -> str | None:
    if constraint.kind != "json_schema":
        return llguidance_grammar(constraint)
    ranks = {name: index for index, name in enumerate(order)}

    def in_order(schema: dict[str, Any], where: str) -> dict[str, Any]:
        named = schema.get("properties")
        if isinstance(named, Mapping):
            names = sorted(named, key=lambda name: ranks.get(name, len(ranks)))
            schema["properties"] = {name: named[name] for name in names}
        return schema

    schema = map_schema(enforceable_schema(json.loads(constraint.value)), in_order)
    return "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": _FREE_LAYOUT})


def _order_of(schema: str, text: str) -> tuple[str, ...]:
    """The names of a schema's properties in the order in which a text has them first."""
    names: dict[str, None] = {}

    def note(part: dict[str, Any], where: str) -> dict[str, Any]:
        named = part.get("properties")
        names.update(dict.fromkeys(named if isinstance(named, Mapping) else ()))
        return part

    map_schema(json.loads(schema), note)
    first_at = {name: text.find(json.dumps(name, ensure_ascii=False)) for name in names}
    return tuple(sorted((name for name, at in first_at.items() if at >= 0), key=first_at.__getitem__))


def conforms_whole(constraint: Constraint, text: str) -> bool:
    """Whether a text that ended conforms to a JSON schema, by the validator of the schema's draft."""
    from jsonschema.exceptions import ValidationError

    try:
        schema_validator(json.loads(constraint.value)).validate(read_json(text))
    except (ValueError, ValidationError, RecursionError):
        return False
    except (OutOfTimeError, OutOfMemoryError):
        return False  # nobody could see that it does
    return True
