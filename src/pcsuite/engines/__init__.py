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
        "openai": "pcsuite.engines.adapters.openai_api:OpenAIAdapter",
        "simulated": "pcsuite.engines.adapters.simulated:SimulatedAdapter",
    },
)
