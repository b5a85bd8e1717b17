"""A report that is asked for again."""

import pytest

from pcsuite.report import build
from pcsuite.report.build import build_report
from support.synthetic_log import make_row, write_log

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path):
    rows = [
        make_row(item=f"i{item}", condition=condition, seed=seed, decoding="D1", score=(item + seed) % 2)
        for item in range(6)
        for condition in ("C0", "C1")
        for seed in (1, 2)
    ]
    return write_log(tmp_path / "runs" / "a.jsonl", rows)


@pytest.fixture
def analysed(monkeypatch):
    """Counts how often the log is analysed."""
    calls = []
    plain = build.analyse

    def counting(*arguments, **named):
        calls.append(1)
        return plain(*arguments, **named)

    monkeypatch.setattr(build, "analyse", counting)
    return calls


def test_nothing_is_done_twice_for_the_same_report(log, tmp_path, analysed):
    first = build_report([log], tmp_path / "out", plots=False)
    page = first.index.read_bytes()
    again = build_report([log], tmp_path / "out", plots=False)
    assert len(analysed) == 1
    assert (again.reports, again.tables, again.plots) == (first.reports, first.tables, first.plots)
    assert again.index.read_bytes() == page


def test_a_new_row_another_option_or_a_missing_file_makes_it_anew(log, tmp_path, analysed):
    out = tmp_path / "out"
    build_report([log], out, plots=False)
    write_log(log, [make_row(item="new", decoding="D1", seed=1)])
    files = build_report([log], out, plots=False)
    assert len(analysed) == 2
    build_report([log], out, plots=False, title="Another")
    assert len(analysed) == 3
    assert "Another" in files.index.read_text(encoding="utf-8")
    (out / "tables" / "a" / "effects.csv").unlink()
    build_report([log], out, plots=False, title="Another")
    assert len(analysed) == 4
    assert (out / "tables" / "a" / "effects.csv").is_file()
    log.with_suffix(".manifest.json").write_text("{}")
    build_report([log], out, plots=False, title="Another")
    assert len(analysed) == 5


def test_more_rows_than_a_spreadsheet_opens_are_in_parquet_alone(log, tmp_path, monkeypatch):
    def written(**options):
        return {
            table.name: table
            for table in build_report([log], tmp_path / "out", plots=False, **options).tables
        }

    few = written()["runs.csv"]
    monkeypatch.setattr(build, "SPREADSHEET_ROWS", 23)
    write_log(log, [make_row(item="new", decoding="D1", seed=1)])
    many = written()
    assert "runs.parquet" in many
    assert "runs.csv" not in many
    assert not few.exists()  # that of fewer rows would mislead
    assert len(written(runs_csv=True)["runs.csv"].read_text().splitlines()) == 26
