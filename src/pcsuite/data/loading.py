"""Where items come from: the exported file in the cache, else the sample bundled with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from pcsuite.data.items import Item
from pcsuite.data.jsonl import Row, read_jsonl
from pcsuite.errors import DataError, did_you_mean

SAMPLES = Path(str(files("pcsuite.data"))) / "samples"
"""Folder of the bundled mini sets."""


class ItemSource(NamedTuple):
    """Which file items were read from."""

    kind: Literal["cache", "sample"]
    path: Path

    def describe(self) -> str:
        """How runs and reports name the source."""
        return "exported dataset" if self.kind == "cache" else "bundled sample"

    @property
    def root(self) -> Path:
        """Folder that file names inside items start from: the cache folder, or that of the samples."""
        return self.path.parent.parent if self.kind == "cache" else self.path.parent


class LoadedItems(NamedTuple):
    """Items of one split, and where they came from."""

    items: list[Item]
    source: ItemSource


def datasets_dir(cache_dir: Path) -> Path:
    """Folder of exported items under a cache folder."""
    return cache_dir / "datasets"


def find_items(dataset: str, split: str, cache_dir: Path, *, samples: Path = SAMPLES) -> ItemSource:
    """Locate the items file of a split without reading it."""
    name = f"{dataset}_{split}.jsonl"
    cached = datasets_dir(cache_dir) / name
    if cached.is_file():
        return ItemSource("cache", cached)
    bundled = samples / name
    if bundled.is_file():
        return ItemSource("sample", bundled)
    known = {path.stem for folder in (datasets_dir(cache_dir), samples) for path in folder.glob("*.jsonl")}
    raise DataError(
        f"no items for dataset '{dataset}', split '{split}': neither {cached} nor a bundled sample exists",
        hint=f"{did_you_mean(f'{dataset}_{split}', known)} or run: pcsuite export-datasets",
    )


def load_items(dataset: str, split: str, cache_dir: Path, *, samples: Path = SAMPLES) -> LoadedItems:
    """Read the items of a split: from the cache if exported, else from the bundled sample."""
    source = find_items(dataset, split, cache_dir, samples=samples)
    return LoadedItems(read_items(source.path, source.root), source)


def read_items(path: Path, root: Path | None = None) -> list[Item]:
    """Read an items file; bad JSON, missing keys and repeated ids are errors with file and line.

    ``root`` is the folder that file names inside the items start from.
    """
    items: list[Item] = []
    seen: dict[str, str] = {}
    for row in read_jsonl(path):
        item = _item(row, root)
        if item.item_id in seen:
            raise row.error(f"item_id '{item.item_id}' was already used ({seen[item.item_id]})")
        seen[item.item_id] = row.where.removeprefix(f"{path} ")
        items.append(item)
    if not items:
        raise DataError(f"{path} has no items", hint="export the dataset again: pcsuite export-datasets")
    return items


def _item(row: Row, root: Path | None) -> Item:
    item_id = row.text("item_id")
    if not item_id:
        raise row.error("'item_id' is empty")
    return Item(item_id, row.text("input_text"), row.row("truth").values, root)
