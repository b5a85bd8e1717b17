"""Reading a log back: the newest row of each run id, malformed lines counted and named."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from pcsuite.errors import LogError
from pcsuite.logging.row import RunRow, decode_row
from pcsuite.logging.segments import log_exists, read_log_lines


def iter_rows(path: Path, malformed: list[int] | None = None) -> Iterator[RunRow]:
    """Every readable row in file order; numbers of unreadable lines go to ``malformed``."""
    if not log_exists(path):
        raise LogError(f"{path}: no such log", hint="pcsuite run --config PROFILE writes it")
    for number, line in enumerate(read_log_lines(path), start=1):
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


def iter_newest_rows(path: Path) -> Iterator[RunRow]:
    """The newest row of each run id in file order, holding a few bytes a row: the log is read twice.

    Rows that are appended meanwhile are not seen.
    """
    if not log_exists(path):
        raise LogError(f"{path}: no such log", hint="pcsuite run --config PROFILE writes it")
    keys, places = bytearray(), array("Q")
    for place, line in enumerate(read_log_lines(path)):
        try:
            keys += hashlib.blake2b(decode_row(line).run_id.encode(), digest_size=16).digest()
        except msgspec.MsgspecError:
            continue
        places.append(place)
    newest = _newest_places(keys, places)
    wanted = iter(newest.tolist())
    next_place = next(wanted, None)
    for place, line in enumerate(read_log_lines(path)):
        if next_place is None:
            return
        if place == next_place:
            next_place = next(wanted, None)
            yield decode_row(line)


def _newest_places(keys: bytearray, places: array[int]) -> npt.NDArray[np.uint64]:
    """The last place of each distinct key, in order."""
    pairs = np.frombuffer(keys, dtype=np.uint64).reshape(-1, 2)
    at = np.frombuffer(places, dtype=np.uint64)
    order = np.lexsort((at, pairs[:, 1], pairs[:, 0]))
    ordered = pairs[order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.asarray(np.sort(at[order[last]]))
