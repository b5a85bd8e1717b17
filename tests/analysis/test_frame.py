"""Tables that show themselves and go to pandas, polars and anything that speaks Arrow."""

import math
import subprocess
import sys

import pytest

from pcsuite.analysis.frame import RowsFrame
from pcsuite.analysis.table import Column, Table, TableSpec
from pcsuite.errors import install_words

SPEC = TableSpec(
    "sizes", "Sizes", "model", tuple(Column(name, "") for name in ("model", "score", "items", "ok", "mixed"))
)
ROWS = [
    {"model": "a <b>", "score": 0.5, "items": 3, "ok": True, "mixed": 1},
    {"model": 'é "x", y', "score": math.nan, "items": 2**53 + 1, "ok": None, "mixed": "two"},
    {"model": None, "score": 1, "items": None, "ok": False, "mixed": None},
]


@pytest.fixture
def table():
    return Table.of(SPEC, ROWS)


def test_it_shows_itself_in_text_and_html_with_everything_escaped(table):
    assert repr(table).splitlines()[0].split() == ["model", "score", "items", "ok", "mixed"]
    assert repr(table).endswith("[3 rows × 5 columns]")
    shown = table._repr_html_()
    assert "a &lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 4
    long = Table(SPEC, [("m", 0.1, 1, True, "x")] * 100)
    assert "[100 rows × 5 columns, the first 20 shown]" in long._repr_html_()


def test_pandas_gets_every_value(table):
    frame = table.to_pandas()
    assert list(frame.columns) == list(SPEC.names)
    assert frame["model"].tolist()[:2] == ["a <b>", 'é "x", y']
    assert frame["score"].tolist()[::2] == [0.5, 1.0]
    empty = Table(SPEC, []).to_pandas()
    assert (list(empty.columns), len(empty)) == (list(SPEC.names), 0)


def test_arrow_keeps_types_and_missing_values(table):
    pyarrow = pytest.importorskip("pyarrow")
    made = pyarrow.table(table)
    kinds = {field.name: str(field.type) for field in made.schema}
    assert kinds == {"model": "string", "score": "double", "items": "int64", "ok": "bool", "mixed": "string"}
    assert made.to_pylist()[1] == {
        "model": 'é "x", y', "score": None, "items": 2**53 + 1, "ok": None, "mixed": "two"
    }  # fmt: skip
    assert pyarrow.table(Table(SPEC, [])).num_rows == 0


def test_polars_takes_it(table):
    polars = pytest.importorskip("polars")
    made = table.to_polars()
    assert isinstance(made, polars.DataFrame)
    assert made.rows()[0] == ("a <b>", 0.5, 3, True, "1")


def test_duckdb_reads_it_by_name_and_no_pyarrow_is_needed(table):
    script = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "pandas", "polars"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocked())
from pcsuite.analysis.table import Column, Table, TableSpec
from pcsuite.errors import MissingExtraError
table = Table(TableSpec("t", "", "", (Column("a", ""),)), [(1,), (2,)])
print("arrow_array_stream" in repr(table.__arrow_c_stream__()))
for ask in (table.to_pandas, table.to_polars):
    try:
        ask()
    except MissingExtraError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "True",
        f"pandas is not installed ({install_words('frames')})",
        f"polars is not installed ({install_words('frames')})",
    ]


@pytest.mark.slow
def test_rows_of_a_file_are_read_when_asked_for(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows.parquet"
    duckdb.sql("SELECT range AS n, 'x' || range AS name FROM range(1000)").write_parquet(str(path))
    rows = RowsFrame(path, f"SELECT * FROM read_parquet('{path}')")
    assert (len(rows), rows.columns) == (1000, ("n", "name"))
    assert rows.head(2) == [(0, "x0"), (1, "x1")]
    assert "the first 20 shown" in rows._repr_html_()
    assert rows.relation().aggregate("sum(n)").fetchall() == [(499500,)]
    assert rows.to_pandas().shape == (1000, 2)
    assert [record["n"] for record in rows.records()][-1] == 999
