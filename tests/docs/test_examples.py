"""The examples in docstrings run, whichever package they stand in (those of ``pcsuite.stats`` have tests of their own)."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8") and path.parent.name != "stats"
)


def test_there_are_examples():
    assert len(MODULES) > 50


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(name):
    if ".dspy_" in name:
        pytest.importorskip("dspy")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
