from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.items import Item
from pcsuite.evaluation import build_evaluator
from pcsuite.programs.base import Outcome, problems_of
from pcsuite.programs.retry import LEAST_TOKENS, RetryOnFail, retry_prompt
from support.scripted import ScriptedModel, fever_job, verdict


def retry(*lines, max_steps: int = 2, max_tokens: int = 260) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(*lines)
    job = fever_job(max_steps=max_steps, max_tokens=max_tokens)
    return asyncio.run(RetryOnFail().run(job, model)), model


def test_a_readable_answer_is_taken_at_once_even_if_wrong():
    outcome, model = retry(verdict("REFUTES"))
    assert outcome.text == verdict("REFUTES")
    assert model.asked == [{"prompt": "PROMPT", "step": "", "constraint": None, "max_tokens": 260}]
    assert outcome.metrics == {"attempts": 1, "valid": True, "budget_tokens": 260, "spent_tokens": 10}


def test_the_model_is_told_what_failed_and_gets_what_is_left():
    broken = '{"label": "MAYBE", "evidence": []}'
    outcome, model = retry((broken, "stop", 40), ("no idea", "stop", 30), (verdict(), "stop", 20))
    assert (outcome.text, outcome.finish_reason) == (verdict(), "stop")
    assert [asked["step"] for asked in model.asked] == ["", "retry-1", "retry-2"]
    assert [asked["max_tokens"] for asked in model.asked] == [260, 220, 190]
    assert model.asked[1]["prompt"].startswith(f"PROMPT\n\nYour answer before:\n{broken}\n\nIt could not be")
    assert "- schema: $.label: 'MAYBE' is not one of" in model.asked[1]["prompt"]
    assert "- no JSON object" in model.asked[2]["prompt"]
    assert broken not in model.asked[2]["prompt"]
    assert outcome.metrics == {"attempts": 3, "valid": True, "budget_tokens": 260, "spent_tokens": 90}
    assert [entry["allowed_tokens"] for entry in outcome.transcript] == [260, 220, 190]
    assert [bool(entry["problems"]) for entry in outcome.transcript] == [True, True, False]


NEWS = {"type": "object", "required": ["label"], "properties": {"label": {"enum": ["World", "Sports"]}}}


@pytest.mark.parametrize(
    ("evaluator", "options", "truth", "schema", "answers", "faults"),
    [
        ("classification", {"labels": ["World", "Sports"]}, {"label": "Sports"}, NEWS, ("Sports.", "World."), ["no JSON object"]),
        ("assert", {"assert": [{"equals": "42"}]}, {}, None, ("", "<think>42</think>"), ["it holds no answer"]),
    ],
)  # fmt: skip
def test_a_retry_is_not_told_what_is_right(evaluator, options, truth, schema, answers, faults):
    """A lenient reading is noted where it agrees with the truth, and a failed assertion names it."""
    judge = build_evaluator(evaluator, options, schema)
    told = [problems_of(judge, Item("i", "text", truth), answer, "stop") for answer in answers]
    assert told[0] == told[1]
    assert [fault[: len(start)] for fault, start in zip(told[0], faults, strict=True)] == faults


def test_retries_end_with_their_number():
    outcome, model = retry("no", "no", "no", "no", max_steps=2)
    assert len(model.asked) == 3
    assert (outcome.text, outcome.metrics["valid"]) == ("no", False)


def test_a_truncated_attempt_leaves_no_budget():
    outcome, model = retry(('{"label": "SUPP', "length", 260))
    assert len(model.asked) == 1
    assert (outcome.finish_reason, outcome.metrics["spent_tokens"]) == ("length", 260)


def test_no_retry_with_too_little_room():
    just_enough, _ = retry(("no", "stop", 260 - LEAST_TOKENS), verdict())
    too_little, _ = retry(("no", "stop", 260 - LEAST_TOKENS + 1), verdict())
    assert (just_enough.metrics["attempts"], too_little.metrics["attempts"]) == (2, 1)


def test_uncounted_tokens_are_charged_in_full():
    outcome, _ = retry(("no", "stop", 0), verdict())
    assert (outcome.metrics["attempts"], outcome.metrics["spent_tokens"]) == (1, 260)


def test_long_answers_are_repeated_in_part():
    assert len(retry_prompt("P", "x" * 9_000, ["bad"])) < 1_700
    assert "(empty)" in retry_prompt("P", "  ", ["bad"])


@pytest.mark.slow
@given(st.lists(st.integers(1, 300), min_size=5, max_size=5), st.integers(20, 300))
def test_all_attempts_together_stay_within_the_constrained_calls_limit(tokens, limit):
    """A model that always fails and stops at its limit, as engines do."""

    class Limited(ScriptedModel):
        async def __call__(self, request):
            reply = await super().__call__(request)
            usage = reply["usage"]
            usage["completion_tokens"] = min(usage["completion_tokens"], request.decoding.max_tokens)
            return reply

    model = Limited(*(("no", "stop", count) for count in tokens))
    outcome = asyncio.run(RetryOnFail().run(fever_job(max_steps=4, max_tokens=limit), model))
    assert sum(call["usage"]["completion_tokens"] for call in outcome.calls) <= limit
    assert outcome.metrics["spent_tokens"] <= limit
