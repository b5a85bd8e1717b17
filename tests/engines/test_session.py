from __future__ import annotations

from pathlib import Path

import pytest

from pcsuite.config.definitions import ModelsFile, ModelSpec
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.engines.adapters.openai_api import Redactor
from pcsuite.engines.adapters.simulated import SimulatedAdapter
from pcsuite.engines.session import build_adapter, check_model
from pcsuite.errors import ConfigError


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
        ({"base_acuracy": 0.5}, "unknown key 'base_acuracy' .*did you mean 'base_accuracy'"),
        ({"provider": "simulatd"}, "unknown provider 'simulatd' .*did you mean 'simulated'"),
        ({"provider": "openai"}, "model 'm' .provider openai.: 'base_url' is required"),
        ({"provider": "llamacpp"}, "give either 'weights' .* or 'path'"),
        ({"provider": "llamacpp", "weights": "a", "path": "b"}, "give either 'weights'"),
        ({"provider": "llamacpp", "weights": "a", "workers": 0}, "'workers'"),
    ],
)
def test_wrong_keys_are_one_clear_line(keys, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_model("m", spec(**keys))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh12345678",
        "api_key=abcdefgh12345678 was refused",
        '{"api-key": "abcdefgh12345678"}',
        "Incorrect API key provided: sk-abcdefgh12345678.",
        "my-own-secret is wrong",
    ],
)
def test_redaction(text):
    cleaned = Redactor(["my-own-secret"])(text)
    assert "abcdefgh" not in cleaned
    assert "my-own-secret" not in cleaned
    assert "***" in cleaned


def test_redaction_leaves_ordinary_words():
    text = "request (5031 tokens) exceeds the available context size; token limit: 4096"
    assert Redactor([""])(text) == text
