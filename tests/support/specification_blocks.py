"""The blocks of the two documents that the suite implements: where each begins, where it ends, and what it is.

The specification is plain text without fences, so blocks are known by how their lines begin; the verifier's document is
Markdown. What is extracted depends on the documents alone: the table of outcomes is held against it, so that a block
that nobody expects, or one that is gone, is noticed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEEDS = Path(os.environ.get("PCS_SHARED_SEEDS", Path(__file__).resolve().parents[3] / "shared" / "seeds"))
SPECIFICATION, VERIFIER = "specification.txt", "verifier.txt"


@dataclass(frozen=True)
class Block:
    """Some lines of a document."""

    document: str
    line: int
    """Number of its first line."""
    kind: str
    """``python``, ``yaml``, ``json``, ``toml``, ``jinja``, ``shell``, ``tree``, ``path`` or ``example``."""
    text: str
    path: str = ""
    """The file that the document says it is."""


_STARTS = (
    ("jinja", re.compile(r"\{#")),
    ("toml", re.compile(r"\[project")),
    ("tree", re.compile(r"prompt-control-suite/$")),
    ("shell", re.compile(r"(?:python -m |python scripts/|pip install |PCS_\w+=|# \d\) )")),
    ("path", re.compile(r"(?:\.cache|outputs)/\S+|\w+__<task>__\S+\.png$")),
    ("json", re.compile(r"\{$")),
    ("yaml", re.compile(r"(?:version: |[a-z_]\w*:$)")),
    (
        "python",
        re.compile(
            r"from \S+ import |import \w|class \w+|def \w+\(|@\w|#!/|# inside |# \.\.\.$|# ----|if .*:$|for .*:$"
            r"|[A-Za-z_]\w*(?:: [^=]+)? = |lines\.append\(|\"\w+\": |return \{"
        ),
    ),
)
_GOES_ON = {
    "toml": re.compile(r"\[|[\w-]+ = |\]|#"),
    "yaml": re.compile(r"[a-z_]\w*:(?: |$)"),
    "shell": re.compile(r"python |pip |PCS_|# \d\) "),
    "json": re.compile(r"\}$"),
    "python": re.compile(
        r"from |import |class |def |@|#(?! \d\))|if |for |else:|elif |try:|except|return |raise |print\(|[)\]}]"
        r"|[A-Za-z_][\w.]*(?:\[[^]]*\])?(?:: [^=]+)? = |[a-z_][\w.]*\(|\"\w+\": |\"\"\"|\.\.\.$"
    ),
}
_PATH_LINE = re.compile(r"(?:Path|File): (\S+)$|.*?New file: (\S+)$|[\d.]+ .*\((configs/[\w*]+\.yaml)\)")
_SECTION = re.compile(r"\d+(?:\.\d+)*\)? ")
FIRST_LINE = 2067
"""Where the specification turns from prose to files."""


def blocks() -> list[Block]:
    """Every block of both documents, in order; none where the documents are not there."""
    found = list(_of_specification()) if (SEEDS / SPECIFICATION).is_file() else []
    return found + (list(_of_verifier()) if (SEEDS / VERIFIER).is_file() else [])


def document_lines(name: str) -> list[str]:
    """The lines of a document."""
    return (SEEDS / name).read_text(encoding="utf-8").split("\n")


def _of_specification() -> Iterator[Block]:
    lines = document_lines(SPECIFICATION)
    number, path = FIRST_LINE, ""
    while number <= len(lines):
        line = lines[number - 1]
        if named := _PATH_LINE.match(line):
            path = next(filter(None, named.groups()))
        elif _SECTION.match(line):
            path = ""
        kind = next((kind for kind, start in _STARTS if start.match(line)), None)
        if kind == "yaml" and not _is_yaml(lines, number):
            kind = None
        if kind is None or named:
            number += 1
            continue
        end = _end(lines, number, kind)
        text = "\n".join(lines[number - 1 : end]).rstrip() + "\n"
        yield Block(SPECIFICATION, number, kind, text, path)
        path, number = "", end + 1


def _is_yaml(lines: list[str], number: int) -> bool:
    """Whether a line that looks like a key has something below it."""
    following = next((line for line in lines[number:] if line.strip()), "")
    return lines[number - 1].startswith("version:") or following.startswith(" ")


def _end(lines: list[str], start: int, kind: str) -> int:
    """Number of the last line of a block that begins at line ``start``."""
    if kind == "path":
        return start
    if kind == "jinja":
        return next(n for n in range(start, len(lines)) if _SECTION.match(lines[n]))
    end, quoted = start, lines[start - 1].count('"""') % 2 == 1 if kind == "python" else False
    for number in range(start + 1, len(lines) + 1):
        line = lines[number - 1]
        inside = not line.strip() or line[0] in " \t" or quoted
        if not inside and not (kind in _GOES_ON and _GOES_ON[kind].match(line)):
            break
        if kind == "python" and line.count('"""') % 2 == 1:
            quoted = not quoted
        if line.strip():
            end = number
        if kind == "json" and line == "}":
            break
    return end


def _of_verifier() -> Iterator[Block]:
    lines = document_lines(VERIFIER)
    start: int | None = None
    for number, line in enumerate(lines, start=1):
        if line.startswith("```"):
            if start is not None:
                kind = lines[start - 1].removeprefix("```") or "text"
                yield Block(VERIFIER, start + 1, kind, "\n".join(lines[start : number - 1]) + "\n")
                start = None
            else:
                start = number
        elif start is None and line.startswith("- Expected: "):
            yield Block(VERIFIER, number, "example", line.removeprefix("- ") + "\n")
