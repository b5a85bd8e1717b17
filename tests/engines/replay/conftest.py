"""The server that plays written exchanges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.replay import ReplayServer


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    """One server for all exchanges of a file of tests."""
    with ReplayServer() as server:
        yield server
