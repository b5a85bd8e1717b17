"""Runs as the pages ask for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("duckdb")
from pcsuite.logging.manifest import RunManifest, TaskNote, write_manifest
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import Filter
from pcsuite.view.runs import list_runs
from support.synthetic_log import make_row, write_log

FIXED = {"model": "m1", "decoding": "D0", "perturbation": "none"}


@pytest.fixture(scope="module")
def run(folder):
    entry = next(entry for entry in list_runs(folder) if entry.name == "first")
    opened = OpenRun(entry, folder / "view" / "data-test")
    yield opened
    opened.close()


def items(run, **wanted):
    total, rows = run.page(Filter("agnews_json", fixed=FIXED, base="C0", **wanted), 0, 50)
    assert total == len(rows)
    return [item for item, _ in rows]


def test_the_runs_of_a_folder(folder):
    assert {entry.name for entry in list_runs(folder)} >= {"first", "second", "hostile"}
    assert list_runs(folder / "nothing") == []


def test_axes_have_their_values_in_order(run):
    assert run.values == {
        "agnews_json": {
            "condition": ["C0", "C1", "C4"],
            "model": ["m1"],
            "decoding": ["D0"],
            "perturbation": ["none"],
        }
    }
    assert run.summary().rows == 74
    assert run.summary().failed == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, range(12)),
        ({"only": "fixed:C4"}, range(3, 10)),
        ({"only": "broken:C4"}, (0, 1)),
        ({"only": "fixed:C1"}, (3, 4, 5)),
        ({"only": "differ"}, (0, 1, 3, 4, 5, 6, 7, 8, 9)),
        ({"only": "truncated"}, (1,)),
        ({"only": "unreadable"}, (1,)),
        ({"only": "failed"}, (10,)),
        ({"query": "NO TO NUMBER 7"}, (7,)),
        ({"query": "nothing of the kind"}, ()),
        ({"only": "fixed:C4", "query": "number 3"}, (3,)),
    ],
)
def test_filters_keep_what_they_say(run, wanted, expected):
    assert items(run, **wanted) == [f"i{number:02d}" for number in expected]


def test_order_by_score_and_by_gain(run):
    assert items(run, sort="-gain:C4")[:7] == [f"i{number:02d}" for number in (3, 4, 6, 7, 8, 9, 5)]
    assert items(run, sort="gain:C4")[0] == "i00"
    assert items(run, sort="-score:C0")[:3] == ["i00", "i01", "i02"]


def test_replicates_are_folded_with_their_spread(run):
    _, rows = run.page(Filter("agnews_json", fixed=FIXED, base="C0"), 5, 1)
    cell = rows[0][1]["C4"]
    assert (cell.n, cell.score, cell.low, cell.high) == (2, 0.5, 0.0, 1.0)


@pytest.mark.slow
def test_a_log_that_grows_is_read_on(folder, tmp_path):
    log = write_log(tmp_path / "runs" / "growing.jsonl", [make_row(item="a")])
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert opened.summary().rows == 1
    assert not opened.refresh()
    write_log(log, [make_row(item="b"), make_row(item="c")])
    assert opened.refresh()
    assert opened.summary().rows == 3
    opened.close()


def test_marked_and_labelled_items(run):
    marks = {("agnews_json", "i03"): "interesting", ("agnews_json", "i04"): "bad truth"}
    wanted = Filter("agnews_json", fixed=FIXED, base="C0", marked="bad truth")
    assert [item for item, _ in run.page(wanted, 0, 9, marks)[1]] == ["i04"]


def test_neighbours_go_by_the_filter_the_sort_and_the_marks(run):
    wanted = Filter("agnews_json", fixed=FIXED, base="C0", sort="-gain:C4")
    order = items(run, sort="-gain:C4")
    assert order != sorted(order)
    assert run.neighbours(wanted, order[3]) == (order[2], order[4])
    assert run.neighbours(wanted, order[0])[0] is None
    marks = {("agnews_json", "i03"): "interesting", ("agnews_json", "i07"): "interesting"}
    marked = Filter("agnews_json", fixed=FIXED, base="C0", marked="interesting")
    assert run.neighbours(marked, "i03", marks) == (None, "i07")
    assert run.neighbours(marked, "i05", marks) == (None, None)


def test_sorting_puts_items_without_the_score_last(tmp_path):
    rows = [
        make_row(item=name, condition="C0", score=score)
        for name, score in zip("abc", (0.5, 1.0, 0.0), strict=True)
    ]
    rows += [make_row(item="a", condition="C1", score=1.0), make_row(item="b", condition="C1", score=0.0)]
    write_log(tmp_path / "runs" / "one.jsonl", rows)
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert items(opened, sort="score:C1") == ["b", "a", "c"]
    assert items(opened, sort="-score:C1") == ["a", "b", "c"]
    assert items(opened, sort="-item") == ["c", "b", "a"]
    assert items(opened, sort="gain:C1") == ["b", "a", "c"]
    opened.close()


@pytest.mark.slow
def test_a_length_range_is_that_of_the_prompts_of_the_base(tmp_path):
    rows = [
        make_row(item=f"i{n}", condition=condition, prompt_tokens=100 * n + more)
        for n in range(1, 5)
        for condition, more in (("C0", 0), ("C1", 50))
    ]
    write_log(tmp_path / "runs" / "one.jsonl", rows)
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert items(opened, tokens_from=200, tokens_to=300) == ["i2", "i3"]
    assert items(opened, tokens_to=100) == ["i1"]
    assert items(opened, tokens_from=401) == []
    opened.close()


@pytest.mark.slow
def test_cells_are_made_once_for_each_state_of_the_log(tmp_path, monkeypatch):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    place = tmp_path / "view"

    def made():
        OpenRun(list_runs(tmp_path)[0], place).close()
        return [(file.name, file.stat().st_mtime_ns) for file in place.glob("cells-*.parquet")]

    first = made()
    assert len(first) == 1
    assert made() == first
    write_log(log, [make_row(item="b")])
    second = made()
    assert len(second) == 1
    assert second != first
    (place / second[0][0]).write_bytes(b"half a file")
    assert made()[0][0] == second[0][0]
    assert (place / second[0][0]).stat().st_size > 1000


def test_a_slice_is_read_once_for_paging_sorting_and_effects(run, monkeypatch):
    wanted = Filter("agnews_json", fixed=FIXED, base="C0", only="differ")
    before = run.scores(wanted)
    asked = []
    monkeypatch.setattr(run, "columns", lambda *given: asked.append(given))
    assert run.scores(replace(wanted, sort="-score:C4")) is before
    run.neighbours(wanted, "i03")
    assert asked == []


def test_slices_that_are_kept_stay_within_their_bound(tmp_path, monkeypatch):
    from pcsuite.view import data

    write_log(tmp_path / "runs" / "one.jsonl", [make_row(item=f"i{n}") for n in range(10)])
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    monkeypatch.setattr(data, "CACHED_SCORES", 200)
    for most in range(5):
        opened.scores(Filter("agnews_json", fixed=FIXED, base="C0", tokens_to=1000 + most))
    assert len(opened._cached_scores) == 2
    opened.close()


def test_rows_of_the_log_are_the_newest(tmp_path):
    first, again = make_row(item="a", text="one"), make_row(item="a", text="two")
    assert first.run_id == again.run_id
    write_log(tmp_path / "runs" / "one.jsonl", [first, make_row(item="b"), again])
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert opened.logged([first.run_id])[first.run_id]["generation"]["text"] == "two"
    assert opened.logged([]) == {}
    opened.close()


def test_tasks_come_in_the_order_of_the_manifest(tmp_path):
    log = write_log(tmp_path / "runs" / "one.jsonl", [make_row(task=name) for name in ("a", "b", "c", "d")])
    write_manifest(log, RunManifest(tasks={"c": TaskNote(), "b": TaskNote()}))
    opened = OpenRun(list_runs(tmp_path)[0], tmp_path / "view")
    assert list(opened.values) == ["c", "b", "a", "d"]
    opened.close()


@pytest.mark.slow
def test_an_ablation_shows_the_inputs_and_truths_of_its_own_table(tmp_path, monkeypatch):
    from pathlib import Path

    from pcsuite.ablation import AblationRequest, ablate

    monkeypatch.chdir(tmp_path)
    prompt, table = Path("triage.md"), Path("tickets.csv")
    prompt.write_text("Be brief.\n\nChoose billing or login.\n\nTicket: {{ text }}\n", encoding="utf-8")
    rows = "".join(f"text {n},{('billing', 'login')[n % 2]}\n" for n in range(40))
    table.write_text(f"text,queue\n{rows}", encoding="utf-8")
    ablate(AblationRequest(prompt, str(table), answer="queue", model="simulated"), quiet=True)
    (entry,) = list_runs(Path("outputs"))
    opened = OpenRun(
        entry, Path("outputs/view/data-test")
    )  # as pcsuite view NAME opens it, without a profile
    try:
        assert opened.items.inputs("tickets")["tickets-000001"] == "text 0"
        assert opened.items.truths("tickets")["tickets-000001"] == "billing"
        assert (
            opened.summary().state(entry._replace(modified=entry.modified.replace(year=2020))) == "finished"
        )
    finally:
        opened.close()
