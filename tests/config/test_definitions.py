"""Definitions: forms in which an entry may be written, and entries that are incomplete."""

import pytest
from pydantic import TypeAdapter, ValidationError

from pcsuite.config.definitions import DecodingSpec, ModelSpec, TaskSpec
from pcsuite.config.operator_definitions import Condition, OperatorSpec, OperatorUse


def test_a_condition_may_be_a_bare_list_of_names_options_and_alternatives():
    spec = TypeAdapter(Condition).validate_python(["ROLE", {"EXEMPLARS": {"k": 4}}, ["A", "B"]])
    assert spec.operators == (
        OperatorUse(name="ROLE"),
        OperatorUse(name="EXEMPLARS", k=4),
        (OperatorUse(name="A"), OperatorUse(name="B")),
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "block"}, "a block operator needs 'template'"),
        ({"type": "fewshot", "template": "x"}, "a fewshot operator needs 'k'"),
        ({"type": "constraint"}, "a constraint operator needs 'kind'"),
        ({"type": "block", "template": "x", "cues": ["["]}, "is no regular expression"),
        ({"type": "block", "template": "x", "paraphrases": ["a", "b", "c", "d"]}, "at most 3 items"),
    ],
)
def test_an_incomplete_operator_is_refused(entry, message):
    with pytest.raises(ValidationError, match=message):
        OperatorSpec.model_validate(entry)


def test_an_alias_needs_nothing_else():
    assert OperatorSpec(type="constraint", alias_of="TYPE_CONSTRAIN").kind is None


def test_greedy_is_temperature_zero():
    assert DecodingSpec(temperature=0, top_p=1).greedy
    assert not DecodingSpec(label="D0", temperature=0.1, top_p=1).greedy


def test_a_models_further_keys_are_its_providers():
    spec = ModelSpec(provider="p", family="f", size="1B", price_in=2.0, price_out=6.0, workers=3)
    assert spec.provider_options() == {"workers": 3}


def test_an_entry_is_written_as_it_was_given_and_hashed_as_it_always_was():
    spec = ModelSpec(provider="p", family="f", size="1B", price_cached=0.5, workers=3)
    assert spec.written() == {
        "provider": "p",
        "family": "f",
        "size": "1B",
        "price_cached": 0.5,
        "workers": 3,
    }
    # Rows' ids are hashes of this: an entry without prices had 0.0 for both from the first version on.
    assert spec.model_dump(mode="json") == {
        "provider": "p",
        "family": "f",
        "size": "1B",
        "params_b": None,
        "price_in": 0.0,
        "price_out": 0.0,
        "workers": 3,
    }


def test_a_price_for_one_direction_only_is_refused():
    with pytest.raises(ValidationError, match="both price_in and price_out"):
        ModelSpec(provider="p", family="f", size="1B", price_in=2.0)


@pytest.mark.parametrize(
    ("given", "kind", "evaluator"),
    [
        ({"answer": "text"}, "reasoning", "short_answer"),
        ({"answer": "number"}, "reasoning", "number"),
        ({"answer": "label"}, "reasoning", "classification"),
        ({"answer": "json"}, "structured", "extraction"),
        ({"answer": "label", "evaluator": "mine"}, "reasoning", "mine"),
        ({"evaluator": "my_scorer.py:score"}, "reasoning", "my_scorer.py:score"),
        ({"evaluator": "assert"}, "reasoning", "assert"),
    ],
)
def test_what_an_answer_is_sets_what_is_not_given(given, kind, evaluator):
    spec = TaskSpec.model_validate({"dataset": "x", "max_tokens": 8, **given})
    assert (spec.kind, spec.evaluator) == (kind, evaluator)
    assert "answer" not in spec.model_dump()  # what it sets is part of a row's id, not the word


@pytest.mark.parametrize("answer", ["labels", ["text"], 3, {}])
def test_an_answer_that_is_none_is_the_only_mistake(answer):
    with pytest.raises(ValidationError) as caught:
        TaskSpec.model_validate({"dataset": "x", "max_tokens": 8, "answer": answer})
    assert [error["loc"] for error in caught.value.errors()] == [("answer",)]
