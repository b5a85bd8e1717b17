"""Which rows of a plan are done: a compact index over a log's run ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from pcsuite.logging.segments import read_log_lines

_MAX_NAMED = 20


class _Key(msgspec.Struct):
    """The part of a row that the index reads; everything else is skipped without making objects."""

    run_id: str
    errors: list[Any]


class ResumeIndex:
    """The run ids whose newest row has no error: 16 bytes each, sorted, plus a set of what came since."""

    def __init__(self, keys: bytes | bytearray = b"", failed: frozenset[bytes] = frozenset()) -> None:
        pairs = np.frombuffer(bytes(keys), dtype=">u8").astype(np.uint64).reshape(-1, 2)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        pairs = pairs[order]
        if len(pairs):
            fresh = np.ones(len(pairs), dtype=bool)
            fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
            pairs = pairs[fresh]
        self._high: npt.NDArray[np.uint64] = np.ascontiguousarray(pairs[:, 0])
        self._low: npt.NDArray[np.uint64] = np.ascontiguousarray(pairs[:, 1])
        self._failed = set(failed)
        self._added: set[bytes] = set()
        self.rows = 0
        """Rows read from the log."""
        self.malformed: list[int] = []
        """The first line numbers that could not be read."""
        self.malformed_count = 0

    def __contains__(self, run_id: str) -> bool:
        key = bytes.fromhex(run_id[:32])
        if key in self._added:
            return True
        if key in self._failed or not len(self._high):
            return False
        high = np.uint64(int.from_bytes(key[:8], "big"))
        low = np.uint64(int.from_bytes(key[8:], "big"))
        place = int(np.searchsorted(self._high, high))
        while place < len(self._high) and self._high[place] == high:
            if self._low[place] == low:
                return True
            place += 1
        return False

    def __len__(self) -> int:
        return len(self._high) + len(self._added)

    @property
    def failed(self) -> int:
        """Rows whose newest try ended in an error; they are tried again."""
        return len(self._failed - self._added)

    def add(self, run_id: str) -> None:
        """Mark a row as done."""
        self._added.add(bytes.fromhex(run_id[:32]))

    @classmethod
    def read(cls, path: Path) -> ResumeIndex:
        """Index a log over all its files; malformed lines are counted and named, never fatal."""
        keys = bytearray()
        failed: dict[bytes, bool] = {}
        decode = msgspec.json.Decoder(_Key).decode
        rows = malformed_count = 0
        malformed: list[int] = []
        for number, line in enumerate(read_log_lines(path), start=1):
            try:
                row = decode(line)
                key = bytes.fromhex(row.run_id[:32])
                if len(key) != 16:
                    raise ValueError("short run_id")
            except (msgspec.MsgspecError, ValueError):
                malformed_count += 1
                if len(malformed) < _MAX_NAMED:
                    malformed.append(number)
                continue
            rows += 1
            if row.errors:
                failed[key] = True
            else:
                keys += key
                if key in failed:
                    failed[key] = False
        index = cls(keys, frozenset(key for key, state in failed.items() if state))
        index.rows, index.malformed, index.malformed_count = rows, malformed, malformed_count
        return index
