"""``outlines_json`` without a model: what it steers, and what it says of itself."""

from __future__ import annotations

from pcsuite.constraints.outlines_json import OutlinesBackend
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions


def test_models_of_hf_are_steered_by_every_kind():
    backend = OutlinesBackend()
    for kind in ("json_schema", "regex", "cfg"):
        assert backend.steers(LocalHfAdapter, HfOptions(path="x"), kind)
        assert not backend.steers(SimulatedAdapter, SimulatedOptions(), kind)


def test_the_row_names_the_libraries_and_their_versions(monkeypatch):
    monkeypatch.setattr(
        "pcsuite.engines.constrained.version", lambda name: {"outlines": "1.2", "llguidance": "0.7"}[name]
    )
    assert OutlinesBackend().label() == "outlines_json (outlines 1.2, llguidance 0.7)"
    monkeypatch.setattr(
        "pcsuite.engines.constrained.find_spec", lambda name: None if name == "llguidance" else object()
    )
    assert OutlinesBackend().missing() == "llguidance"
