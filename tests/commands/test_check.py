"""``pcsuite check``: the whole prompt against what it was, on a server whose answers are known for both."""

import json
import re
import subprocess

import pytest

import pcsuite as pcs
from pcsuite.cli import main
from support.clerk import PROMPT, WITHOUT_QUEUES, clerk, write_desk

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Prompt and table in a repository of one commit; the working folder."""
    monkeypatch.chdir(write_desk(tmp_path))
    who = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    return tmp_path


@pytest.fixture
def server():
    with clerk() as running:
        yield running


def check(server, *words):
    asked = ["--data", "tickets.csv", "--model", "openai/m", "--base-url", server.base_url, "-q"]
    return main(["check", "triage.md", *asked, *words])


def test_a_prompt_that_lost_a_needed_block_fails_and_names_what_broke(desk, server, capsys):
    (desk / "triage.md").write_text(WITHOUT_QUEUES)
    assert check(server, "--baseline", "main") == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"baseline: triage\.md at main \(git, [0-9a-f]{7}\)\n", said.err)
    # Tickets 3, 6, …, 60 of 60 are answered wrongly without the list: 20.
    assert "triage.md against triage.md at main: 1 regression" in said.out
    assert re.search(r"score +1\.00 +0\.67 +-0\.33 \[", said.out)
    assert "broken: 20 items: " in said.out
    assert ", … and 8 more\n" in said.out
    assert "triage.md: worse than triage.md at main" in said.out
    assert len(server.bodies) == 120  # each prompt once a row, and nothing else


def test_the_better_prompt_passes_and_names_what_was_fixed_and_asks_nothing_again(desk, server, capsys):
    (desk / "old.md").write_text(WITHOUT_QUEUES)
    assert check(server, "--baseline", "old.md", "--undecided", "fail") == 0
    said = capsys.readouterr()
    assert said.err == "baseline: the file old.md, a prompt\n"
    assert "fixed: 20 items: " in said.out
    assert "no worse than old.md" in said.out
    asked = len(server.bodies)
    assert check(server, "--baseline", "old.md") == 0
    assert len(server.bodies) == asked


def test_a_prompt_that_reads_as_before_is_not_asked(desk, server, capsys):
    assert check(server, "--baseline", "main", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["unchanged"], document["standing"], document["gate"]) == (True, "no worse", "pass")
    assert document["baseline"]["kind"] == "git"
    assert server.bodies == []


def test_a_saved_baseline_and_a_run_serve_as_well(desk, server, capsys):
    assert check(server, "--save-baseline", "baselines/triage.json") == 0
    assert "Ticket" not in (desk / "baselines" / "triage.json").read_text()
    log = next(path for path in desk.glob("outputs/prompts/*/runs/*.jsonl") if ".spent" not in path.name)
    (desk / "triage.md").write_text(WITHOUT_QUEUES)
    capsys.readouterr()
    for reference, words in (
        ("baselines/triage.json", "the file baselines/triage.json, a baseline's scores"),
        (log.stem, f"run {log.stem} ({log.relative_to(desk)})"),
    ):
        assert check(server, "--baseline", reference, "--json") == 1
        said = capsys.readouterr()
        assert said.err == f"baseline: {words}\n"
        document = json.loads(said.out)
        assert (document["standing"], document["gate"]) == ("worse", "fail")
        assert (len(document["broke"]), document["fixed"]) == (20, [])
        assert [cell["n_items"] for cell in document["cells"] if cell["metric"] == "score"] == [60]
    assert len(server.bodies) == 120


def test_an_ablation_s_run_is_compared_by_its_whole_prompt(desk, capsys):
    asked = ["--data", "tickets.csv", "--model", "simulated", "-q", "--limit", "40"]
    assert main(["ablate", "triage.md", *asked, "--no-trim"]) == 0
    (desk / "triage.md").write_text(PROMPT.replace("one word", "a single word"))
    capsys.readouterr()
    assert main(["check", "triage.md", *asked, "--baseline", "triage", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {cell["condition"] for cell in document["cells"]} == {"full"}
    assert document["baseline"]["name"] == "triage"


def test_a_run_of_several_conditions_is_told_which(desk, capsys):
    assert (
        main(["run", "--model", "simulated", "--conditions", "C0,C3", "--limit", "3", "-q", "--name", "two"])
        == 0
    )
    asked = ["check", "triage.md", "--data", "tickets.csv", "--model", "simulated", "-q", "--baseline", "two"]
    capsys.readouterr()
    assert main(asked) == 2
    assert (
        "run two has 2 conditions, and a prompt is held against one (--condition C0)"
        in capsys.readouterr().err
    )
    assert main([*asked, "--condition", "C9"]) == 2
    assert "run two has no condition 'C9'" in capsys.readouterr().err


def test_too_few_items_are_undecided_and_the_flag_makes_that_fail(desk, server, capsys):
    (desk / "triage.md").write_text(PROMPT + "Be quick.\n")
    words = ["--baseline", "main", "--limit", "10"]
    assert check(server, *words) == 0
    assert "neither worse nor shown to be no worse" in capsys.readouterr().out
    assert check(server, *words, "--undecided", "fail") == 1


def test_a_comment_has_both_answers(desk, server, capsys):
    (desk / "triage.md").write_text(WITHOUT_QUEUES)
    assert check(server, "--baseline", "main", "--format", "github") == 1
    out = capsys.readouterr().out
    assert out.startswith("<!-- pcsuite compare -->\n\n### :x: triage.md is worse than triage.md at main")
    assert "20 items broke, 0 items fixed." in out
    assert "| 1 → 0 | billing | login |" in out
    assert check(server, "--baseline", "main", "--format", "markdown") == 1
    assert "- broken: 20 items: " in capsys.readouterr().out


def test_from_python(desk, server):
    (desk / "triage.md").write_text(WITHOUT_QUEUES)
    checked = pcs.check(
        "triage.md", "tickets.csv", baseline="main", model="openai/m", base_url=server.base_url, quiet=True
    )
    assert (checked.standing, checked.passes()) == ("worse", False)
    assert checked.reference.kind == "git"
    assert len(checked.comparison.broke) == 20
    assert not checked.unchanged


def test_an_effect_on_a_block_that_only_one_of_the_prompts_has(desk, capsys):
    (desk / "triage.md").write_text(WITHOUT_QUEUES)
    words = [
        "check",
        "triage.md",
        "--data",
        "tickets.csv",
        "--model",
        "simulated",
        "-q",
        "--baseline",
        "main",
    ]
    blocks = ["--effect", "queues=4"]
    assert main([*words, *blocks]) == 1
    assert "1 regression" in capsys.readouterr().out
    assert main([*words, "--effect", "ques=4"]) == 2
    assert "--effect: no block 'ques'" in capsys.readouterr().err
