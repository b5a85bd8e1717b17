"""A folder of one's own: what it concludes about a table, and what it holds."""

import subprocess
import sys

import pytest

from pcsuite.ablation.scaffold import ScaffoldRequest, scaffold
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError, PromptError
from pcsuite.runners.plan import build_plan


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sums.csv"
    rows = "".join(f"What is {n} plus {n}?,{n * 2},r{n}\n" for n in range(20))
    path.write_text(f"question,answer,id\n{rows}", encoding="utf-8")
    return path


def test_a_table_of_numbers_by_its_column_names(table, tmp_path):
    made = scaffold(ScaffoldRequest(tmp_path / "sums", table, id_column="id", model="simulated"))
    assert (
        made.reading == "sums.csv: 4 train, 16 test items, input: question, answer: answer, scored as number"
    )
    suite = load_suite(made.profile)
    assert suite.tasks["sums"].evaluator == "number"
    plan = build_plan(suite)
    assert plan.calls == made.rows == 16 * 7 * 4  # items, C0 to C6, one greedy and three sampled answers
    assert all(item.item_id.startswith("r") for item in plan.tasks["sums"].items)
    assert made.max_tokens > made.rows


def test_blocks_of_a_prompt_become_operators(table, tmp_path):
    prompt = tmp_path / "sum.md"
    prompt.write_text("Be exact.\n\nAdd up.\n\n{{ question }}\n", encoding="utf-8")
    made = scaffold(ScaffoldRequest(tmp_path / "blocks", table, prompt, model="simulated", limit=16))
    suite = load_suite(made.profile)
    assert made.reading.endswith("blocks: be_exact, add_up")
    assert {"full", "none", "-be_exact", "-add_up"} <= set(suite.profile.selection.conditions)
    assert suite.profile.limits.max_items_per_task == 16
    assert {path.name for path in made.folder.iterdir()} >= {
        "sum.md",
        "sums.csv",
        "README.md",
        "profile.yaml",
    }


def test_a_prompt_without_a_place_for_the_item_is_refused_before_anything_is_written(table, tmp_path):
    prompt = tmp_path / "sum.md"
    prompt.write_text("Be exact.\n\nAdd up.\n", encoding="utf-8")
    with pytest.raises(PromptError):
        scaffold(ScaffoldRequest(tmp_path / "blocks", table, prompt, model="simulated"))
    assert not (tmp_path / "blocks").exists()
    made = scaffold(ScaffoldRequest(tmp_path / "blocks", table, prompt, model="simulated", append_input=True))
    assert made.rows > 0


@pytest.mark.parametrize(
    ("key", "value"), [("budget_usd", float("nan")), ("budget_tokens", 0), ("limit", -1)]
)
def test_numbers_that_mean_nothing(table, tmp_path, key, value):
    with pytest.raises(ConfigError, match="give a number above 0"):
        scaffold(ScaffoldRequest(tmp_path / "sums", table, model="simulated", **{key: value}))


def test_a_prompt_edited_after_the_folder_was_made_is_not_asked_as_it_was(table, tmp_path):
    prompt = tmp_path / "sum.md"
    prompt.write_text("Be exact.\n\nAdd up.\n\n{{ question }}\n", encoding="utf-8")
    made = scaffold(ScaffoldRequest(tmp_path / "blocks", table, prompt, model="simulated"))
    before = load_suite(made.profile)
    assert set(before.profile.run.made_from) == {"sum.md", "sums.csv"}
    own = made.folder / "sum.md"
    own.write_text("Be quick.\n\nAdd up.\n\n{{ question }}\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"sum\.md has changed since profile\.yaml was made from it.*README"
    ):
        build_plan(load_suite(made.profile))
    again = ScaffoldRequest(made.folder, made.folder / "sums.csv", own, model="simulated", overwrite=True)
    assert scaffold(again).reading.endswith("blocks: be_quick, add_up")
    assert build_plan(load_suite(made.profile)).calls > 0
    own.unlink()  # a file that is gone cannot have changed
    assert load_suite(made.profile).config_hash != before.config_hash
    assert build_plan(load_suite(made.profile)).calls > 0


def test_a_table_edited_after_the_folder_was_made(table, tmp_path):
    made = scaffold(ScaffoldRequest(tmp_path / "sums", table, id_column="id", model="simulated"))
    with (made.folder / "sums.csv").open("a", encoding="utf-8") as file:
        file.write("What is 50 plus 50?,100,r50\n")
    with pytest.raises(ConfigError, match=r"sums\.csv has changed since"):
        build_plan(load_suite(made.profile))


@pytest.mark.parametrize("with_prompt", [False, True])
def test_a_mistyped_scorer_leaves_nothing_behind(table, tmp_path, with_prompt):
    prompt = tmp_path / "sum.md"
    prompt.write_text("Be exact.\n\nAdd up.\n\n{{ question }}\n", encoding="utf-8")
    scorer = tmp_path / "mine.py"
    scorer.write_text("def score(answer, item):\n    return item['answer'] in answer\n")
    told = {"model": "simulated", "answer": "answer", "prompt": prompt if with_prompt else None}
    with pytest.raises(ConfigError, match=r"mine\.py: no function 'scor' \(it has score\)"):
        scaffold(ScaffoldRequest(tmp_path / "sums", table, scorer=f"{scorer}:scor", **told))
    assert not (tmp_path / "sums").exists()
    assert scaffold(ScaffoldRequest(tmp_path / "sums", table, scorer=f"{scorer}:score", **told)).rows > 0


def test_a_prompt_inside_a_program_is_copied_with_its_program(tmp_path, capsys):
    app = tmp_path / "app.py"
    app.write_text('SYSTEM_PROMPT = """Be kind.\n\nBe brief.\n\nTicket: {text}\n"""\n')
    table = tmp_path / "tickets.csv"
    table.write_text("text,queue\n" + "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(60)))
    words = [
        "--prompt",
        f"{app}:SYSTEM_PROMPT",
        "--data",
        str(table),
        "--answer",
        "queue",
        "--model",
        "simulated",
    ]
    assert main(["init", str(tmp_path / "study"), *words]) == 0
    assert (tmp_path / "study/app.py").read_bytes() == app.read_bytes()
    readme = (tmp_path / "study/README.md").read_text()
    assert "pcsuite ablate app.py:SYSTEM_PROMPT --data tickets.csv" in readme


@pytest.mark.parametrize("step", ["init_task", "_copy", "build_plan", "_readme"])
def test_after_a_kill_the_same_command_goes_on(table, tmp_path, step):
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from pcsuite.ablation import scaffold as s\n"
        f"s.{step} = lambda *_: os._exit(9)\n"
        f"s.scaffold(s.ScaffoldRequest(Path({str(tmp_path / 'sums')!r}), Path({str(table)!r}), model='simulated'))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    for name in ("sums", "whole"):
        scaffold(ScaffoldRequest(tmp_path / name, table, model="simulated"))
    names = [
        sorted(
            str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*") if path.is_file()
        )
        for name in ("sums", "whole")
    ]
    assert [name.replace("whole", "sums") for name in names[1]] == names[0]
    with pytest.raises(ConfigError, match="is not empty"):
        scaffold(ScaffoldRequest(tmp_path / "sums", table, model="simulated"))
