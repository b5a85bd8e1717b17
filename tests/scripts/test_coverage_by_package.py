"""Coverage by package adds up the files of each."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "coverage_by_package.py"


def test_files_of_a_package_are_added_up():
    pytest.importorskip("coverage")
    by_package = runpy.run_path(str(SCRIPT))["by_package"]
    files = {
        "src/pcsuite/stats/f1.py": {"summary": {"covered_lines": 3, "num_statements": 4}},
        "src/pcsuite/stats/deep/er.py": {"summary": {"covered_lines": 1, "num_statements": 6}},
        "src/pcsuite/cli.py": {"summary": {"covered_lines": 2, "num_statements": 2}},
    }
    assert by_package(files) == {"cli.py": (2, 2), "stats": (4, 10)}
