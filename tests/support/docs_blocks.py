"""Blocks of a docs page that a script writes: between ``<!-- made by NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_block(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines into the block of a script; a page without that block is a ``ValueError``."""
    start, end = f"<!-- made by {name} -->", "<!-- end -->"
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(start)
    if not mark:
        raise ValueError(f"{page} has no block of {name}")
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"{page}: the block of {name} does not end")
    page.write_text(f"{before}{start}\n" + "\n".join(lines) + f"\n{end}{after}", encoding="utf-8")
