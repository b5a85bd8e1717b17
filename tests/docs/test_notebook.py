"""The tutorial notebook, executed in a kernel of its own; its last cell asserts the answer."""

import json
import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "notebook.ipynb"


@pytest.mark.filterwarnings("default")  # the kernel's client warns of its own affairs
def test_the_notebook_runs_and_ends_in_an_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.casefold()))
    kernel = tmp_path / "jupyter_data_dir" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error"]
    last = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert "prompt tokens per 1,000 calls and is no worse." in last
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert any("<iframe srcdoc=" in page for page in pages)  # the ablation as a heat map
    assert any("max_cost_usd" in page for page in pages)  # the plan as a table
    assert any('<progress value="200" max="200">' in page for page in pages)  # the bar, at its end


def test_the_notebook_is_committed_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(
        not cell.outputs and cell.execution_count is None
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
