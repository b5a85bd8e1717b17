"""The extensions of inspect_ai and promptfoo, each run by the tool itself in an environment of its own.

``PCS_INSPECT_PYTHON`` names an interpreter that has inspect_ai, ``PCS_PROMPTFOO`` promptfoo's command.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pcsuite
from support.import_logs import FIXTURES

ROOT = Path(pcsuite.__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import TaskState, solver
import pcsuite.integrations.inspect_hooks

@solver
def table(right):
    async def solve(state: TaskState, generate):
        state.output.completion = state.target.text if int(state.sample_id) < right else "no idea"
        return state
    return solve

@task
def sums(right: int = 12):
    samples = [Sample(id=n, input=f"{n} and {n}?", target=str(2 * n)) for n in range(20)]
    return Task(dataset=samples, solver=table(right), scorer=includes())
"""


@pytest.fixture
def command(tmp_path):
    """``pcsuite`` as a command of another environment."""
    script = tmp_path / "pcsuite"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "src"}" exec "{sys.executable}" -m pcsuite "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.skipif(
    not os.environ.get("PCS_INSPECT_PYTHON"), reason="PCS_INSPECT_PYTHON names no interpreter with inspect_ai"
)
def test_inspect_ai_prints_the_paired_report_after_an_evaluation_and_an_eval_set(tmp_path, command):
    (tmp_path / "sums.py").write_text(TASK)

    def run(words, **environment):
        given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PCSUITE_COMMAND": command, **environment}
        words = [os.environ["PCS_INSPECT_PYTHON"], "-m", "inspect_ai", *words, "--model", "mockllm/model"]
        words += ["--display", "none"]
        done = subprocess.run(words, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "against" not in run(["eval", "sums.py", "--log-dir", "base"])
    given = {"PCSUITE_BASELINE": str(tmp_path / "base"), "PCSUITE_ARGUMENTS": "--margin 0.05"}
    # Eight of the twelve right answers are lost: the exact test has p = 2 / 2 ** 8.
    text = run(["eval", "sums.py", "-T", "right=4", "--log-dir", "new"], **given)
    assert "1 regression" in text
    assert "broken: 8 items" in text
    text = run(["eval-set", "sums.py", "-T", "right=12", "--log-dir", "set"], **given)
    assert "set against base: 0 regressions" in text


@pytest.mark.skipif(not os.environ.get("PCS_PROMPTFOO"), reason="PCS_PROMPTFOO names no promptfoo")
def test_promptfoo_prints_the_paired_report_after_all(tmp_path, command):
    folder = tmp_path / "triage"
    shutil.copytree(FIXTURES / "promptfoo", folder)
    shutil.copy(ROOT / "docs" / "how-to" / "ci" / "promptfoo-after-all.js", folder)
    config = folder / "config.yaml"
    config.write_text(config.read_text() + "extensions:\n  - file://promptfoo-after-all.js:afterAll\n")
    environment = {
        **os.environ,
        "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(tmp_path),
        "PCSUITE_COMMAND": command, "PCSUITE_BASELINE": "base.json", "PCSUITE_ARGUMENTS": "--margin 0.05",
    }  # fmt: skip
    words = [
        os.environ["PCS_PROMPTFOO"],
        "eval",
        "-c",
        "config.yaml",
        "--no-cache",
        "--no-progress-bar",
        "--no-table",
    ]
    words += ["--prompts", "listed.txt"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    # All 22 are right now, 16 were before.
    assert "evaluation against base" in done.stdout, done.stdout + done.stderr
    assert "The pass went from 0.73 to 1.00" in done.stdout
    assert "Fixed: 6 items" in done.stdout
