"""Prices from litellm's public price map, a file that the user has: prices move faster than releases.

The map is one JSON object of models: ``{"mistral/open-mixtral": {"litellm_provider": "mistral", "mode": "chat",
"input_cost_per_token": 1e-07, …}}``. What is read of it is kept in the user's own price file, which goes
before the packaged lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from pcsuite._util.files import replace_atomically
from pcsuite.config.model_names import provider_presets
from pcsuite.config.prices import PriceTriple, ProviderPrices, forget_lists, updated_prices_path
from pcsuite.errors import ConfigError

SOURCE = "litellm price map"
_MODES = ("chat", "responses")
_LARGEST = 1e5
"""USD per million tokens above which a figure is no price."""


def read_price_map(path: Path, as_of: date | None = None) -> dict[str, ProviderPrices]:
    """The prices of declared providers' models in a price map, by provider.

    ``as_of`` is by default the day on which the file was last written. Models that are not asked for text, and prices
    of nothing that stand for "not known", are left out. Raises :class:`ConfigError` for a file that is no such map.
    """
    try:
        entries = json.loads(path.read_text("utf-8"))
        day = as_of or date.fromtimestamp(path.stat().st_mtime)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", hint=_WHERE) from None
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: no price map: it is no object of models", hint=_WHERE)
    named = {name: preset.price_map for name, preset in provider_presets().items()}
    patterns = {
        name: name if pattern is None else pattern for name, pattern in named.items() if pattern != ""
    }
    models: dict[str, dict[str, PriceTriple]] = {}
    for name, entry in entries.items():
        theirs = str(entry.get("litellm_provider")) if isinstance(entry, dict) else ""
        provider = next((ours for ours, pattern in patterns.items() if fnmatchcase(theirs, pattern)), None)
        price = _price(name, entry) if provider is not None else None
        if provider is not None and price is not None:
            # vertex_ai/claude-… is of the provider vertex_ai-anthropic_models.
            listed = name.removeprefix(f"{theirs}/").removeprefix(f"{theirs.partition('-')[0]}/")
            models.setdefault(provider, {})[listed] = price
    if not models:
        raise ConfigError(
            f"{path}: no price map: it has no price of a provider that is known here", hint=_WHERE
        )
    return {
        provider: ProviderPrices(as_of=day, source=SOURCE, models=dict(sorted(listed.items())))
        for provider, listed in sorted(models.items())
    }


_WHERE = "model_prices_and_context_window.json of the litellm project is wanted"


def _price(name: str, entry: Mapping[str, Any]) -> PriceTriple | None:
    """Prompt, cached prompt and completion in USD per million tokens; ``None`` where the entry has no such price."""
    if entry.get("mode") not in _MODES or name.startswith("ft:"):
        return None
    prompt, cached, completion = (
        _per_million(entry.get(key))
        for key in ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
    )
    if prompt is None or completion is None or (prompt == completion == 0 and not name.endswith(":free")):
        return None
    # A cached token never costs more than a fresh one: what says so is another unit.
    return prompt, cached if cached is not None and 0 < cached <= prompt else None, completion


def _per_million(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value * 1e6 <= _LARGEST:
        return None
    return round(value * 1e6, 6)


def price_lines(lists: Mapping[str, ProviderPrices]) -> str:
    """Price lists as the YAML of a prices file, a model a line."""
    lines = ['version: "1.0"', "prices:"]
    for provider, prices in lists.items():
        lines += [f"  {provider}:", f"    as_of: {prices.as_of.isoformat()}", f"    source: {prices.source}"]
        lines.append("    models:")
        for model, (prompt, cached, completion) in prices.models.items():
            quoted = json.dumps(model)
            figures = ", ".join(
                "null" if each is None else f"{each:g}" for each in (prompt, cached, completion)
            )
            lines.append(f"      {quoted}: [{figures}]")
    return "\n".join(lines) + "\n"


def update_prices(path: Path, as_of: date | None = None) -> dict[str, ProviderPrices]:
    """Keep the prices of a map as the user's own, in place of those kept before; returns them.

    Raises :class:`ConfigError` where the map cannot be read or the price file not written.
    """
    lists = read_price_map(path, as_of)
    target = updated_prices_path()
    content = (
        f"# Written by pcsuite models prices --update; goes before the packaged lists.\n{price_lines(lists)}"
    )
    assert yaml.safe_load(content)["prices"].keys() == lists.keys()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(target, content)
    except OSError as error:
        raise ConfigError(
            f"{target}: cannot be written ({error.strerror or error})", hint="PCS_PRICES names another file"
        ) from None
    forget_lists()
    return lists
