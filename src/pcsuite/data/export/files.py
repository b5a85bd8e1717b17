"""Original published files under ``--from DIR``: finding them, reading them, remembering their hashes."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pcsuite.data.jsonl import Row, decoded_lines, read_jsonl
from pcsuite.errors import DataError

csv.field_size_limit(1 << 24)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class OriginalFiles:
    """The folder of one dataset. Every file read is recorded, for the manifest."""

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
        """The first file that matches one of the patterns, tried in order; it holds ``split``, if given."""
        for pattern in patterns:
            matches = sorted(path for path in self.folder.glob(pattern) if path.is_file())
            if matches:
                if split is not None:
                    self.split_files[split] = self.label(matches[0])
                return self._use(matches[0])
        return None

    def find_all(self, pattern: str) -> list[Path]:
        """Every file that matches, in order of name."""
        return [self._use(path) for path in sorted(self.folder.glob(pattern)) if path.is_file()]

    def need(self, *patterns: str, split: str | None = None) -> Path:
        """Like :meth:`find`, but a missing file is an error."""
        path = self.find(*patterns, split=split)
        if path is None:
            raise DataError(
                f"{self.label(self.folder)}: none of {', '.join(patterns)} found",
                hint="put the original file there, or see scripts/download_datasets.sh",
            )
        return path

    def sources(self) -> list[dict[str, Any]]:
        """Manifest entries of the files used."""
        return [{"file": name, "sha256": sha256_file(path)} for name, path in sorted(self._used.items())]

    def lines(self, path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Numbered lines of a text file."""
        return decoded_lines(path, self.label(path), encoding)

    def jsonl(self, path: Path) -> Iterator[Row]:
        """Objects of a JSON-lines file."""
        return read_jsonl(path, self.label(path))

    def json_list(self, path: Path) -> list[Row]:
        """Objects of a file that is one JSON list."""
        label = self.label(path)
        try:
            values = json.loads(path.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            raise DataError(
                f"{label} line {error.lineno}: not valid JSON ({error.msg})", hint="is the file cut short?"
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(f"{label}: byte {error.start + 1} is not utf-8") from error
        if not isinstance(values, list):
            raise DataError(f"{label}: expected a JSON list, found {type(values).__name__}")
        rows = []
        for number, value in enumerate(values, start=1):
            if not isinstance(value, dict):
                raise DataError(f"{label} entry {number}: expected an object, found {type(value).__name__}")
            rows.append(Row(f"{label} entry {number}", value))
        return rows

    def csv_cells(self, path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
        """Cells of a CSV file with the line each record ends on; every record has ``columns`` cells."""
        label = self.label(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                reader = csv.reader(stream, strict=True)
                for cells in reader:
                    if not cells:
                        continue
                    self._check_width(cells, columns, f"{label} line {reader.line_num}")
                    yield reader.line_num, cells
        except csv.Error as error:
            raise DataError(
                f"{label} line {reader.line_num}: {error}", hint="is the file cut short?"
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(f"{label}: byte {error.start + 1} is not utf-8") from error

    def csv_rows(self, path: Path) -> Iterator[Row]:
        """Records of a CSV file with a header, as mappings."""
        header: list[str] | None = None
        for line, cells in self.csv_cells(path, 0):
            where = f"{self.label(path)} line {line}"
            if header is None:
                header = cells
                continue
            self._check_width(cells, len(header), where)
            yield Row(where, dict(zip(header, cells, strict=True)))

    @staticmethod
    def _check_width(cells: Sequence[str], columns: int, where: str) -> None:
        if columns and len(cells) != columns:
            raise DataError(f"{where}: expected {columns} columns, found {len(cells)}")

    def _use(self, path: Path) -> Path:
        self._used[self.label(path)] = path
        return path
