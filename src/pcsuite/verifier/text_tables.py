"""Plain tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

ERROR_HEADINGS = {
    "omission": "omitted",
    "hallucination": "invented",
    "format_error": "mistyped",
    "wrong_value": "wrong",
}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content; numbers to the right."""
    columns = list(zip(headings, *rows, strict=True)) if rows else [(heading,) for heading in headings]
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.replace(".", "", 1).lstrip("+-").isdigit()


def score(value: float | None) -> str:
    """A score to three places."""
    return "-" if value is None else f"{value:.3f}"


def error_cells(counts: dict[str, int] | None) -> list[str]:
    """Error counts in the order of :data:`ERROR_HEADINGS`."""
    return [str(counts[kind]) if counts else "-" for kind in ERROR_HEADINGS]
