"""Write configs/prices_map_v1.yaml: prices in litellm's price map that prices_v1.yaml lacks, of declared providers.

A provider is taken whole from the first map that has it: the newest no longer lists OpenRouter's models.

Run: python scripts/make_price_list.py NEWEST.json=2026-11-17 OLDER.json=2026-03-22
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from pcsuite.config.price_maps import price_lines, read_price_map
from pcsuite.config.prices import ProviderPrices, price_table, undated

TARGET = Path(__file__).resolve().parents[1] / "configs" / "prices_map_v1.yaml"
HEADER = """\
# Prices of models that prices_v1.yaml does not have, USD per million tokens: [prompt, cached prompt, completion].
# Made by scripts/make_price_list.py from the price map that litellm publishes; a newer one is read by
# pcsuite models prices --update FILE.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about = "model_prices_and_context_window.json and its day, the newest first"
    parser.add_argument("maps", nargs="+", metavar="MAP=DAY", help=about)
    args = parser.parse_args()
    from_maps: dict[str, ProviderPrices] = {}
    for path, _, day in (each.rpartition("=") for each in args.maps):
        from_maps = read_price_map(Path(path), date.fromisoformat(day)) | from_maps
    lists = {}
    for provider, prices in sorted(from_maps.items()):
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
