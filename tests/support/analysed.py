"""Tables of synthetic rows, as records by table."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.runs import RunTables
from pcsuite.logging.row import RunRow
from support.synthetic_log import write_log


def tables_of(
    folder: Path,
    rows: Iterable[RunRow],
    truths: Mapping[str, Mapping[str, str]] | None = None,
    **options: Any,
) -> dict[str, list[dict[str, Any]]]:
    """Analyse rows; ``options`` are those of :func:`analyse`."""
    log = write_log(folder / "a.jsonl", rows)
    with RunTables([log], folder / "tables") as tables:
        found = analyse(tables, truths, **options)
    return {name: list(table.records()) for name, table in found.tables.items()}
