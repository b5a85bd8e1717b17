r"""LaTeX tables (booktabs) of levels and effects, ready to be ``\input``."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.analysis.analyse import Analysis
from pcsuite.analysis.load.item_scores import natural_key
from pcsuite.report.wording import figure_text, p_text, signed

# Text that pdfLaTeX sets as it is, with no package: ASCII, accents as commands, symbols from math mode.


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


def escape(text: object) -> str:
    """Text that LaTeX sets as it is; what cannot be seen is left out."""
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
    return _accented(character) or _greek(character) or _other(character)


def _accented(character: str) -> str:
    """``é`` as ``\\'{e}``, where the accent is one that TeX has."""
    base, *marks = list(unicodedata.normalize("NFD", character))
    if len(marks) != 1 or marks[0] not in _ACCENTS or not base.isascii():
        return ""
    if base in "ij" and marks[0] != "\u0327":
        base = f"\\{base}"
    return f"\\{_ACCENTS[marks[0]]}{{{base}}}"


def _greek(character: str) -> str:
    name = unicodedata.name(character, "").lower().replace("lamda", "lambda")
    letter = name.rpartition(" ")[2]
    if name == f"greek small letter {letter}" and letter in _GREEK:
        return f"$\\{letter}$"
    if name == f"greek capital letter {letter}" and letter in _GREEK_CAPITALS:
        return f"$\\{letter.capitalize()}$"
    return ""


def _other(character: str) -> str:
    return f"\\pcsuiteother{{{character}}}{{{ord(character):04X}}}"


LONGEST_FLOAT = 40
"""Rows that fit on a page; a longer table is broken over pages."""
WIDEST_MATRIX = 3
"""Conditions that fit beside each other on a page; more are listed one under the other."""


def latex_tables(analysis: Analysis) -> dict[str, str]:
    """File names (without ending) and contents: levels, effects on the score, hypotheses."""
    return {
        "levels": _levels(analysis),
        "effects": _effects(analysis),
        "hypotheses": _hypotheses(analysis),
    }


def _table(
    spec: str, headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    head = f"\\toprule\n{' & '.join(headings)} \\\\\n\\midrule\n"
    body = "".join(f"{' & '.join(row)} \\\\\n" for row in rows)
    titled = f"\\caption{{{caption}}}\n\\label{{tab:{label}}}"
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


def _levels(analysis: Analysis) -> str:
    records = [
        row for row in analysis.tables["summary_by_condition"].records() if row["perturbation"] == "none"
    ]
    rows = [
        [
            escape(row["task"]), escape(row["model"]), escape(row["decoding"]), escape(row["condition"]),
            _interval(row, "score"), _interval(row, "json_valid"), figure_text(row["total_tokens"], 0),
            str(row["n_items"]),
        ]
        for row in records
    ]  # fmt: skip
    headings = ["Task", "Model", "Regime", "Condition", "Score", "JSON validity", "Tokens", "Items"]
    caption = "Score and JSON validity by condition, with 95\\,\\% intervals over items."
    return _table("llllrrrr", headings, rows, caption, "levels")


def _effects(analysis: Analysis) -> str:
    records = [row for row in analysis.tables["effects"].records() if row["metric"] == "score"]
    conditions = sorted({row["condition"] for row in records}, key=natural_key)
    caption = (
        "Change of the score against the control on the same items, with 95\\,\\% bootstrap intervals."
        " Stars after Benjamini--Hochberg correction: * 0.05, ** 0.01, *** 0.001."
    )
    if len(conditions) > WIDEST_MATRIX:
        listed = [
            [
                *(escape(row[name]) for name in ("task", "model", "decoding", "condition")),
                _minus(figure_text(row["control"])), _effect(row), escape(p_text(row["p_bh"])),
            ]
            for row in records
        ]  # fmt: skip
        names = ["Task", "Model", "Regime", "Condition", "Control", "Change", "$p$ (BH)"]
        return _table("llllrrr", names, listed, caption, "effects")
    groups: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in records:
        groups.setdefault((row["task"], row["model"], row["decoding"]), {})[row["condition"]] = row
    rows = [
        [*(escape(part) for part in group), *(_effect(found.get(condition)) for condition in conditions)]
        for group, found in groups.items()
    ]
    headings = ["Task", "Model", "Regime", *(escape(condition) for condition in conditions)]
    return _table("lll" + "r" * len(conditions), headings, rows, caption, "effects")


def _hypotheses(analysis: Analysis) -> str:
    rows = [
        [
            escape(row["id"]),
            escape(row["verdict"]),
            _interval(row, "effect", 3),
            escape(p_text(row["p_value"])),
        ]
        for row in analysis.tables["hypotheses"].records()
    ]
    caption = "Hypotheses (H) and criteria (P) with their verdicts."
    return _table("llrr", ["Id", "Verdict", "Effect", "$p$"], rows, caption, "hypotheses")


def _interval(row: Mapping[str, Any], name: str, digits: int = 2) -> str:
    value = row.get(name)
    if value is None:
        return "--"
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    text = _minus(figure_text(value, digits))
    if low is None or high is None:
        return text
    return f"{text} [{_minus(figure_text(low, digits))}, {_minus(figure_text(high, digits))}]"


def _effect(row: Mapping[str, Any] | None) -> str:
    if row is None or row["delta"] is None:
        return "--"
    stars = f"$^{{{row['stars']}}}$" if row["stars"] else ""
    interval = f"[{_minus(figure_text(row['delta_low']))}, {_minus(figure_text(row['delta_high']))}]"
    return f"{_minus(signed(row['delta']))}{stars} {interval}"


def _minus(text: str) -> str:
    return f"$-${text[1:]}" if text.startswith("-") else text
