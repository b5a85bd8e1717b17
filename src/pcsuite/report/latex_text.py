"""Text that pdfLaTeX sets as it is, with no package: ASCII, accents as commands, symbols from math mode."""

from __future__ import annotations

import unicodedata

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
