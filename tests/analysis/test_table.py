"""Tables and their specs: what is written, what is refused, and that the reference page says the same."""

import pytest

from pcsuite.analysis.analyse import ALL_TABLES
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.errors import AnalysisError
from pcsuite.integrations.helm.evidence import BESIDE_OURS
from pcsuite.integrations.helm.results import INSTANCES, METRICS, RUNS
from support.analysed import tables_of
from support.synthetic_log import make_row

SPEC = TableSpec("sizes", "Sizes", "model", (Column("model", "its id"), *interval("size", "its size")))


def test_a_column_that_the_spec_lacks_is_an_error():
    with pytest.raises(AnalysisError, match="table 'sizes' has no column 'weight'"):
        Table.of(SPEC, [{"model": "m"}, {"model": "n", "weight": 1}])


def test_a_column_that_a_record_lacks_is_empty(tmp_path):
    table = Table.of(
        SPEC, [{"size": 1.5, "model": "=m"}, {"model": "n", "size": float("nan"), "size_low": True}]
    )
    text = table.write_csv(tmp_path / "deep" / "sizes.csv").read_text(encoding="utf-8")
    assert text == "model,size,size_low,size_high\n'=m,1.5,,\nn,,true,\n"


def test_limits_belong_to_their_value():
    assert [SPEC.is_limit(name) for name in SPEC.names] == [False, False, True, True]
    assert not TableSpec("t", "", "", (Column("low", ""), Column("n_low", ""))).is_limit("n_low")


@pytest.mark.slow
def test_every_table_is_declared_and_every_column_explained(tmp_path):
    found = tables_of(tmp_path, [make_row(item=f"{k}", condition=c) for k in range(3) for c in ("C0", "C1")])
    declared = {spec.name: spec for spec in ALL_TABLES}
    assert set(found) <= set(declared)
    for spec in (*ALL_TABLES, RUNS, METRICS, INSTANCES, BESIDE_OURS):
        assert spec.title
        assert spec.row
        assert len(set(spec.names)) == len(spec.names)
        assert all(column.meaning for column in spec.columns), spec.name
