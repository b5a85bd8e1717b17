r"""LaTeX tables (booktabs) of levels and effects, ready to be ``\input``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.analysis.analysis import Analysis
from pcsuite.analysis.item_scores import natural_key
from pcsuite.report.wording import figure_text, p_text, signed

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "–": "--", "×": r"$\times$", "±": r"$\pm$", "…": r"\ldots{}",
}  # fmt: skip


def escape(text: object) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_ESCAPES.get(character, character) for character in " ".join(str(text).split()))


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
    body = " \\\\\n".join(" & ".join(row) for row in rows)
    return (
        "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\small\n"
        f"\\caption{{{caption}}}\n\\label{{tab:{label}}}\n\\begin{{tabular}}{{{spec}}}\n\\toprule\n"
        f"{' & '.join(headings)} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
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
    groups: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in records:
        groups.setdefault((row["task"], row["model"], row["decoding"]), {})[row["condition"]] = row
    rows = [
        [*(escape(part) for part in group), *(_effect(found.get(condition)) for condition in conditions)]
        for group, found in groups.items()
    ]
    headings = ["Task", "Model", "Regime", *(escape(condition) for condition in conditions)]
    caption = (
        "Change of the score against the control on the same items, with 95\\,\\% bootstrap intervals."
        " Stars after Benjamini--Hochberg correction: * 0.05, ** 0.01, *** 0.001."
    )
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
