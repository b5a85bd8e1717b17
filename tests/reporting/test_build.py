"""The figures of a report, and a report that is asked for again."""

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.reporting import build
from pcsuite.reporting.build import build_report, figures_of
from support.synthetic_log import Design, design_rows, make_row, write_log

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


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    models = {"small": ("fam", "135M"), "large": ("fam", "7B")}
    rows = list(design_rows(Design(items=6, models=models, conditions=("C0", "C3", "C6"))))
    rows += [
        make_row(item=f"p{k}", model="small", size="135M", condition="C3", perturbation=kind, score=score)
        for k in range(4)
        for kind, score in (("none", 1.0), ("reorder", 0.0))
    ]
    rows += [
        make_row(task="fever_json", item=f"{k}", condition=c, metrics={"unsupported_rate": 0.5})
        for k in range(4)
        for c in ("C3", "C7")
    ]
    with RunTables([write_log(folder / "a.jsonl", rows)], folder / "tables") as tables:
        analysis = analyse(tables, embeddings="off")
    return {figure.name: figure for figure in figures_of(analysis)}


def test_every_kind_is_drawn_by_its_contract_name(figures):
    assert {
        "perf_condition_ladder__agnews_json__small",
        "entropy_vs_condition__agnews_json__large",
        "variance_decomposition__agnews_json__small",
        "pareto_accuracy_tokens__agnews_json__grid",
        "cost_per_correct__agnews_json__grid",
        "robustness_drop__agnews_json__grid",
        "robustness_worst_case__agnews_json__grid",
        "perf_condition_ladder__agnews_json__grid",
        "interaction_condition_size__agnews_json",
        "unsupported_rate__fever_json__m1",
        "operator_attribution__agnews_json__small",
    } <= set(figures)
    assert not [name for name in figures if name.startswith("abstain_confusion")]


def test_captions_and_tooltips_name_what_is_shown(figures):
    assert "Retrieval is on in C7 (shaded)" in figures["unsupported_rate__fever_json__m1"].caption
    assert "<title>C3, reorder, D0: 1.00" in figures["robustness_drop__agnews_json__grid"].svg
