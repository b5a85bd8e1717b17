"""Models by name: what ``provider/model`` stands for, where calls and keys go, and what overrides it."""

import json
import pickle
from importlib.util import find_spec
from pathlib import Path

import pytest

from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import load_suite
from pcsuite.config.model_names import NamedModels, changed_entry, model_by_name, provider_presets
from pcsuite.errors import ConfigError
from pcsuite.runners.plan import build_plan

PRESETS = provider_presets()


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch):
    for preset in PRESETS.values():
        monkeypatch.delenv(preset.url_env, raising=False)


@pytest.mark.parametrize(
    ("name", "family", "size", "params"),
    [
        ("openai/gpt-5.5", "gpt", "unknown", None),
        ("ollama/llama3.2:3b", "llama", "3B", 3.0),
        ("vllm/Qwen/Qwen3-8B-Instruct", "qwen", "8B", 8.0),
        ("together/mistralai/Mixtral-8x7B", "mixtral", "unknown", None),
        ("groq/llama-3.1-8b-instant", "llama", "8B", 8.0),
        ("hf/org/tiny-0.5b", "tiny", "0.5B", 0.5),
    ],
)
def test_family_and_size_are_read_from_the_name(name, family, size, params):
    spec = model_by_name(name)
    assert (spec.family, spec.size, spec.params_b) == (family, size, params)
    assert spec.provider == name.split("/")[0]


@pytest.mark.parametrize("name", ["gpt-5.5", "openai/", "/gpt", "nobody/gpt", "openai/ "])
def test_what_names_no_provider_is_no_model(name):
    assert model_by_name(name) is None
    assert name not in NamedModels({})


def test_a_profile_selects_models_by_name_without_an_entry():
    suite = load_suite("quickstart", {"selection.models": ["ollama/llama3.2", "openai/gpt-4.1-mini"]})
    plan = build_plan(suite)
    assert {cell.model_id for cell in plan.cells} == {"ollama/llama3.2", "openai/gpt-4.1-mini"}
    assert suite.models["ollama/llama3.2"].provider_options()["base_url"] == "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("opnai/gpt", "did you mean 'openai'"),
        ("openai/", "openai/MODEL"),
        ("zzz", "or PROVIDER/MODEL, for example openai/zzz"),
        ("gpt-4o", r"\(did you mean openai/gpt-4o\?\)"),
        ("Claude-Haiku-4-5", "did you mean anthropic/Claude-Haiku-4-5"),
        ("gemini-2.5-pro", "did you mean google/gemini-2.5-pro"),
        ("o3-mini", "did you mean openai/o3-mini"),
    ],
)
def test_an_unknown_name_says_how_models_are_named(name, said):
    with pytest.raises(ConfigError, match=said):
        load_suite("quickstart", {"selection.models": [name]})


def test_the_usual_variables_are_read(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9000/v1/")
    options = model_by_name("openai/m").provider_options()
    assert options["base_url"] == "http://127.0.0.1:9000/v1"
    # As with OpenAI's own client, the key goes along where there is one.
    assert (options["api_key_env"], options["api_key_required"]) == ("OPENAI_API_KEY", False)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("gpu-box", "http://gpu-box:11434/v1"),
        ("gpu-box:8000", "http://gpu-box:8000/v1"),
        ("https://gpu-box:8000", "https://gpu-box:8000/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("http://gpu-box:8000/v1", "http://gpu-box:8000/v1"),
    ],
)
def test_ollamas_variable_may_be_a_bare_host(host, address, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert model_by_name("ollama/m").provider_options()["base_url"] == address


@pytest.mark.parametrize(
    ("provider", "variable", "value", "address"),
    [
        # As the vendors' clients take them, without a version; as this suite takes them; behind a proxy's path.
        ("anthropic", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "https://gate.example/claude", "https://gate.example/claude/v1"),
        ("groq", "GROQ_BASE_URL", "https://api.groq.com", "https://api.groq.com/openai/v1"),
        ("groq", "GROQ_BASE_URL", "https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1"),
        ("groq", "GROQ_BASE_URL", "http://gate.example:8080/v1", "http://gate.example:8080/v1"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "https://g.example/", "https://g.example/v1beta"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "https://g.example/v1beta", "https://g.example/v1beta"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "https://g.example/v1alpha", "https://g.example/v1alpha"),
        ("mistral", "MISTRAL_BASE_URL", "https://api.mistral.ai", "https://api.mistral.ai/v1"),
        ("deepseek", "DEEPSEEK_BASE_URL", "https://api.deepseek.com", "https://api.deepseek.com/v1"),
        ("openai", "OPENAI_BASE_URL", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        # A path of one's own stays where the vendor's client adds nothing.
        ("openai", "OPENAI_BASE_URL", "https://gate.example/llm", "https://gate.example/llm"),
        ("openrouter", "OPENROUTER_BASE_URL", "https://openrouter.ai", "https://openrouter.ai/api/v1"),
    ],
)
def test_an_address_works_with_and_without_its_version(provider, variable, value, address, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert model_by_name(f"{provider}/m").provider_options()["base_url"] == address


@pytest.mark.parametrize(
    ("name", "omitted"),
    [
        ("openai/gpt-5.1-chat-latest", ("temperature", "top_p")),
        ("openai/gpt-5.2-chat-latest", ("temperature", "top_p")),
        ("openai/gpt-5.3-chat-latest", ("temperature", "top_p")),
        ("openai/gpt-5-chat-latest", ()),
        ("openai/gpt-5.4", ()),
        ("openai/gpt-5.4-pro", ("temperature", "top_p")),
        ("openai/gpt-5-mini", ("temperature", "top_p")),
        ("openai/o3", ("temperature", "top_p")),
        ("openai/gpt-4o", ()),
        ("anthropic/claude-fable-5", ("temperature", "top_p")),
        ("anthropic/claude-mythos-5", ("temperature", "top_p")),
        ("anthropic/claude-opus-4-6", ("top_p",)),
        ("anthropic/claude-opus-4-7", ("temperature", "top_p")),
        ("anthropic/claude-3-5-sonnet-20241022", ()),
    ],
)
def test_which_models_take_which_sampling_parameters(name, omitted):
    """By tables of another project that were tried live (its profiles of 2026-08-22)."""
    assert tuple(model_by_name(name).provider_options().get("omit", ())) == omitted


def test_every_line_of_the_capability_table_has_a_day_and_a_source():
    lines = [line for preset in PRESETS.values() for line in preset.by_model.values()]
    assert len(lines) >= 30
    assert all(line.as_of.year >= 2026 and len(line.source) > 5 for line in lines)


def test_an_entry_with_a_provider_and_no_address_has_the_declared_one():
    entries = {
        "mine": ModelSpec(provider="groq", family="f", size="1B", model="x", timeout_s=5),
        "own": ModelSpec(provider="openai", family="f", size="1B", base_url="http://127.0.0.1:1/v1"),
    }
    models = NamedModels(entries)
    mine = models["mine"].provider_options()
    assert mine["base_url"] == PRESETS["groq"].base_url
    assert (mine["api_key_env"], mine["timeout_s"]) == ("GROQ_API_KEY", 5)
    # An address of one's own gets nothing of the preset, the key least of all.
    assert models["own"] == entries["own"]


def test_options_override_an_entry_and_a_new_address_loses_the_key():
    changes = {"*": {"price_in": 1.0, "price_out": 2.0}, "openai/m": {"base_url": "http://127.0.0.1:1/v1"}}
    spec = NamedModels({}, changes)["openai/m"]
    assert (spec.price_in, spec.price_out) == (1.0, 2.0)
    assert "api_key_env" not in spec.provider_options()
    named = {"openai/m": {"base_url": "http://127.0.0.1:1/v1", "api_key_env": "MINE"}}
    assert NamedModels({}, named)["openai/m"].provider_options()["api_key_env"] == "MINE"


def test_a_value_that_no_entry_can_have_is_refused():
    with pytest.raises(ConfigError, match="options of model 'openai/m'"):
        NamedModels({}, {"*": {"price_in": -1, "price_out": 1}})["openai/m"]


def test_a_name_stays_what_it_was_also_in_another_process(monkeypatch):
    models = NamedModels({})
    first = models["openai/m"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9000/v1")
    assert models["openai/m"] is first
    assert pickle.loads(pickle.dumps(models))["openai/m"] == first


def test_prices_and_options_change_no_id_but_keys_that_change_requests_do():
    def ids(**options):
        overrides = {"selection.models": ["openai/gpt-4.1"], "limits.max_items_per_task": 1}
        plan = build_plan(load_suite("quickstart", overrides | {"model_options": {"*": options}}))
        return {unit.run_id for unit in plan.units("openai/gpt-4.1")}

    assert ids() == ids(price_cached=0.1, price_batch=0.5)
    assert ids() != ids(logprobs=True)


def test_an_address_for_all_is_for_models_that_are_asked_at_one_and_takes_no_key_along():
    entry = ModelSpec(
        provider="openai", family="f", size="1B", base_url="https://api.openai.com/v1", model="m", api_key_env="K",
        api_key_command=["print-key"],
    )  # fmt: skip
    local = ModelSpec(provider="llamacpp", family="f", size="1B", path="x.gguf")
    models = NamedModels({"mine": entry, "here": local, "judge": entry}, {"mine": {"timeout_s": 3}})
    moved = models.asked_at("http://127.0.0.1:8000/v1", ["mine", "here"], kept=["judge"])
    options = moved["mine"].provider_options()
    assert options == {"base_url": "http://127.0.0.1:8000/v1", "model": "m", "timeout_s": 3}
    assert moved["here"] == local
    assert moved["judge"] == entry
    assert moved["groq/x"].provider_options()["base_url"] == "http://127.0.0.1:8000/v1"
    assert models["mine"].provider_options()["base_url"] == "https://api.openai.com/v1"
    with pytest.raises(
        ConfigError, match=r"--base-url: model 'here' \(provider llamacpp\) is not asked at an address"
    ):
        models.asked_at("http://127.0.0.1:8000/v1", ["here"])


def test_the_providers_own_credentials_stay_with_its_address(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    spec = model_by_name("bedrock/amazon.nova-lite-v1:0")
    assert spec is not None
    assert spec.provider_options()["credentials"] == "aws"
    moved = changed_entry("m", spec, {"base_url": "https://proxy.example"}).provider_options()
    assert not {"credentials", "api_key_env"} & moved.keys()
    kept = changed_entry("m", spec, {"base_url": "https://proxy.example", "credentials": "aws"})
    assert kept.provider_options()["credentials"] == "aws"


def test_the_first_variable_that_is_set_gives_a_key_of_the_entry(monkeypatch):
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    spec = model_by_name("bedrock/m")
    assert spec is not None
    assert spec.provider_options()["region"] == "us-west-2"
    monkeypatch.setenv("AWS_REGION", " eu-west-1 ")
    again = model_by_name("bedrock/m")
    assert again is not None
    assert again.provider_options()["region"] == "eu-west-1"


def test_models_that_speak_the_responses_api_alone_are_those_of_a_public_map():
    found = find_spec("litellm")
    if found is None or found.origin is None:
        pytest.skip("litellm, whose map is the witness, is not installed")
    path = Path(found.origin).parent / "model_prices_and_context_window_backup.json"
    entries = json.loads(path.read_text("utf-8"))
    by_api = {
        name: entry["mode"] == "responses"
        for name, entry in entries.items()
        if entry.get("litellm_provider") == "openai"
        and entry.get("mode") in ("responses", "chat")
        and "/" not in name
    }
    assert sum(by_api.values()) >= 15
    wires = {name: model_by_name(f"openai/{name}").provider_options().get("wire") for name in by_api}
    wrong = [name for name, alone in by_api.items() if (wires[name] == "responses") is not alone]
    assert not wrong


def test_who_asks_changes_no_id_but_where_does():
    def ids(**options):
        overrides = {"selection.models": ["openai/gpt-4.1"], "limits.max_items_per_task": 1}
        plan = build_plan(load_suite("quickstart", overrides | {"model_options": {"*": options}}))
        return {unit.run_id for unit in plan.units("openai/gpt-4.1")}

    assert ids() == ids(api_key_command=["print-token"], api_key_lifetime_s=60)
    assert ids() != ids(wire="responses")
    spec = NamedModels({}, {"*": {"api_key_command": "print-token"}})["openai/gpt-4.1"]
    assert spec.written()["api_key_command"] == "print-token"
