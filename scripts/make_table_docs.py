"""Write docs/reference/tables.md from the table specs of the package: python scripts/make_table_docs.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pcsuite.ablation.picture import BLOCKS
from pcsuite.analysis.analyse import ALL_TABLES
from pcsuite.analysis.table import TableSpec
from pcsuite.integrations.helm.evidence import BESIDE_OURS
from pcsuite.integrations.helm.results import INSTANCES, METRICS, RUNS

SPECS = (*ALL_TABLES, BLOCKS, RUNS, METRICS, INSTANCES, BESIDE_OURS)
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "tables.md"


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


if __name__ == "__main__":
    PAGE.write_text(tables_page(SPECS), encoding="utf-8")
    print(f"wrote {PAGE}")
