import pytest

from pcsuite.ablation import ablate
from support.ablating import request_in


@pytest.fixture(scope="session")
def ablated(tmp_path_factory):
    """An ablation on the simulated model: rules helps, noise hurts, both beyond doubt at 200 items."""
    folder = tmp_path_factory.mktemp("ablated")
    return ablate(request_in(folder, items=200, design="leave-one-out"), quiet=True)
