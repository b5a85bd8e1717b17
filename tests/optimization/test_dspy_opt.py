"""DSPy's optimisers as methods: candidates, lineage, reproducibility, and nothing from the network."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from pcsuite.errors import ConfigError
from pcsuite.optimization import METHODS
from support.optimizing import candidates_tried, simulated_problem

pytest.importorskip("dspy", reason="the dspy extra is not installed")

DSPY_METHODS = ("mipro", "gepa", "copro", "bootstrap")


class NetworkError(Exception):
    """A connection to somewhere else was tried."""


@pytest.fixture
def offline(monkeypatch):
    """No connection but to this computer, and no look-up of a name."""
    tried = []
    connect = socket.socket.connect

    def guarded(self, address):
        if isinstance(address, tuple) and not ipaddress.ip_address(address[0]).is_loopback:
            tried.append(address)
            raise NetworkError(address)
        return connect(self, address)

    def no_lookup(host, *args, **kwargs):
        tried.append(host)
        raise NetworkError(host)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    with pytest.raises(NetworkError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    tried.clear()
    return tried


@pytest.mark.slow
@pytest.mark.parametrize("method", DSPY_METHODS)
def test_a_search_keeps_to_its_candidates_fetches_nothing_and_comes_out_the_same(
    tmp_path, method, offline, capsys
):
    found = []
    for seed in (1, 1, 2):
        with simulated_problem(tmp_path / f"{len(found)}", method, seed=seed) as problem:
            METHODS.get(method).search(problem, seed=seed, candidates=4)
            found.append(candidates_tried(problem))
            scores = dict(problem.scores)
        assert 1 <= len(found[-1]) <= 4
        for name in found[-1]:
            candidate = scores[name].candidate
            assert candidate.method == method
            assert len(candidate.parents) == 1
            assert candidate.parents[0] in scores, "a parent was measured itself"
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert offline == []
    assert capsys.readouterr().out == "", "DSPy's chatter stays out of the command's output"


def test_without_training_items_the_methods_that_need_them_say_so(tmp_path):
    with simulated_problem(tmp_path, "bootstrap") as problem:
        problem.train = ()
        with pytest.raises(ConfigError, match="training items"):
            METHODS.get("bootstrap").search(problem, seed=1, candidates=4)
