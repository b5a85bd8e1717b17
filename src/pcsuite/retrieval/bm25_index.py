"""A BM25 index of sentences on disk: built once, named by the hash of what it was built from, mapped to read.

Scores are Lucene's BM25 (Robertson et al. 1995 as in Kamphuis et al. 2020, table 1, "Lucene (accurate)"):

    score(q, d) = Σ_{t ∈ q} ln(1 + (N − n_t + ½) / (n_t + ½)) · f_td / (f_td + k1·(1 − b + b·|d| / avgdl))

over the distinct words of the query, in double precision. A document is one sentence with the words of its
page's title before it, so that a sentence that says "it" is still found by the name it is about.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite.config.load import digest
from pcsuite.errors import DataError, require
from pcsuite.retrieval.base import Passage
from pcsuite.retrieval.corpus import file_sha256, query_words, read_pages, words

FORMAT = 1
META = "meta.json"
PASSAGES = "passages.jsonl"
OFFSETS = "offsets.npy"


@dataclass(frozen=True, slots=True)
class Bm25Settings:
    """What an index is built with."""

    k1: float = 1.2
    b: float = 0.75
    method: str = "lucene"
    titles: bool = True
    """Whether a page's title is part of each of its sentences."""


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """What an index was built from."""

    format: int
    key: str
    source: str
    source_sha256: str
    settings: Bm25Settings
    pages: int
    passages: int
    library: str


def index_key(source_sha256: str, settings: Bm25Settings) -> str:
    """Name of an index: sha256 of its sources and settings."""
    return digest({"format": FORMAT, "sources": [source_sha256], "settings": asdict(settings)})


def index_folder(cache_dir: Path, key: str) -> Path:
    """Where an index of that name lies."""
    return cache_dir / "indexes" / key


def ensure_index(source: Path, cache_dir: Path, settings: Bm25Settings | None = None) -> Path:
    """The folder of the index of a pages file; built if it is not there yet."""
    settings = settings or Bm25Settings()
    key = index_key(file_sha256(source), settings)
    folder = index_folder(cache_dir, key)
    if not (folder / META).is_file():
        _build(source, folder, key, settings)
    return folder


def read_meta(folder: Path) -> IndexMeta:
    """What the index in ``folder`` was built from."""
    try:
        values = json.loads((folder / META).read_text(encoding="utf-8"))
        settings = Bm25Settings(**values.pop("settings"))
        meta = IndexMeta(settings=settings, **values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{folder} is not a search index: {error}", hint="pcsuite index build makes one"
        ) from error
    if meta.format != FORMAT:
        raise DataError(
            f"{folder} has index format {meta.format}, this version reads {FORMAT}",
            hint="pcsuite index build makes a new one",
        )
    return meta


def _build(source: Path, folder: Path, key: str, settings: Bm25Settings) -> None:
    """Write an index beside its place and move it there whole; whoever comes second keeps the first's."""
    bm25s = require("bm25s", "retrieval")
    building = folder.with_name(f"{key}.building-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        vocabulary: dict[str, int] = {}
        documents: list[list[int]] = []
        pages: set[str] = set()
        with (building / PASSAGES).open("wb") as stream:
            offsets = [0]
            for page, number, text in _sentences(source):
                pages.add(page)
                tokens = words(f"{page} {text}" if settings.titles else text)
                documents.append([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
                stream.write(json.dumps([page, number, text], ensure_ascii=False).encode() + b"\n")
                offsets.append(stream.tell())
        if not any(len(document) for document in documents):
            raise DataError(f"{source} has no sentences to index")
        np.save(building / OFFSETS, np.array(offsets, dtype=np.int64))
        index = bm25s.BM25(
            k1=settings.k1, b=settings.b, method=settings.method, dtype="float64", backend="numpy"
        )
        index.index((documents, vocabulary), show_progress=False)
        index.save(building, show_progress=False)
        meta = IndexMeta(
            FORMAT,
            key,
            source.name,
            file_sha256(source),
            settings,
            len(pages),
            len(documents),
            f"bm25s {bm25s.__version__}",
        )
        (building / META).write_text(json.dumps(asdict(meta), indent=2) + "\n", encoding="utf-8")
        try:
            building.rename(folder)
        except OSError:
            if not (folder / META).is_file():  # not the other process's finished index: a real failure
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _sentences(source: Path) -> Iterator[tuple[str, int, str]]:
    """Sentences with their place on the page; blank ones keep their number and are left out."""
    for page, sentences in read_pages(source):
        for number, text in enumerate(sentences):
            if text.strip():
                yield page, number, text


def indexed_pages(folder: Path) -> Iterator[str]:
    """Names of the pages in an index, each once."""
    read_meta(folder)
    before: str | None = None
    with (folder / PASSAGES).open("rb") as stream:
        for line in stream:
            page: str = json.loads(line)[0]
            if page != before:
                yield page
            before = page


class Bm25Index:
    """An index opened for searching; its arrays and texts stay on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta = read_meta(folder)
        bm25s = require("bm25s", "retrieval")
        try:
            self._index: Any = bm25s.BM25.load(folder, mmap=True, show_progress=False)
            self._offsets: npt.NDArray[np.int64] = np.load(folder / OFFSETS, mmap_mode="r")
            self._passages: npt.NDArray[np.uint8] = np.memmap(folder / PASSAGES, dtype=np.uint8, mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{folder}: damaged search index ({error})", hint="delete the folder; it is built again"
            ) from error

    def __len__(self) -> int:
        return self.meta.passages

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Score of every sentence, in file order."""
        vocabulary = self._index.vocab_dict
        ids = [vocabulary[word] for word in query_words(query) if word in vocabulary]
        if not ids:
            return np.zeros(len(self))
        found: npt.NDArray[np.float64] = self._index.get_scores_from_ids(ids)
        return found

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best sentences that share a word with the query; ties go by place in the corpus."""
        if k < 1:
            return []
        scores = self.scores(query)
        candidates = np.flatnonzero(scores > 0)
        found = scores[candidates]
        if len(candidates) > k:  # everything that ties with the k-th best stays in until the order is known
            best = found >= np.partition(found, -k)[-k]
            candidates, found = candidates[best], found[best]
        ranked = candidates[np.lexsort((candidates, -found))][:k]
        return [self._passage(int(place), float(scores[place])) for place in ranked]

    def _passage(self, place: int, score: float) -> Passage:
        start, end = int(self._offsets[place]), int(self._offsets[place + 1])
        page, number, text = json.loads(self._passages[start:end].tobytes())
        return Passage(page, number, text, score)
