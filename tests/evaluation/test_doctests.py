"""The examples in the docstrings of the evaluation run."""

import doctest
import importlib
import pkgutil

import pytest

import pcsuite.evaluation


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(pcsuite.evaluation.__path__)]
)
def test_examples_of_a_module_run(name):
    assert doctest.testmod(importlib.import_module(f"pcsuite.evaluation.{name}")).failed == 0
