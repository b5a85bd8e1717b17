"""The tools themselves, run afresh, and what they wrote imported: each needs the tool in an environment of its own.

``PCS_PROMPTFOO`` names promptfoo's command, ``PCS_DEEPEVAL_PYTHON``, ``PCS_MLFLOW_PYTHON`` and ``PCS_PHOENIX_PYTHON`` an
interpreter that has the tool. The fixtures were written by the same scripts.
"""

import os
import shutil
import subprocess

import pytest

from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.logging.log import RunPaths
from support.import_logs import FIXTURES

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]


def fresh(tool, tmp_path, variable):
    """The fixture's folder with nothing but what makes it, after it was made anew."""
    command = os.environ.get(variable)
    if not command:
        pytest.skip(f"{variable} names no {tool}")
    folder = tmp_path / tool
    shutil.copytree(
        FIXTURES / tool,
        folder,
        ignore=shutil.ignore_patterns("*.jsonl", "*metrics.json", "base*.json", "new*.json"),
    )
    script = next(folder.glob("make_*"))
    words = ["sh", str(script)] if script.suffix == ".sh" else [command, str(script)]
    environment = {**os.environ, "PROMPTFOO": command}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, timeout=600)
    return folder


def mean_of(path, tmp_path, measure):
    (log,) = import_logs(None, [path], RunPaths.of(tmp_path, path.stem), ImportOptions([measure]))
    return log


def test_promptfoo(tmp_path):
    folder = fresh("promptfoo", tmp_path, "PCS_PROMPTFOO")
    base, new = (mean_of(folder / f"{name}.json", tmp_path, "pass") for name in ("base", "new"))
    assert (base.mean, new.mean) == (pytest.approx(16 / 22), 1.0)
    assert (base.sample_mean, new.sample_mean) == (base.reported, new.reported)


def test_deepeval(tmp_path):
    folder = fresh("deepeval", tmp_path, "PCS_DEEPEVAL_PYTHON")
    log = mean_of(folder / "new.json", tmp_path, "Contains")
    assert (log.mean, log.agrees) == (0.75, True)


def test_mlflow(tmp_path):
    folder = fresh("mlflow", tmp_path, "PCS_MLFLOW_PYTHON")
    assert mean_of(folder / "new_traces.jsonl", tmp_path, "contains").mean == 0.75


def test_phoenix(tmp_path):
    folder = fresh("phoenix", tmp_path, "PCS_PHOENIX_PYTHON")
    assert mean_of(folder / "new.json", tmp_path, "contains").mean == pytest.approx(5 / 7)
