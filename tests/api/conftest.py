import pytest

import pcsuite as pcs
from support.own_task import write_own_profile


@pytest.fixture(scope="session")
def profile(tmp_path_factory):
    return write_own_profile(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="session")
def made(profile):
    return pcs.run(profile, quiet=True)
