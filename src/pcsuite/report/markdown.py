"""Markdown from tables, safe against what models write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no table border, one line."""
    flat = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """A pipe table; columns listed in ``right`` are aligned right."""
    lines = [
        "| " + " | ".join(escape(heading) for heading in headings) + " |",
        "|" + "|".join("---:" if place in right else "---" for place in range(len(headings))) + "|",
    ]
    lines += ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
