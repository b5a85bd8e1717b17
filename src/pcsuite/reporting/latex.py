r"""LaTeX tables (booktabs) of levels and effects, ready to be ``\input``."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite._util.text import figure_text, p_text, signed
from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import SCORE, natural_key
from pcsuite.analysis.table import Column, TableSpec
from pcsuite.analysis.tables.effects import EFFECTS
from pcsuite.analysis.tables.registration import REGISTRATION
from pcsuite.analysis.tables.summary import SUMMARY
from pcsuite.analysis.verdicts.findings import HYPOTHESES
from pcsuite.contrasts import FORM

OTHER_CHARACTER = (
    "\\providecommand{\\pcsuiteother}[2]{\\ifdefined\\Umathchar #1\\else{\\ttfamily U+#2}\\fi}\n"
)
"""Defines how a character that pdfLaTeX has no glyph for is set: itself by XeLaTeX and LuaLaTeX, its code otherwise."""

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}",
    # At the head of a row these would be arguments of the line break before it.
    "[": "{[}", "]": "{]}", "*": "{*}",
    "–": "--", "—": "---", "…": r"\ldots{}", "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "«": r"$\ll$",
    "»": r"$\gg$", "·": r"$\cdot$", "•": r"\textbullet{}", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$",
    "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$", "≠": r"$\neq$", "≈": r"$\approx$", "∞": r"$\infty$",
    "→": r"$\rightarrow$", "←": r"$\leftarrow$", "↔": r"$\leftrightarrow$", "°": r"$^\circ$", "²": "$^2$", "³": "$^3$",
    "¹": "$^1$", "½": r"$\frac12$", "¼": r"$\frac14$", "¾": r"$\frac34$", "§": r"\S{}", "©": r"\copyright{}",
    "£": r"\pounds{}", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}",
    "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "∑": r"$\sum$", "√": r"$\surd$", "∈": r"$\in$",
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip
_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
)  # fmt: skip
_GREEK_CAPITALS = (
    "gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi", "omega",
)  # fmt: skip


def escape_latex(text: object) -> str:
    """Text that pdfLaTeX sets as it is, with no package; what cannot be seen is left out.

    ASCII stays, accents become commands, symbols and Greek letters math mode, the rest :data:`OTHER_CHARACTER`.
    """
    pieces: list[str] = []
    before = ""
    for character in " ".join(str(text).split()):
        # Two hyphens in a row would join to a dash.
        pieces.append("{}" + character if character == before == "-" else _character(character))
        before = character
    return "".join(pieces)


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if " " <= character <= "~":
        return character
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Mn", "Me"):
        return ""
    # ``é`` as ``\\'{e}``, where the accent is one that TeX has.
    base, *marks = list(unicodedata.normalize("NFD", character))
    if len(marks) == 1 and marks[0] in _ACCENTS and base.isascii():
        dotless = f"\\{base}" if base in "ij" and marks[0] != "\u0327" else base
        return f"\\{_ACCENTS[marks[0]]}{{{dotless}}}"
    name = unicodedata.name(character, "").lower().replace("lamda", "lambda")
    letter = name.rpartition(" ")[2]
    if name == f"greek small letter {letter}" and letter in _GREEK:
        return f"$\\{letter}$"
    if name == f"greek capital letter {letter}" and letter in _GREEK_CAPITALS:
        return f"$\\{letter.capitalize()}$"
    return f"\\pcsuiteother{{{character}}}{{{ord(character):04X}}}"


LONGEST_FLOAT = 40
"""Rows that fit on a page; a longer table is broken over pages."""
WIDEST_MATRIX = 3
"""Conditions that fit beside each other on a page; more are listed one under the other."""


def latex_tables(analysis: Analysis) -> dict[str, str]:
    """File names (without ending) and contents: levels, effects on the score, hypotheses, planned contrasts if any.

    The columns are those whose specs have a heading for LaTeX.
    """
    tables = analysis.tables
    scores = [row for row in analysis.effects if row["metric"] == SCORE]
    conditions = sorted({row["condition"] for row in scores}, key=natural_key)
    wide = len(conditions) <= WIDEST_MATRIX
    texts = {
        "levels": _record_table(SUMMARY, analysis.levels, "levels"),
        "effects": _matrix(scores, conditions) if wide else _record_table(EFFECTS, scores, "effects"),
        "hypotheses": _record_table(HYPOTHESES, list(tables["hypotheses"].records()), "hypotheses"),
    }
    if planned := list(tables["registration"].records()):
        texts["registration"] = _record_table(REGISTRATION, planned, "registration")
    if any(row.get("form") for row in scores):
        dagger = f"$^{{\\dagger}}$ {FORM}: strict and lenient scores do not agree on it."
        texts["effects"] = texts["effects"].replace("\\caption{", f"\\caption{{{dagger} ", 1)
    judged = escape_latex(analysis.judges.note())
    if judged:
        for name in ("levels", "effects"):
            texts[name] = texts[name].replace("\\caption{", f"\\caption{{{judged} ", 1)
    return texts


def _record_table(spec: TableSpec, records: Sequence[Mapping[str, Any]], label: str) -> str:
    """One row per record, the columns that have a LaTeX heading."""
    columns = [column for column in sorted(spec.columns, key=lambda column: column.late) if column.paper]
    numeric = ("number", "interval", "difference", "p")
    alignment = "".join("r" if column.form in numeric else "l" for column in columns)
    rows = [[_cell(column, record) for column in columns] for record in records]
    return _table(alignment, [column.paper for column in columns], rows, spec.caption, label)


def _cell(column: Column, record: Mapping[str, Any]) -> str:
    value = record[column.name]
    if column.form == "p":
        return escape_latex(p_text(value))
    if column.form == "difference":
        return _effect(record)
    if column.form == "interval":
        if value is None:
            return "--"
        figures = (value, record[f"{column.name}_low"], record[f"{column.name}_high"])
        first, low, high = (_minus(figure_text(figure, column.digits)) for figure in figures)
        return first if None in figures else f"{first} [{low}, {high}]"
    if column.form == "number":
        return str(value) if isinstance(value, int) else _minus(figure_text(value, column.digits))
    return escape_latex(value)


def _matrix(records: Sequence[Mapping[str, Any]], conditions: Sequence[str]) -> str:
    """Conditions side by side, one row per task, model and regime."""
    groups: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in records:
        groups.setdefault((row["task"], row["model"], row["decoding"]), {})[row["condition"]] = row
    rows = [
        [*map(escape_latex, group), *(_effect(by_condition.get(condition)) for condition in conditions)]
        for group, by_condition in groups.items()
    ]
    headings = ["Task", "Model", "Regime", *map(escape_latex, conditions)]
    return _table("lll" + "r" * len(conditions), headings, rows, EFFECTS.caption, "effects")


def _table(
    spec: str, headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    head = f"\\toprule\n{' & '.join(headings)} \\\\\n\\midrule\n"
    body = "".join(f"{' & '.join(row)} \\\\\n" for row in rows)
    titled = f"\\caption{{{caption}}}\n\\label{{tab:{label}}}"
    # A float cannot be broken: what does not fit on a page must be a longtable.
    if len(rows) > LONGEST_FLOAT:
        return (
            f"% needs \\usepackage{{booktabs,longtable}}\n{OTHER_CHARACTER}\\begingroup\n\\small\n"
            f"\\begin{{longtable}}{{{spec}}}\n{titled} \\\\\n{head}\\endfirsthead\n{head}\\endhead\n"
            f"\\bottomrule\n\\endfoot\n{body}\\end{{longtable}}\n\\endgroup\n"
        )
    return (
        f"% needs \\usepackage{{booktabs}}\n{OTHER_CHARACTER}\\begin{{table}}\n\\centering\n\\small\n{titled}\n"
        f"\\begin{{tabular}}{{{spec}}}\n{head}{body}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _effect(row: Mapping[str, Any] | None) -> str:
    if row is None or row["delta"] is None:
        return "--"
    stars = (
        f"$^{{{row['stars']}}}$" if row.get("stars") else ""
    )  # a planned contrast says its outcome in words
    stars += "$^{\\dagger}$" if row.get("form") else ""
    limits = (row["delta_low"], row["delta_high"])
    low, high = (_minus(figure_text(limit)) for limit in limits)
    return f"{_minus(signed(row['delta']))}{stars}" + ("" if None in limits else f" [{low}, {high}]")


def _minus(text: str) -> str:
    return f"$-${text[1:]}" if text.startswith("-") else text
