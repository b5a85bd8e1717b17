"""Shared by the evaluation tests: a private metric cache, and the place of the published files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pcsuite.evaluation.metric_cache import close_shared_caches


@pytest.fixture(autouse=True, scope="module")
def private_metric_cache(tmp_path_factory: pytest.TempPathFactory):
    """Keep the shared cache out of the working directory."""
    folder = tmp_path_factory.mktemp("metric_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCS_METRIC_CACHE", str(folder / "cache.sqlite"))
        patch.setenv("PCS_CACHE_STATS_DIR", str(folder / "stats"))
        yield
        close_shared_caches()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the published benchmark files; skips where they are not beside the checkout."""
    override = os.environ.get("PCS_SHARED_DATA")
    folder = Path(override) if override else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"published benchmark files are not at {folder} (set PCS_SHARED_DATA)")
    return folder
