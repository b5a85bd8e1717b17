"""Which rows of a plan are done: a compact index over a log's run ids."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pcsuite.logging.segments import read_log_lines

_MAX_NAMED = 20
_MAX_BUCKET_BITS = 24


class _Key(msgspec.Struct):
    """The part of a row that the index reads; everything else is skipped without making objects."""

    run_id: str
    errors: list[Any]


class ResumeIndex:
    """The run ids whose newest row has no error: 16 bytes each, sorted, plus a set of what came since."""

    def __init__(self, keys: bytes | bytearray = b"", failed: frozenset[bytes] = frozenset()) -> None:
        pairs = np.frombuffer(keys, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        if len(pairs):
            fresh = np.ones(len(pairs), dtype=bool)
            fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
            pairs = pairs[fresh]
        self._count = len(pairs)
        self._sorted = pairs.astype(">u8").tobytes()
        # Ids are hashes, so their first bits spread them evenly: a bucket for each of those holds one or two.
        self._shift = 64 - max(1, min(_MAX_BUCKET_BITS, len(pairs).bit_length()))
        edges = np.arange((1 << (64 - self._shift)) + 1, dtype=np.uint64)
        buckets = pairs[:, 0] >> np.uint64(self._shift)
        self._starts = array("I", np.searchsorted(buckets, edges).astype(np.uintc).tobytes())
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
        if key in self._failed:
            return False
        bucket = int.from_bytes(key[:8], "big") >> self._shift
        for place in range(self._starts[bucket], self._starts[bucket + 1]):
            if self._sorted[16 * place : 16 * place + 16] == key:
                return True
        return False

    def __len__(self) -> int:
        return self._count + len(self._added)

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
