"""What is sent in place of a constraint, decided before a model is asked."""

from __future__ import annotations

import json

import pytest

from pcsuite.config.model_names import model_by_name
from pcsuite.config.yaml_source import bundled_configs
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.constrained import backend_named
from pcsuite.engines.enforcement import sent_constraint
from pcsuite.engines.session import check_model
from pcsuite.errors import ConstraintUnavailableError

NEWS = (bundled_configs() / "schemas" / "agnews_json.json").read_text()


def sent(model, schema, **how):
    provider, options = check_model(model, model_by_name(model))
    return sent_constraint(
        backend_named("native"), provider, options, Constraint("json_schema", schema), **how
    )


def test_a_schema_that_a_service_does_not_keep_is_refused_with_the_keyword_its_place_and_the_way_out():
    with pytest.raises(ConstraintUnavailableError) as error:
        sent("anthropic/claude-sonnet-4-5", NEWS)
    told = str(error.value)
    assert "minimum at /properties/confidence" in told
    assert "enforce: in_part" in told
    assert sent("openai/gpt-4o", NEWS).in_full


def test_in_part_it_is_sent_without_what_is_not_kept():
    part = sent("anthropic/claude-sonnet-4-5", NEWS, in_part=True)
    assert not part.in_full
    assert json.loads(part.constraint.value)["properties"]["confidence"] == {"type": "number"}
    assert [str(change) for change in part.changes] == [
        "/properties/confidence: 'minimum' taken out",
        "/properties/confidence: 'maximum' taken out",
        "/properties/rationale: 'maxLength' taken out",
    ]


def test_what_can_be_enforced_whole_is_whole_even_where_a_part_would_do():
    whole = sent("openai/gpt-4o", NEWS, in_part=True)
    assert whole.in_full
    assert whole.constraint.value == NEWS


def test_the_embedded_engine_refuses_what_no_grammar_says_and_a_server_that_is_not_known_is_asked():
    unique = json.dumps({"type": "array", "uniqueItems": True})
    with pytest.raises(ConstraintUnavailableError, match="uniqueItems"):
        sent("llamacpp/model.gguf", unique)
    assert sent("llamacpp/model.gguf", unique, in_part=True).constraint.value == '{"type": "array"}'
    assert sent("mistral/mistral-small", unique).in_full


def test_patterns_and_grammars_have_no_parts():
    provider, options = check_model("m", model_by_name("llamacpp/model.gguf"))
    constraint = Constraint("regex", "a|b")
    assert (
        sent_constraint(backend_named("native"), provider, options, constraint, in_part=True).constraint
        is constraint
    )
