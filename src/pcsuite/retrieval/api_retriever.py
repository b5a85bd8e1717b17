"""``api_retriever``: passages from an HTTP endpoint.

The endpoint is sent ``POST {"query": "…", "k": 5}`` as JSON and answers

    {"passages": [{"page": "Lorvik", "sentence": 0, "text": "…", "score": 7.1}, …]}

best first; ``score`` may be left out, and ``"version"`` beside ``"passages"`` is ignored. Anything else is an
error: a search that failed is never taken for one that found nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pcsuite._util.http import is_retryable, post_blocking
from pcsuite._util.secrets import public_url
from pcsuite._util.text import read_json, shorten
from pcsuite.config.profile import RetrievalSection
from pcsuite.errors import ConfigError, EngineError
from pcsuite.retrieval.base import DEFAULT_K, Passage, Retriever

TIMEOUT_S = 30.0
_MAX_BYTES = 4 << 20


class ApiRetriever(Retriever):
    """Asks a search endpoint."""

    blocking: ClassVar[bool] = True

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url
        self._timeout_s = timeout_s

    @classmethod
    def open(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> ApiRetriever:
        return cls(_checked_url(settings))

    @classmethod
    def version(cls, settings: RetrievalSection, dataset: str, cache_dir: Path) -> Mapping[str, str]:
        """The address: what stands behind it cannot be known."""
        return {"backend": "api_retriever", "url": public_url(_checked_url(settings))}

    def search(self, query: str, k: int = DEFAULT_K) -> list[Passage]:
        """Ask the endpoint for at most ``k`` passages.

        Every failure is an :class:`EngineError` whose ``retryable`` says whether another try can help.
        """
        body = json.dumps({"query": query, "k": k}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        where = f"search endpoint {public_url(self.url)}"
        try:
            reply = post_blocking(
                self.url, body, headers=headers, timeout_s=self._timeout_s, max_bytes=_MAX_BYTES
            )
        except EngineError as error:
            raise error.reworded(f"{where}: {error.message}", hint=error.hint) from None
        # Whatever else a server says, it is no list of passages: an empty one would be read as "nothing found".
        if reply.status != 200:
            problem = f"{where} answered HTTP {reply.status}"
            raise EngineError(problem, status=reply.status, retryable=is_retryable(reply.status))
        try:
            return [_passage(entry) for entry in read_json(reply.body)["passages"]][:k]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise EngineError(
                f"{where} answered in another form: {shorten(reason)}",
                hint='expected {"passages": [{"page", "sentence", "text"}]}',
            ) from None


def _passage(entry: Any) -> Passage:
    page, sentence, text = entry["page"], entry["sentence"], entry["text"]
    if not isinstance(page, str) or not isinstance(text, str):
        raise ValueError("'page' and 'text' should be strings")
    if not isinstance(sentence, int) or isinstance(sentence, bool):
        raise ValueError("'sentence' should be a whole number")
    return Passage(page, sentence, text, float(entry.get("score", 0.0)))


def _checked_url(settings: RetrievalSection) -> str:
    url = settings.api_url
    if url is None:
        hint = "set integrations.retrieval.api_url in the profile"
        raise ConfigError("backend api_retriever needs an address", hint=hint)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ConfigError(
            f"integrations.retrieval.api_url: '{parts.hostname or url}' is no plain http address",
            hint="for example http://127.0.0.1:9200/search, without credentials",
        )
    return url
