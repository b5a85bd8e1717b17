"""The embedded model by transformers, shared by the tests of a session."""

from __future__ import annotations

from functools import lru_cache

import pytest

WEIGHTS = "smollm2-135m-instruct-q4_1"
NEEDED = "the local stack is not installed: pip install -e '.[hf,outlines,guidance,lmql]'"


@lru_cache(maxsize=1)
def shared_hf_model():
    """An adapter with the embedded model in float32; pulled and converted on first use."""
    for module in ("torch", "transformers", "gguf", "accelerate"):
        pytest.importorskip(module, reason=NEEDED)
    from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
    from pcsuite.engines.weights import CATALOGUE, pull_weights

    pull_weights(CATALOGUE[WEIGHTS])
    return LocalHfAdapter("smollm2-135m-hf", HfOptions(weights=WEIGHTS, batch_size=16, batch_wait_ms=50))
