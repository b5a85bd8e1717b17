"""Every promise of the documentation names a test that is there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "explanation" / "promises.md"


def promises():
    """What each row of the page promises, and the tests that it names."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 2 and cells[0] not in ("promise", "---|---"):
            yield cells[0].lstrip("| "), re.findall(r"`([\w/]+\.py)::(\w+)`", cells[1])


def test_every_promise_names_tests_that_exist():
    listed = list(promises())
    assert len(listed) > 25
    for promise, named in listed:
        assert named, f"no test: {promise}"
        for file, function in named:
            path = TESTS / file
            assert path.is_file(), f"{file}: {promise}"
            defined = {
                node.name
                for node in ast.parse(path.read_text(encoding="utf-8")).body
                if hasattr(node, "name")
            }
            assert function in defined, f"{file}::{function}: {promise}"


def test_every_attack_file_is_behind_a_promise_or_is_about_robustness_alone():
    """A new file of attacks gets its line on the page."""
    named = {file for _, tests in promises() for file, _ in tests}
    about_input = {
        "test_caches_and_limits.py",
        "test_fuzz.py",
        "test_loopback_servers.py",
        "test_odd_input.py",
    }
    attacks = {
        f"faults/{path.name}" for path in (TESTS / "faults").glob("test_*.py") if path.name not in about_input
    }
    assert attacks <= named
