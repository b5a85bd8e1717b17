"""What calls cost: prices of a model's entry, else the user's own price file, else the dated lists in the package.

A price that is not known is ``None`` all the way: plans and reports say so, and a cost budget refuses such a model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from pcsuite.config.definitions import Definition, ModelSpec
from pcsuite.config.model_names import local_providers, provider_presets
from pcsuite.config.yaml_source import YamlSource, bundled_configs

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)\Z")


def undated(model: str) -> str:
    """A model's name without the day of its snapshot, by which it is listed unless that has a price of its own.

    >>> undated("gpt-4.1-2025-04-14"), undated("mistral-small-latest")
    ('gpt-4.1', 'mistral-small')
    """
    return _DATED.sub("", model)


PriceTriple = tuple[float, float | None, float]
"""Prompt, cached prompt (``None``: as the prompt) and completion, USD per million tokens."""


class ProviderPrices(Definition):
    """The prices of one provider's models."""

    as_of: date
    """Day the list was read."""
    source: str
    """The provider's price list."""
    batch: float = Field(default=1.0, gt=0, le=1)
    """Share of the price that a call in a batch costs."""
    models: dict[str, PriceTriple]
    """Prompt, cached prompt and completion, USD per million tokens, by the model's name on the server."""


class PricesFile(Definition):
    """``prices_v1.yaml``."""

    version: str
    """Version of the table."""
    prices: dict[str, ProviderPrices]
    """By provider."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens, and where that was taken from."""

    price_in: float
    price_out: float
    price_cached: float
    """Of prompt tokens that the server had cached."""
    batch: float
    """Share of all three that a call in a batch costs."""
    source: str

    def cost(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int = 0,
        *,
        batch: bool = False,
    ) -> float:
        """Price of so many tokens in USD.

        ``cached_tokens`` are those of the prompt tokens that were cached.

        >>> Price(2.0, 8.0, 0.5, 0.5, "").cost(1000, 500, 400)
        0.0054
        """
        cached = min(cached_tokens, prompt_tokens)
        prompt = (prompt_tokens - cached) * self.price_in + cached * self.price_cached
        total = prompt + completion_tokens * self.price_out
        return total * (self.batch if batch else 1.0) / 1e6

    def describe(self) -> str:
        """The price in words: ``$2.5 in, $0.25 cached, $15 out per million tokens (openai price list, 2026-11-16)``."""
        if not self.price_in and not self.price_out:
            return f"no price per token ({self.source})"
        cached = f", ${self.price_cached:g} cached" if self.price_cached != self.price_in else ""
        batch = f", batches at {self.batch:g} of it" if self.batch != 1 else ""
        figures = f"${self.price_in:g} in{cached}, ${self.price_out:g} out per million tokens{batch}"
        return f"{figures} ({self.source})"


def updated_prices_path() -> Path:
    """The user's own price file, which ``pcsuite models prices --update`` writes: the one that ``PCS_PRICES`` names."""
    named = os.environ.get("PCS_PRICES")
    return Path(named).expanduser() if named else Path.home() / ".config" / "pcsuite" / "prices.yaml"


@lru_cache(maxsize=1)
def price_table() -> Mapping[str, ProviderPrices]:
    """The package's own prices by provider; not to be changed."""
    return _read_prices(bundled_configs() / "prices_v1.yaml")


@lru_cache(maxsize=1)
def price_lists() -> tuple[Mapping[str, ProviderPrices], ...]:
    """All price lists by provider, the one that goes first at the head.

    The user's own, the package's, and a longer one of the package. Raises :class:`ConfigError` where the
    user's cannot be read.
    """
    updated = updated_prices_path()
    lists = (_read_prices(updated),) if updated.is_file() else ()
    return (*lists, price_table(), _read_prices(bundled_configs() / "prices_map_v1.yaml"))


def forget_lists() -> None:
    """Read the price lists anew at the next question."""
    price_lists.cache_clear()
    _listed_price.cache_clear()


def priced_models(provider: str) -> dict[str, ProviderPrices]:
    """The models of a provider whose price is listed, each with the list that goes first for it."""
    models: dict[str, ProviderPrices] = {}
    for prices in price_lists():
        for model in prices[provider].models if provider in prices else ():
            models.setdefault(model, prices[provider])
    return models


def _read_prices(path: Path) -> Mapping[str, ProviderPrices]:
    return YamlSource.read(path).parse(PricesFile).prices


def price_of(spec: ModelSpec) -> Price | None:
    """What a model's calls cost, or ``None`` where nobody has said.

    Prices of the entry go first; then models that run here or on a server of the user's own cost nothing a token; then
    the table is asked for a model on its provider's own host. Servers elsewhere have no price.

    >>> price_of(ModelSpec(provider="openai", family="x", size="7B", price_in=2.0, price_out=8.0)).price_out
    8.0
    """
    options = spec.provider_options()
    base_url, model = str(options.get("base_url", "")), str(options.get("model", ""))
    price = _listed_price(spec.provider, base_url, model)
    if spec.price_in is not None and spec.price_out is not None:
        share = price.batch if price is not None else 1.0
        price = Price(spec.price_in, spec.price_out, spec.price_in, share, "as configured")
    configured = {"price_cached": spec.price_cached, "batch": spec.price_batch}
    changes: dict[str, Any] = {key: value for key, value in configured.items() if value is not None}
    return None if price is None else replace(price, **changes)


def price_words(spec: ModelSpec) -> str:
    """What is assumed of a model's price, in words, also where nothing is known.

    >>> price_words(ModelSpec(provider="simulated", family="x", size="7B"))
    'no price per token (computed here)'
    """
    price = price_of(spec)
    return "price unknown: set price_in and price_out" if price is None else price.describe()


@lru_cache(maxsize=256)
def _listed_price(provider: str, base_url: str, model: str) -> Price | None:
    preset = provider_presets().get(provider)
    if provider in local_providers():
        return Price(0.0, 0.0, 0.0, 1.0, "computed here")
    host = urlsplit(base_url).hostname
    if (preset is not None and preset.self_hosted) or host in _LOOPBACK:
        return Price(0.0, 0.0, 0.0, 1.0, "self-hosted")
    if preset is None or host != urlsplit(preset.base_url).hostname:
        return None
    models = priced_models(provider)
    # A dated name may have a price of its own (gpt-4o-2024-05-13), in whatever list.
    name = model if model in models else undated(model)
    if name not in models:
        return None
    listed = models[name]
    price_in, cached, price_out = listed.models[name]
    newest = price_table().get(provider)
    list_name = f"{provider} price list" if listed is newest else listed.source
    source = f"{list_name}, {listed.as_of.isoformat()}"
    batch = newest.batch if newest is not None else listed.batch
    return Price(price_in, price_out, price_in if cached is None else cached, batch, source)
