from __future__ import annotations

import pytest

from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.weights import CATALOGUE, pull_weights

WEIGHTS = "smollm2-135m-instruct-q4_1"


@pytest.fixture(scope="session")
def embedded_weights():
    """The embedded model's file, pulled into the user's cache on first use."""
    return pull_weights(CATALOGUE[WEIGHTS])


@pytest.fixture(scope="session")
def embedded(embedded_weights):
    """The embedded model with two workers, shared by all tests."""
    pytest.importorskip("xllamacpp")
    adapter = LlamaCppAdapter("smollm2-135m", LlamaCppOptions(weights=WEIGHTS, workers=2))
    yield adapter
    adapter.close()
