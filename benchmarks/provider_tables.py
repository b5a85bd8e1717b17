"""Hold the tables of providers against witnesses: which model refuses a temperature, and what its tokens cost.

Sampling parameters: the profiles of an installed pydantic-ai (in an environment of its own, best), for every model of
OpenAI and Anthropic that it names. Prices: litellm's public price map, a file; a price that is asked for by the model's
name as users write it must be the map's, where the map has it, or that of the newer list.

Run: python benchmarks/provider_tables.py [--profiles] [--prices MAP.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from pcsuite.config.model_names import model_by_name, provider_presets
from pcsuite.config.price_maps import read_price_map
from pcsuite.config.prices import price_of, price_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profiles", action="store_true", help="compare with the installed pydantic-ai")
    parser.add_argument("--prices", type=Path, metavar="MAP", help="compare with litellm's price map")
    args = parser.parse_args()
    if args.profiles:
        compare_profiles()
    if args.prices is not None:
        compare_prices(args.prices)


def compare_profiles() -> None:
    """Which models would be sent a temperature, by both tables."""
    from pydantic_ai import __version__
    from pydantic_ai.models import KnownModelName
    from pydantic_ai.profiles.anthropic import anthropic_model_profile
    from pydantic_ai.profiles.openai import openai_model_profile

    names = sorted({name.replace(":", "/", 1) for name in _names(KnownModelName)})
    compared = different = 0
    for name in names:
        provider, _, model = name.partition("/")
        if provider not in ("openai", "anthropic"):
            continue
        spec = model_by_name(name)
        assert spec is not None
        options = spec.provider_options()
        if provider == "openai":
            profile = openai_model_profile(model)
            always = profile.get("thinking_always_enabled", False)
            by_default = profile.get(
                "openai_reasoning_enabled_by_default", profile.get("thinking_enabled_by_default")
            )
            told = options.get("extra_body", {}).get("reasoning_effort") == "none"
            can_be_told = profile.get("openai_supports_reasoning_effort_none", False)
            # Told not to reason, it takes one; a model that cannot be told must not be.
            takes = not always and ((told and can_be_told) or (not told and not by_default))
        else:
            takes = not anthropic_model_profile(model).get("anthropic_disallows_sampling_settings", False)
        ours = "temperature" not in options.get("omit", ())
        compared += 1
        if ours != takes:
            different += 1
            print(f"  {name}: {'sent' if ours else 'not sent'} here, {'taken' if takes else 'refused'} there")
    print(f"temperature: {compared - different} of {compared} models as in pydantic-ai {__version__}")


def _names(kind: object) -> list[str]:
    """The names in a type of literals, whatever it is wrapped in."""
    kind = getattr(kind, "__value__", kind)
    parts = get_args(kind)
    return [name for part in parts for name in ([part] if isinstance(part, str) else _names(part))]


def compare_prices(path: Path) -> None:
    """How many models of the map have a price here, and how many have another."""
    for provider, prices in read_price_map(path).items():
        newer = price_table()[provider].models if provider in price_table() else {}
        priced = different = 0
        for model, (prompt, _, completion) in prices.models.items():
            spec = model_by_name(f"{provider}/{model}")
            price = price_of(spec) if spec is not None else None
            priced += price is not None
            if price is not None and (price.price_in, price.price_out) != (prompt, completion):
                different += 1
                source = "the newer list" if model in newer else "an earlier one"
                figures = f"{price.price_in:g}, {price.price_out:g} by {source}"
                print(f"  {provider}/{model}: {figures}; the map has {prompt:g}, {completion:g}")
        print(f"{provider}: {priced} of {len(prices.models)} models have a price, {different} another one")
    missing = [
        name
        for name, preset in provider_presets().items()
        if not preset.self_hosted and name not in price_table()
    ]
    print(f"providers with no list of their own: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
