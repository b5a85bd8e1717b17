"""Models behind one interface, and the registry of providers."""

from __future__ import annotations

from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.registry import Registry

ADAPTERS: Registry[type[ModelAdapter]] = Registry(
    "provider",
    "pcsuite.adapters",
    {
        "hf": "pcsuite.engines.adapters.local_hf:LocalHfAdapter",
        "llamacpp": "pcsuite.engines.adapters.llamacpp:LlamaCppAdapter",
        "simulated": "pcsuite.engines.adapters.simulated:SimulatedAdapter",
        # The servers of providers_v1.yaml, by the wire they speak.
        "anthropic": "pcsuite.engines.adapters.anthropic_api:AnthropicAdapter",
        "google": "pcsuite.engines.adapters.gemini_api:GeminiAdapter",
        **dict.fromkeys(
            (
                "openai",
                "deepseek",
                "groq",
                "llama-server",
                "lmstudio",
                "mistral",
                "ollama",
                "openrouter",
                "sglang",
                "together",
                "vllm",
                "xai",
            ),
            "pcsuite.engines.adapters.openai_api:OpenAIAdapter",
        ),
    },
)
