"""Models behind one interface, and the registry of adapters.

A provider is an adapter's name, or a server declared in ``providers_v1.yaml``, whose ``wire`` names the adapter that
speaks it: a further server of a known wire is its entry there alone. Where a server speaks several, a model's own entry
names its wire.
"""

from __future__ import annotations

from pcsuite.config.model_names import provider_presets
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.registry import Registry

ADAPTERS: Registry[type[ModelAdapter]] = Registry(
    "adapter",
    "pcsuite.adapters",
    {
        "hf": "pcsuite.engines.adapters.local_hf:LocalHfAdapter",
        "llamacpp": "pcsuite.engines.adapters.llamacpp:LlamaCppAdapter",
        "vllm-offline": "pcsuite.engines.adapters.vllm_offline:VllmOfflineAdapter",
        "simulated": "pcsuite.engines.adapters.simulated:SimulatedAdapter",
        "target": "pcsuite.engines.adapters.target:TargetAdapter",
        "anthropic": "pcsuite.engines.adapters.anthropic_api:AnthropicAdapter",
        "google": "pcsuite.engines.adapters.gemini_api:GeminiAdapter",
        "openai": "pcsuite.engines.adapters.openai_api:OpenAIAdapter",
        "responses": "pcsuite.engines.adapters.responses_api:ResponsesAdapter",
        "azure": "pcsuite.engines.adapters.azure_openai:AzureAdapter",
        "azure-responses": "pcsuite.engines.adapters.azure_openai:AzureResponsesAdapter",
        "bedrock": "pcsuite.engines.adapters.bedrock:BedrockAdapter",
        "bedrock-anthropic": "pcsuite.engines.adapters.bedrock:BedrockClaudeAdapter",
        "vertex": "pcsuite.engines.adapters.vertex:VertexGeminiAdapter",
        "vertex-anthropic": "pcsuite.engines.adapters.vertex:VertexClaudeAdapter",
        "vertex-openai": "pcsuite.engines.adapters.vertex:VertexOpenAIAdapter",
    },
)


def adapter_of(provider: str, wire: str | None = None) -> type[ModelAdapter]:
    """The adapter class of a provider: of a declared server the one that speaks its wire, else that of its own name.

    ``wire`` is the one that a model's entry names instead. Raises :class:`ConfigError` for a provider or a wire that is
    none, with the closest one.

    >>> adapter_of("groq").__name__, adapter_of("openai", "responses").__name__
    ('OpenAIAdapter', 'ResponsesAdapter')
    """
    preset = provider_presets().get(provider)
    if preset is None and provider not in ADAPTERS:
        hint = did_you_mean(provider, [*ADAPTERS, *provider_presets()])
        raise ConfigError(f"unknown provider '{provider}'", hint=hint)
    if wire is not None and wire not in ADAPTERS:
        raise ConfigError(f"wire: no adapter speaks '{wire}'", hint=did_you_mean(wire, ADAPTERS))
    return ADAPTERS.get(wire or (provider if preset is None else preset.wire))
