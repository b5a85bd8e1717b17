"""What every exporter is made of: original files, tables of the hub, and the interface of an exporter."""

from __future__ import annotations

import csv
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pcsuite._util.files import sha256_file
from pcsuite._util.text import read_json, shorten
from pcsuite.data.items import Item, Row, decoded_lines, read_jsonl, split_off
from pcsuite.errors import DataError, require

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


class Asset(NamedTuple):
    """A file that items refer to and that is copied beside them."""

    target: str
    """Path under ``<cache_dir>/datasets``."""
    source: Path


class OutputFile(NamedTuple):
    """One file to write: ``<stem>.jsonl`` with one JSON object a line."""

    stem: str
    rows: Iterable[dict[str, Any]]


@dataclass(slots=True)
class BuiltDataset:
    """Everything an exporter makes of its records."""

    outputs: list[OutputFile]
    assets: list[Asset] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a user should know; goes to the summary and the manifest."""
    missing: list[str] = field(default_factory=list)
    """Parts the source lacks: an error unless partial sources are allowed."""


class Split(NamedTuple):
    """A published split: how many records it has and where they lie, as files and on the hub."""

    name: str
    official: int
    files: tuple[str, ...] = ()
    """Patterns of its file under the dataset's folder, tried in order."""
    hub: tuple[str, ...] = ()
    """Splits of the hub's table that make it up; by default the one of its name."""
    required: bool = True


class Exporter(ABC, Generic[R]):
    """Declares one dataset, reads it by either road and builds its items; mostly as an :class:`ItemExporter`."""

    name: ClassVar[str]
    """What ``--only`` calls it."""
    folders: ClassVar[tuple[str, ...]]
    """Names its folder may have under ``--from``."""
    splits: ClassVar[tuple[Split, ...]]
    hub: ClassVar[HubTable]
    option_names: ClassVar[tuple[str, ...]] = ("allow_partial",)
    """Options that decide what is exported; the manifest records them."""

    @abstractmethod
    def read_files(self, files: OriginalFiles, options: ExportOptions) -> R:
        """Read the original published files.

        ``files`` is the dataset's folder and remembers what was read. Raises :class:`DataError`, with file and
        line, where one is missing or damaged.
        """

    @abstractmethod
    def read_hub(self, hub: HubTables, options: ExportOptions) -> R:
        """Read the hub's tables.

        ``hub`` is the Hugging Face hub or a mirror of it. Raises :class:`DataError` where a table cannot be
        had.
        """

    @abstractmethod
    def build(self, records: R, options: ExportOptions) -> BuiltDataset:
        """Make the files to write of the records.

        Splits that the suite itself makes are made here, by :data:`SPLIT_SEED`.
        """

    @abstractmethod
    def counts(self, records: R) -> dict[str, int]:
        """Number of records found in each published split.

        It is held against :meth:`official_counts`, before the suite splits anything itself.
        """

    def official_counts(self, options: ExportOptions) -> Mapping[str, int]:
        """Published number of records of each split under the given options.

        Another count than this is an error, or a note where partial sources are allowed.
        """
        return {split.name: split.official for split in self.splits}

    def not_on_hub(self, options: ExportOptions) -> str | None:
        """Why the hub cannot serve the dataset, mirror or not; ``None`` where it can."""
        return None


class ItemExporter(Exporter[dict[str, list[Item]]]):
    """A dataset whose records become items one by one, and which is written split by split.

    Subclasses give :meth:`item`, and what differs from the default: how rows are read from a file or a table, and
    the item of a hub's row.
    """

    written: ClassVar[tuple[str, ...]] = ()
    """Splits in the order they are written, the one that is split off among them; by default all, that part last."""
    split_off: ClassVar[tuple[str, str, int] | None] = None
    """``(split, part, n)``: the part is ``n`` items of the split by the fixed seed, and the split keeps the rest."""

    @abstractmethod
    def item(self, row: Row, split: str, position: int) -> Item:
        """The item of a record, which is the ``position``-th (from 1) of its split.

        Raises :class:`DataError` through ``row`` where the record is not as published.
        """

    def hub_item(self, row: Row, split: str, position: int) -> Item:
        """The item of a row of the hub's table, where its columns differ from the published file's.

        By default that of :meth:`item`; both roads must give the same items.
        """
        return self.item(row, split, position)

    def file_rows(self, files: OriginalFiles, split: Split, options: ExportOptions) -> Iterable[Row] | None:
        """Records of a split's file, by the file's ending; ``None`` where a split that may be absent is.

        JSON lists, JSON lines and CSV files with a header are known; other files need a reader of their own.
        """
        path = files.of_split(split)
        readers = {".json": files.json_list, ".jsonl": files.jsonl, ".csv": files.csv_rows}
        return None if path is None else readers[path.suffix](path)

    def hub_rows(self, hub: HubTables, split: Split, options: ExportOptions) -> Iterable[Row] | None:
        """Records of a split's tables on the hub; ``None`` where a split that may be absent is.

        Several tables are read one after the other, as one split.
        """
        theirs = split.hub or (split.name,)
        if not split.required and not hub.has_split(self.hub, theirs[0]):
            return None
        return (row for name in theirs for row in hub.rows(self.hub, name))

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Item]]:
        """The items of each split's file, by :meth:`item`; a split that may be absent and is, is left out.

        Raises :class:`DataError`, with file and line, for a file that is missing or a record that is not as published.
        """
        return {
            split.name: [self.item(row, split.name, number) for number, row in enumerate(rows, start=1)]
            for split in self.splits
            if (rows := self.file_rows(files, split, options)) is not None
        }

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Item]]:
        """The items of each split's tables, by :meth:`hub_item`; a split that may be absent and is, is left out.

        Raises :class:`DataError`, with the row, for a record that is not as published.
        """
        return {
            split.name: [self.hub_item(row, split.name, number) for number, row in enumerate(rows, start=1)]
            for split in self.splits
            if (rows := self.hub_rows(hub, split, options)) is not None
        }

    def counts(self, records: dict[str, list[Item]]) -> dict[str, int]:
        return {split: len(items) for split, items in records.items()}

    def build(self, records: dict[str, list[Item]], options: ExportOptions) -> BuiltDataset:
        """The items files, with the part split off where the dataset has one.

        Splits that the source lacks are left out.
        """
        by_split = dict(records)
        if self.split_off is not None and self.split_off[0] in by_split:
            split, part, n = self.split_off
            items, rest = split_off(by_split.pop(split), n, f"{self.name}_{part}", SPLIT_SEED)
            by_split |= {split: rest, part: items}
        written = [split for split in self.written or by_split if split in by_split]
        return BuiltDataset([items_output(self.name, split, by_split[split]) for split in written])


def items_output(dataset: str, split: str, items: Sequence[Item]) -> OutputFile:
    """The items file of one split, ``DATASET_SPLIT``, a line an item in the order given.

    Lines are made when the file is written.
    """
    return OutputFile(f"{dataset}_{split}", (item.line() for item in items))


def numbered(dataset: str, split: str, position: int) -> str:
    """Id of a record that has none upstream: its place in the source split, from 1."""
    return f"{dataset}-{split}-{position:06d}"


def collapse_spaces(text: str) -> str:
    """Text with runs of white space made one blank, and none at the ends."""
    return " ".join(text.split())


class OriginalFiles:
    """The folder of one dataset under ``--from DIR``. Every file read is recorded, for the manifest."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self._used: dict[str, Path] = {}
        self.split_files: dict[str, str] = {}
        """Name of the file each source split was read from."""

    def label(self, path: Path) -> str:
        """How messages and the manifest name a file: its path under ``--from``."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return path.name

    def find(self, *patterns: str, split: str | None = None) -> Path | None:
        """The first file that matches one of the patterns, tried in order; it holds ``split``, if given.

        The file counts as used and goes into the manifest with its hash; ``None`` where none matches.
        """
        for pattern in patterns:
            matches = sorted(path for path in self.folder.glob(pattern) if path.is_file())
            if matches:
                if split is not None:
                    self.split_files[split] = self.label(matches[0])
                return self._use(matches[0])
        return None

    def find_all(self, pattern: str) -> list[Path]:
        """All files that match a pattern, sorted by name; none of them is an error.

        Each counts as used and goes into the manifest with its hash.
        """
        return [self._use(path) for path in sorted(self.folder.glob(pattern)) if path.is_file()]

    def need(self, *patterns: str, split: str | None = None) -> Path:
        """Like :meth:`find`, but a missing file is a :class:`DataError` with the patterns that were tried."""
        path = self.find(*patterns, split=split)
        if path is None:
            hint = "put the original file there, or see scripts/download_datasets.sh"
            raise DataError(f"{self.label(self.folder)}: none of {', '.join(patterns)} found", hint=hint)
        return path

    def of_split(self, split: Split) -> Path | None:
        """The file of a split, ``None`` where a split that may be absent is."""
        return (self.need if split.required else self.find)(*split.files, split=split.name)

    def sources(self) -> list[dict[str, Any]]:
        """The files that were used, for the manifest: name under ``--from`` and sha256, sorted by name.

        Each is read through once more to be hashed.
        """
        return [{"file": name, "sha256": sha256_file(path)} for name, path in sorted(self._used.items())]

    def lines(self, path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Lines of a file with their numbers, from 1, as :func:`~pcsuite.data.items.decoded_lines` reads them.

        Raises :class:`DataError`, with file and line, for what is not in the encoding.
        """
        return decoded_lines(path, self.label(path), encoding)

    def jsonl(self, path: Path) -> Iterator[Row]:
        """Rows of a JSON-lines file, each with its place; blank lines are passed over.

        Raises :class:`DataError`, with file and line, for one that is no JSON object.
        """
        return read_jsonl(path, self.label(path))

    def json_list(self, path: Path) -> list[Row]:
        """Objects of a file that is one JSON list.

        Raises :class:`DataError`, with line or entry, on anything else.
        """
        label = self.label(path)
        try:
            values = read_json(path.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            problem = f"{label} line {error.lineno}: not valid JSON ({error.msg})"
            raise DataError(problem, hint="is the file cut short?") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{label}: byte {error.start + 1} is not utf-8") from error
        except ValueError as error:
            raise DataError(f"{label}: cannot be read as JSON ({shorten(str(error))})") from error
        if not isinstance(values, list):
            raise DataError(f"{label}: expected a JSON list, found {type(values).__name__}")
        rows = [Row(f"{label} entry {number}", value) for number, value in enumerate(values, start=1)]
        for row in rows:
            if not isinstance(row.values, dict):
                raise row.error(f"expected an object, found {type(row.values).__name__}")
        return rows

    def csv_cells(self, path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
        """Cells of a CSV file with the line each record ends on; every record has ``columns`` cells.

        0 columns allows any number. Blank lines are passed over; a malformed record is a :class:`DataError`
        with its line.
        """
        label = self.label(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                # Strict: a quote that is never closed would swallow the rest of the file as one cell.
                reader = csv.reader(stream, strict=True)
                for cells in filter(None, reader):
                    self._check_width(cells, columns, f"{label} line {reader.line_num}")
                    yield reader.line_num, cells
        except csv.Error as error:
            where = f"{label} line {reader.line_num}"
            raise DataError(f"{where}: {error}", hint="is the file cut short?") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{label}: byte {error.start + 1} is not utf-8") from error

    def csv_rows(self, path: Path) -> Iterator[Row]:
        """Records of a CSV file with a header, as mappings."""
        records = self.csv_cells(path, 0)
        _, header = next(records, (0, []))
        for line, cells in records:
            where = f"{self.label(path)} line {line}"
            self._check_width(cells, len(header), where)
            yield Row(where, dict(zip(header, cells, strict=True)))

    @staticmethod
    def _check_width(cells: Sequence[str], columns: int, where: str) -> None:
        if columns and len(cells) != columns:
            raise DataError(f"{where}: expected {columns} columns, found {len(cells)}")

    def _use(self, path: Path) -> Path:
        self._used[self.label(path)] = path
        return path


class HubTable(NamedTuple):
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
    """Reads tables of the Hugging Face hub, or of a local mirror in the hub's layout.

    A mirror (``--hub-dir DIR``) holds what ``DatasetDict.save_to_disk`` writes, at ``DIR/<dataset>/<config>`` or,
    where there is one configuration, ``DIR/<dataset>``. Every split read is recorded with a hash of its rows, for
    the manifest.
    """

    def __init__(self, mirror: Path | None = None) -> None:
        self.mirror = mirror
        self._sources: dict[tuple[str, str], dict[str, Any]] = {}
        self._opened: dict[HubTable, Any] = {}

    def has_split(self, table: HubTable, split: str) -> bool:
        """Whether a table has a split; the table is opened, which may fetch it."""
        return split in self._open(table)

    def rows(self, table: HubTable, split: str) -> Iterator[Row]:
        """Rows of a split in the hub's order; class labels come as integers, as the hub has them.

        When all were read, their number and hash are recorded for the manifest. Raises :class:`DataError` where
        the table has no such split.
        """
        name = "/".join(part for part in (table.folder, table.config, split) if part)
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
        """Whether the table can be had: always said of the hub, looked up in a mirror.

        Nothing is fetched to find out.
        """
        return table.repo is not None if self.mirror is None else self._mirror_path(table) is not None

    def sources(self) -> list[dict[str, Any]]:
        """The splits that were read to their end, for the manifest: table, configuration, rows and their hash.

        Sorted by table; a split that was only begun is not among them.
        """
        return [self._sources[key] for key in sorted(self._sources)]

    def _open(self, table: HubTable) -> Any:
        if table in self._opened:
            return self._opened[table]
        datasets = require("datasets", "hub")
        if self.mirror is not None:
            path = self._mirror_path(table)
            if path is None:
                hint = "save a DatasetDict at DIR/<dataset>/<config>, or DIR/<dataset> where there is one"
                raise DataError(f"{self.mirror}: no table '{table.folder}'", hint=hint)
            try:
                loaded = datasets.load_from_disk(str(path))
            except Exception as error:  # the library raises many kinds; each means the table could not be had
                raise DataError(f"{path} cannot be loaded as a saved dataset: {error}") from error
            if not isinstance(loaded, datasets.DatasetDict):
                raise DataError(f"{path} holds one table, not one a split", hint="save a DatasetDict there")
        elif table.repo is None:
            hint = "export it from the original files: --from DIR"
            raise DataError(f"'{table.folder}' has no table with the published split on the hub", hint=hint)
        else:
            files = {split: f"{table.config}/{split}/*.parquet" for split in table.converted}
            try:
                if files:
                    loaded = datasets.load_dataset(table.repo, data_files=files, revision=PARQUET)
                else:
                    loaded = datasets.load_dataset(table.repo, table.config)
            except Exception as error:  # as above
                reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                raise DataError(
                    f"the hub table {table.repo} cannot be loaded: {reason}",
                    hint="use --from DIR with the original files, or --hub-dir DIR with a local mirror",
                ) from error
        self._opened[table] = loaded
        return loaded

    def _mirror_path(self, table: HubTable) -> Path | None:
        assert self.mirror is not None
        folder = self.mirror / table.folder
        places = [folder / table.config] if table.config else []
        return next((p for p in [*places, folder] if (p / "dataset_dict.json").is_file()), None)
