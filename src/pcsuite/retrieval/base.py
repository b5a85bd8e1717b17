"""The interface of a retriever: a query in, the best passages out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pcsuite.config.profile import RetrievalSection
from pcsuite.data.items import ItemSource

DEFAULT_K = 5


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence of a page, as evidence cites it, with the score it was found by."""

    page: str
    sentence: int
    text: str
    score: float


class KnownPages(ABC):
    """The pages of a corpus, whatever is searched of them: a citation is held against what exists."""

    @abstractmethod
    def __iter__(self) -> Iterator[str]:
        """Titles of all pages, as the corpus writes them; may be read lazily."""

    @abstractmethod
    def sentences(self, title: str) -> Mapping[int, str]:
        """The sentences of a page by their number; none for a page that is not there."""


class Retriever(ABC):
    """Finds passages; a plug-in's subclass is named in the entry-point group ``pcsuite.retrievers``."""

    blocking: ClassVar[bool] = False
    """Whether a search waits for something outside the process and belongs in a thread."""

    @classmethod
    @abstractmethod
    def open(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Retriever:
        """The retriever of a dataset, made ready to be searched.

        ``settings`` is the profile's section; what has to be built (an index, say) is built here and kept under
        ``cache_dir``.
        """

    @classmethod
    @abstractmethod
    def version(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Mapping[str, str]:
        """What determines the passages it would find, known without building anything.

        It becomes part of run ids: rows made with another version are not taken for these.
        """

    @classmethod
    def known_pages(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> KnownPages | None:
        """All pages that can be cited, with their sentences, or ``None`` where they cannot be listed.

        With them a citation is held against the corpus, whether anything was searched or not.
        """
        return None

    @classmethod
    def pages_of(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> ItemSource | None:
        """The file that a dataset's pages would be read from; ``None`` where the backend reads none or has its own.

        A run asks so that bundled sample pages are not searched for items of one's own.
        """
        return None

    @abstractmethod
    def search(self, query: str, k: int = DEFAULT_K) -> list[Passage]:
        """At most ``k`` passages, best first; none where nothing matches.

        Raises :class:`EngineError` where the search itself fails: that is never taken for finding nothing.
        """
