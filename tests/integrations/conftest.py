"""HELM, installed once for all tests that need it."""

import sys

import pytest

from pcsuite.integrations.catalogue import HELM
from pcsuite.integrations.environments import environment_dir, install


@pytest.fixture(scope="session")
def helm_environment():
    """HELM's environment; made where it is absent, which takes some minutes."""
    if sys.version_info < HELM.minimum_python:
        pytest.skip("HELM needs Python 3.11 or later")
    install(HELM, print)
    return environment_dir(HELM)
