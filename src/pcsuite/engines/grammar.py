"""What a constraint may say, and the grammar in which the engine that enforces it gets it.

All four backends steer by llguidance: llama.cpp has it built in, the others mask a transformers model by it. So one
grammar is written here for all of them. llguidance refuses most of what it cannot enforce by name; what it takes and
does not keep is refused or written otherwise here, each case with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pcsuite._util.json_schema import map_schema, with_patterns
from pcsuite._util.patterns import Dialect, PatternError, quote_pattern, read_pattern
from pcsuite.engines.adapters.base import LLGUIDANCE_JSON_LAYOUT, Constraint
from pcsuite.errors import ConstraintUnavailableError

FREE_KEY = r'^[^"\\]*$'
"""Any key that needs no escape but that of a control character."""


@lru_cache(maxsize=256)
def llguidance_grammar(constraint: Constraint) -> str:
    """The constraint as a Lark grammar for llguidance, JSON laid out as all enforced JSON is.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError` for what no backend could enforce in full.
    """
    if constraint.kind == "json_schema":
        schema = enforceable_schema(json.loads(constraint.value))
        return "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": LLGUIDANCE_JSON_LAYOUT})
    if constraint.kind == "regex":
        try:
            return f"%llguidance {{}}\nstart: /{_enforceable_pattern(constraint.value, 'answer')}/"
        except PatternError as error:
            raise ConstraintUnavailableError(f"this regex cannot be enforced: {error}") from error
    if is_gbnf(constraint.value):
        raise ConstraintUnavailableError(
            "this grammar is GBNF, which llama.cpp alone reads", hint="write it as a Lark grammar: start: …"
        )
    if constraint.value.lstrip().startswith("%llguidance"):
        return constraint.value.lstrip()
    return "%llguidance {}\n" + constraint.value


def is_gbnf(grammar: str) -> bool:
    """Whether a grammar is written in llama.cpp's own notation (``root ::= …``), not Lark's.

    >>> is_gbnf('root ::= "yes" | "no"'), is_gbnf('start: "yes" | "no"')
    (True, False)
    """
    return re.search(r"^\s*root\s*::=", grammar, re.MULTILINE) is not None


def enforceable_schema(schema: Any) -> dict[str, Any]:
    """A schema that means the same and that llguidance keeps: what is enforced in place of ``schema``.

    Patterns are written out (:mod:`pcsuite._util.patterns`), boolean schemas are objects. Raises
    :class:`~pcsuite.errors.ConstraintUnavailableError`, which names the keyword and its place, for

    - ``minProperties`` beyond the keys that are sure to come, where keys are free: it could be met by one key repeated;
    - ``patternProperties`` beside further keys of any name: these could be written with escapes and so pass for others;
    - a ``$ref`` that only leads back to itself, or that must be followed without end: no finite text conforms;
    - a pattern that is not ECMAScript's.

    >>> enforceable_schema({"type": "string", "pattern": r"^\\d$"})["pattern"]
    '^[0-9]$'
    """
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not _ends(schema, schema, frozenset()):
        raise _refused("$ref", "", "no finite answer conforms to it")
    try:
        written_out = with_patterns(schema, lambda pattern: _enforceable_pattern(pattern, "ecma"))
    except PatternError as error:
        raise ConstraintUnavailableError(f"a pattern of the schema cannot be enforced: {error}") from error
    enforced = map_schema(written_out, _with_plain_keys)
    assert isinstance(enforced, dict)
    return enforced


def _enforceable_pattern(text: str, dialect: Dialect) -> str:
    pattern = read_pattern(text, dialect)
    if pattern.unenforceable:
        raise PatternError(
            f"no engine follows {pattern.unenforceable} of the pattern {quote_pattern(text)} while decoding"
        )
    return pattern.engine


def _refused(keyword: str, where: str, reason: str) -> ConstraintUnavailableError:
    return ConstraintUnavailableError(
        f"'{keyword}' at {where or 'the top'} of the schema cannot be enforced: {reason}"
    )


def _with_plain_keys(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """The schema with its free keys, where it has any, bound to be written without escapes.

    llguidance takes care that a free key is none of those that are named, but compares what is written: ``"\\u0061"``
    passed for a key other than ``"a"``.
    """
    named, patterned = schema.get("properties"), schema.get("patternProperties")
    further = schema.get("additionalProperties", True)
    free = further is not False and (named or patterned or schema.get("required"))
    least = schema.get("minProperties", 0)
    sure = len(set(schema.get("required", ())))
    if isinstance(least, (int, float)) and least > max(1, sure) and (patterned or further is not False):
        raise _refused(
            "minProperties", where, f"{least} could be met by repeating a key; name the keys and require them"
        )
    if not free:
        return schema
    if patterned:
        reason = "beside it, keys of any name could be written with escapes; say additionalProperties: false"
        raise _refused("patternProperties", where, reason)
    required = [name for name in schema.get("required", ()) if name not in (named or {})]
    anything = {} if further is True else further
    properties = {**(named or {}), **dict.fromkeys(required, anything)}
    return {
        **schema,
        "properties": properties,
        "patternProperties": {FREE_KEY: anything},
        "additionalProperties": False,
    }


def _ends(schema: Any, root: Any, path: frozenset[str]) -> bool:
    """Whether some finite text may conform: no reference must be followed for ever.

    ``path`` has the references that are being followed. A reference that cannot be resolved counts as ending: the
    engine refuses it by name.
    """
    if not isinstance(schema, Mapping):
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        if reference in path:
            return False
        target = _pointed(root, reference)
        if target is not None and not _ends(target, root, path | {reference}):
            return False
    kinds = schema.get("type")
    parts: list[Any] = list(schema.get("allOf", ()))
    # Without a type any value will do, and null ends at once.
    may_be = {kinds} if isinstance(kinds, str) else set(kinds or ("null",))
    if may_be == {"object"}:
        named = schema.get("properties", {})
        parts += [named[name] for name in schema.get("required", ()) if name in named]
    if may_be == {"array"} and schema.get("minItems", 0):
        first = schema.get("prefixItems") or schema.get("items")
        parts += first[: schema["minItems"]] if isinstance(first, list) else [first]
    if not all(_ends(part, root, path) for part in parts):
        return False
    return all(
        any(_ends(part, root, path) for part in schema[keyword])
        for keyword in ("anyOf", "oneOf")
        if schema.get(keyword)
    )


def _pointed(root: Any, reference: str) -> Any:
    """What a reference within the schema names, by pointer or anchor; ``None`` where there is no such part."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        anchor = reference[1:]
        for keyword in ("$defs", "definitions"):
            for entry in root.get(keyword, {}).values():
                if isinstance(entry, Mapping) and entry.get("$anchor") == anchor:
                    return entry
        return None
    part = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping) and step in part:
            part = part[step]
        elif isinstance(part, Sequence) and step.isdigit() and int(step) < len(part):
            part = part[int(step)]
        else:
            return None
    return part
