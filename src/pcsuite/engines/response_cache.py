"""Answers kept by content: the same model, prompt, decoding, seed and constraint are generated once.

One SQLite file, shared by runs and processes. The seed is part of the key, so replicates stay apart. A hit
comes back with ``cache_hit`` set and with the usage of the original call, which efficiency statistics need;
nothing may be billed for it (:class:`pcsuite.engines.limits.Budget` does so).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import msgspec

from pcsuite._util.hashing import sha256_hex
from pcsuite.engines.adapters.base import Constraint, Generation, Request
from pcsuite.errors import EngineError

FILE_NAME = "responses.sqlite"
FORMAT = 2
DEFAULT_MAX_BYTES = 4 << 30
FLUSH_EVERY = 512
FLUSH_SECONDS = 1.0
"""A new answer is written with those that wait when there are so many, or when the last were written so long ago: what
ends a process costs a slow model's callers no more than the answers of a moment."""
ROW_OVERHEAD_BYTES = 96
"""What a row takes beside its value: key, time, indexes."""
KEEP_SHARE = 0.9
"""Share of the limit that eviction leaves, so that it does not run at every write."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, value BLOB NOT NULL, bytes INTEGER NOT NULL, used REAL NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS answers_by_digest ON answers (digest);
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
"""Answers lie in the order of writing, so that a batch of them fills pages at the file's end; only the index of their
digests, 16 bytes each, is written all over."""
_NEEDED = {"text", "finish_reason", "latency_ms", "usage"}
_COUNTERS = ("bytes", "hits", "misses", "puts", "evicted")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache holds and what it has done, over all processes."""

    path: str
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    puts: int
    evicted: int

    @property
    def hit_rate(self) -> float | None:
        """Hits by lookups, ``None`` before the first lookup."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else None

    def as_dict(self) -> dict[str, Any]:
        """Plain mapping, the hit rate included."""
        return {**asdict(self), "hit_rate": self.hit_rate}


def response_key(identity: Mapping[str, str], model_id: str, request: Request) -> str:
    """The content address (sha256, hex) of the answer to a request.

    ``identity`` is the adapter's: engine version, weights, options that change answers. Whoever enforces a
    constraint is part of the key where that is not the model itself.
    """
    decoding = request.decoding
    # The regime's name is not part of the key: the same numbers give the same text under any name.
    numbers = (float(decoding.temperature), float(decoding.top_p), decoding.max_tokens)
    before, after = _key_frame(tuple(identity.items()), model_id, numbers, request.constraint)
    question = f'"prompt": {json.dumps(request.prompt)}, "seed": {json.dumps(request.seed)}'
    return sha256_hex(f"{before}, {question}, {after}")


@lru_cache(maxsize=256)
def _key_frame(
    identity: tuple[tuple[str, str], ...],
    model_id: str,
    numbers: tuple[float, float, int],
    constraint: Constraint | None,
) -> tuple[str, str]:
    """What the hashed text of a key, JSON with sorted keys, has before the prompt and after the seed."""
    parts = None
    if constraint is not None:
        parts = [constraint.kind, constraint.value]
        parts += [constraint.backend] if constraint.backend not in ("auto", "native") else []
        parts += [constraint.program] if constraint.program else []
    temperature, top_p, max_tokens = numbers
    before = {
        "constraint": parts,
        "identity": dict(identity),
        "max_tokens": max_tokens,
        "model_id": model_id,
    }
    after = {"temperature": temperature, "top_p": top_p}
    return json.dumps(before, sort_keys=True)[:-1], json.dumps(after, sort_keys=True)[1:]


def _digest(key: str) -> bytes:
    """What a key is found by in the file."""
    return blake2b(key.encode(), digest_size=16).digest()


_SELECT = "SELECT value FROM answers WHERE digest = ?"
_INSERT = "INSERT OR IGNORE INTO answers (digest, value, bytes, used) VALUES (?, ?, ?, ?)"


class _Translation:
    """SQLite's and the file system's errors as ours, naming the file; entered for every answer, so no generator."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, OSError)):
            raise EngineError(
                f"{self._path}: response cache failed: {error}", hint="free space there, or delete the file"
            ) from error


class ResponseCache:
    """The cache file. Safe for threads and processes; writes go out in batches and on ``close``.

    A file that cannot be read or written, or that another version made, is an ``EngineError``.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.RLock()
        self._translated = _Translation(path)
        self._pending: dict[str, bytes] = {}
        self._touched: dict[str, float] = {}
        self._flushed_at = self._clock()
        self._counts = {"hits": 0, "misses": 0, "puts": 0}
        with self._translated:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Transactions are begun by hand, so that a batch of answers is one; our lock keeps the threads apart.
            self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            try:
                # Readers do not wait for writers then, whichever process they are in.
                self._database.execute("PRAGMA journal_mode = WAL")
                # A power cut may take the last answers, never the file: they are a cache.
                self._database.execute("PRAGMA synchronous = NORMAL")
                # A batch touches pages all over the index: 64 MiB of them stay in memory, and the write-ahead log is
                # copied into the file every 32 MiB.
                self._database.execute("PRAGMA cache_size = -65536")
                self._database.execute("PRAGMA wal_autocheckpoint = 8192")
                self._database.executescript(_SCHEMA)
                insert = "INSERT OR IGNORE INTO counters VALUES (?, ?)"
                self._database.executemany(insert, [(name, 0) for name in _COUNTERS])
                self._database.execute(insert, ("format", FORMAT))
                query = "SELECT value FROM counters WHERE name = 'format'"
                file_format = self._database.execute(query).fetchone()[0]
                if file_format == 1:
                    file_format = self._relaid()
                if file_format != FORMAT:
                    raise EngineError(
                        f"{path}: response cache has format {file_format}, this version reads {FORMAT}",
                        hint="use another cache folder, or delete the file",
                    )
            except BaseException:
                self._database.close()
                raise

    def _relaid(self) -> int:
        """Take over the answers of a file of format 1, where they lay in the order of their keys; its format now."""
        self._database.create_function("digest", 1, _digest, deterministic=True)
        self._database.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster.
            if self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'responses'").fetchone():
                self._database.execute(
                    "INSERT OR IGNORE INTO answers (digest, value, bytes, used) "
                    "SELECT digest(key), value, bytes, used FROM responses ORDER BY used"
                )
                self._database.execute("DROP TABLE responses")
            self._database.execute("UPDATE counters SET value = ? WHERE name = 'format'", (FORMAT,))
            self._database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
        return FORMAT

    def get(self, key: str) -> Generation | None:
        """The stored answer, marked as a hit, or ``None``; either is counted.

        What this process has put and not written yet is found too.
        """
        with self._lock, self._translated:
            value = self._pending.get(key)
            if value is None:
                row = self._database.execute(_SELECT, (_digest(key),)).fetchone()
                value = None if row is None else row[0]
            if value is None:
                self._counts["misses"] += 1
                return None
            self._counts["hits"] += 1
            self._touched[key] = self._clock()
            # Times of use only decide what is evicted first; they can wait longer than answers.
            if len(self._touched) >= 2 * FLUSH_EVERY:
                self.flush()
        try:
            generation = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            try:
                generation = json.loads(value)
            except ValueError:
                generation = None
        if not isinstance(generation, dict) or not generation.keys() >= _NEEDED:
            # Damaged: the answer is asked for and stored anew.
            with self._lock, self._translated:
                self._pending.pop(key, None)
                self._touched.pop(key, None)
                self._database.execute("DELETE FROM answers WHERE digest = ?", (_digest(key),))
            return None
        generation["cache_hit"] = True
        return cast(Generation, generation)

    def put(self, key: str, generation: Generation) -> None:
        """Keep an answer under its :func:`response_key`; the first one stored under a key stays.

        It is written with the next batch, at once where the last one was a second ago, on ``flush`` or on ``close``.
        """
        # These two describe this call, not the answer.
        stored = {name: value for name, value in generation.items() if name not in ("cache_hit", "attempts")}
        with self._lock, self._translated:
            try:
                self._pending[key] = msgspec.json.encode(stored)
            except UnicodeEncodeError:  # lone surrogates, which models emit
                self._pending[key] = json.dumps(stored, ensure_ascii=False).encode("utf-8", "surrogatepass")
            self._counts["puts"] += 1
            if len(self._pending) >= FLUSH_EVERY or self._clock() - self._flushed_at >= FLUSH_SECONDS:
                self.flush()

    async def aget(self, key: str) -> Generation | None:
        """:meth:`get` for callers that cannot know whether the cache is in their process."""
        return self.get(key)

    async def aput(self, key: str, generation: Generation) -> None:
        """:meth:`put` for the same."""
        self.put(key, generation)

    def flush(self) -> None:
        """Write what is pending in one transaction, and evict the least recently used beyond the limit.

        Eviction leaves 90 % of ``max_bytes``. A transaction that fails leaves everything pending.
        """
        with self._lock, self._translated:
            self._flushed_at = self._clock()
            if not self._pending and not self._touched and not any(self._counts.values()):
                return
            self._database.execute("BEGIN IMMEDIATE")
            try:
                now, added = self._clock(), 0
                for key, value in self._pending.items():
                    size = len(value) + ROW_OVERHEAD_BYTES
                    written = self._database.execute(_INSERT, (_digest(key), value, size, now))
                    added += size if written.rowcount == 1 else 0
                used = [(moment, _digest(key)) for key, moment in self._touched.items()]
                self._database.executemany("UPDATE answers SET used = ? WHERE digest = ?", used)
                self._count({**self._counts, "bytes": added})
                self._evict()
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    self._database.execute("ROLLBACK")
                raise
            self._pending.clear()
            self._touched.clear()
            self._counts = dict.fromkeys(self._counts, 0)

    def stats(self) -> CacheStats:
        """Size and counters over all processes, what is pending here included.

        It writes what is pending first.
        """
        with self._lock, self._translated:
            self.flush()
            entries = self._database.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
            counters = dict(self._database.execute("SELECT name, value FROM counters"))
        counted = {name: counters[name] for name in _COUNTERS}
        return CacheStats(path=str(self.path), entries=entries, max_bytes=self.max_bytes, **counted)

    def clear(self) -> int:
        """Forget all answers and counters; returns how many answers there were.

        The file shrinks. Raises :class:`EngineError` where it cannot be written.
        """
        with self._lock, self._translated:
            self.flush()
            self._database.execute("BEGIN IMMEDIATE")
            entries: int = self._database.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
            self._database.execute("DELETE FROM answers")
            self._database.execute("UPDATE counters SET value = 0 WHERE name != 'format'")
            self._database.execute("COMMIT")
            self._database.execute("VACUUM")
            return entries

    def close(self) -> None:
        """Write what is pending and close the file, even where writing fails.

        The cache cannot be used afterwards.
        """
        with self._lock, self._translated:
            try:
                self.flush()
            finally:
                self._database.close()

    def __enter__(self) -> ResponseCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _evict(self) -> None:
        total = self._database.execute("SELECT value FROM counters WHERE name = 'bytes'").fetchone()[0]
        if total <= self.max_bytes:
            return
        victims: list[tuple[int]] = []
        freed = 0
        for number, size in self._database.execute("SELECT id, bytes FROM answers ORDER BY used"):
            if total - freed <= self.max_bytes * KEEP_SHARE:
                break
            victims.append((number,))
            freed += size
        self._database.executemany("DELETE FROM answers WHERE id = ?", victims)
        self._count({"bytes": -freed, "evicted": len(victims)})

    def _count(self, amounts: Mapping[str, int]) -> None:
        changes = [(amount, name) for name, amount in amounts.items()]
        self._database.executemany("UPDATE counters SET value = value + ? WHERE name = ?", changes)
