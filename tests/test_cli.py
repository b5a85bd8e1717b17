"""The command line: instant help, one-line errors, one way in."""

import ast
import json
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

import pcsuite
import pcsuite.errors
from pcsuite.cli import COMMANDS, command_parser, main
from pcsuite.commands.former_flags import FORMER_FLAGS, Moved, current_words

HEAVY = {
    "aiohttp",
    "bm25s",
    "dspy",
    "duckdb",
    "jinja2",
    "jsonschema",
    "matplotlib",
    "msgspec",
    "numpy",
    "outlines",
    "pandas",
    "pydantic",
    "ray",
    "rich",
    "rouge_score",
    "sacrebleu",
    "scipy",
    "statsmodels",
    "torch",
    "transformers",
    "xllamacpp",
    "yaml",
}
PACKAGE = Path(pcsuite.__file__).parent


def modules_after(code):
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in output.splitlines()}


def test_help_imports_nothing_heavy():
    loaded = modules_after("from pcsuite.cli import main\nmain([])")
    assert not loaded & HEAVY


def test_help_is_quick():
    """CPU time of the interpreter and the help text together; wall time would measure the machine's load."""
    code = "import resource, pcsuite.cli as c; c.main([]); print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(output.splitlines()[-1]) < 0.3


def test_naming_a_dspy_method_does_not_import_dspy():
    loaded = modules_after("from pcsuite.optimization import METHODS\nMETHODS.get('mipro')")
    assert not loaded & {"dspy", "optuna", "gepa"}


@pytest.mark.slow
def test_no_module_imports_a_heavy_optional_package_at_its_top():
    optional = HEAVY - {"jinja2", "jsonschema", "msgspec", "numpy", "pydantic", "rich", "yaml"}
    for path in PACKAGE.rglob("*.py"):
        if path.name.startswith("_") and path.name.endswith("_worker.py"):
            continue
        if path.name.startswith("dspy_") and path.name != "dspy_opt.py":
            continue  # made of DSPy's classes; only a function of dspy_opt imports them
        if path.relative_to(PACKAGE) in (Path("pages/figures/renderer.py"), Path("pages/figures/panels.py")):
            continue  # made of matplotlib's classes; only a function that draws imports it
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                assert name.partition(".")[0] not in optional, f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command.name, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    examples = shown.split("example", 1)[1]
    assert f"pcsuite {command.name}" in examples
    # A line is pasted into a shell as it stands, so what explains it is a comment.
    assert re.findall(r"(?m)^  pcsuite .*\S {2,}[^#\s].*$", examples) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "tasks|conditions|operators|models|runs"),
        (["cache"], "stats|clear"),
        (["judge"], "sample|check"),
        (["plan", "--limit", "x"], "--limit: 'x' is not a whole number"),
        (["plan", "--effect", "x"], "--effect: 'x' is not a number"),
    ],
)
def test_mistaken_words_are_told_with_what_may_stand_there(words, said, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_help_lists_every_command(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command.name} " in shown for command in COMMANDS)


GROUPS = ["measure a prompt", "run a study", "look", "verify extractions", "models", "upkeep"]


def test_help_shows_the_commands_in_groups_and_ablate_first(capsys):
    assert [title for title, _ in groupby(COMMANDS, key=lambda command: command.group)] == GROUPS
    assert main([]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert shown.split("\nmeasure a prompt:\n")[1].split()[0] == "ablate"
    assert shown.split("\nexamples:\n")[1].strip().startswith("pcsuite ablate example ")


def test_the_reference_page_has_the_commands_in_the_same_groups():
    """One table for each group, with its commands in the order of the help."""
    page = (PACKAGE.parents[1] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    tables = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## )", page))
    for title, commands in groupby(COMMANDS, key=lambda command: command.group):
        listed = re.findall(r"(?m)^\| (`.+?) \|", tables[title[0].upper() + title[1:]])
        names = [re.findall(r"`([\w-]+)", cell)[0] for cell in listed]
        assert names == [command.name for command in commands]


MOVED = [
    (command, flag, to)
    for command, flags in FORMER_FLAGS.items()
    for flag, to in flags.items()
    if isinstance(to, Moved)
]


@pytest.mark.parametrize(("command", "flag", "to"), MOVED)
def test_a_moved_flag_is_read_as_the_one_that_takes_its_value(command, flag, to):
    parser = command_parser(next(known for known in COMMANDS if known.name == command))
    assert flag not in parser._option_string_actions
    assert to.flag in parser._option_string_actions
    for words in ([flag, "7"], [f"{flag}=7"]):
        assert current_words(command, words) == ([to.flag, to.value.format("7")], [f"{flag} {to}"])


def test_a_moved_flag_keeps_working_and_says_what_to_write(capsys):
    assert main(["plan", "--config", "quickstart", "--power", "--alpha", "0.01", "--json"]) == 0
    said = capsys.readouterr()
    assert "pcsuite: --alpha is now --assume alpha=X" in said.err
    assert json.loads(said.out)["power"]


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (command, flag)
        for command, flags in FORMER_FLAGS.items()
        for flag, instead in flags.items()
        if isinstance(instead, str)
    ],
)
def test_a_former_flag_is_told_in_one_line_with_what_to_do(command, flag, capsys):
    parser = command_parser(next(known for known in COMMANDS if known.name == command))
    assert parser.prog == f"pcsuite {command}"
    with pytest.raises(SystemExit) as caught:
        parser.error(f"unrecognized arguments: {flag} X")
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pcsuite: {flag} {FORMER_FLAGS[command][flag]}")
    assert len(said.splitlines()) == 1
    assert flag not in parser._option_string_actions


def test_unknown_command_and_profile_are_one_line(capsys):
    assert main(["rnu"]) == 2
    assert capsys.readouterr().err == "pcsuite: unknown command 'rnu' (did you mean 'run'?)\n"
    assert main(["plan", "--config", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "pcsuite: nowhere.yaml: no such file\n"


def test_debug_shows_the_traceback():
    process = subprocess.run(
        [sys.executable, "-m", "pcsuite.cli", "--debug", "plan", "--config", "nowhere.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in process.stderr


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"pcsuite {pcsuite.__version__}\n"


def test_debug_is_understood_after_an_action_too(capsys):
    with pytest.raises(pcsuite.errors.PcsuiteError, match="nowhere"):
        main(["config", "check", "nowhere.yaml", "--debug"])


def test_the_help_ends_with_a_page_that_is_there(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    link = capsys.readouterr().out.split()[-1]
    assert link.startswith("file:///")
    assert Path(link.removeprefix("file://")).read_text(encoding="utf-8").startswith("# ")
