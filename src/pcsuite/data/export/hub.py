"""Tables of the Hugging Face hub, or of a local mirror in the hub's layout.

A mirror (``--hub-dir DIR``) holds what ``DatasetDict.save_to_disk`` writes, at ``DIR/<dataset>/<config>`` or,
where there is one configuration, ``DIR/<dataset>``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcsuite.data.jsonl import Row
from pcsuite.errors import DataError, require


@dataclass(frozen=True, slots=True)
class HubTable:
    """A dataset of the hub: its place there and its folder in a mirror."""

    folder: str
    repo: str | None
    """``None`` where the hub has no copy with the published split: only a mirror can serve it."""
    config: str | None = None
    converted: tuple[str, ...] = ()
    """Where the repository holds a loading script, which is not run: the splits of its Parquet conversion."""


PARQUET = "refs/convert/parquet"
"""Branch of a repository's Parquet conversion: ``<config>/<split>/*.parquet``."""


class HubTables:
    """Reads splits of hub tables. Every split read is recorded with a hash of its rows, for the manifest."""

    def __init__(self, mirror: Path | None = None) -> None:
        self.mirror = mirror
        self._sources: dict[tuple[str, str], dict[str, Any]] = {}
        self._opened: dict[HubTable, Any] = {}

    def has_split(self, table: HubTable, split: str) -> bool:
        """Whether the table has the split."""
        return split in self._open(table)

    def rows(self, table: HubTable, split: str) -> Iterator[Row]:
        """Rows of a split in the hub's order; class labels come as integers, as the hub has them."""
        name = _name(table, split)
        tables = self._open(table)
        if split not in tables:
            raise DataError(f"hub table {name}: no such split", hint=f"it has {', '.join(sorted(tables))}")
        digest = hashlib.sha256()
        count = 0
        for count, values in enumerate(tables[split], start=1):
            digest.update(json.dumps(values, sort_keys=True, default=str).encode())
            yield Row(f"hub {name} row {count}", dict(values))
        entry = {"hub": table.repo or table.folder, "config": table.config, "split": split}
        self._sources[table.folder, name] = {**entry, "rows": count, "rows_sha256": digest.hexdigest()}

    def label_names(self, table: HubTable, split: str, column: str) -> list[str] | None:
        """Names of a class-label column, if the table carries them."""
        feature = self._open(table)[split].features[column]
        names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
        return list(names) if names else None

    def holds(self, table: HubTable) -> bool:
        """Whether the table can be had: always said of the hub, looked up in a mirror."""
        return table.repo is not None if self.mirror is None else self._mirror_path(table) is not None

    def sources(self) -> list[dict[str, Any]]:
        """Manifest entries of the splits read."""
        return [self._sources[key] for key in sorted(self._sources)]

    def _open(self, table: HubTable) -> Any:
        if table not in self._opened:
            self._opened[table] = self._load(table)
        return self._opened[table]

    def _load(self, table: HubTable) -> Any:
        datasets = require("datasets", "hub")
        if self.mirror is not None:
            path = self._mirror_path(table)
            if path is None:
                raise DataError(
                    f"{self.mirror}: no table '{table.folder}'",
                    hint="save a DatasetDict at DIR/<dataset>/<config>, or DIR/<dataset> where there is one",
                )
            return self._load_from_disk(datasets, path)
        if table.repo is None:
            raise DataError(
                f"'{table.folder}' has no table with the published split on the hub",
                hint="export it from the original files: --from DIR",
            )
        try:
            return self._load_from_hub(datasets, table)
        except Exception as error:  # the library raises many kinds; each means the table could not be had
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise DataError(
                f"the hub table {table.repo} cannot be loaded: {reason}",
                hint="use --from DIR with the original files, or --hub-dir DIR with a local mirror",
            ) from error

    @staticmethod
    def _load_from_hub(datasets: Any, table: HubTable) -> Any:
        if not table.converted:
            return datasets.load_dataset(table.repo, table.config)
        files = {split: f"{table.config}/{split}/*.parquet" for split in table.converted}
        return datasets.load_dataset(table.repo, data_files=files, revision=PARQUET)

    @staticmethod
    def _load_from_disk(datasets: Any, path: Path) -> Any:
        try:
            loaded = datasets.load_from_disk(str(path))
        except Exception as error:  # as above
            raise DataError(f"{path} cannot be loaded as a saved dataset: {error}") from error
        if not isinstance(loaded, datasets.DatasetDict):
            raise DataError(f"{path} holds one table, not one a split", hint="save a DatasetDict there")
        return loaded

    def _mirror_path(self, table: HubTable) -> Path | None:
        assert self.mirror is not None
        folder = self.mirror / table.folder
        places = [folder / table.config] if table.config else []
        return next((p for p in [*places, folder] if (p / "dataset_dict.json").is_file()), None)


def _name(table: HubTable, split: str) -> str:
    return "/".join(part for part in (table.folder, table.config, split) if part)
