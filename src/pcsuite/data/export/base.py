"""What every exporter is made of.

An exporter reads records by one of two roads (the original published files, or the tables of the Hugging
Face hub) into the same neutral form, and builds items from that form alone. So both roads give the same
bytes for the same records by construction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pcsuite.data.export.files import OriginalFiles
from pcsuite.data.export.hub import HubTables
from pcsuite.data.items import Item

R = TypeVar("R")

SPLIT_SEED = 1337
"""Seed of every split the suite itself makes; fixed, so that everyone's dev sets are the same."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What a user may set."""

    allow_partial: bool = False
    """Accept files that hold fewer records than published, and say so in the manifest."""
    truthfulqa_version: str = "v1"
    """``v1``: the 817-question benchmark; ``v2025``: its 790-question revision."""
    fever_wiki: bool = False
    """Fetch FEVER's whole Wikipedia (5.4 million pages) from the hub too (hub road only)."""
    spider_dir: Path | None = None
    """Folder with Spider's tables.json and database/, which the hub does not carry (hub road only)."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that items refer to and that is copied beside them."""

    target: str
    """Path under ``<cache_dir>/datasets``."""
    source: Path


@dataclass(frozen=True, slots=True)
class Output:
    """One file to write: ``<stem>.jsonl`` with one JSON object a line."""

    stem: str
    rows: Iterable[dict[str, Any]]


@dataclass(slots=True)
class Built:
    """Everything an exporter makes of its records."""

    outputs: list[Output]
    assets: list[Asset] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a user should know; goes to the summary and the manifest."""
    missing: list[str] = field(default_factory=list)
    """Parts the source lacks: an error unless partial sources are allowed."""


class Exporter(ABC, Generic[R]):
    """Reads one dataset by either road and builds its items."""

    name: ClassVar[str]
    """What ``--only`` calls it."""
    folders: ClassVar[tuple[str, ...]]
    """Names its folder may have under ``--from``."""
    official: ClassVar[Mapping[str, int]]
    """Published number of records of each source split."""

    @abstractmethod
    def read_files(self, files: OriginalFiles, options: ExportOptions) -> R:
        """Read the original published files."""

    @abstractmethod
    def read_hub(self, hub: HubTables, options: ExportOptions) -> R:
        """Read the hub's tables."""

    @abstractmethod
    def build(self, records: R, options: ExportOptions) -> Built:
        """Make items of the records."""

    def counts(self, records: R) -> dict[str, int]:
        """Number of records found in each source split."""
        if not isinstance(records, Mapping):
            raise TypeError(f"exporter '{self.name}' must say how to count its records")
        return {split: len(rows) for split, rows in records.items() if isinstance(rows, Sized)}

    def official_counts(self, options: ExportOptions) -> Mapping[str, int]:
        """Published counts under the given options."""
        return self.official


def item_rows(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Items as the lines of an items file."""
    for item in items:
        yield {"item_id": item.item_id, "input_text": item.input_text, "truth": item.truth}


def items_output(dataset: str, split: str, items: Sequence[Item]) -> Output:
    """The items file of a split."""
    return Output(f"{dataset}_{split}", item_rows(items))


def numbered(dataset: str, split: str, position: int) -> str:
    """Id of a record that has none upstream: its place in the source split, from 1."""
    return f"{dataset}-{split}-{position:06d}"


def squeeze(text: str) -> str:
    """Text with runs of white space made one blank, and none at the ends."""
    return " ".join(text.split())
