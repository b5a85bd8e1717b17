"""HELM and PromptBench, installed once for all tests that need them."""

import os
import sys

import pytest

from pcsuite.integrations.environments import HELM, PROMPTBENCH, environment_dir, install, is_installed


@pytest.fixture(scope="session")
def helm_environment():
    """HELM's environment; made where it is absent, which takes some minutes."""
    if sys.version_info < HELM.minimum_python:
        pytest.skip("HELM needs Python 3.11 or later")
    install(HELM, print)
    return environment_dir(HELM)


@pytest.fixture(scope="session")
def promptbench_environment():
    """PromptBench's environment; its two gigabytes are fetched where continuous integration asks for all tests."""
    if not is_installed(PROMPTBENCH) and not os.environ.get("CI"):
        pytest.skip(f"PromptBench is not installed ({PROMPTBENCH.command})")
    install(PROMPTBENCH, print)
