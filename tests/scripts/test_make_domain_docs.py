"""The page of worked domains is what its script writes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.subprocess
def test_the_committed_page_is_current():
    written = subprocess.run(
        [
            sys.executable,
            "-c",
            "from scripts.make_domain_docs import page; import sys; sys.stdout.write(page())",
        ],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONIOENCODING": "utf-8"},
        check=True,
        capture_output=True,
    ).stdout.decode("utf-8")
    assert written == (ROOT / "docs" / "reference" / "verifier-domains.md").read_text(encoding="utf-8")
