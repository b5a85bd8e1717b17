import shutil
import subprocess

import pytest

from pcsuite.report import markdown
from pcsuite.report.build import build_report
from pcsuite.report.latex import escape
from support.synthetic_log import Design, design_rows, make_row, write_log

HOSTILE = "<script>alert(1)</script> | [x](javascript:alert(1)) `=1+1` *b* _i_ &amp;\n# h"


def test_markdown_shows_text_as_it_is():
    shown = markdown.escape(HOSTILE)
    assert "<script" not in shown.replace("\\<", "")
    assert "\n" not in shown
    for mark in "|[]`*_<>#":
        assert shown.count(mark) == shown.count("\\" + mark)


def test_markdown_rows_keep_their_columns():
    text = markdown.table(("a", "b"), [("x|y", 1)], right=(1,))
    assert text.splitlines() == ["| a | b |", "|---|---:|", "| x\\|y | 1 |"]


def test_latex_escapes_what_it_would_obey():
    assert (
        escape(r"50% of $x_1 & {y}~\input")
        == r"50\% of \$x\_1 \& \{y\}\textasciitilde{}\textbackslash{}input"
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    rows = list(design_rows(Design(items=12, conditions=("C0", "C4", "C6"))))
    rows.append(make_row(item="zz", model=HOSTILE, text=HOSTILE))
    log = write_log(folder / "runs" / "a.jsonl", rows)
    return build_report([log], folder, formats=("md", "latex"))


def test_markdown_report(written):
    text = written.index.read_text(encoding="utf-8")
    assert written.index.name == "report.md"
    assert text.startswith("# Report on a\n")
    assert "## What the run says" in text
    assert "![Score by prompt condition, agnews\\_json on m1" in text
    assert "<script" not in text.replace("\\<script", "")
    for picture in (part.split(")")[0] for part in text.split("](")[1:]):
        if picture.startswith("../plots"):
            assert (written.index.parent / picture).is_file()


def test_latex_tables(written):
    names = [path.name for path in written.reports]
    assert {"levels.tex", "effects.tex", "hypotheses.tex", "cache_report.md"} <= set(names)
    effects = next(path for path in written.reports if path.name == "effects.tex").read_text()
    assert "Task & Model & Regime & C4 & C6" in effects
    assert effects.count("\\begin{tabular}") == effects.count("\\end{tabular}") == 1


def test_latex_compiles(written, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: the tables are checked as text only")
    inputs = "".join(f"\\input{{{path}}}" for path in written.reports if path.suffix == ".tex")
    source = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{inputs}\\end{{document}}"
    (tmp_path / "all.tex").write_text(source)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "all.tex"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
