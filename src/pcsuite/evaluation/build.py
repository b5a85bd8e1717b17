"""Building an evaluator from what a task says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.evaluation import EVALUATORS
from pcsuite.evaluation.base import Evaluator


def build_evaluator(
    name: str, options: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> Evaluator:
    """The evaluator ``name`` with its options checked; errors name the option and suggest the right one."""
    kind = EVALUATORS.get(name)
    try:
        checked = kind.Options.model_validate(dict(options or {}))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        hint = None
        if first["type"] == "extra_forbidden":
            hint = did_you_mean(key, kind.Options.model_fields)
        raise ConfigError(f"evaluator '{name}': option '{key}': {first['msg']}", hint=hint) from error
    return kind(checked, schema)
