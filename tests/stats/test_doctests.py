"""The public statistics: every example runs, the reference page lists every name, importing costs nothing."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pcsuite.stats

MODULES = [module.name for module in pkgutil.iter_modules(pcsuite.stats.__path__)]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "statistics.md"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(name):
    module = importlib.import_module(f"pcsuite.stats.{name}")
    failed, _ = doctest.testmod(module)
    assert failed == 0


@pytest.mark.parametrize("name", pcsuite.stats.__all__)
def test_a_public_function_has_an_example(name):
    public = getattr(pcsuite.stats, name)
    assert inspect.isclass(public) or ">>> " in public.__doc__


def test_no_public_name_is_that_of_a_module():
    # `from pcsuite.stats import x` would give the module once anything has imported it.
    assert not set(pcsuite.stats.__all__) & set(MODULES)
    assert set(pcsuite.stats.__all__) <= set(dir(pcsuite.stats))


def test_the_reference_page_lists_the_public_names_and_no_others():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(pcsuite.stats.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'bootstrapp'"):
        _ = pcsuite.stats.bootstrapp


def test_importing_the_package_imports_no_numpy():
    code = "import sys, pcsuite.stats; print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", MODULES)
def test_the_statistics_know_no_log_and_no_configuration(name):
    source = inspect.getsource(importlib.import_module(f"pcsuite.stats.{name}"))
    imported = set(re.findall(r"^\s*(?:from|import) (pcsuite[\w.]*)", source, re.MULTILINE))
    assert all(module == "pcsuite.errors" or module.startswith("pcsuite.stats") for module in imported)
