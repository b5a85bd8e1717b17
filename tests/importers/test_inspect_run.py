"""inspect_ai itself on the embedded model, then import.

``PCS_INSPECT_PYTHON`` names the interpreter of an environment that has it, as ``make test`` does. The fixture logs were
written in the same way.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pcsuite
from pcsuite.engines.weights import catalogue_entry, pull_weights
from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.logging.log import RunPaths, newest_rows
from support.import_logs import FIXTURES

INTERPRETER = os.environ.get("PCS_INSPECT_PYTHON")


@pytest.fixture
def address():
    pull_weights(catalogue_entry("smollm2-135m-instruct-q4_1"))
    server = subprocess.Popen(
        [sys.executable, str(FIXTURES / "serve_embedded.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(pcsuite.__file__).parents[1])},
    )
    yield server.stdout.readline().strip()
    server.communicate(timeout=120)


@pytest.mark.model
@pytest.mark.skipif(not INTERPRETER, reason="PCS_INSPECT_PYTHON names no interpreter with inspect_ai")
def test_a_fresh_run_imports_with_the_tools_own_mean(address, tmp_path):
    subprocess.run(
        [
            INTERPRETER, "-m", "inspect_ai", "eval", "inspect_task.py", "--model",
            "openai-api/local/smollm2-135m", "--limit", "3", "--max-connections", "1", "--log-dir",
            str(tmp_path / "logs"), "--display", "none",
        ],
        cwd=FIXTURES,
        env={**os.environ, "LOCAL_BASE_URL": f"{address}/v1", "LOCAL_API_KEY": "none"},
        check=True,
        timeout=600,
    )  # fmt: skip
    paths = RunPaths.of(tmp_path / "outputs", "fresh")
    (imported,) = import_logs("inspect", [tmp_path / "logs"], paths, ImportOptions(["includes"]))
    assert (imported.samples, imported.mean) == (3, imported.reported)
    assert {row.task.item_id for row in newest_rows(paths.log)} == {"pears", "boats", "stamps"}
