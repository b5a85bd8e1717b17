"""``bm25_local``: BM25 over the dataset's pages, on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pcsuite.config.profile import RetrievalSection
from pcsuite.errors import DataError
from pcsuite.retrieval.base import DEFAULT_K, Passage, Retriever
from pcsuite.retrieval.bm25_index import (
    Bm25Index,
    Bm25Settings,
    ensure_index,
    index_key,
    indexed_pages,
    read_meta,
)
from pcsuite.retrieval.corpus import file_sha256, find_pages, read_pages


@dataclass(frozen=True, slots=True)
class PageTitles:
    """Page names, read from their file when they are asked for; a value that can travel to another process."""

    path: Path
    indexed: bool
    """Whether ``path`` is an index folder instead of a pages file."""

    def __iter__(self) -> Iterator[str]:
        return indexed_pages(self.path) if self.indexed else (page for page, _ in read_pages(self.path))


class Bm25Retriever(Retriever):
    """Searches an index folder: the profile's ``wiki_index_path``, else one built from the dataset's pages."""

    def __init__(self, index: Bm25Index) -> None:
        self.index = index

    @classmethod
    def open(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Bm25Retriever:
        """Open the index, building it first where it is not there."""
        if settings.wiki_index_path is not None:
            return cls(Bm25Index(Path(settings.wiki_index_path)))
        return cls(Bm25Index(ensure_index(find_pages(dataset, cache_dir).path, cache_dir)))

    @classmethod
    def version(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Mapping[str, str]:
        """The index's name, which is the hash of its sources and settings."""
        if settings.wiki_index_path is not None:
            return {"backend": "bm25_local", "index": read_meta(Path(settings.wiki_index_path)).key}
        pages = find_pages(dataset, cache_dir).path
        return {"backend": "bm25_local", "index": index_key(file_sha256(pages), Bm25Settings())}

    @classmethod
    def page_titles(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Iterable[str] | None:
        """The pages of the index folder or of the dataset's pages file."""
        if settings.wiki_index_path is not None:
            return PageTitles(Path(settings.wiki_index_path), indexed=True)
        try:
            pages = find_pages(dataset, cache_dir).path
        except DataError:
            return None
        return PageTitles(pages, indexed=False)

    def search(self, query: str, k: int = DEFAULT_K) -> list[Passage]:
        """The best sentences."""
        return self.index.search(query, k)
