"""Write the reference pages that follow from declarations of the package: python scripts/make_table_docs.py.

They are docs/reference/tables.md, whole, and the table of docs/reference/verifier-error-types.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pcsuite.ablation.picture import BLOCKS
from pcsuite.analysis.analyse import ALL_TABLES
from pcsuite.analysis.table import TableSpec
from pcsuite.integrations.helm.evidence import BESIDE_OURS
from pcsuite.integrations.helm.results import INSTANCES, METRICS, RUNS
from pcsuite.verifier.error_types import ERROR_TYPES

SPECS = (*ALL_TABLES, BLOCKS, RUNS, METRICS, INSTANCES, BESIDE_OURS)
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE = REFERENCE / "tables.md"
ERRORS_PAGE = REFERENCE / "verifier-error-types.md"
_HEAD, _MATCH, _UNJUDGED = (
    "| verdict | truth | extraction | counts as |\n|---|---|---|---|\n",
    "| match | a value | the same value, of the declared type | a true positive |\n",
    "| not judged | unknown: ",
)


def tables_page(specs: Sequence[TableSpec]) -> str:
    """``docs/reference/tables.md``: every table with its columns and their meanings.

    Limits of an interval share the line of their value.
    """
    parts = [
        "# Tables",
        "<!-- Made by scripts/make_table_docs.py from the TableSpecs of the package; change those. -->",
        "Every table that a report writes to `tables/`, with its columns in order. A column marked † is in the CSV file"
        " but not on the page. `x` … `x_high` stands for a value and the limits of its 95 % interval, `x_low` and"
        " `x_high`. Empty cells are undefined or do not apply.",
    ]
    for spec in specs:
        parts.append(f"## `{spec.name}.csv`\n\n{spec.title}: one row per {spec.row}. {spec.note}".rstrip())
        lines = ["| column | meaning |", "|---|---|"]
        for column in spec.columns:
            if not spec.is_limit(column.name):
                name = f"`{column.name}`"
                if f"{column.name}_high" in spec.names:
                    name += f" … `{column.name}_high`"
                lines.append(f"| {name}{'' if column.shown else ' †'} | {column.meaning} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def with_error_types(page: str) -> str:
    """The page of the verifier's error types with a line for each declared one between match and not judged."""
    before, _, rest = page.partition(_HEAD)
    _, _, after = rest.partition(_UNJUDGED)
    lines = (
        f"| `{one.name}` | {'none' if one.is_invented else 'a value'} | {one.extraction} | {one.counts_as} |\n"
        for one in ERROR_TYPES.values()
    )
    return f"{before}{_HEAD}{_MATCH}{''.join(lines)}{_UNJUDGED}{after}"


if __name__ == "__main__":
    for path, text in (
        (PAGE, tables_page(SPECS)),
        (ERRORS_PAGE, with_error_types(ERRORS_PAGE.read_text(encoding="utf-8"))),
    ):
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
