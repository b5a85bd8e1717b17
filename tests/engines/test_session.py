from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pcsuite.config.definitions import ModelsFile, ModelSpec
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.config.yaml_source import YamlSource
from pcsuite.engines.adapters.base import (
    CallContext,
    Constraint,
    Decoding,
    ModelAdapter,
    NoAdapterOptions,
    Request,
)
from pcsuite.engines.adapters.simulated import SimulatedAdapter
from pcsuite.engines.limits import TEMPLATE_ALLOWANCE, RetriesExhaustedError
from pcsuite.engines.session import LoopThread, Session, build_adapter, check_model, open_models
from pcsuite.errors import BudgetExceededError, ConfigError, EngineError, ErrorRateError
from support.profiles import SIMULATED, write_profile


def spec(**keys) -> ModelSpec:
    return ModelSpec(**{"provider": "simulated", "family": "f", "size": "1B", "params_b": 1, **keys})


def models_file() -> ModelsFile:
    return YamlSource.read(Path(bundled_configs()) / "models_v1.yaml").parse(ModelsFile)


def test_every_model_of_the_bundled_file_has_valid_options():
    models = models_file().models
    for name, model in models.items():
        check_model(name, model)
    assert {model.provider for model in models.values()} == {"llamacpp", "openai", "hf", "simulated"}


def test_the_scale_grid_has_three_sizes_of_two_families_and_a_priced_frontier_model():
    served = {name: model for name, model in models_file().models.items() if model.provider == "openai"}
    grid: dict[str, set[str]] = {}
    for model in served.values():
        if model.size == "frontier":
            assert model.price_in > 0
            assert model.price_out > model.price_in
            assert model.provider_options()["api_key_env"] == "OPENAI_API_KEY"
            continue
        band = "small" if 7 <= model.params_b < 9 else "medium" if 13 <= model.params_b <= 34 else "large"
        assert band != "large" or model.params_b >= 70
        grid.setdefault(model.family, set()).add(band)
    assert len(grid) == 2
    assert all(bands == {"small", "medium", "large"} for bands in grid.values())
    assert "frontier" in {model.size for model in served.values()}


def test_options_reach_the_adapter():
    adapter = build_adapter("mine", spec(base_accuracy=0.25))
    assert isinstance(adapter, SimulatedAdapter)
    assert adapter.options.base_accuracy == 0.25
    assert adapter.model_id == "mine"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"base_acuracy": 0.5}, "base_acuracy: unknown key .*did you mean 'base_accuracy'"),
        ({"provider": "simulatd"}, "unknown provider 'simulatd' .*did you mean 'simulated'"),
        ({"provider": "openai"}, "model 'm' .provider openai.: base_url: required, but not given"),
        ({"provider": "llamacpp"}, "give either 'weights' .* or 'path'"),
        ({"provider": "llamacpp", "weights": "a", "path": "b"}, "give either 'weights'"),
        ({"provider": "llamacpp", "weights": "a", "workers": 0}, "workers: a number of 1 or more is wanted"),
    ],
)
def test_wrong_keys_are_one_clear_line(keys, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_model("m", spec(**keys))
    assert "\n" not in str(caught.value)


class Failing(ModelAdapter):
    """Fails every call in the way it is told to, and counts them."""

    def __init__(self, error):
        super().__init__("sim", NoAdapterOptions())
        self.error = error
        self.calls = 0

    def generate(self, prompt, decoding, seed):
        self.calls += 1
        raise self.error


def session_of(tmp_path, **limits) -> Session:
    return Session(load_suite(write_profile(tmp_path, limits={"max_items_per_task": 1, **limits})))


REQUEST = Request("Hello", Decoding("d0", 0.0, 1.0, 8))


def test_the_retry_policy_is_the_profiles(tmp_path):
    retry = {"max_attempts": 3, "base_s": 0.0}
    adapter = Failing(EngineError("busy", retryable=True, status=503))
    client = session_of(tmp_path, retry=retry).add("sim", adapter)
    with pytest.raises(RetriesExhaustedError) as caught:
        asyncio.run(client.ask(REQUEST))
    assert (adapter.calls, caught.value.attempts) == (3, 3)


def test_an_unknown_key_of_the_retry_policy_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'max_attempts'"):
        session_of(tmp_path, retry={"max_attempt": 3})


def test_callers_without_rows_stop_at_the_profiles_error_rate(tmp_path):
    client = session_of(tmp_path, stop_on_error_rate=0.5).add("sim", Failing(EngineError("no", status=400)))

    async def ask_all():
        for _ in range(49):
            with pytest.raises(EngineError, match="no"):
                await client.ask_counted(REQUEST)
        with pytest.raises(ErrorRateError, match="50 of 50 calls failed"):
            await client.ask_counted(REQUEST)

    asyncio.run(ask_all())


class FailingProof(Failing):
    """One that says it enforces schemas."""

    native_constraints = frozenset({"json_schema"})

    def generate_constrained(self, prompt, decoding, seed, constraint):
        return self.generate(prompt, decoding, seed)


SCHEMA = Constraint("json_schema", '{"type": "object"}')


@pytest.mark.parametrize("limits", [{"max_tokens_overall": 150}, {"max_cost_usd": 0.0001}])
def test_a_proof_is_not_asked_for_beyond_the_budget(tmp_path, limits):
    """The canary's question has 49 bytes, 128 tokens are left for a template, and 48 may be answered: 225."""
    models = {"sim": {**SIMULATED, "price_in": 1.0, "price_out": 1.0}}
    suite = load_suite(write_profile(tmp_path, models, limits={"max_items_per_task": 1, **limits}))
    adapter = FailingProof(AssertionError("nothing may be asked"))
    client = Session(suite).add("sim", adapter)
    with pytest.raises(BudgetExceededError, match=r"the next call may take (225 tokens|\$0\.0002)"):
        asyncio.run(client.why_unenforced(SCHEMA))
    assert adapter.calls == 0


def test_what_a_proof_uses_is_spent_and_it_is_asked_anew_by_every_session(tmp_path):
    limits = {"max_items_per_task": 1, "max_tokens_overall": 10_000}
    suite = load_suite(write_profile(tmp_path, limits=limits))
    spent = []

    async def prove():
        async with open_models(suite, ["sim"]) as session:
            assert await session.clients["sim"].why_unenforced(SCHEMA) is None
            spent.append(session.budget.spent_tokens)

    for _ in range(2):
        asyncio.run(prove())
    # A second session that took the first one's answers from the cache would have spent nothing.
    assert spent[0] == spent[1] > 0


class CutAtOneToken(SimulatedAdapter):
    """Enforces schemas, and calls an answer of one token an error, as OpenAI's models that reason do."""

    async def agenerate(self, request):
        if request.decoding.max_tokens == 1:
            raise EngineError("the output limit was reached", status=400, outcome="cut")
        return await super().agenerate(request)


def test_a_server_that_calls_one_token_an_error_has_taken_the_constraint(tmp_path):
    adapter = CutAtOneToken("sim", SimulatedAdapter.Options())
    client = session_of(tmp_path).add("sim", adapter)
    assert asyncio.run(client.why_unenforced(SCHEMA)) is None


@pytest.mark.parametrize("outcome", ["filtered", "too_long", "failed"])
def test_what_became_of_a_call_is_told_after_the_last_try(tmp_path, outcome):
    adapter = Failing(EngineError("held back", outcome=outcome))
    client = session_of(tmp_path).add("sim", adapter)
    with pytest.raises(RetriesExhaustedError, match="held back") as caught:
        asyncio.run(client.ask(Request("Hi", Decoding("D0", 0.0, 1.0, 5))))
    assert (caught.value.outcome, adapter.calls) == (outcome, 1)


def test_a_proof_is_retried_and_its_lost_attempts_are_spent(tmp_path):
    retry = {"max_attempts": 3, "base_s": 0.0}
    adapter = FailingProof(EngineError("lost", retryable=True))
    client = session_of(tmp_path, max_tokens_overall=10_000, retry=retry).add("sim", adapter)
    with pytest.raises(RetriesExhaustedError):
        asyncio.run(client.why_unenforced(SCHEMA))
    assert (adapter.calls, client.session.budget.spent_tokens) == (3, 3 * 225)


@pytest.mark.parametrize(("prompt", "counted", "bound"), [("abc", 2, 2), ("aé", None, 3)])
def test_what_is_set_aside_is_the_prompts_tokens_or_its_bytes(tmp_path, prompt, counted, bound):
    retry = {"max_attempts": 2, "base_s": 0.01}
    client = session_of(tmp_path, max_tokens_overall=10_000, retry=retry).add(
        "sim", Failing(EngineError("busy", retryable=True))
    )
    with pytest.raises(EngineError):
        asyncio.run(client.ask(replace(REQUEST, prompt=prompt, prompt_tokens=counted)))
    # Nobody knows what a lost call used, so all that was set aside for each attempt counts as spent.
    each = bound + TEMPLATE_ALLOWANCE + REQUEST.decoding.max_tokens
    assert client.session.budget.spent_tokens == each * client.adapter.calls


def test_without_a_limit_the_budget_only_counts(tmp_path):
    free = session_of(tmp_path)
    context = CallContext("t", "i", "C0", (), "none", gold=lambda: "yes", wrong=lambda rng: "no")
    made = asyncio.run(free.add("sim").ask(replace(REQUEST, context=context)))
    assert (free.budget.max_tokens, free.budget.max_cost_usd, free.budget.calls) == (None, None, 1)
    assert made["text"] in ("yes", "no")


def test_opened_models_share_a_budget_and_are_closed(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(SimulatedAdapter, "close", lambda self: closed.append(self.model_id))
    models = {name: {**SIMULATED, "family": name} for name in ("one", "two")}
    limits = {"max_items_per_task": 1, "max_tokens_overall": 10_000}
    suite = load_suite(write_profile(tmp_path, models, limits=limits))

    async def main():
        async with open_models(suite, ["one", "two", "one"]) as session:
            assert list(session.clients) == ["one", "two"]
            assert session.clients["one"].session is session.clients["two"].session
            return session.budget

    assert asyncio.run(main()).spent_tokens == 0
    assert closed == ["one", "two"]


def test_the_next_question_of_a_row_has_a_seed_of_its_own():
    first = Request("Hello", Decoding("d0", 0.0, 1.0, 8), 3)
    second, again = first.then("retry-1", "Again", max_tokens=4), first.then("retry-1", "Other")
    assert second.seed == again.seed != first.seed
    assert first.then("retry-2", "Again").seed != second.seed
    assert (second.decoding.max_tokens, again.decoding.max_tokens, second.step) == (4, 8, "retry-1")
    assert first.then("retry-1", "Again", max_tokens=9).decoding.max_tokens == 8


def test_a_loop_that_ends_lets_nobody_wait_for_ever():
    """A thread whose call is under way, and one that comes too late, are both told at once."""
    begun, told = threading.Event(), []

    async def endless():
        begun.set()
        await asyncio.Event().wait()

    @asynccontextmanager
    async def opened():
        yield

    def wait_in(loop):
        try:
            loop.call(endless())
        except CancelledError:
            told.append("cancelled")

    with suppress(ZeroDivisionError), LoopThread() as loop, loop.entered(opened()):
        waiting = threading.Thread(target=wait_in, args=(loop,))
        waiting.start()
        assert begun.wait(10)
        raise ZeroDivisionError
    waiting.join(10)
    wait_in(loop)
    assert told == ["cancelled", "cancelled"]


def test_a_cost_budget_refuses_a_model_that_nobody_can_price(monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-0123456789abcdef")
    overrides = {"selection.models": ["openrouter/some/model"], "limits.max_cost_usd": 5}
    suite = load_suite("quickstart", overrides)

    async def opened():
        async with open_models(suite, suite.profile.selection.models, use_cache=False):
            pass

    with pytest.raises(
        ConfigError, match=r"max_cost_usd is \$5, but what model 'openrouter/some/model' costs"
    ):
        asyncio.run(opened())
    suite = load_suite("quickstart", overrides | {"model_options": {"*": {"price_in": 1, "price_out": 2}}})
    asyncio.run(opened())
