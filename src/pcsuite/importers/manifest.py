"""What an imported run is made of, written beside its log where the report looks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pcsuite import __version__
from pcsuite.importers.rows import MARK, Cell
from pcsuite.logging.writer import RunPaths


def write_manifest(paths: RunPaths, *, imported_cells: Sequence[tuple[Cell, str, int]]) -> None:
    """Add the cells (with the name of their log and the number of items) to ``<run>.manifest.json``."""
    path = paths.log.with_suffix(".manifest.json")
    try:
        content: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        content = {}
    content |= {"run": paths.log.stem, "pcsuite_version": __version__, "length_control": "off"}
    for cell, file, items in imported_cells:
        header = cell.header
        content["profile"] = f"{MARK}{cell.format}"
        tool = f"{header.tool} {header.tool_version}"
        tasks, models = content.setdefault("tasks", {}), content.setdefault("models", {})
        source = f"imported from {tool} ({file})"
        earlier = tasks.get(header.task, {}).get("source", source)
        tasks[header.task] = {
            "title": header.task,
            "kind": "imported",
            "primary_metric": cell.measure,
            # A scorer may well log counts named tp, fp and fn; its own score counts all the same.
            "pooling": "mean",
            "items": items,
            "source": earlier if file in earlier else f"{earlier}; {source}",
            "max_tokens": header.max_tokens or 0,
        }
        models[header.model] = {"provider": f"{MARK}{cell.format}", "family": cell.family, "size": cell.size}
        content.setdefault("conditions", {})[cell.condition] = {"title": cell.condition, "operators": []}
        decoding = cell.decoding
        content.setdefault("regimes", {})[decoding.id] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
        }
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    temporary.replace(path)
