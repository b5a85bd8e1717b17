"""Rows to read: what they show beside the answer."""

import msgspec
import pytest

from pcsuite.data.items import Item
from pcsuite.reporting.build import build_report
from pcsuite.reporting.samples import expected_text
from support.synthetic_log import make_row, write_log


@pytest.mark.parametrize(
    ("truth", "shown"),
    [
        ({"label": "World"}, "World"),
        ({"answer": 42}, "42"),
        ({"answers": ["a", "b"]}, 'answers: ["a", "b"]'),
        ({"choice": "B", "choices": {"A": "x", "B": "y"}}, 'choice: B\nchoices: {"A": "x", "B": "y"}'),
        ({"answer": "4", "rationale": None}, "4"),
    ],
)
def test_a_truth_for_people(truth, shown):
    assert expected_text(Item("i", "text", truth)) == shown


@pytest.mark.slow
def test_rows_say_what_was_expected_of_the_item_that_was_asked(tmp_path):
    rows = [
        make_row(item=item, condition=condition, score=0.0)
        for item in ("a", "b")
        for condition in ("C0", "C3")
    ]
    log = write_log(tmp_path / "runs" / "a.jsonl", rows, prompts=True)
    asked = next(iter(rows)).prompt
    assert asked is not None
    items = {
        "agnews_json": {
            "a": Item("a", "", {"label": "EXPECTED-A"}),
            "b": Item("b", "another input", {"label": "EXPECTED-B"}),
        }
    }
    page = build_report([log], tmp_path, plots=False, items=items).index.read_text(encoding="utf-8")
    assert page.count("<h4>Expected</h4><pre>EXPECTED-A</pre>") == 2
    assert (
        "EXPECTED-B" not in page
    )  # its prompt does not hold that input: an item of the same name is not the same item
    again = build_report([log], tmp_path, plots=False, items={}).index.read_text(encoding="utf-8")
    assert "EXPECTED-A" not in again  # what is asked for changed, so the page is made anew


def test_rows_of_a_system_of_ones_own_say_what_was_done_and_others_are_as_they_were(tmp_path):
    told, plain = make_row(item="a"), make_row(item="b")
    steps = [{"tool": "write_file", "arguments": {"path": "<x>.py"}, "result": "written"}]
    told = msgspec.structs.replace(
        told,
        model=msgspec.structs.replace(told.model, provider="target"),
        generation=msgspec.structs.replace(told.generation, transcript=steps),
    )
    log = write_log(tmp_path / "runs" / "a.jsonl", [told, plain], prompts=True)
    page = build_report([log], tmp_path, plots=False).index.read_text(encoding="utf-8")
    assert page.count("<h4>What was done</h4>") == 1
    assert "<b>write_file</b>" in page
    assert "&lt;x&gt;.py" in page
