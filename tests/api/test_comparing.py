import pytest

import pcsuite as pcs


@pytest.mark.slow
def test_compare_takes_runs_names_and_baselines(made, profile, tmp_path):
    worse = pcs.run(
        profile, quiet=True, name="worse", conditions="C1", repro__deterministic_hash_seed="pcsuite-v1"
    )
    path = made.baseline().write(tmp_path / "own.json", made.metrics)
    for first in (made, "own", path, str(path)):
        compared = pcs.compare(first, worse, margin=0.3, output_dir=made.log.parent.parent)
        assert compared.standing == "no worse"
        assert [key.condition for key in compared.only_first] == ["C0"]
    assert made.compare(made).changes == []
