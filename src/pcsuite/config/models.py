"""``models_v1.yaml``: the models a profile can select."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from pcsuite.config.base import Definition


class ModelSpec(Definition):
    """One model. Keys that are not listed here belong to the provider, whose ``Options`` check them."""

    model_config = ConfigDict(extra="allow")

    provider: str
    """Name in the adapter registry: llamacpp, openai, hf, simulated, or a plugin's."""
    family: str
    """Model family, a fixed effect of the mixed model."""
    size: str
    """Size class as shown in tables, for example ``7B``."""
    params_b: float | None = Field(default=None, gt=0)
    """Parameters in billions; leave out where they are not published."""
    price_in: float = Field(default=0.0, ge=0)
    """USD per million prompt tokens."""
    price_out: float = Field(default=0.0, ge=0)
    """USD per million completion tokens."""

    def provider_options(self) -> dict[str, Any]:
        """The provider's own keys."""
        return dict(self.model_extra or {})

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Price of a call in USD."""
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6
