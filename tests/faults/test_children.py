"""What child processes get of our environment, and queries that would not end."""

import os
import sqlite3
import subprocess
import sys
import time

import pytest

from pcsuite._util.processes import NETWORK, PACKAGES, child_environment
from pcsuite.data.items import Item
from pcsuite.engines.adapters import _llamacpp_pool
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.sql import SqlEvaluator, SqlOptions
from pcsuite.integrations.environments import HELM, PROMPTBENCH, environment_variables

KEYS = {
    "OPENAI_API_KEY": "sk-0123456789abcdef",
    "ANTHROPIC_API_KEY": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "HF_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "DATABASE_URL": "postgres://u:p@h/d",
    "PCS_MY_OWN_KEY": "x",
    "SSH_AUTH_SOCK": "x",
}


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    "environment",
    [
        lambda: child_environment(),
        lambda: child_environment(NETWORK),
        lambda: child_environment(PACKAGES),
        lambda: environment_variables(HELM),
        lambda: environment_variables(PROMPTBENCH),
    ],
    ids=["plain", "network", "pip", "HELM", "PromptBench"],
)
def test_no_key_of_the_shell_goes_along(environment):
    given = environment()
    assert not KEYS.keys() & given.keys()
    assert given["PATH"] == os.environ["PATH"]
    assert "PYTHONPATH" not in given


def test_what_is_named_goes_along(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://index")
    monkeypatch.setenv("https_proxy", "http://proxy")
    assert child_environment(PACKAGES)["PIP_INDEX_URL"] == "https://index"
    assert child_environment(NETWORK, {"A": "b"}) | {} == child_environment(NETWORK) | {"A": "b"}
    assert "PIP_INDEX_URL" not in child_environment(NETWORK)


def test_the_llama_worker_is_started_with_the_list(monkeypatch):
    seen = {}

    def popen(command, **options):
        seen.update(options["env"])
        options["stderr"].close()
        raise FileNotFoundError

    monkeypatch.setattr(_llamacpp_pool.subprocess, "Popen", popen)
    with pytest.raises(FileNotFoundError):
        _llamacpp_pool.Worker({"threads": 1, "slots": 1, "kept_beginnings": 1}, lambda worker: None)
    assert not KEYS.keys() & seen.keys()
    assert seen["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_every_child_of_ours_is_given_an_environment():
    """No place starts a process that inherits everything; Ray's workers need our keys and are no others' code."""
    import ast
    from pathlib import Path

    import pcsuite

    bare = []
    for path in Path(pcsuite.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name, owner = node.func.attr, getattr(node.func.value, "id", "")
                starts = name == "create_subprocess_exec" or (
                    owner == "subprocess" and name in ("run", "Popen")
                )
                if starts and not any(keyword.arg == "env" for keyword in node.keywords):
                    bare.append(f"{path.name}:{node.lineno}")
    assert bare == []


QUERIES = [
    "SELECT instr(replace(hex(zeroblob(4000000)), '00', 'x'), replace(hex(zeroblob(1000000)), '00', 'xx') || 'y')",
    "SELECT printf('%.*c', 1000000000, 'x')",
    "SELECT count(*) FROM pet a, pet b, pet c, pet d, pet e, pet f, pet g, pet h, pet i, pet j, pet k, pet l",
]


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_in_sql_keeps_its_time(tmp_path, query):
    with sqlite3.connect(tmp_path / "d.sqlite") as connection:
        connection.execute("CREATE TABLE pet (id INTEGER)")
        connection.executemany("INSERT INTO pet VALUES (?)", [(number,) for number in range(20)])
    connection.close()
    item = Item("q", "?", {"query": "SELECT count(*) FROM pet", "database": str(tmp_path / "d.sqlite")})
    evaluator = SqlEvaluator(SqlOptions(time_limit_s=0.3))
    evaluator.evaluate(item, Answer("SELECT count(*) FROM pet"))
    started = time.monotonic()
    evaluation = evaluator.evaluate(item, Answer(query))
    assert evaluation.metrics["task_score"] == 0.0
    assert "query not run" in evaluation.parsed.parse_errors[0]
    assert time.monotonic() - started < 30  # and not for as long as it likes
    assert evaluator.evaluate(item, Answer("SELECT count(*) FROM pet")).metrics["task_score"] == 1.0


@pytest.mark.slow
def test_each_further_query_without_end_keeps_its_time_in_a_process_of_its_own(tmp_path):
    """What a new process may take to start must not be given to the query that it starts with."""
    with sqlite3.connect(tmp_path / "d.sqlite") as connection:
        connection.execute("CREATE TABLE pet (id INTEGER)")
    connection.close()
    item = Item("q", "?", {"query": "SELECT count(*) FROM pet", "database": str(tmp_path / "d.sqlite")})
    evaluator = SqlEvaluator(SqlOptions(time_limit_s=0.3))
    taken = []
    for _ in range(2):
        started = time.monotonic()
        assert evaluator.evaluate(item, Answer(QUERIES[0])).metrics["task_score"] == 0.0
        taken.append(time.monotonic() - started)
    assert max(taken) < 15


def test_the_query_process_ends_with_us(tmp_path):
    sqlite3.connect(tmp_path / "d.sqlite").close()
    code = (
        "from pathlib import Path\n"
        "from pcsuite.evaluation import sql_process as p\n"
        f"p.run_query(Path({str(tmp_path / 'd.sqlite')!r}), 'SELECT 1', p.QueryLimits(5, 5))\n"
        "from pcsuite._util.workers import pool\n"
        "print(*(worker._process.pid for worker in pool()._all), flush=True)\n"
        "import os; os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    child = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the process is still there")
