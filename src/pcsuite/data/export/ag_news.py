"""AG News topics: the CSV files of Zhang et al. (2015), or the hub's joined text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from pcsuite.data.export.base import (
    SPLIT_SEED,
    Built,
    Exporter,
    ExportOptions,
    HubTable,
    HubTables,
    OriginalFiles,
    items_output,
    numbered,
    squeeze,
)
from pcsuite.data.items import Item, Row, split_off
from pcsuite.errors import DataError

HUB = HubTable("ag_news", "fancyzhx/ag_news")
LABELS = ("World", "Sports", "Business", "Sci/Tech")
DEV_ITEMS = 5000

# The published files lost the ampersand of many escapes to a blank: " #39;" stands for "&#39;".
_BARE_NUMERIC = re.compile(r"(?<!&) ?#(\d{2,5}|x[0-9a-fA-F]{2,5});")
_BARE_NAMED = re.compile(r" (quot|amp|lt|gt|nbsp|hellip|apos|[mn]dash|[lr][sd]quo);")
# Only tags that are HTML: "<MSFT.O>" is a ticker and stays.
_TAG = re.compile(
    r"</?(?:a|b|br|cite|em|font|i|img|li|nobr|p|span|strong|table|td|tr|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)


class Article(NamedTuple):
    """Title and description joined by a blank, as the hub has them, and the label's index from 0."""

    text: str
    label: int


def clean_text(text: str) -> str:
    """Undo HTML escapes, whole or bare, drop HTML tags and the backslashes that stood for line ends."""
    text = _BARE_NUMERIC.sub(r"&#\1;", text)
    text = _BARE_NAMED.sub(r"&\1;", f" {text}")
    for _ in range(2):  # some escapes were escaped twice
        text = html.unescape(text)
    return squeeze(_TAG.sub(" ", text).replace("\\", " "))


class AgNewsExporter(Exporter[dict[str, list[Article]]]):
    """Test as published; dev is 5,000 of train by the fixed seed, train is the rest."""

    name = "ag_news"
    folders = ("ag_news", "ag_news_csv", "agnews")
    official: ClassVar = {"train": 120000, "test": 7600}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Article]]:
        paths = {
            "train": files.need("train.csv", "train_part_*.csv", split="train"),
            "test": files.need("test.csv", split="test"),
        }
        return {split: list(_articles(files, path)) for split, path in paths.items()}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Article]]:
        return {split: [_hub_article(row) for row in hub.rows(HUB, split)] for split in ("train", "test")}

    def build(self, records: dict[str, list[Article]], options: ExportOptions) -> Built:
        items = {split: _items(split, articles) for split, articles in records.items()}
        dev, train = split_off(items["train"], DEV_ITEMS, "ag_news_dev", SPLIT_SEED)
        return Built(
            [
                items_output(self.name, "test", items["test"]),
                items_output(self.name, "train", train),
                items_output(self.name, "dev", dev),
            ]
        )


def _items(split: str, articles: list[Article]) -> list[Item]:
    return [
        Item(numbered("ag_news", split, position), clean_text(article.text), {"label": LABELS[article.label]})
        for position, article in enumerate(articles, start=1)
    ]


def _articles(files: OriginalFiles, path: Path) -> Iterator[Article]:
    first = True
    for line, (label, title, description) in files.csv_cells(path, 3):
        is_header, first = first and not label.strip().isdigit(), False
        if is_header:
            continue
        if label.strip() not in {"1", "2", "3", "4"}:
            raise DataError(f"{files.label(path)} line {line}: class index should be 1 to 4, found '{label}'")
        yield Article(f"{title} {description}", int(label) - 1)


def _hub_article(row: Row) -> Article:
    label = row.get("label")
    if label not in range(4):
        raise row.error(f"'label' should be 0 to 3, found {label!r}")
    return Article(row.text("text"), int(label))
