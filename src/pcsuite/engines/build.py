"""From a model entry of ``models_v1.yaml`` to an adapter."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from pcsuite.config.models import ModelSpec
from pcsuite.engines import ADAPTERS
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.errors import ConfigError, did_you_mean


def check_model(model_id: str, spec: ModelSpec) -> tuple[type[ModelAdapter], BaseModel]:
    """The provider's adapter class and the model's validated options, without building anything."""
    adapter = ADAPTERS.get(spec.provider)
    try:
        return adapter, adapter.Options.model_validate(spec.provider_options())
    except ValidationError as error:
        problems = [_problem(entry, adapter.Options) for entry in error.errors(include_url=False)]
        raise ConfigError(f"model '{model_id}' (provider {spec.provider}): " + "; ".join(problems)) from None


def build_adapter(model_id: str, spec: ModelSpec) -> ModelAdapter:
    """An adapter for the model, ready to be asked."""
    adapter, options = check_model(model_id, spec)
    return adapter(model_id, options)


def _problem(entry: Any, options: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        return f"unknown key '{key}' ({did_you_mean(key, options.model_fields)})"
    if entry["type"] == "missing":
        return f"'{key}' is required"
    message = str(entry["msg"]).removeprefix("Value error, ")
    return f"'{key}': {message}" if key else message
