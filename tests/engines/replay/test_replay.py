"""Every written exchange with a provider is played against the real adapter; the format is that of ``support.replay``."""

import pytest

from pcsuite.config.model_names import provider_presets
from support.replay import all_exchanges, compared, environment, play, replay_files

EXCHANGES = all_exchanges()


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


def test_every_declared_server_has_exchanges_with_successes_and_errors():
    by_provider: dict[str, list] = {}
    for file, exchange in EXCHANGES:
        by_provider.setdefault(file.provider, []).append(exchange)
    assert by_provider.keys() == provider_presets().keys()
    for exchanges in by_provider.values():
        assert any(exchange.reading is not None for exchange in exchanges)
        assert any(exchange.error is not None for exchange in exchanges)
    assert len(EXCHANGES) >= 150


def test_names_are_unique_within_a_file():
    for file in replay_files():
        names = [exchange.name for exchange in file.exchanges]
        assert len(names) == len(set(names))
