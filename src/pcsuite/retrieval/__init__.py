"""Retrieval: passages for programs that look things up, from a local index or an HTTP endpoint."""

from __future__ import annotations

from pcsuite.registry import Registry
from pcsuite.retrieval.base import Retriever

RETRIEVERS: Registry[type[Retriever]] = Registry(
    "retrieval backend",
    "pcsuite.retrievers",
    {
        "bm25_local": "pcsuite.retrieval.bm25_local:Bm25Retriever",
        "api_retriever": "pcsuite.retrieval.api_retriever:ApiRetriever",
    },
)
