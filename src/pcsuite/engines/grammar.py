"""What a constraint may say, and the grammar in which the engine that enforces it gets it.

All four backends steer by llguidance: llama.cpp has it built in, the others mask a transformers model by it. So one
grammar is written here for all of them; how a schema is written in it is the subject of
:mod:`pcsuite.engines.enforced_schema`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from pcsuite._util.patterns import Dialect, PatternError, quote_pattern, read_pattern
from pcsuite.engines.adapters.base import LLGUIDANCE_JSON_LAYOUT, Constraint
from pcsuite.engines.enforced_schema import enforceable_schema
from pcsuite.errors import ConstraintUnavailableError


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


def _enforceable_pattern(text: str, dialect: Dialect) -> str:
    pattern = read_pattern(text, dialect)
    if pattern.unenforceable:
        raise PatternError(
            f"no engine follows {pattern.unenforceable} of the pattern {quote_pattern(text)} while decoding"
        )
    return pattern.engine
