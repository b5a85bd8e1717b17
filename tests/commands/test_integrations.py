"""``helm``, ``promptbench`` and ``integrations`` as a user calls them."""

import shlex

import pytest

from pcsuite.cli import main
from support.helm_folder import write_run
from support.profiles import write_profile


def pasted(shown):
    (line,) = [line for line in shown.splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: pcsuite "))


@pytest.mark.slow
def test_helm_names_a_run_first_and_then_its_report(tmp_path, capsys):
    pytest.importorskip("duckdb")
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    write_run(tmp_path / "left", {"a": [1.0], "b": [0.0]})
    given = ["--config", str(path), "--name", "trial"]
    assert main(["helm", *given, "--import-only", str(tmp_path / "left")]) == 0
    words = pasted(capsys.readouterr().out)
    assert words == ["run", *given]
    assert main([*words, "--quiet"]) == 0
    assert main(["helm", *given, "--import-only", str(tmp_path / "left")]) == 0
    capsys.readouterr()
    assert main(["helm", *given, "--import-only", str(tmp_path / "left")]) == 0
    words = pasted(capsys.readouterr().out)
    assert words == ["report", *given]
    assert main([*words, "--no-plots", "--format", "md"]) == 0


def test_helm_tells_a_single_instance_without_limits(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    write_run(tmp_path / "left", {"a": [1.0]})
    assert main(["helm", "--config", str(path), "--import-only", str(tmp_path / "left")]) == 0
    shown = capsys.readouterr().out
    assert ", 1 instances" in shown
    assert "[" not in shown.splitlines()[0]


def test_promptbench_flags_change_its_block_and_next_names_the_run(tmp_path, capsys):
    pytest.importorskip("duckdb")
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=3)
    flags = [
        "--tasks",
        "agnews_json",
        "--conditions",
        "C3",
        "--attacks",
        "reorder",
        "--quiet",
        "--limit",
        "2",
    ]
    repeated = ["--name", "shaken", "--set", "integrations.promptbench.variants=1"]
    arguments = ["promptbench", "--config", str(path), *repeated, *flags]
    assert main([*arguments, "--no-tables"]) == 0
    shown = capsys.readouterr().out
    # two items, each clean and reordered, under the greedy regime
    assert "shaken: 4 rows in" in shown
    assert pasted(shown) == ["report", "--config", str(path), *repeated]


def test_integrations_are_listed_and_unknown_ones_named(capsys):
    assert main(["integrations", "list"]) == 0
    shown = capsys.readouterr().out
    assert "helm" in shown
    assert "promptbench" in shown
    assert main(["integrations", "install", "helmet"]) == 2
    assert "did you mean 'helm'" in capsys.readouterr().err
