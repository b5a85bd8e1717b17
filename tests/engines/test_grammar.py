"""The one grammar that every backend enforces: valid instances are accepted, invalid ones are not, the rest is refused by name.

The mask is asked byte by byte, so that nothing of a model's vocabulary or habits plays a part.
"""

from __future__ import annotations

import json
import re

import pytest

from constraints.corpus import GRAMMARS, PATTERNS, SCHEMAS
from pcsuite._util.patterns import read_pattern
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.grammar import enforceable_schema, is_gbnf, llguidance_grammar
from pcsuite.errors import ConstraintUnavailableError
from pcsuite.evaluation.schema_check import schema_error

llguidance = pytest.importorskip("llguidance", reason="the extra 'outlines' is not installed")
BYTES = llguidance.LLTokenizer("byte")


def accepts(grammar, text):
    """Whether a mask lets a text through and lets it end there; what llguidance says where it takes no such grammar."""
    matcher = llguidance.LLMatcher(BYTES, grammar)
    assert not matcher.get_error(), matcher.get_error()
    tokens = BYTES.tokenize_bytes(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def refusal(kind, value):
    """Why a constraint is refused, by us or by llguidance; empty where it is enforced."""
    try:
        grammar = llguidance_grammar(Constraint(kind, value))
    except ConstraintUnavailableError as error:
        return error.message
    return llguidance.LLMatcher.validate_grammar(grammar, BYTES)


def written(value):
    """A value in the layout of enforced JSON."""
    return json.dumps(value, ensure_ascii=False)


def test_the_corpus_is_as_large_as_it_should_be():
    assert len(SCHEMAS) >= 120
    assert len(PATTERNS) >= 60
    for cases in (SCHEMAS, PATTERNS, GRAMMARS):
        assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("case", SCHEMAS, ids=lambda case: case.name)
def test_a_schema_is_kept_or_refused_by_name(case):
    if case.refused:
        assert re.search(case.refused, refusal("json_schema", json.dumps(case.value)), re.IGNORECASE)
        return
    assert not refusal("json_schema", json.dumps(case.value))
    grammar = llguidance_grammar(Constraint("json_schema", json.dumps(case.value)))
    for value in case.valid:
        assert accepts(grammar, written(value)), f"{value!r} conforms and is masked"
        assert isinstance(case.value, bool) or schema_error(value, case.value) is None
    for value in case.invalid:
        assert not accepts(grammar, written(value)), f"{value!r} does not conform and is let through"
        if (
            not isinstance(case.value, bool) and "format" not in case.value
        ):  # to a validator formats are annotations
            assert schema_error(value, case.value) is not None


@pytest.mark.parametrize("case", PATTERNS, ids=lambda case: case.name)
def test_a_pattern_is_kept_or_refused_by_name(case):
    if case.refused:
        assert re.search(case.refused, refusal("regex", case.value), re.IGNORECASE)
        return
    pattern = read_pattern(case.value, "answer")
    grammar = llguidance_grammar(Constraint("regex", case.value))
    for text in case.valid:
        assert accepts(grammar, text), f"{text!r} matches and is masked"
        assert pattern.fullmatch(text)
    for text in case.invalid:
        assert not accepts(grammar, text), f"{text!r} does not match and is let through"
        assert not pattern.fullmatch(text)


@pytest.mark.parametrize("case", GRAMMARS, ids=lambda case: case.name)
def test_a_grammar_is_kept_or_refused_by_name(case):
    if case.refused:
        assert re.search(case.refused, refusal("cfg", case.value), re.IGNORECASE)
        return
    grammar = llguidance_grammar(Constraint("cfg", case.value))
    assert all(accepts(grammar, text) for text in case.valid)
    assert not any(accepts(grammar, text) for text in case.invalid)


def test_an_unlisted_key_cannot_pass_for_another_by_an_escape():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }
    grammar = llguidance_grammar(Constraint("json_schema", json.dumps(schema)))
    assert accepts(grammar, '{"b": 1}')
    assert not accepts(grammar, r'{"\u0061": 1}')


def test_json_is_laid_out_as_everywhere():
    grammar = llguidance_grammar(Constraint("json_schema", '{"type": "object"}'))
    head, _, schema = grammar.partition("%json ")
    assert head == "%llguidance {}\nstart: "
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    assert json.loads(schema) == {"type": "object", "x-guidance": layout}


def test_booleans_are_objects():
    assert enforceable_schema(True) == {}
    assert enforceable_schema(False) == {"not": {}}


def test_a_grammar_that_names_its_engine_is_left_alone():
    assert llguidance_grammar(Constraint("cfg", 'start: "a"')) == '%llguidance {}\nstart: "a"'
    assert llguidance_grammar(Constraint("cfg", '%llguidance {}\nstart: "a"')) == '%llguidance {}\nstart: "a"'
    assert is_gbnf('root ::= "a"')
    assert not is_gbnf('start: "root ::="')
