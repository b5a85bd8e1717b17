"""Reading a log back: the newest row of each run id, malformed lines counted and named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from pcsuite.errors import LogError
from pcsuite.logging.files import read_lines
from pcsuite.logging.row import RunRow, decode_row


def iter_rows(path: Path, malformed: list[int] | None = None) -> Iterator[RunRow]:
    """Every readable row in file order; numbers of unreadable lines go to ``malformed``."""
    if not path.exists():
        raise LogError(f"{path}: no such log", hint="pcsuite run --config PROFILE writes it")
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield decode_row(line)
        except msgspec.MsgspecError:
            if malformed is not None:
                malformed.append(number)


def newest_rows(path: Path, malformed: list[int] | None = None) -> list[RunRow]:
    """The newest row of each run id, in order of first appearance."""
    rows: dict[str, RunRow] = {}
    for row in iter_rows(path, malformed):
        rows[row.run_id] = row
    return list(rows.values())
