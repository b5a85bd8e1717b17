"""``docs/reference/specification.md`` names every test of this folder, and no other: a line without one is not held."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"test_old_logs.py", "test_page.py", "test_blocks.py", "test_whole_run.py"}
"""Files about something else than a single line of the specification."""


def test_the_page_is_what_the_table_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import make_specification_page

    assert make_specification_page.main(["--check"]) == 0


@pytest.mark.slow
def test_every_line_has_its_test_and_every_test_its_line():
    page = (ROOT / "docs" / "reference" / "specification.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    written = {
        node.name
        for file in Path(__file__).parent.glob("test_*.py")
        if file.name not in OTHERS
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert named == written


def test_every_file_that_the_page_names_is_there():
    page = (ROOT / "docs" / "reference" / "specification.md").read_text(encoding="utf-8")
    roots = [ROOT, ROOT / "src" / "pcsuite", ROOT / "src"]
    for line in page.splitlines():
        cells = line.split("|")
        if len(cells) == 6 and "`test_" in cells[4]:
            for name in re.findall(r"`([\w./]+)`", cells[3]):
                assert any((root / name).exists() for root in roots), name
