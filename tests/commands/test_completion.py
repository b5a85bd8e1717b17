"""Completion: what the suite offers on a line, and what real shells make of it."""

import os
import shutil
import subprocess

import pytest
import yaml

from pcsuite.cli import COMMANDS, command_parser, main
from pcsuite.commands import CommandTable
from pcsuite.commands.completion import FILES, FOLDERS, SCRIPTS, complete
from support.profiles import write_profile
from support.typing_shell import command_on_path, line_after


def words(line):
    return [candidate.word for candidate in complete(line, CommandTable(COMMANDS, command_parser))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_profile(tmp_path, suite={"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"})
    design = {"design": "leave_one_out", "operators": ["ROLE", "GOAL"]}
    content = {"version": "1.0", "conditions": {"C0": [], "C3": ["SCHEMA"], "C6": ["SCHEMA"], "abl": design}}
    (tmp_path / "conditions.yaml").write_text(yaml.safe_dump(content))
    for name in ("before", "after"):
        log = tmp_path / "outputs" / "runs" / f"{name}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
    return path


def test_commands_and_actions():
    assert words("pcsuite ver") == ["verifier-pass", "verify", "verify-all", "verify-history", "verify-diff"]
    assert set(words("pcsuite ")) >= {command.name for command in COMMANDS}
    assert set(words("pcsuite models ")) >= {"list", "pull", "check"}
    assert words("pcsuite config che") == ["check"]
    assert words("pcsuite nonsense --") == []


def test_flags_of_the_command_that_were_not_said():
    assert words("pcsuite run --regi") == ["--regimes"]
    assert "--limit" in words("pcsuite run --name a --")
    assert "--name" not in words("pcsuite run --name a --")
    assert "--set" in words("pcsuite run --set a=b --")  # may be said again
    assert words("pcsuite log check mine --rep") == ["--repair"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_flag_of_every_command_is_offered(command):
    """Also below actions (``models pull``), whose parsers are found in the same way."""
    parser = command_parser(command)
    offered = set(words(f"pcsuite {command.name} --"))
    own = {flag for flag in parser._option_string_actions if flag.startswith("--")}
    assert own <= offered | {"--help"}


def test_ids_of_the_profile_on_the_line(folder):
    assert words(f"pcsuite run --config {folder} --model s") == ["sim"]
    assert words(f"pcsuite run --config={folder} --models=s") == ["--models=sim"]
    assert words(f"pcsuite run -c {folder} --conditions abl:-R") == ["abl:-ROLE"]
    assert words("pcsuite run --tasks agn") == ["agnews_json"]
    assert words("pcsuite prompt agn") == ["agnews_json"]
    assert words("pcsuite prompt agnews_json C4") == ["C4", "C4R"]
    assert words("pcsuite models pull smollm2-135m") == ["smollm2-135m", "smollm2-135m-hf"]
    assert words(f"pcsuite run --set suite.models_ref={folder.parent}/models.yaml --model ") == ["sim"]
    assert words("pcsuite run --config nowhere.yaml --model s") == []


def test_lists_go_on_after_a_comma_without_what_was_named():
    assert words("pcsuite run --conditions C0,C4") == ["C0,C4", "C0,C4R"]
    assert "C0,C0" not in words("pcsuite run --conditions C0,")
    assert "C0,C8" in words("pcsuite run --conditions C0,")


def test_runs_profiles_choices_and_files(folder):
    assert words("pcsuite compare b") == ["before"]
    assert words("pcsuite compare before a") == ["after"]
    assert words("pcsuite report before ") == ["after", "before"]
    assert words("pcsuite compare before after --format m") == ["md", "markdown"]
    assert "quickstart" in words("pcsuite run --config qui")
    assert words("pcsuite run --config prof")[-1] == "profile.yaml"
    assert words("pcsuite run --config ./somewhere/") == [FILES]
    assert words("pcsuite init-task x --data ") == [FILES]
    assert words("pcsuite index build --cache-dir ") == [FOLDERS]
    assert words('pcsuite run --name "half') == [FILES]


def test_the_words_are_printed_with_what_they_are_about(capsys):
    assert main(["completion", "words", "--", "pcsuite mod"]) == 0
    known = next(command for command in COMMANDS if command.name == "models")
    assert capsys.readouterr().out == f"models\t{known.group}: {known.summary}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("pcsuite promptb\t", "pcsuite promptbench "),
        ("pcsuite run --regi\t", "pcsuite run --regimes "),
        (
            "pcsuite run --config profile.yaml --conditions C0,abl:-R\t",
            "pcsuite run --config profile.yaml --conditions C0,abl:-ROLE ",
        ),
        ("pcsuite compare be\taf\t", "pcsuite compare before after "),
        ("pcsuite init-task x --data cond\t", "pcsuite init-task x --data conditions.yaml "),
    ],
)
def test_pressing_tab_in_a_real_shell(folder, shell, typed, line):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    commands = command_on_path(folder.parent / "bin")
    assert line_after(shell, SCRIPTS[shell], typed, folder.parent, commands) == line


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pcsuite promptb", ["promptbench"]),
        ("pcsuite run --regi", ["--regimes"]),
        ("pcsuite run --config profile.yaml --conditions C0,abl:-", ["C0,abl:-GOAL", "C0,abl:-ROLE"]),
        ("pcsuite compare be", ["before"]),
        ("pcsuite init-task x --data cond", ["conditions.yaml"]),
    ],
)
def test_what_fish_offers(folder, line, found):
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    commands = command_on_path(folder.parent / "bin")
    script = folder.parent / "pcsuite.fish"
    script.write_text(SCRIPTS["fish"])
    shown = subprocess.run(
        [fish, "--no-config", "-c", f"set -x PATH {commands} $PATH; source {script}; complete -C '{line}'"],
        capture_output=True, text=True, check=True, cwd=folder.parent, timeout=60,
        env={**os.environ, "HOME": str(folder.parent), "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    assert sorted(row.partition("\t")[0] for row in shown.splitlines()) == found


def test_scripts_are_printed_as_they_are(capsys):
    for shell, script in SCRIPTS.items():
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == script
