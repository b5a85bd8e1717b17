"""What several commands share."""

from argparse import Namespace
from pathlib import Path

from pcsuite.commands.options import listed, next_line, not_applicable_lines, run_log
from pcsuite.runners.plan import NotApplicable


def test_tasks_that_share_a_reason_share_a_line():
    entries = [
        NotApplicable("boolq", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C7", "no retrieval"),
        NotApplicable("boolq", "m2", "C6", "no mask"),
    ]
    assert not_applicable_lines(entries) == [
        "C6 × boolq, trec × m1: no mask",
        "C7 × trec × m1: no retrieval",
        "C6 × boolq × m2: no mask",
    ]


def test_lists_of_names():
    assert listed(" a, b,,c ") == ["a", "b", "c"]
    assert listed(None) == listed("") == []


def test_what_comes_next_repeats_what_was_given_for_a_shell():
    bare = Namespace(config="quickstart", name=None, output_dir=None, set=[])
    assert next_line(bare, "report") == "next: pcsuite report --config quickstart"
    given = Namespace(
        config="my profile.yaml", name="t", output_dir="out", set=["limits.max_cost_usd=5", "a={b: 1}"]
    )
    assert next_line(given, "run", "--conditions", "C0,C8") == (
        "next: pcsuite run --config 'my profile.yaml' --name t --output-dir out"
        " --set limits.max_cost_usd=5 --set 'a={b: 1}' --conditions C0,C8"
    )


def test_a_log_by_file_or_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Path("outputs") / "runs" / "mine.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    assert run_log(Path("mine")) == log
    assert run_log(log) == log
    assert run_log(Path("other")) == Path("other")
