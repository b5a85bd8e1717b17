"""``bm25_local``: BM25 over the sentences of the dataset's pages, in an index on this machine.

Scores are Lucene's BM25 (Robertson et al. 1995 as in Kamphuis et al. 2020, table 1, "Lucene (accurate)"):

    score(q, d) = Σ_{t ∈ q} ln(1 + (N − n_t + ½) / (n_t + ½)) · f_td / (f_td + k1·(1 − b + b·|d| / avgdl))

over the distinct words of the query, in double precision. A document is one sentence with the words of its page's
title before it, so that a sentence that says "it" is still found by the name it is about. An index is built once,
named by the hash of what it was built from, and mapped into memory to be read.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pcsuite._util.files import building_folder, replace_atomically, sha256_file
from pcsuite._util.hashing import digest
from pcsuite.config.profile import RetrievalSection
from pcsuite.data.items import SAMPLES, ItemSource, datasets_dir, find_file, read_jsonl
from pcsuite.errors import DataError, require
from pcsuite.retrieval.base import DEFAULT_K, KnownPages, Passage, Retriever

_WORD = re.compile(r"\w+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":", "_": " "}
_ESCAPE = re.compile("|".join(re.escape(escape) for escape in _ESCAPES))

FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be been by did do does for from had has have he her his in is it its not of on or "
        "s she that the their them they this to was were which who will with"
    )
)
"""Words a query is searched without, unless it has no other ("The Who"). Pages keep them."""


ENCYCLOPEDIAS = ("wiki", "fever")
"""Pages in the cache that any dataset may search where it has none of its own."""


def find_pages(dataset: str, cache_dir: Path) -> ItemSource:
    """The pages file of a dataset: its own in the cache, any encyclopedia there, else the bundled sample.

    The file has one ``{"page", "sentences": [...]}`` a line. An encyclopedia is ``wiki_pages.jsonl`` or the pages
    exported with FEVER, which serve every dataset that asks about the world, or ``wiki_passages.jsonl`` of single
    passages (``{"pid", "text"}``), in the cache folder itself too. :class:`DataError` where there is none.
    """
    corpora = (dataset, *ENCYCLOPEDIAS)
    cached, *encyclopedias = (datasets_dir(cache_dir) / f"{corpus}_pages.jsonl" for corpus in corpora)
    passages = [folder / "wiki_passages.jsonl" for folder in (cache_dir, datasets_dir(cache_dir))]
    for path in (cached, *encyclopedias, *passages):
        if path.is_file():
            return ItemSource("cache", path)
    sample = find_file([cached.name], cache_dir, SAMPLES)
    if sample is not None:
        return sample
    raise DataError(
        f"no pages to search for dataset '{dataset}': neither {cached} nor a bundled sample exists",
        hint=f"pcsuite index build --dataset {dataset} --pages FILE takes pages of yours; or: pcsuite export-datasets",
    )


def read_pages(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Page names with their sentences, in file order; malformed lines are errors with their place.

    A line has ``page``, a name, and ``sentences``, a list of texts; or it is a passage, ``pid`` and ``text``: then the
    id is the page's name and the text its only sentence. Raises :class:`DataError`.
    """
    for row in read_jsonl(path):
        is_passage = "pid" in row.values and "page" not in row.values
        page = str(row.values["pid"]) if is_passage else row.text("page")
        if not page:
            raise row.error(f"'{'pid' if is_passage else 'page'}' is empty")
        yield page, [row.text("text")] if is_passage else row.texts("sentences")


def words(text: str) -> list[str]:
    """The words of a text: the corpus's escapes undone, accents and case removed, split at everything else.

    >>> words("Soul_Food_-LRB-film-RRB-")
    ['soul', 'food', 'film']
    """
    plain = _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text)
    decomposed = unicodedata.normalize("NFKD", plain.casefold())
    if not decomposed.isascii():
        decomposed = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(decomposed)


def query_words(query: str) -> list[str]:
    """The distinct words a query is searched by, in order; function words only where it has no others.

    So "The Who" is still found.
    """
    distinct = list(dict.fromkeys(words(query)))
    return [word for word in distinct if word not in FUNCTION_WORDS] or distinct


def _file_sha256(path: Path) -> str:
    """sha256 (hex) of a file; read again only when its size or time changed."""
    # A corpus may have gigabytes, and every cell that searches asks for its hash.
    state = path.stat()
    return _hash_of_file(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _hash_of_file(path: Path, size: int, modified_ns: int) -> str:
    return sha256_file(path)


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
    """Name of an index: another file, other settings or another format give another name."""
    return digest({"format": FORMAT, "sources": [source_sha256], "settings": asdict(settings)})


def index_root(cache_dir: Path, wiki_index_path: str | None = None) -> Path:
    """Folder of the indexes: the profile's ``wiki_index_path``, by default ``wiki_bm25`` in the cache folder."""
    return cache_dir / "wiki_bm25" if wiki_index_path is None else Path(wiki_index_path)


def assign_index(dataset: str, index: Path) -> None:
    """Have loops on a dataset search this index, whatever pages the dataset has itself.

    A note beside the index says so; the next one for the dataset replaces it.
    """
    replace_atomically(index.parent / f"{dataset}.json", json.dumps({"index": index.name}).encode() + b"\n")


def _chosen_index(root: Path, dataset: str) -> Path | None:
    """The index that ``root`` is or that was assigned to the dataset there; ``None`` where its own pages count."""
    if (root / META).is_file():
        return root
    note = root / f"{dataset}.json"
    try:
        return root / str(json.loads(note.read_text(encoding="utf-8"))["index"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{note}: cannot be read ({error})", hint="pcsuite index build --pages FILE writes it"
        ) from error


def ensure_index(
    source: Path, cache_dir: Path, settings: Bm25Settings | None = None, *, root: Path | None = None
) -> Path:
    """The folder of the index of a pages file below ``root`` (by default that of the cache); built if not there yet.

    It is written beside its place and moved there whole; of two processes the first one's stays. Raises
    :class:`DataError` where the file has no sentences.
    """
    settings = settings or Bm25Settings()
    key = index_key(_file_sha256(source), settings)
    folder = (root or index_root(cache_dir)) / key
    if (folder / META).is_file():
        return folder
    bm25s = _bm25s()
    with building_folder(folder, META) as building:
        vocabulary: dict[str, int] = {}
        documents: list[list[int]] = []
        pages: set[str] = set()
        with (building / PASSAGES).open("wb") as stream:
            offsets = [0]
            for page, sentences in read_pages(source):
                for number, text in enumerate(sentences):
                    if not text.strip():  # keeps its number and is left out
                        continue
                    pages.add(page)
                    tokens = words(f"{page} {text}" if settings.titles else text)
                    documents.append([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
                    stream.write(json.dumps([page, number, text], ensure_ascii=False).encode() + b"\n")
                    offsets.append(stream.tell())
        if not any(len(document) for document in documents):
            raise DataError(f"{source} has no sentences to index")
        np.save(building / OFFSETS, np.array(offsets, dtype=np.int64))
        parameters = {"k1": settings.k1, "b": settings.b, "method": settings.method}
        index = bm25s.BM25(**parameters, dtype="float64", backend="numpy")
        index.index((documents, vocabulary), show_progress=False)
        index.save(building, show_progress=False)
        origin, library = (source.name, _file_sha256(source), settings), f"bm25s {bm25s.__version__}"
        meta = IndexMeta(FORMAT, key, *origin, len(pages), len(documents), library)
        (building / META).write_text(json.dumps(asdict(meta), indent=2) + "\n", encoding="utf-8")
    return folder


def _bm25s() -> Any:
    """The library, without its log of every step on standard error."""
    # It starts JAX where that is installed, which takes three quarters of a GPU's memory; our searches are in numpy.
    hidden = {} if "jax" in sys.modules or "bm25s" in sys.modules else {"jax": None, "jax.lax": None}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        library = require("bm25s", "retrieval")
    finally:
        for name in hidden:
            del sys.modules[name]
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return library


def _read_meta(folder: Path) -> IndexMeta:
    """What the index in ``folder`` was built from; :class:`DataError` where it is no index of this format."""
    try:
        values = json.loads((folder / META).read_text(encoding="utf-8"))
        settings = Bm25Settings(**values.pop("settings"))
        meta = IndexMeta(settings=settings, **values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        problem = f"{folder} is not a search index: {error}"
        raise DataError(problem, hint="pcsuite index build makes one") from error
    if meta.format != FORMAT:
        hint = "pcsuite index build makes a new one"
        raise DataError(f"{folder} has index format {meta.format}, this version reads {FORMAT}", hint=hint)
    return meta


class Bm25Index:
    """An index opened for searching; its arrays and texts stay on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta = _read_meta(folder)
        bm25s = _bm25s()
        try:
            self._index: Any = bm25s.BM25.load(folder, mmap=True, show_progress=False)
            self._offsets: npt.NDArray[np.int64] = np.load(folder / OFFSETS, mmap_mode="r")
            self._passages: npt.NDArray[np.uint8] = np.memmap(folder / PASSAGES, dtype=np.uint8, mode="r")
        except (OSError, ValueError, KeyError) as error:
            problem = f"{folder}: damaged search index ({error})"
            raise DataError(problem, hint="delete the folder; it is built again") from error

    def __len__(self) -> int:
        return self.meta.passages

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """BM25 score of every sentence, in file order; 0 for those that share no word with the query.

        Double precision, so that ties are ties.
        """
        vocabulary = self._index.vocab_dict
        ids = [vocabulary[word] for word in query_words(query) if word in vocabulary]
        if not ids:
            return np.zeros(len(self))
        scores: npt.NDArray[np.float64] = self._index.get_scores_from_ids(ids)
        return scores

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best sentences that share a word with the query, best first.

        Ties are broken by order in the corpus, so a search gives the same passages everywhere.
        """
        if k < 1:
            return []
        scores = self.scores(query)
        candidates = np.flatnonzero(scores > 0)
        if len(candidates) > k:  # everything that ties with the k-th best stays in until the order is known
            least = np.partition(scores[candidates], -k)[-k]
            candidates = candidates[scores[candidates] >= least]
        ranked = candidates[np.lexsort((candidates, -scores[candidates]))][:k]
        passages = []
        for index in ranked.tolist():
            line = self._passages[int(self._offsets[index]) : int(self._offsets[index + 1])]
            page, number, text = json.loads(line.tobytes())
            passages.append(Passage(page, number, text, float(scores[index])))
        return passages


class CorpusPages(KnownPages):
    """The pages of a pages file or of an index, read when they are asked for; it travels to other processes as a path.

    Only where each page begins is kept in memory: an encyclopedia's sentences stay on disk.
    """

    def __init__(self, path: Path, *, indexed: bool) -> None:
        self.path = path
        self.indexed = indexed
        """Whether ``path`` is an index folder instead of a pages file."""
        self._read = lru_cache(maxsize=1024)(self._read_sentences)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(CorpusPages, indexed=self.indexed), (self.path,)

    def __iter__(self) -> Iterator[str]:
        return iter(self._begins)

    def sentences(self, title: str) -> Mapping[int, str]:
        return self._read(title)

    @property
    def _file(self) -> Path:
        return self.path / PASSAGES if self.indexed else self.path

    @cached_property
    def _begins(self) -> dict[str, int]:
        """Offset of each page's first line in its file."""
        if self.indexed:
            _read_meta(self.path)
        else:
            for _ in read_pages(self.path):  # a malformed line is an error with its place
                pass
        begins: dict[str, int] = {}
        with self._file.open("rb") as stream:
            offset = 0
            for line in stream:
                if line.strip():
                    row = json.loads(line)
                    page = row[0] if self.indexed else row.get("page", row.get("pid"))
                    begins.setdefault(str(page), offset)
                offset += len(line)
        return begins

    def _read_sentences(self, title: str) -> Mapping[int, str]:
        if title not in self._begins:
            return {}
        with self._file.open("rb") as stream:
            stream.seek(self._begins[title])
            if not self.indexed:
                row = json.loads(stream.readline())
                texts = row["sentences"] if "sentences" in row else [row["text"]]
                return {number: text for number, text in enumerate(texts) if text.strip()}
            rows = takewhile(lambda row: row[0] == title, map(json.loads, stream))
            return {number: text for _, number, text in rows}


class Bm25Retriever(Retriever):
    """Searches the index of a dataset among those below the profile's ``wiki_index_path``.

    That may be an index itself; else it is where ``pcsuite index build`` writes. An index built for the dataset from
    pages of one's own goes first, then that of the dataset's pages, which is built when it is first needed.
    """

    def __init__(self, index: Bm25Index) -> None:
        self.index = index

    @classmethod
    def open(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Bm25Retriever:
        """Open the index, building it first where the dataset has pages and the index is not there."""
        root = index_root(cache_dir, settings.wiki_index_path)
        chosen = _chosen_index(root, dataset)
        if chosen is None:
            chosen = ensure_index(find_pages(dataset, cache_dir).path, cache_dir, root=root)
        return cls(Bm25Index(chosen))

    @classmethod
    def version(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Mapping[str, str]:
        """The index's name, which is the hash of its sources and settings."""
        chosen = _chosen_index(index_root(cache_dir, settings.wiki_index_path), dataset)
        if chosen is not None:
            return {"backend": "bm25_local", "index": _read_meta(chosen).key}
        pages = find_pages(dataset, cache_dir).path
        return {"backend": "bm25_local", "index": index_key(_file_sha256(pages), Bm25Settings())}

    @classmethod
    def known_pages(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> KnownPages | None:
        """The pages of the index folder or of the dataset's pages file."""
        chosen = _chosen_index(index_root(cache_dir, settings.wiki_index_path), dataset)
        if chosen is not None:
            return CorpusPages(chosen, indexed=True)
        source = cls.pages_of(settings, dataset, cache_dir)
        return None if source is None else CorpusPages(source.path, indexed=False)

    @classmethod
    def pages_of(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> ItemSource | None:
        """The dataset's pages file, unless an index was chosen for it; ``None`` also where there is no file."""
        if _chosen_index(index_root(cache_dir, settings.wiki_index_path), dataset) is not None:
            return None
        try:
            return find_pages(dataset, cache_dir)
        except DataError:
            return None

    def search(self, query: str, k: int = DEFAULT_K) -> list[Passage]:
        return self.index.search(query, k)
