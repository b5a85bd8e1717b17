"""Write configs/prices_map_v1.yaml: prices in litellm's price map that prices_v1.yaml lacks, of declared providers.

Run: python scripts/make_price_list.py MAP.json --as-of 2026-03-22
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from pcsuite.config.price_maps import price_lines, read_price_map
from pcsuite.config.prices import ProviderPrices, price_table, undated

TARGET = Path(__file__).resolve().parents[1] / "configs" / "prices_map_v1.yaml"
HEADER = """\
# Prices of an earlier day for models that prices_v1.yaml does not have, USD per million tokens: [prompt, cached prompt,
# completion]. Made by scripts/make_price_list.py from the price map that litellm publishes; a newer one is read by
# pcsuite models prices --update FILE.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("map", type=Path, help="model_prices_and_context_window.json")
    parser.add_argument("--as-of", type=date.fromisoformat, required=True, help="day of the map")
    args = parser.parse_args()
    lists = {}
    for provider, prices in read_price_map(args.map, args.as_of).items():
        newer = price_table()[provider].models if provider in price_table() else {}
        # A snapshot that cost what its model did on that day costs what its model does today.
        models = {
            name: price
            for name, price in prices.models.items()
            if name not in newer
            and (undated(name) == name or prices.models.get(undated(name), newer.get(undated(name))) != price)
        }
        lists[provider] = ProviderPrices(as_of=prices.as_of, source=prices.source, models=models)
    TARGET.write_text(HEADER + price_lines(lists), encoding="utf-8")
    print(f"{TARGET.name}: " + ", ".join(f"{name} {len(each.models)}" for name, each in lists.items()))


if __name__ == "__main__":
    main()
