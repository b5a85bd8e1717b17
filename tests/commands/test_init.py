"""``pcsuite init``: one's own prompt and table become a folder that runs from anywhere."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit

PROMPT = """You are a careful clerk.

Choose the queue of the ticket: billing, login or refund.

Answer with one word.

Ticket: {{ text }}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a prompt and a table of 40 rows."""
    monkeypatch.chdir(tmp_path)
    queues = ("billing", "login", "refund")
    rows = [f'"Ticket {n}: a problem with {queues[n % 3]}, see page {n}.",{queues[n % 3]}' for n in range(40)]
    Path("tickets.csv").write_text("\n".join(["text,queue", *rows]) + "\n", encoding="utf-8")
    Path("triage.md").write_text(PROMPT, encoding="utf-8")
    return tmp_path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
def test_a_prompt_and_a_table_become_a_folder_that_runs_from_anywhere(here, monkeypatch, capsys):
    words = ["--prompt", "triage.md", "--data", "tickets.csv", "--model", "simulated", "--budget-usd", "2"]
    assert main(["init", "triage", *words]) == 0
    out = capsys.readouterr().out
    assert "answer: queue (the only column left)" in out
    assert out.endswith("next: pcsuite run --config triage/profile.yaml\n")
    profile = load_suite("triage/profile.yaml").profile
    assert profile.limits.max_cost_usd == 2
    assert "full" in profile.selection.conditions
    # Sent on: another place, the originals gone, another working folder.
    (here / "elsewhere").mkdir()
    shutil.move("triage", "elsewhere/triage")
    Path("tickets.csv").unlink()
    Path("triage.md").unlink()
    far = here / "far"
    far.mkdir()
    monkeypatch.chdir(far)
    moved = str(here / "elsewhere" / "triage" / "profile.yaml")
    assert main(["run", "--config", moved, "--quiet"]) == 0
    assert main(["run", "--config", moved, "--quiet"]) == 0
    assert "were done before" in capsys.readouterr().out
    assert (here / "elsewhere" / "triage" / "outputs" / "runs" / "triage.jsonl").is_file()
    assert list(far.iterdir()) == []


@pytest.mark.slow
def test_the_commands_of_its_readme_run_inside_it(here, monkeypatch, capsys):
    assert (
        main(["init", "triage", "--prompt", "triage.md", "--data", "tickets.csv", "--model", "simulated"])
        == 0
    )
    monkeypatch.chdir(here / "triage")
    commands = [
        line.split()[1:] for line in Path("README.md").read_text().splitlines() if line.startswith("pcsuite ")
    ]
    assert [words[0] for words in commands] == ["run", "report", "view", "ablate", "check", "init"]
    who = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    for words in (["init", "-q"], ["add", "triage.md"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    for words in commands[:-1]:
        extra = {"view": ["--bundle", "pages"], "ablate": ["--show"], "report": ["--no-plots"]}
        assert main([*words, *extra.get(words[0], [])]) == 0
    Path("triage.md").write_text(PROMPT.replace("{{ text }}", "{{ text }} (as it came)"), encoding="utf-8")
    assert main(commands[0]) == 2, "it would ask the prompt as it was"
    assert "triage.md has changed since profile.yaml was made from it" in capsys.readouterr().err
    assert main(commands[1]) == 0, "what was asked can be reported on"
    assert main(commands[-1]) == 0
    assert Path("pages/index.html").is_file()
    assert main(["prompt", "tickets", "full", "--config", "profile.yaml"]) == 0
    assert "(as it came)" in capsys.readouterr().out, "what init --overwrite renews"


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [["--prompt", "triage.md"], []])
def test_a_scorer_comes_along(here, monkeypatch, capsys, prompt):
    Path("lib").mkdir()
    Path("lib/mine.py").write_text("def score(answer, item):\n    return float(item['queue'] in answer)\n")
    words = [*prompt, "--data", "tickets.csv", "--answer", "queue", "--scorer", "lib/mine.py:score"]
    assert main(["init", "triage", *words, "--model", "simulated", "--limit", "16"]) == 0
    shutil.rmtree("lib")
    shutil.move("triage", "moved")
    assert not any(str(here) in path.read_text() for path in Path("moved").glob("*.*") if path.is_file())
    monkeypatch.chdir("moved")
    assert main(["run", "--config", "profile.yaml", "--quiet"]) == 0
    for line in Path("README.md").read_text().splitlines():
        if line.startswith(("pcsuite ablate", "pcsuite init")):
            assert main([*line.split()[1:], *(["--show"] if "ablate" in line else [])]) == 0
    assert Path("mine.py").read_text().startswith("def score")


def test_git_keeps_the_items_and_not_the_results(here):
    words = ["--prompt", "triage.md", "--data", "tickets.csv", "--model", "simulated"]
    assert main(["init", "triage", *words]) == 0
    ignored = Path("triage/.gitignore").read_text().splitlines()
    assert [line for line in ignored if not line.startswith("#")] == [
        "outputs/",
        ".cache/*",
        "!.cache/datasets/",
    ]
    Path("triage/.gitignore").write_text("mine\n")
    assert main(["init", "triage", *words, "--overwrite"]) == 0
    assert Path("triage/.gitignore").read_text() == "mine\n"


@pytest.mark.slow
def test_a_table_alone_gets_the_ladder(here, capsys):
    words = [
        "--data",
        "tickets.csv",
        "--answer",
        "queue",
        "--model",
        "simulated",
        "--budget-tokens",
        "500000",
    ]
    assert main(["init", "quiz", *words, "--limit", "5"]) == 0
    assert "4 train, 36 test items" in capsys.readouterr().out
    suite = load_suite("quiz/profile.yaml")
    assert suite.profile.selection.conditions[:2] == ("C0", "C1")
    assert suite.profile.limits.max_tokens_overall == 500000
    assert suite.profile.limits.max_items_per_task == 5
    assert suite.tasks["quiz"].evaluator == "classification"
    assert main(["run", "--config", "quiz/profile.yaml", "--quiet"]) == 0


def test_what_is_not_given_is_asked_for(here, monkeypatch, capsys):
    answers = ["tickets.csv", "triage.md", "que", "queue", "simulated", "1.5", ""]
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(answers)))
    assert main(["init", "triage"]) == 0
    assert "no 'que': did you mean 'queue'?" in capsys.readouterr().out
    suite = load_suite("triage/profile.yaml")
    assert suite.profile.limits.max_cost_usd == 1.5
    assert suite.profile.selection.models == ("simulated",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the table is not given (--data tickets.csv)"),
        (["--data", "nothing.csv"], "nothing.csv does not exist"),
        (["--data", "tickets.csv"], "which column is the right answer? (--answer, one of text, queue)"),
        (["--data", "tickets.csv", "--answer", "que"], "no column 'que' (--answer) (did you mean 'queue'?)"),
        (["--data", "tickets.csv", "--prompt", "none.md"], "--prompt none.md: no such file"),
        (["--data", "tickets.csv", "--answer", "queue", "--model", "gtp"], "--model: unknown model 'gtp'"),
        (
            ["--data", "tickets.csv", "--answer", "queue", "--budget-usd", "-1"],
            "--budget-usd -1: give a number above 0",
        ),
        (["--data", "tickets.csv", "--prompt", "triage.md", "--model", "gtp"], "no model 'gtp'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(here, monkeypatch, capsys, words, said):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["init", "mine", *words]) == Exit.BAD_INPUT
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not Path("mine").exists()


def test_a_folder_with_other_files_is_left_alone(here, capsys):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep")
    words = ["init", "mine", "--data", "tickets.csv", "--answer", "queue", "--model", "simulated"]
    assert main(words) == Exit.BAD_INPUT
    assert "mine is not empty (name a new folder, or say --overwrite)" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    assert main([*words, "--overwrite"]) == 0
    assert Path("mine/notes.txt").read_text() == "keep"
    assert main(["init", "tickets.csv", *words[2:]]) == Exit.BAD_INPUT
    assert "tickets.csv is a file" in capsys.readouterr().err


def test_the_table_is_copied_as_it_is(here):
    assert main(["init", "mine", "--data", "tickets.csv", "--answer", "queue", "--model", "simulated"]) == 0
    assert Path("mine/tickets.csv").read_bytes() == Path("tickets.csv").read_bytes()
    items = Path("mine/.cache/datasets/mine_test.jsonl").read_text().splitlines()
    assert len(items) == 36
    assert set(json.loads(items[0])) >= {"item_id", "input_text", "truth"}
