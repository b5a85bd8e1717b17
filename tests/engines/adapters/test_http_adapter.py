"""Every declared provider against a server on loopback that speaks its wire: answers, errors, limits, redirects, keys."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from pcsuite.config.definitions import ModelSpec
from pcsuite.config.model_names import changed_entry, model_by_name, provider_presets
from pcsuite.config.prices import price_of
from pcsuite.engines import adapter_of
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, EngineError
from support.provider_server import CACHED, COMPLETION, PROMPT, ProviderServer

KEY = "sk-elsewhere-0123456789abcdef"
PRESETS = provider_presets()
GREEDY, SAMPLED = Decoding("d0", 0.0, 1.0, 32), Decoding("d1", 0.7, 0.95, 32)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
)
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock": "amazon.nova-lite-v1:0",
    "google": "gemini-2.5-flash",
    "openai": "gpt-4.1-mini",
    "vertex": "gemini-2.5-flash",
}
PLACES = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "a-project", "AZURE_RESOURCE_NAME": "a-resource"}
"""What stands in addresses, beside hosts."""


@pytest.fixture(autouse=True)
def _places(monkeypatch):
    for name, value in PLACES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=sorted(PRESETS))
def provider(request):
    return request.param


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "token"
    path.write_text(KEY)
    return path


@pytest.fixture
def named(monkeypatch, key_file):
    def build(provider: str, origin: str, **options) -> HttpAdapter:
        if provider == "vertex":  # it has no variable for a key
            options = {"api_key_command": f"cat {key_file}", **options}
        return by_name(provider, origin, monkeypatch, **options)

    return build


def by_name(provider: str, origin: str, monkeypatch, **options) -> HttpAdapter:
    """The provider's adapter as a user gets it by name, its address set by the provider's own variable."""
    preset = PRESETS[provider]
    monkeypatch.setenv(preset.url_env, origin + urlsplit(preset.base_url).path)
    if preset.key_env:
        monkeypatch.setenv(preset.key_env, KEY)
    name = f"{provider}/{MODELS.get(provider, 'some-model')}"
    spec = model_by_name(name)
    assert spec is not None
    adapter = build_adapter(name, changed_entry(name, spec, options) if options else spec)
    assert isinstance(adapter, HttpAdapter)
    return adapter


def answer(adapter: HttpAdapter, request: Request):
    async def once():
        try:
            return await adapter.agenerate(request)
        finally:
            await adapter.aclose()

    return asyncio.run(once())


def test_a_declared_server_is_spoken_to_by_the_adapter_of_its_wire():
    spoken = {provider: adapter_of(provider).__name__ for provider in PRESETS}
    assert spoken.pop("anthropic") == "AnthropicAdapter"
    assert spoken.pop("google") == "GeminiAdapter"
    assert spoken.pop("azure") == "AzureAdapter"
    assert spoken.pop("bedrock") == "BedrockAdapter"
    assert spoken.pop("vertex") == "VertexGeminiAdapter"
    assert set(spoken.values()) == {"OpenAIAdapter"}


def test_an_unknown_provider_is_named_with_the_closest_declared_one():
    with pytest.raises(ConfigError, match=r"unknown provider 'grok' \(did you mean 'groq'\?\)"):
        adapter_of("grok")


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED])
def test_each_answers_with_usage_and_its_key(provider, decoding, named):
    key = KEY if PRESETS[provider].key_env or provider == "vertex" else None
    with ProviderServer(key=key) as server:
        found = answer(named(provider, server.origin), Request("Capital of France?", decoding, 7))
    assert (found["text"], found["finish_reason"]) == ("Paris", "stop")
    assert found["usage"] == {
        "prompt_tokens": PROMPT,
        "completion_tokens": COMPLETION,
        "total_tokens": PROMPT + COMPLETION,
        "cached_tokens": CACHED,
        **({"reasoning_tokens": 2} if provider in ("google", "vertex") else {}),
    }
    assert found["latency_ms"] > 0
    ((_, headers, body),) = server.seen
    assert (KEY in str(headers)) is (key is not None)
    assert KEY not in str(body)


def test_each_enforces_a_schema_or_says_that_it_cannot(provider, named):
    asked = Request("Capital of France?", GREEDY, 0, Constraint("json_schema", SCHEMA))
    with ProviderServer() as server:
        adapter = named(provider, server.origin)
        assert ("json_schema" in PRESETS[provider].knows) is ("json_schema" in adapter.native_constraints)
        if "json_schema" not in PRESETS[provider].knows:
            with pytest.raises(EngineError, match="cannot be given"):
                answer(adapter, asked)
            return
        found = answer(adapter, asked)
    assert json.loads(found["text"]) == {"city": "Paris"}
    assert found["finish_reason"] == "stop"
    assert found["constraint_backend"].startswith("native:")
    assert '"city"' in json.dumps(server.seen[-1][2])


def test_each_gives_log_probabilities_where_it_knows_them(provider, named):
    if "logprobs" not in PRESETS[provider].knows:
        return
    with ProviderServer() as server:
        adapter = named(provider, server.origin, logprobs=True, api_key_env=None)
        found = answer(adapter, Request("Capital of France?", GREEDY))
    assert found["logprobs"] == [("Par", -0.1), ("is", -0.3)]


@pytest.mark.parametrize(
    ("fault", "status", "retryable"), [("429:0.01", 429, True), ("529", 529, True), ("400", 400, False)]
)
def test_each_tells_errors_and_limits(provider, fault, status, retryable, named):
    with ProviderServer([fault]) as server, pytest.raises(EngineError, match=f"fault {status}") as caught:
        answer(named(provider, server.origin), Request("Hi", GREEDY))
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert caught.value.retry_after == (0.01 if status == 429 else None)


def test_no_key_follows_a_redirect(provider, named):
    with (
        ProviderServer() as elsewhere,
        ProviderServer([f"redirect:{elsewhere.origin}/v1/chat/completions"]) as server,
    ):
        adapter = named(provider, server.origin)
        with pytest.raises(EngineError, match="307") as caught:
            answer(adapter, Request("Hi", GREEDY))
    assert not elsewhere.seen
    assert not caught.value.retryable
    assert KEY not in str(caught.value)


def test_without_a_variable_the_key_goes_to_the_declared_host_and_is_required(provider, monkeypatch):
    preset = PRESETS[provider]
    monkeypatch.delenv(preset.url_env, raising=False)
    if preset.key_env:
        monkeypatch.delenv(preset.key_env, raising=False)
    spec = model_by_name(f"{provider}/some-model")
    assert spec is not None
    assert spec.provider_options()["base_url"] == preset.base_url
    if "credentials" in preset.options:
        return  # the vendor's own: test_bedrock.py, test_vertex.py
    if preset.key_env is None or preset.self_hosted:
        assert build_adapter("m", spec)
        return
    with pytest.raises(ConfigError, match=f"{preset.key_env} is not set"):
        build_adapter("m", spec)


def test_an_address_of_ones_own_gets_no_key(provider, monkeypatch):
    preset = PRESETS[provider]
    if preset.key_env:
        monkeypatch.setenv(preset.key_env, KEY)
    monkeypatch.delenv(preset.url_env, raising=False)
    with ProviderServer() as server:
        spec = model_by_name(f"{provider}/some-model")
        assert spec is not None
        elsewhere = server.origin + urlsplit(preset.base_url).path
        moved = changed_entry("m", spec, {"base_url": elsewhere})
        adapter = build_adapter("m", moved)
        assert isinstance(adapter, HttpAdapter)
        answer(adapter, Request("Hi", GREEDY))
    assert KEY not in str(server.seen)


def test_a_model_on_another_host_has_no_listed_price():
    spec = ModelSpec(
        provider="openai", family="gpt", size="x", model="gpt-4.1", base_url="https://api.openai.com/v1"
    )
    assert price_of(spec) is not None
    assert price_of(changed_entry("m", spec, {"base_url": "https://proxy.example/v1"})) is None
