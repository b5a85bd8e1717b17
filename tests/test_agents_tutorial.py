"""The tutorial's agent with its rules, tasks, scorer and checks, through the command, on a model on loopback."""

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.make_agents_page import PAGE, RESULT, RULES, renewed

from pcsuite.cli import main
from pcsuite.logging.log import iter_newest_rows
from support.coding_model import BODIES, CodingModel

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]
AGENT = PAGE.parent / "agent"


@pytest.fixture(scope="module")
def model():
    with CodingModel() as server:
        yield f"{server.base_url}/chat/completions"


@pytest.fixture
def desk(tmp_path, monkeypatch, model):
    shutil.copytree(AGENT, tmp_path / "agent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_URL", model)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_rule_that_the_tests_need_is_found_and_what_was_done_stands_in_the_rows(desk):
    words = [
        "ablate",
        "agent/project/AGENTS.md",
        "--in",
        "agent/project",
        "--target",
        "python agent/agent.py",
    ]
    words += [
        "--data",
        "agent/tasks.csv",
        "--answer",
        "tests",
        "--scorer",
        "agent/check.py:score",
        "--margin",
        "0.1",
    ]
    words += ["--design", "leave-one-out", "--no-trim", "--no-controls", "--quiet", "--keep", "you_are_a"]
    words += [
        f"--keep={name}"
        for name in ("use_only_the", "keep_lines_shorter", "write_no_more", "check_your_work")
    ]
    words += ["--block-check", f"name_each_file=python {desk}/agent/follows.py name"]
    assert main(words) == 0
    document = json.loads(next(desk.rglob("ablation.json")).read_text())
    said = {entry["block"]: entry["verdict"] for entry in document["verdicts"]}
    # Seventeen of the thirty functions are known to the model, each of them right with the guard and wrong without.
    scores = {arm["id"]: arm["score"] for arm in document["arms"]}
    assert scores["full"] == pytest.approx(len(BODIES) / 30)
    assert scores["-begin_every_function"] == 0
    assert said.pop("begin_every_function") == "helps"
    assert set(said.values()) == {"no worse without it"}
    (followed,) = document["adherence"]
    assert (followed["with"], followed["without"]) == (1.0, 1.0)
    row = next(iter_newest_rows(next(desk.rglob("runs/AGENTS.jsonl"))))
    assert (row.generation.steps, row.generation.tool_calls) == (1, 1)
    assert row.generation.transcript[0]["tool"] == "write_file"
    assert [file.change for file in row.changed.files] == ["added"]
    assert [source["source"] for source in row.generation.loaded] == ["AGENTS.md"]


def test_tasks_have_tests_that_a_right_function_passes_and_an_unguarded_one_fails():
    spec = importlib.util.spec_from_file_location("check", AGENT / "check.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    tasks = list(csv.DictReader((AGENT / "tasks.csv").read_text(encoding="utf-8").splitlines()))
    assert len(tasks) == 30
    assert len(RULES.read_text(encoding="utf-8").splitlines()) == 10

    class Answer:
        def __init__(self, folder):
            self.folder = folder

    for task in tasks:
        assert task["tests"].count(f"{task['name']}(") >= 2
        assert f"Write a function {task['name']} " in task["task"]
        assert check.score(Answer(AGENT / "project"), task) == 0  # nothing was written


@pytest.mark.parametrize(
    ("code", "rule", "status"),
    [
        ('def half(x: int) -> float:\n    """Half."""\n    return x / 2\n', "types", 0),
        ("def half(x):\n    return x / 2\n", "types", 1),
        ("def half(x):\n    return x / 2\n", "docstring", 1),
        ("def half(x):\n    return x / 2\n", "name", 0),
        ("def third(x):\n    return x / 3\n", "name", 1),
        ("def half(x:\n", "name", 1),
        ("", "docstring", 1),
    ],
)
def test_whether_a_rule_is_followed(tmp_path, code, rule, status):
    (tmp_path / "half.py").write_text(code)
    done = subprocess.run(
        [sys.executable, AGENT / "follows.py", rule], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr


def test_the_agent_stays_in_its_folder_and_survives_words_that_are_no_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("agent", AGENT / "agent.py")
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    assert agent.do({"tool": "write_file", "path": "../out.py", "content": "x"}, tmp_path).startswith("error")
    assert agent.do({"tool": "read_file", "path": "no.py"}, tmp_path) == "there is no such file"
    monkeypatch.setattr(agent, "ask", lambda *_: ('{"tool": "write_fi', 5, 3))
    answer = agent.solve("Write a function x.", tmp_path, 1)
    assert answer["output"] == "nothing was written"
    assert answer["transcript"] == [{"type": "model", "text": '{"tool": "write_fi'}]
    assert answer["loaded"] == []


@pytest.mark.skipif(not RESULT.exists(), reason="no result of a run lies beside the agent")
def test_the_page_says_what_the_result_says():
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page, json.loads(RESULT.read_text(encoding="utf-8"))) == page
