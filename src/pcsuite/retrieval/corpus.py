"""The pages that are searched, and the words they are found by."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pcsuite.data.jsonl import read_jsonl
from pcsuite.data.loading import SAMPLES, ItemSource, datasets_dir
from pcsuite.errors import DataError

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


def find_pages(dataset: str, cache_dir: Path, *, samples: Path = SAMPLES) -> ItemSource:
    """The pages file of a dataset: exported, else the bundled sample."""
    name = f"{dataset}_pages.jsonl"
    for source in (
        ItemSource("cache", datasets_dir(cache_dir) / name),
        ItemSource("sample", samples / name),
    ):
        if source.path.is_file():
            return source
    raise DataError(
        f"no pages to search for dataset '{dataset}': neither {datasets_dir(cache_dir) / name} nor a bundled "
        "sample exists",
        hint='write one {"page", "sentences": [...]} a line there, or run: pcsuite export-datasets',
    )


def read_pages(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Page names with their sentences, in file order; malformed lines are errors with their place."""
    for row in read_jsonl(path):
        page = row.text("page")
        if not page:
            raise row.error("'page' is empty")
        yield page, row.texts("sentences")


def plain_text(text: str) -> str:
    """Text without the corpus's escapes: ``Soul_Food_-LRB-film-RRB-`` is ``Soul Food (film)``."""
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text)


def words(text: str) -> list[str]:
    """The words of a text: escapes undone, accents and case removed, split at everything else."""
    decomposed = unicodedata.normalize("NFKD", plain_text(text).casefold())
    if not decomposed.isascii():
        decomposed = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(decomposed)


def query_words(query: str) -> list[str]:
    """The distinct words a query is searched by, in order."""
    distinct = list(dict.fromkeys(words(query)))
    return [word for word in distinct if word not in FUNCTION_WORDS] or distinct


def file_sha256(path: Path) -> str:
    """sha256 (hex) of a file; read again only when its size or time changed."""
    state = path.stat()
    return _file_sha256(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _file_sha256(path: Path, size: int, modified: int) -> str:
    content = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            content.update(block)
    return content.hexdigest()
