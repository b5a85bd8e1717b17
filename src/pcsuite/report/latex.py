r"""LaTeX tables (booktabs) of levels and effects, ready to be ``\input``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.analysis.analysis import Analysis
from pcsuite.analysis.item_scores import natural_key
from pcsuite.report.latex_text import OTHER_CHARACTER, escape
from pcsuite.report.wording import figure_text, p_text, signed

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
