import csv
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from pcsuite._util import changes
from pcsuite.ablation import ablate, preview
from pcsuite.ablation.page import render_ablation, write_result
from pcsuite.ablation.picture import (
    block_views,
    document,
    headline,
    markdown,
    print_ablation,
    print_preview,
    trim_sentence,
)
from pcsuite.errors import AnalysisError
from support.ablating import PROMPT, request_in
from support.failing_steps import FailingSystem, disk_full


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("picture")
    return ablate(request_in(folder, items=200, design="leave-one-out"), quiet=True)


def shown(show, *values):
    console = Console(file=io.StringIO(), width=400)
    show(*values, console)
    return console.file.getvalue()


@pytest.mark.slow
def test_views_are_the_blocks_in_order_with_sign_and_interval(result):
    views = {view.name: view for view in block_views(result)}
    assert list(views) == ["role", "rules", "tone", "noise", "ticket"]
    assert (views["rules"].symbol, views["rules"].tint.colour) == ("▲", "#0072b2")
    assert (views["noise"].symbol, views["noise"].tint.colour) == ("▼", "#d55e00")
    assert views["rules"].effect.startswith("+0.")
    assert views["noise"].effect.startswith("-0.")
    assert views["ticket"].verdict == "pinned"
    assert views["noise"].dropped
    assert "\n\n".join(view.text for view in views.values()) + "\n" == PROMPT
    assert any(line.startswith("right only with it") for line in views["rules"].details)
    assert any("sham" in line for line in views["rules"].details)


def test_the_headline_names_what_helps_and_hurts(result):
    assert "rules helps" in headline(result)
    assert "noise hurts" in headline(result)


def test_what_changes_the_form_alone_is_told_apart_wherever_its_effect_stands(result):
    lenient = replace(result.verdicts[0].effect, value=-0.03)
    verdicts = [
        replace(entry, lenient=lenient, lenient_verdict="undecided", form="the form, not the answer")
        if entry.block == "rules"
        else entry
        for entry in result.verdicts
    ]
    formal = replace(result, verdicts=verdicts)
    effect = next(entry.effect.value for entry in verdicts if entry.block == "rules")
    words = f"the form, not the answer ({effect:+.2f} strictly read, -0.03 leniently)"
    assert headline(formal).endswith(f"; rules: {words}.")
    assert "rules helps" not in headline(formal)
    assert f"helps: {words}" in shown(print_ablation, formal)
    assert f"helps: {words}" in markdown(formal)
    assert f"helps: {words}" in render_ablation(formal)
    record = next(entry for entry in document(formal)["verdicts"] if entry["block"] == "rules")
    assert (record["form"], record["lenient_effect"]) == ("the form, not the answer", -0.03)


def test_answers_that_can_be_read_in_two_ways_are_told_before_anything_else(result):
    arms = [replace(arm, ambiguous=3) if arm.id == "full" else arm for arm in result.arms]
    told = f"3 answers can be read in two ways (full 3): look at them first (pcsuite view {result.log})"
    assert told in shown(print_ablation, replace(result, arms=arms)).replace("\n", " ")
    assert "in two ways" not in markdown(result)


def test_the_terminal_shows_every_block_with_its_verdict(result):
    text = shown(print_ablation, result)
    assert "▲  rules" in text
    assert "▼  noise" in text
    assert "A/A" in text
    assert "no effect shown" in text
    assert "per 1,000 calls" in text
    assert "Simulated" in text


def test_an_undecided_block_whose_interval_excludes_0_says_why(result):
    entry = next(entry for entry in result.verdicts if entry.block == "rules")
    effect = replace(entry.effect, low=0.01, value=0.09, high=0.18)
    odd = replace(entry, verdict="undecided", alone=effect, p_value=0.25, more_items=115, note="")
    plain = replace(odd, alone=replace(effect, low=-0.01))
    for given, told in (
        (odd, "rules: its interval by itself excludes 0, but its test corrected over all blocks does not reject (p 0.250);"
              " about 115 more items would decide it"),
        (plain, "rules: about 115 more items would decide it"),
    ):  # fmt: skip
        assert told in shown(print_ablation, replace(result, verdicts=(given,)))


def test_show_names_blocks_arms_rows_tokens_cost_and_reach(tmp_path):
    text = shown(print_preview, preview(request_in(tmp_path, items=60, margin=0.02)))
    for words in (
        "split at its headings", "holds the input", "factorial: all 16 subsets", "-tone", "again", "then shams",
        "rows: 1,020 (17 arms × 60 items)", "tokens and $0.00", "smallest effect found", "of studies",
        "fewer than", "stand at the beginning",
    ):  # fmt: skip
        assert words in text, words
    assert not (tmp_path / "outputs").exists()


def test_markdown_holds_the_table_and_the_diff(result):
    text = markdown(result)
    assert "| ▲ | **rules** | helps |" in text
    assert "| ▼ | ~~noise~~ | hurts |" in text
    assert "```diff" in text
    assert "- Never answer directly." in text
    assert "  Answer with the name of the queue." in text


def test_files_are_written_and_say_the_same(result):
    written = {path.name: path for path in write_result(result)}
    assert list(written) == [
        "ablation.html", "ablation.md", "trimmed.md", "ablation.json", "blocks.csv", "ablation.png",
    ]  # fmt: skip
    assert written["trimmed.md"].read_text() == result.trimmed
    assert written["ablation.png"].read_bytes().startswith(b"\x89PNG")
    records = list(csv.DictReader(io.StringIO(written["blocks.csv"].read_text())))
    assert [record["verdict"] for record in records] == [entry.verdict for entry in result.verdicts]
    told = json.loads(written["ablation.json"].read_text())
    assert told == json.loads(json.dumps(document(result)))
    assert told["trim"]["dropped"] == list(result.trim.dropped)


@pytest.mark.slow
def test_a_full_disk_leaves_the_result_of_the_start_before_whole(result, monkeypatch):
    """A trimmed prompt of one start beside a page of another would be taken for what the page tells of."""
    counted = FailingSystem(0, disk_full)
    with monkeypatch.context() as patch:
        patch.setattr(changes, "os", counted)
        names = [path.name for path in write_result(result)]
    folder = result.study.folder
    for name in names:
        (folder / name).write_text("of the start before")
    for step in (*range(2, counted.calls - len(names), 9), counted.calls - len(names) - 1):
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", FailingSystem(step, disk_full))
            with pytest.raises(AnalysisError, match="No space left on device"):
                write_result(result)
        assert {(folder / name).read_text() for name in names} == {"of the start before"}, step
        assert not list(folder.glob("*.partial"))
    write_result(result)
    assert (folder / "trimmed.md").read_text() == result.trimmed


@pytest.mark.slow
def test_where_nothing_can_go_the_prompt_stays_byte_for_byte(tmp_path):
    prompt = PROMPT.replace("\n", "\r\n")
    made = ablate(
        request_in(tmp_path, items=60, prompt=prompt, effects={"rules": 2, "role": 2, "tone": 2, "noise": 2}),
        quiet=True,
    )
    paths = {path.name: path for path in write_result(made)}
    assert "No set of blocks is" in trim_sentence(made)
    assert paths["trimmed.md"].read_bytes() == prompt.encode()
    assert "```diff" not in markdown(made)
