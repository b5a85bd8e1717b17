import shutil
import subprocess

import pytest

from pcsuite.reporting.build import build_report
from pcsuite.reporting.latex import escape_latex
from support.synthetic_log import Design, design_rows, write_log


def test_latex_escapes_what_it_would_obey():
    assert (
        escape_latex(r"50% of $x_1 & {y}~\input")
        == r"50\% of \$x\_1 \& \{y\}\textasciitilde{}\textbackslash{}input"
    )


def test_latex_spells_characters_that_it_has_no_key_for():
    assert escape_latex("é ï ç ø ß α Ω ≥ a--b") == (
        "\\'{e} \\\"{\\i} \\c{c} \\o{} \\ss{} $\\alpha$ $\\Omega$ $\\geq$ a-{}-b"
    )
    assert escape_latex("[x] *y*") == "{[}x{]} {*}y{*}"
    assert escape_latex("汉\u200b\x07") == r"\pcsuiteother{汉}{6C49}"


@pytest.mark.slow
def test_latex_tables(written):
    names = [path.name for path in written.reports]
    assert {"levels.tex", "effects.tex", "hypotheses.tex", "cache_report.md"} <= set(names)
    effects = next(path for path in written.reports if path.name == "effects.tex").read_text()
    assert "Task & Model & Regime & C4 & C6 & C$\\geq$6\\_\\%\\&\\# \\\\" in effects
    assert effects.count("\\begin{tabular}") == effects.count("\\end{tabular}") == 1


def compile_latex(folder, files):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: the tables are checked as text only")
    inputs = "".join(f"\\input{{{path}}}" for path in files if path.suffix == ".tex")
    packages = "\\usepackage{booktabs,longtable}"
    (folder / "all.tex").write_text(
        f"\\documentclass{{article}}{packages}\\begin{{document}}{inputs}\\end{{document}}", encoding="utf-8"
    )
    return subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=folder,
        capture_output=True,
        check=False,
    )


def test_latex_compiles(written, tmp_path):
    done = compile_latex(tmp_path, written.reports)
    assert done.returncode == 0, done.stdout[-2000:]
    assert b"Missing character" not in done.stdout


def test_long_and_wide_latex_tables_are_broken_up(tmp_path):
    models = {f"m{k}": ("fam", "1B") for k in range(5)}
    rows = design_rows(Design(items=4, models=models, conditions=("C0", "C1", "C2", "C3", "C4", "C5")))
    log = write_log(tmp_path / "runs" / "a.jsonl", rows)
    files = build_report([log], tmp_path, formats=("latex",), plots=False, embeddings="off").reports
    by_name = {path.stem: path.read_text(encoding="utf-8") for path in files}
    for name in ("levels", "effects"):
        assert by_name[name].startswith("% needs \\usepackage{booktabs,longtable}")
    assert "Task & Model & Regime & Condition & Control & Change & $p$ (BH)" in by_name["effects"]
    assert by_name["effects"].count("agnews\\_json & ") == 5 * 2 * 5
    done = compile_latex(tmp_path, files)
    assert done.returncode == 0, done.stdout[-2000:]
