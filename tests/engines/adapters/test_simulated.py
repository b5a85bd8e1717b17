from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import replace
from functools import partial
from random import Random

import msgspec
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from simulated_truth import true_accuracy, true_effect

from pcsuite._util.hashing import sha256_hex
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, Request, Tool
from pcsuite.engines.adapters.simulated import (
    OPENING,
    SimulatedAdapter,
    SimulatedOptions,
    accuracy_logit,
    item_deviate,
    propose_instruction,
)
from pcsuite.engines.canary import is_enforced
from pcsuite.engines.constrained import generate_constrained
from pcsuite.errors import EngineError
from support.drawing import draw

D1 = Decoding("d1", temperature=0.7, top_p=0.95, max_tokens=80)
GOLD = '{"label": "World"}'


def context(item="i0", condition="C0", operators=(), perturbation="none", task="agnews_json", gold=GOLD):
    return CallContext(
        task_id=task,
        item_id=item,
        condition_id=condition,
        operators=tuple(operators),
        perturbation=perturbation,
        gold=lambda: gold,
        wrong=lambda rng: json.dumps({"label": rng.choice(["Sports", "Business"])}),
    )


def adapter(**options) -> SimulatedAdapter:
    return SimulatedAdapter("sim", SimulatedOptions(**options))


def draws(model, items=4000, seeds=(1,), constraint=None, **where):
    return [
        draw(model, Request("prompt", D1, seed, constraint, context(item=f"i{number}", **where)))["text"]
        for number in range(items)
        for seed in seeds
    ]


def share(texts, wanted=GOLD):
    return sum(text == wanted for text in texts) / len(texts)


def test_the_true_accuracy_is_the_integral_over_item_difficulty():
    options = SimulatedOptions(
        base_accuracy=0.4,
        operator_effects={"SCHEMA": 0.8},
        item_difficulty_sd=1.5,
        seed_noise_sd=0.7,
        json_validity=0.8,
        json_effects={"SCHEMA": 1.0},
        abstain_rate=0.1,
    )
    centre = math.log(0.4 / 0.6) + 0.8
    sd = math.sqrt(1.5**2 + 0.7**2)
    right, _ = quad(lambda z: norm.pdf(z) / (1 + math.exp(-(centre + sd * z))), -12, 12)
    valid = 1 / (1 + math.exp(-(math.log(4) + 1.0)))
    assert true_accuracy(options, "t", ["SCHEMA"]) == pytest.approx(right * valid * 0.9, abs=1e-9)
    assert true_accuracy(options, "t", ["SCHEMA"], constrained=True) == pytest.approx(right * 0.9, abs=1e-9)
    assert true_accuracy(options, "t", ["SCHEMA"], json_answers=False) == pytest.approx(right * 0.9, abs=1e-9)


def test_without_spread_the_truth_is_the_base_accuracy():
    options = SimulatedOptions(base_accuracy={"default": 0.3, "t": 0.6}, item_difficulty_sd=0)
    assert true_accuracy(options, "t", [], json_answers=False) == pytest.approx(0.6)
    assert true_accuracy(options, "other", [], json_answers=False) == pytest.approx(0.3)
    # logit(0.5) + 1 has probability 1/(1+1/e)
    effect = SimulatedOptions(base_accuracy=0.5, operator_effects={"X": 1.0}, item_difficulty_sd=0)
    expected = 1 / (1 + math.exp(-1)) - 0.5
    assert true_effect(effect, "t", ["X"], json_answers=False) == pytest.approx(expected)


@pytest.mark.slow
def test_observed_accuracy_agrees_with_the_truth():
    model = adapter(
        base_accuracy=0.4,
        operator_effects={"ROLE": 0.0, "EXEMPLARS": 0.9},
        item_difficulty_sd=1.0,
        seed_noise_sd=0.5,
        json_validity=0.7,
        abstain_rate=0.05,
        perturbation_penalties={"injection": 1.0},
    )
    for where in (
        {"condition": "C0"},
        {"condition": "C5", "operators": ("ROLE", "EXEMPLARS(k=2)")},
        {"condition": "C5", "operators": ("EXEMPLARS",), "perturbation": "injection"},
    ):
        truth = true_accuracy(
            model.options,
            "agnews_json",
            where.get("operators", ()),
            perturbation=where.get("perturbation", "none"),
        )
        seen = share(draws(model, items=6000, **where))
        assert abs(seen - truth) < 4 * math.sqrt(truth * (1 - truth) / 6000)


def test_items_are_shared_by_conditions_and_models_and_seeds_are_not():
    assert item_deviate("t", "i1") == item_deviate("t", "i1") != item_deviate("u", "i1")
    deviates = [item_deviate("t", f"i{number}") for number in range(5000)]
    assert abs(sum(deviates) / 5000) < 4 / math.sqrt(5000)
    assert abs(sum(value**2 for value in deviates) / 5000 - 1) < 4 * math.sqrt(2 / 5000)
    model = adapter(item_difficulty_sd=3.0, json_validity=0.999)
    first, second = (share_by_item(model, seed) for seed in (1, 2))
    agreement = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    # With sd 3 most items are decided by their difficulty; coin flips would agree half the time.
    assert 0.6 < agreement < 0.95


def share_by_item(model, seed):
    return [text == GOLD for text in draws(model, items=2000, seeds=(seed,))]


def test_draws_depend_on_names_only_not_on_order():
    first = adapter(base_accuracy=0.5)
    second = adapter(base_accuracy=0.5)
    numbers = list(range(300))
    forward = {n: draw(first, Request("p", D1, 1, None, context(item=f"i{n}")))["text"] for n in numbers}
    Random(1).shuffle(numbers)
    shuffled = {n: draw(second, Request("p", D1, 1, None, context(item=f"i{n}")))["text"] for n in numbers}
    assert forward == shuffled
    other = SimulatedAdapter("another", SimulatedOptions(base_accuracy=0.5))
    assert {
        n: draw(other, Request("p", D1, 1, None, context(item=f"i{n}")))["text"] for n in numbers
    } != forward


def test_malformed_json_is_beyond_repair_and_a_constraint_prevents_it():
    model = adapter(json_validity=0.25, json_effects={"SCHEMA": 100.0})
    texts = draws(model, items=3000)
    broken = [text for text in texts if "{" not in text]
    assert abs(len(broken) / 3000 - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 3000)
    assert all("}" not in text for text in broken)
    assert all(json.loads(text) for text in draws(model, items=200, operators=("SCHEMA",)))
    constraint = Constraint("json_schema", "{}")
    assert all(json.loads(text) for text in draws(model, items=200, constraint=constraint))
    answer = draw(model, Request("p", D1, 1, constraint, context()))
    assert answer["constraint_backend"] == "native:simulated"
    plain = draw(model, Request("p", D1, 1, None, context(gold="#### 42")))["text"]
    assert plain == "#### 42" or "label" in plain


def test_abstentions():
    model = adapter(abstain_rate=1.0, abstain_text={"gsm8k": "no idea"}, json_validity=0.999999)
    assert draw(model, Request("p", D1, 1, None, context()))["text"] == '{"abstained": true}'
    assert draw(model, Request("p", D1, 1, None, context(gold="#### 4")))["text"] == "I cannot tell."
    assert draw(model, Request("p", D1, 1, None, context(task="gsm8k", gold="#### 4")))["text"] == "no idea"


def test_failures_can_be_rehearsed():
    transient = adapter(error_rate=1.0)
    with pytest.raises(EngineError) as caught:
        draw(transient, Request("p", D1, 1, None, context()))
    assert caught.value.retryable
    assert caught.value.status == 503
    assert draw(transient, Request("p", D1, 1, None, context()))["text"]
    fatal = adapter(fatal_error_rate=0.25)
    errors = []
    for number in range(2000):
        try:
            draw(fatal, Request("p", D1, 1, None, context(item=f"i{number}")))
        except EngineError as error:
            errors.append(error)
    assert not any(error.retryable for error in errors)
    assert abs(len(errors) / 2000 - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 2000)


@pytest.mark.parametrize("kind", ["json_schema", "regex", "cfg"])
def test_the_canary_is_not_fooled_by_simulated_trouble(kind):
    model = adapter(abstain_rate=0.999, error_rate=0.5, fatal_error_rate=0.5)
    assert asyncio.run(is_enforced(partial(generate_constrained, model), kind)) is True


def test_usage_is_plausible_and_within_the_limit():
    model = adapter(mean_completion_tokens=60)
    usages = [
        draw(model, Request("x" * 401, D1, 1, None, context(item=f"i{number}")))["usage"]
        for number in range(1000)
    ]
    assert {usage["prompt_tokens"] for usage in usages} == {101}
    assert all(30 <= usage["completion_tokens"] <= 80 for usage in usages)
    assert all(usage["total_tokens"] == 101 + usage["completion_tokens"] for usage in usages)


def test_without_a_context_it_refuses_and_its_identity_follows_its_effects():
    model = adapter()
    with pytest.raises(EngineError, match="simulated and answers only within a run"):
        asyncio.run(model.agenerate(Request("p", D1, 1)))
    assert model.identity()["engine"] == "simulated"
    assert model.identity() != adapter(operator_effects={"ROLE": 0.1}).identity()


def test_an_operator_counts_by_its_name_whatever_its_arguments():
    options = SimulatedOptions(operator_effects={"ROLE": 1.0, "EXEMPLARS": 2.0, "REASONING_MODE": 3.0})
    names = ("ROLE", "EXEMPLARS(k=2)", "EXEMPLARS:4", "REASONING_MODE=full")
    assert [accuracy_logit(options, "t", (name,)) for name in names] == [1.0, 2.0, 2.0, 3.0]


@pytest.mark.slow
def test_it_is_fast_enough_to_rehearse_millions():
    model = adapter(item_difficulty_sd=1.0, seed_noise_sd=0.5)
    prompt = "word " * 300

    async def many(count):
        for number in range(count):
            await model.agenerate(Request(prompt, D1, number % 10, None, context(item=f"i{number % 1000}")))

    asyncio.run(many(1000))
    best = 0.0
    for _ in range(3):  # the best of three: others may be using the processor
        started = time.process_time()
        asyncio.run(many(4000))
        best = max(best, 4000 / (time.process_time() - started))
    assert best > 20_000


def test_a_proposer_knows_the_sentences_of_ones_own_operators():
    sentences = {"TONE": "Write as for a colleague."}
    own = SimulatedAdapter("m", SimulatedOptions(operator_sentences=sentences))
    written = {propose_instruction("Write an instruction.", Random(seed), sentences) for seed in range(8)}
    assert written == {OPENING, f"{OPENING}\nWrite as for a colleague."}
    assert own.identity() != SimulatedAdapter("m", SimulatedOptions()).identity()


def test_operators_that_are_there_together_add_their_interaction():
    options = SimulatedOptions(
        base_accuracy=0.5,
        operator_effects={"A": 1.0, "B": 1.0},
        interaction_effects={"A*B": -1.0, "A*B*C": 0.25},
    )
    logits = {names: accuracy_logit(options, "t", names) for names in ("", "A", "B", "AB", "ABC")}
    assert logits == {"": 0.0, "A": 1.0, "B": 1.0, "AB": 1.0, "ABC": 1.25}


def test_a_model_without_interactions_keeps_its_identity():
    plain = SimulatedAdapter("m", SimulatedOptions())
    joint = SimulatedAdapter("m", SimulatedOptions(interaction_effects={"A*B": 1.0}))
    assert plain.identity() != joint.identity()
    settings = plain.options.model_dump_json(exclude={"operator_sentences", "interaction_effects", "judging"})
    assert plain.identity()["options_sha256"] == sha256_hex(settings)


def test_with_a_tool_it_searches_once_for_what_it_was_asked_and_then_answers():
    model, tool = adapter(base_accuracy=0.999, json_validity=0.999), Tool("search", "Find.", "query", "What.")
    asked = msgspec.structs.replace(context(operators=("REACT_LOOP",)), question='Is "Soup"\na film?')
    first = Request("prompt", D1, 1, None, asked, tools=(tool,), step="react-1")
    assert draw(model, first)["text"] == "Action: search[\"Is 'Soup' a film?\"]"
    assert draw(model, replace(first, step="react-2"))["text"] == GOLD
    assert draw(model, replace(first, tools=()))["text"] == GOLD
