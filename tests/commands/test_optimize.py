"""``optimize`` as a user calls it."""

import shlex

import pytest

from pcsuite.cli import main
from support.profiles import write_profile


@pytest.mark.slow
def test_next_runs_the_prompt_that_was_compiled(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    given = ["--config", str(path), "--name", "compiled", "--output-dir", str(tmp_path / "other results")]
    arguments = ["optimize", *given, "--method", "blocks", "--candidates", "2", "--limit", "4", "--quiet"]
    assert main(arguments) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(line.removeprefix("next: pcsuite "))
    assert words == ["run", *given, "--tasks", "agnews_json", "--models", "sim", "--conditions", "C0,C8"]
    assert main([*words, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "not applicable" not in shown
    assert "compiled: 12 rows in" in shown  # 2 items, C0 and C8, one greedy and two sampled answers


def test_a_dry_run_asks_nothing(tmp_path, capsys):
    path = write_profile(tmp_path, items=2)
    assert main(["optimize", "--config", str(path), "--method", "ape", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("agnews_json × sim, ape: ")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(("flag", "value"), [("--candidates", "0"), ("--limit", "-1")])
def test_numbers_below_one_are_refused(tmp_path, capsys, flag, value):
    assert main(["optimize", "--config", str(write_profile(tmp_path)), flag, value]) == 2
    assert f"{flag} {value}: give a number of 1 or more" in capsys.readouterr().err


def test_several_pairs_are_never_compiled_by_mistake(tmp_path, capsys):
    path = write_profile(tmp_path, tasks=("agnews_json", "gsm8k"))
    assert main(["optimize", "--config", str(path)]) == 2
    assert "name one pair with --task and --model" in capsys.readouterr().err
    assert main(["optimize", "--config", str(path), "--tasks", ""]) == 2
    assert "--tasks: no name is given" in capsys.readouterr().err


def test_one_development_item_gives_figures_without_limits(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    words = ["optimize", "--config", str(path), "--method", "blocks", "--candidates", "3", "--limit", "1"]
    assert main([*words, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "on 1 development items" in shown
    assert "nan" not in shown
    assert ", earns its tokens: unclear" in shown
