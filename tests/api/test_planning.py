import json

import pytest

import pcsuite as pcs
from pcsuite.cli import main
from pcsuite.errors import ConfigError


def test_plan_says_rows_and_price_and_calls_nothing(profile, tmp_path):
    planned = pcs.plan(profile, output_dir=tmp_path / "new", limit=10)
    assert (planned.rows, planned.max_cost_usd) == (20, 0)
    assert [record["rows"] for record in planned.cells().records()] == [10, 10]
    assert "20 rows, 20 to run" in repr(planned)
    assert "<table>" in planned._repr_html_()
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_plan_says_what_it_can_find_as_the_command_does(profile, tmp_path, capsys):
    planned = pcs.plan(profile, power=True, assume={"accuracy": 0.7}, output_dir=tmp_path / "new", limit=40)
    (record,) = planned.power().records()
    assert (record["items"], record["comparisons"], record["can_hold"]) == (40, 1, True)
    assert 0 < record["smallest_gain"] < 0.3
    assert "smallest_gain" in repr(planned)
    words = [
        "--power",
        "--assume",
        "accuracy=0.7",
        "--limit",
        "40",
        "--output-dir",
        str(tmp_path / "new"),
        "--json",
    ]
    assert main(["plan", "--config", str(profile), *words]) == 0
    assert json.loads(capsys.readouterr().out)["power"] == [record]
    assert pcs.plan(profile, limit=10).power_settings is None
    with pytest.raises(ConfigError, match=r"assume: unknown 'accurcy' \(did you mean 'accuracy'"):
        pcs.plan(profile, assume={"accurcy": 0.7})
