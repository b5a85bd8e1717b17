"""The page over all evals."""

import re
import shutil
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.cli import main

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"


@pytest.fixture
def html(tmp_path):
    root = tmp_path / "evals"
    for name in ("two-gables", "salt-terrace", "heron-cottage"):
        shutil.copytree(SAMPLES / name, root / name)
    (root / "two-gables" / "extracted.json").write_bytes(
        (SAMPLES / "two-gables" / "extracted_poor.json").read_bytes()
    )
    assert main(["verify-all", str(root), "--instructions-version", "<b>p3"]) == 0
    return (root / "verify-all.html").read_text(encoding="utf-8")


def test_worst_first_with_both_means_and_their_intervals(html):
    assert html.index("two-gables</a>") < html.index("heron-cottage</a>")
    assert html.count("95 % interval") == 2
    assert "Macro-F1" in html
    assert "Micro-F1" in html
    assert 'href="two-gables/results/iteration-001/eval-report.html"' in html
    assert "&lt;b&gt;p3" in html
    assert "<b>p3" not in html
    assert not re.search(r"https?://", html)


def test_the_heat_map_has_the_fields_that_have_errors(html):
    heat = html[html.index('class="heat') : html.index("</table>")]
    columns = re.findall(r'<th class="turned" title="([^"]+)"', heat)
    assert "windows[].u_factor" in columns  # wrong throughout in the poor extraction
    assert "project.city" not in columns  # right in all of them
    cells = re.findall(r'title="two-gables, windows\[\]\.u_factor: (\d+) errors, (\d+) values', heat)
    assert len(cells) == 1
    errors, values = map(int, cells[0])
    assert errors == values > 0
