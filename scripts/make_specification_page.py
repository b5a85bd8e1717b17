"""The page on the written specification, from the table that the tests hold.

    python scripts/make_specification_page.py            # writes docs/reference/specification.md
    python scripts/make_specification_page.py --check    # exit status 1 where the page says something else

The table is ``tests/specification/outcomes.yaml``: every block of the two documents with what happens to it here, every
name with the test that holds it, and what differs on purpose. The modules are those of ``pcsuite.specified``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from pcsuite.specified import MODULES

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "specification" / "outcomes.yaml"
PAGE = ROOT / "docs" / "reference" / "specification.md"
DOCUMENTS = {"specification": "the specification", "verifier": "the verifier's document"}
KINDS = {
    "python": "Python", "yaml": "YAML", "json": "JSON", "toml": "TOML", "jinja": "template", "shell": "commands",
    "tree": "tree of files", "path": "file name", "example": "example",
}  # fmt: skip


INTRODUCTION = """\
The design that this suite implements circulates as two written documents: a specification and the instructions of a
verifier. People arrive with their commands, files and snippets in their hands. `tests/specification/test_blocks.py`
takes every block out of both documents and runs it: of {blocks} blocks {works} work as written, {no_code} are no code
of their own (elided, cut off, or private lines that the documents replace themselves) and {otherwise} meet one of
{differences} differences that are [on purpose](#on-purpose). `test_whole_run.py` beside it runs the commands in their
order in a fresh folder. Second spellings are read where a file or a flag is loaded (`pcsuite.config.spellings`,
`pcsuite.data.truths`) and nowhere else: log and tables have one form."""
MODULES_WORDS = """\
Every module of the specification can be imported by its name, with every name it defines. Those that are not files
here are resolved by `pcsuite.specified` when they are first imported; a subject in the second column has all of its
own names too."""


def page(table: dict[str, Any]) -> str:
    """The page's text."""
    outcomes = Counter(entry[4].partition(":")[0] for entry in table["blocks"])
    parts = [
        "# The specification, line by line",
        "",
        "<!-- written by scripts/make_specification_page.py from tests/specification/outcomes.yaml -->",
        "",
        INTRODUCTION.format(
            blocks=len(table["blocks"]),
            works=outcomes["works"],
            no_code=outcomes["spelling"],
            otherwise=outcomes["on purpose"],
            differences=len(table["differences"]),
        ),
        "",
        "## On purpose",
        "",
        *rows(
            ["", "the documents", "here", "why"],
            (
                [f"`{name}`", one["specification"], one["here"], one["why"]]
                for name, one in table["differences"].items()
            ),
        ),
        "",
    ]
    for section in table["sections"]:
        parts += [f"## {section['title']}", ""]
        parts += rows(
            ["as it is written", "here", "where", "test"],
            (
                [
                    line["written"],
                    line["here"],
                    line["where"],
                    ", ".join(f"`{name}`" for name in line["tests"]),
                ]
                for line in section["lines"]
            ),
        )
        parts.append("")
    parts += [
        "## Modules",
        "",
        MODULES_WORDS,
        "",
        *rows(
            ["module", "is", "names from elsewhere"],
            (
                [
                    f"`{name}`",
                    f"`{subject}`" if subject else ("the suite's own" if is_file(name) else "only the names"),
                    ", ".join(f"`{one}`" for one in names) or "–",
                ]
                for name, (subject, names) in MODULES.items()
            ),
        ),
        "",
        "## Blocks",
        "",
        "By the line of the document at which each begins.",
        "",
        *rows(
            ["document", "line", "kind", "what", "outcome"],
            (
                [
                    DOCUMENTS[document],
                    str(line),
                    KINDS[kind],
                    what,
                    outcome.replace("on purpose: ", "on purpose: "),
                ]
                for document, line, kind, what, outcome in table["blocks"]
            ),
        ),
    ]
    return "\n".join(parts) + "\n"


def is_file(module: str) -> bool:
    """Whether a module is a file of the package."""
    path = ROOT / "src" / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def rows(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    cells = [header, ["---"] * len(header), *lines]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or compare it with what is written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 where the page differs"
    )
    args = parser.parse_args(argv)
    text = page(yaml.safe_load(TABLE.read_text(encoding="utf-8")))
    if args.check:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name}: {'as the table says' if same else 'differs from the table'}")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
