"""One folder per run, links to the newest, and the page that lists them."""

import json
import os

import pytest

from pcsuite.errors import AnalysisError
from pcsuite.reporting.build import build_report, write_robustness
from pcsuite.reporting.folders import report_folders, write_index
from support.synthetic_log import make_row, write_log


def rows(winner, **more):
    return [
        make_row(item=f"i{k}", condition=c, score=float(c == winner), **more)
        for k in range(12)
        for c in ("C0", "C1")
    ]


@pytest.fixture
def two(tmp_path):
    """Logs of two runs in one output folder."""
    out = tmp_path / "outputs"
    first = write_log(out / "runs" / "first.jsonl", rows("C1"))
    second = write_log(out / "runs" / "second.jsonl", rows("C0", model="m2"))
    return out, first, second


@pytest.mark.slow
def test_runs_are_kept_apart_and_nothing_is_overwritten(two):
    out, first, second = two
    build_report([first], out, plots=False)
    kept = {
        path: path.read_bytes()
        for kind in ("reports", "tables")
        for path in (out / kind / "first").glob("*")
        if path.is_file()
    }
    assert {"index.html", "result.json", "effects.csv", "runs.parquet"} <= {path.name for path in kept}
    build_report([second], out, plots=False)
    assert {path: path.read_bytes() for path in kept} == kept
    assert (out / "tables" / "second" / "effects.csv").is_file()


@pytest.mark.slow
def test_the_old_places_lead_to_the_run_reported_on_last(two):
    out, first, second = two
    for log in (first, second, first):
        build_report([log], out, plots=False, formats=("html", "md"))
        for old in (
            "tables/effects.csv",
            "tables/runs.parquet",
            "reports/report.md",
            "reports/cache_report.md",
        ):
            kind, name = old.split("/")
            assert (out / old).resolve() == (out / kind / log.stem / name).resolve()
    # A folder of results can be moved.
    moved = out.rename(out.with_name("moved"))
    assert (moved / "tables" / "effects.csv").resolve() == moved / "tables" / "first" / "effects.csv"


@pytest.mark.slow
def test_links_of_the_report_before_do_not_linger(two):
    out, first, second = two
    build_report([first], out, plots=True)
    figures = {path.name for path in (out / "plots").glob("*.png")}
    assert "perf_condition_ladder__agnews_json__m1.png" in figures
    build_report([second], out, plots=True)
    left = list((out / "plots").glob("*.png"))
    assert left
    assert all(path.resolve().parent == (out / "plots" / "second").resolve() for path in left)
    (out / "tables" / "mine.csv").symlink_to("../elsewhere/mine.csv")  # not ours: it stays
    build_report([second], out, plots=True, title="again")
    assert (out / "tables" / "mine.csv").is_symlink()


@pytest.mark.slow
def test_files_of_an_earlier_version_at_the_old_places_give_way(two):
    out, first, _ = two
    (out / "tables").mkdir()
    (out / "tables" / "effects.csv").write_text("old")
    build_report([first], out, plots=False)
    assert (out / "tables" / "effects.csv").read_bytes() == (out / "tables/first/effects.csv").read_bytes()


@pytest.mark.slow
def test_the_index_lists_every_run_the_newest_first(two):
    out, first, second = two
    build_report([first], out, plots=False)
    files = build_report([second], out, plots=False)
    page = files.runs.read_text(encoding="utf-8")
    assert files.runs == out / "reports" / "index.html"
    assert page.index('href="second/index.html"') < page.index('href="first/index.html"')
    assert "C1 raised the score from 0.00 to 1.00 against C0" in page
    assert "pcsuite view second" in page
    (out / "reports" / "first" / "result.json").write_text("[1")  # not ours any more
    assert "first/index.html" not in write_index(out, "second").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_name_with_blanks_and_markup_is_a_link_that_works(tmp_path):
    log = write_log(tmp_path / "runs" / "my <b>run</b> #1.jsonl".replace("/b", "b"), rows("C1"))
    page = build_report([log], tmp_path, plots=False).runs.read_text(encoding="utf-8")
    assert "<b>" not in page
    assert 'href="my%20%3Cb%3Erun%3Cb%3E%20%231/index.html"' in page
    assert "pcsuite view &#39;my &lt;b&gt;run&lt;b&gt; #1&#39;" in page


@pytest.mark.slow
def test_several_logs_have_a_folder_of_their_own(two):
    out, first, second = two
    files = build_report([first, second], out, plots=False)
    assert files.index == out / "reports" / "first+second" / "index.html"
    many = [out / "runs" / f"{'long' * 5}{k}.jsonl" for k in range(9)]
    assert len(report_folders(many, out).name) <= 80


@pytest.mark.slow
def test_a_run_of_the_same_name_from_elsewhere_takes_nothing_away(two, tmp_path):
    _, first, _ = two
    paper = tmp_path / "paper"
    mine = build_report([first], paper, plots=False)
    before = mine.index.read_bytes()
    namesake = write_log(tmp_path / "elsewhere" / "runs" / "first.jsonl", rows("C0"))
    other = build_report([namesake], paper, plots=False)
    assert mine.index.read_bytes() == before
    assert other.index.parent.name.startswith("first-")
    assert build_report([namesake], paper, plots=False).index == other.index
    # A log that was moved is the same run: its old place is gone.
    moved = first.rename(first.parent.parent / "first.jsonl")
    assert build_report([moved], paper, plots=False).index == mine.index


def test_robustness_alone_goes_to_the_same_folders(tmp_path):
    attacked = [
        make_row(item=f"i{k}", condition="C2", score=1.0, perturbation=kind)
        for k in range(4)
        for kind in ("none", "typos")
    ]
    log = write_log(tmp_path / "runs" / "a.jsonl", attacked)
    made = write_robustness([log], tmp_path, plots=False)
    assert tmp_path / "tables" / "a" / "robustness_worst_case.csv" in made.tables
    assert (tmp_path / "tables" / "robustness_worst_case.csv").is_symlink()


@pytest.mark.slow
def test_a_file_where_a_folder_should_be_is_one_line(two):
    out, first, _ = two
    (out / "reports").write_text("in the way")
    with pytest.raises(AnalysisError, match="cannot be written"):
        build_report([first], out, plots=False)


@pytest.mark.slow
def test_without_links_there_are_copies(two, monkeypatch):
    out, first, _ = two

    def refuse(*arguments, **named):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    build_report([first], out, plots=False)
    copy = out / "tables" / "effects.csv"
    assert not copy.is_symlink()
    assert copy.read_bytes() == (out / "tables" / "first" / "effects.csv").read_bytes()


@pytest.mark.slow
def test_result_json_is_what_report_says(two):
    out, first, _ = two
    found = json.loads(build_report([first], out, plots=False).result.read_text(encoding="utf-8"))
    assert (found["run"], found["answers"], found["tasks"]) == ("first", 24, ["agnews_json"])
    assert [(row["condition"], row["verdict"]) for row in found["results"]] == [
        ("C0", "control"),
        ("C1", "better"),
    ]
