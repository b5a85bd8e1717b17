"""Prices: the entry's, the table's, or none; and what a call costs by them."""

import pytest

from pcsuite.config.definitions import ModelSpec
from pcsuite.config.model_names import model_by_name, provider_presets
from pcsuite.config.prices import Price, price_of, price_table, price_words


def entry(**keys) -> ModelSpec:
    return ModelSpec(**{"provider": "openai", "family": "f", "size": "1B", **keys})


def test_a_call_costs_fresh_and_cached_tokens_and_half_in_a_batch():
    price = Price(2.0, 8.0, 0.5, 0.5, "stated")
    # 600 fresh at $2, 400 cached at $0.5 and 500 out at $8 a million.
    assert price.cost(1000, 500, 400) == pytest.approx((600 * 2 + 400 * 0.5 + 500 * 8) / 1e6)
    assert price.cost(1000, 500, 400, batch=True) == pytest.approx(price.cost(1000, 500, 400) / 2)


def test_the_table_is_asked_where_the_entry_has_no_price():
    listed = price_of(model_by_name("openai/gpt-5.5"))
    assert (listed.price_in, listed.price_cached, listed.price_out, listed.batch) == (5.0, 0.5, 30.0, 0.5)
    assert listed.source == f"openai price list, {price_table()['openai'].as_of.isoformat()}"
    assert "$5 in, $0.5 cached, $30 out" in price_words(model_by_name("openai/gpt-5.5"))


@pytest.mark.parametrize(
    "name",
    ["openai/gpt-4.1-2025-04-14", "anthropic/claude-haiku-4-5-20251001", "google/gemini-2.5-flash-latest"],
)
def test_a_dated_name_has_the_price_of_its_model(name):
    assert price_of(model_by_name(name)) is not None


@pytest.mark.parametrize("name", ["openai/never-heard-of", "openrouter/openai/none-such", "mistral/tiny"])
def test_what_is_not_listed_has_no_price(name):
    assert price_of(model_by_name(name)) is None
    assert "price unknown" in price_words(model_by_name(name))


def test_ones_own_server_and_computer_cost_nothing_a_token():
    for spec in (
        model_by_name("vllm/m"),
        model_by_name("hf/m"),
        entry(base_url="http://127.0.0.1:8000/v1", model="gpt-4.1"),
        entry(provider="simulated"),
    ):
        assert price_of(spec).cost(10**6, 10**6) == 0


def test_an_entry_overrides_the_table_whole_or_in_part():
    named = model_by_name("openai/gpt-4.1").written()
    own = price_of(ModelSpec(**named | {"price_in": 1.0, "price_out": 3.0}))
    assert (own.price_in, own.price_cached, own.batch, own.source) == (1.0, 1.0, 0.5, "as configured")
    part = price_of(ModelSpec(**named | {"price_cached": 0.1, "price_batch": 0.25}))
    assert (part.price_in, part.price_cached, part.batch) == (2.0, 0.1, 0.25)


def test_the_table_is_of_declared_providers_and_cached_tokens_cost_no_more():
    for provider, prices in price_table().items():
        assert provider in provider_presets()
        for price_in, cached, price_out in prices.models.values():
            assert 0 < price_in <= price_out
            assert cached is None or cached <= price_in
