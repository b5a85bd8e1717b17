"""Prices from litellm's map: what is read of it, where it is kept, and that it goes first."""

import json
from datetime import date

import pytest

from pcsuite.config.model_names import model_by_name
from pcsuite.config.price_maps import read_price_map, update_prices
from pcsuite.config.prices import forget_lists, price_of, priced_models
from pcsuite.errors import ConfigError

MAP = {
    "sample_spec": {"litellm_provider": "one of", "mode": "one of: chat", "input_cost_per_token": 0.0},
    "gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 9e-06, "output_cost_per_token": 2e-05, "cache_read_input_token_cost": 1e-06},
    "gemini/gemini-2.5-pro": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 1.5e-06, "output_cost_per_token": 1e-05},
    "together_ai/org/model": {"litellm_provider": "together_ai", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07},
    "mistral/voxtral": {"litellm_provider": "mistral", "mode": "audio_transcription", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07},
    "gemini/gemini-exp": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "openrouter/a/b:free": {"litellm_provider": "openrouter", "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "ft:gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-05, "output_cost_per_token": 2e-05},
    "xai/odd": {"litellm_provider": "xai", "mode": "chat", "input_cost_per_token": "cheap", "output_cost_per_token": True},
    "nobody/x": {"litellm_provider": "nobody", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
    "amazon.nova-lite-v1:0": {"litellm_provider": "bedrock_converse", "mode": "chat", "input_cost_per_token": 6e-08, "output_cost_per_token": 2.4e-07},
    "bedrock/us-east-1/anthropic.claude-v1": {"litellm_provider": "bedrock", "mode": "chat", "input_cost_per_token": 8e-06, "output_cost_per_token": 2.4e-05},
    "vertex_ai/claude-x@20250101": {"litellm_provider": "vertex_ai-anthropic_models", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05},
    "gemini-2.5-pro": {"litellm_provider": "vertex_ai-language-models", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05},
    "azure/gpt-4o": {"litellm_provider": "azure", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05},
    "broken": 5,
}  # fmt: skip


@pytest.fixture
def price_map(tmp_path):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(MAP))
    return path


@pytest.fixture
def _own_prices(tmp_path, monkeypatch):
    monkeypatch.setenv("PCS_PRICES", str(tmp_path / "config" / "prices.yaml"))
    forget_lists()
    yield
    forget_lists()


def test_what_is_read_of_a_map(price_map):
    lists = read_price_map(price_map, date(2026, 11, 1))
    assert {provider: prices.models for provider, prices in lists.items()} == {
        "bedrock": {"amazon.nova-lite-v1:0": (0.06, None, 0.24)},
        "vertex": {"claude-x@20250101": (3.0, None, 15.0), "gemini-2.5-pro": (2.0, None, 10.0)},
        "google": {"gemini-2.5-pro": (1.5, None, 10.0)},
        "openai": {"gpt-4o": (9.0, 1.0, 20.0)},
        "openrouter": {"a/b:free": (0.0, None, 0.0)},
        "together": {"org/model": (0.1, None, 0.1)},
    }
    assert lists["openai"].as_of == date(2026, 11, 1)


@pytest.mark.usefixtures("_own_prices")
def test_an_update_goes_before_the_packaged_prices_and_the_rest_stays(price_map):
    before = price_of(model_by_name("openai/gpt-4.1"))
    update_prices(price_map, date(2026, 11, 1))
    price = price_of(model_by_name("openai/gpt-4o"))
    assert (price.price_in, price.price_cached, price.price_out) == (9.0, 1.0, 20.0)
    assert price.source == "litellm price map, 2026-11-01"
    assert price.batch == 0.5  # the provider's share for batches is no part of the map
    assert price_of(model_by_name("openai/gpt-4.1")) == before
    assert "org/model" in priced_models("together")


@pytest.mark.usefixtures("_own_prices")
@pytest.mark.parametrize("content", ["{", "[1]", "{}", '{"m": {"litellm_provider": "nobody"}}'])
def test_what_is_no_map_is_one_clear_line_and_changes_nothing(content, tmp_path):
    path = tmp_path / "no.json"
    path.write_text(content)
    before = price_of(model_by_name("openai/gpt-4o"))
    with pytest.raises(ConfigError, match=r"no\.json.*model_prices_and_context_window\.json") as caught:
        update_prices(path)
    assert "\n" not in str(caught.value)
    assert price_of(model_by_name("openai/gpt-4o")) == before


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("openai/gpt-4o-2024-05-13", (5.0, 15.0)),
        ("openai/gpt-4o-2024-11-20", (2.5, 10.0)),
        ("openai/gpt-4o", (2.5, 10.0)),
        ("mistral/mistral-large-latest", (0.5, 1.5)),
        ("xai/grok-4.3", (1.25, 2.5)),
        ("openrouter/anthropic/claude-sonnet-4.5", (3.0, 15.0)),
        ("anthropic/claude-haiku-4-5-20251001", (1.0, 5.0)),
    ],
)
def test_prices_of_the_package_by_the_providers_public_lists(name, figures):
    price = price_of(model_by_name(name))
    assert (price.price_in, price.price_out) == figures
