"""Names to components: lazy targets, plug-ins, and what is said about a name that is not there."""

from importlib.metadata import EntryPoint

import pytest

from pcsuite.errors import ConfigError
from pcsuite.registry import Registry


@pytest.fixture
def registry():
    return Registry("codec", "pcsuite.test", {"json": "json:loads", "broken": "json:no_such", "text": str})


def test_targets_are_resolved_on_first_use(registry):
    import json

    assert registry.get("json") is json.loads
    assert registry.get("text") is str
    assert "json" in registry
    assert list(registry) == ["broken", "json", "text"]


def test_unknown_and_unloadable_names(registry):
    with pytest.raises(ConfigError, match=r"unknown codec 'jsn' \(did you mean 'json'\?\)"):
        registry.get("jsn")
    with pytest.raises(ConfigError, match="codec 'broken' cannot be loaded from 'json:no_such'"):
        registry.get("broken")


def test_a_taken_name_is_replaced_only_on_purpose(registry):
    with pytest.raises(ConfigError, match="already registered"):
        registry.add("text", repr)
    registry.add("text", repr, replace=True)
    assert registry.get("text") is repr


def test_plugins_add_names_and_a_broken_one_only_warns(registry, monkeypatch):
    points = [
        EntryPoint("json", "json:dumps", "pcsuite.test"),
        EntryPoint("dump", "json:dumps", "pcsuite.test"),
        EntryPoint("gone", "no_such_module:x", "pcsuite.test"),
    ]
    monkeypatch.setattr("pcsuite.registry.entry_points", lambda group: points)
    import json

    with pytest.warns(UserWarning, match=r"plugin pcsuite\.test:gone could not be loaded"):
        assert registry.get("dump") is json.dumps
    assert registry.get("json") is json.loads  # what is built in stays
    assert "gone" not in registry
