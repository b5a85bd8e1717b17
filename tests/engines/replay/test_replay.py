"""Every written exchange with a provider is played against the real adapter; the format is that of ``support.replay``."""

import pytest

from support.replay import ReplayServer, all_exchanges, compared, environment, play, replay_files

EXCHANGES = all_exchanges()


@pytest.fixture(scope="module")
def server():
    with ReplayServer() as server:
        yield server


@pytest.mark.parametrize(
    ("file", "exchange"),
    EXCHANGES,
    ids=[f"{file.provider}-{file.wire}: {each.name}" for file, each in EXCHANGES],
)
def test_an_exchange_is_read_as_it_is_meant(file, exchange, server, monkeypatch):
    for name, value in environment(file, exchange, server.origin).items():
        monkeypatch.setenv(name, value)
    actual, expected = compared(exchange, play(file, exchange, server))
    assert actual == expected


def test_names_are_unique_within_a_file():
    for file in replay_files():
        names = [exchange.name for exchange in file.exchanges]
        assert len(names) == len(set(names))
