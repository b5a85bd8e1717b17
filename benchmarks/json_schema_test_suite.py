"""The JSON Schema Test Suite (draft 2020-12): what our grammar, raw llguidance and, if installed, xgrammar make of it.

The suite lies in the source distribution of jsonschema, which is downloaded (or given by --suite); nothing of it is
copied. For every schema: exact, narrower (some valid instance is masked), admits an invalid instance, or refused. An
instance counts as admitted where any spelling of it is: keys in any order, 1.0 as 1; --literal takes texts as they are.
Formats are judged by the optional format tests only: elsewhere the suite has them as annotations.

Run: python benchmarks/json_schema_test_suite.py [--suite FOLDER] [--literal] [--write]      (--write: into the docs)
Exits with 1 where our grammar admits an invalid instance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
# ruff: noqa: E402

from support.docs_blocks import write_block
from support.random_schemas import Matcher, our_grammar, raw_grammar, spellings, takes

VERSION = "4.26.0"
DOCS = ROOT / "docs" / "reference" / "constraints.md"
NAME = "benchmarks/json_schema_test_suite.py"
ENDS = ("exact", "narrower", "admits invalid", "refused")
PARTS = {"required": "*.json", "optional": "optional/*.json", "formats": "optional/format/*.json"}
Accepts = Callable[[str], bool]


def fetched(folder: Path) -> Path:
    """The suite's folder of draft 2020-12, out of jsonschema's source distribution."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "jsonschema",
               "--dest", str(folder), f"jsonschema=={VERSION}"]  # fmt: skip
    subprocess.run(command, check=True)
    archive = next(folder.glob("jsonschema-*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.glob("jsonschema-*/json/tests/draft2020-12"))


def groups(suite: Path, pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The suite's schemas with their tests."""
    for path in sorted(suite.glob(pattern)):
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield path.stem, group


def by_grammar(write: Callable[[Any], str | None]) -> Callable[[Any], Accepts | None]:
    """An opinion by llguidance on what ``write`` makes of a schema."""

    def opinion(schema: Any) -> Accepts | None:
        grammar = write(schema)
        return Matcher(grammar).accepts if grammar is not None and takes(grammar) else None

    return opinion


def by_xgrammar() -> Callable[[Any], Accepts | None] | None:
    """xgrammar's opinion; ``None`` where it is not installed (it is no dependency, not even of these benchmarks)."""
    try:
        import xgrammar
    except ImportError:
        return None
    compiler = xgrammar.GrammarCompiler(
        xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)], stop_token_ids=[0])
    )

    def opinion(schema: Any) -> Accepts | None:
        try:
            compiled = compiler.compile_json_schema(
                json.dumps(schema), any_whitespace=True, strict_mode=False
            )
        except Exception:
            return None

        def accepts(text: str) -> bool:
            matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
            return bool(matcher.accept_string(text) and matcher.is_terminated())

        return accepts

    return opinion


def outcome(accepts: Accepts | None, group: dict[str, Any], literal: bool) -> str:
    """What an engine makes of one schema of the suite."""
    if accepts is None:
        return "refused"
    end = "exact"
    for test in group["tests"]:
        texts = [json.dumps(test["data"], ensure_ascii=False)] if literal else spellings(test["data"])
        try:
            admitted = any(map(accepts, texts))
        except UnicodeEncodeError:  # half a surrogate pair is no text
            continue
        if admitted and not test["valid"]:
            return "admits invalid"
        if test["valid"] and not admitted:
            end = "narrower"
    return end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, help="folder draft2020-12 of the suite; else it is downloaded")
    parser.add_argument(
        "--literal", action="store_true", help="texts as the suite has them: order of keys counts"
    )
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    args = parser.parse_args()
    engines = {"pcsuite": by_grammar(our_grammar), "llguidance alone": by_grammar(raw_grammar)}
    if (third := by_xgrammar()) is not None:
        engines["xgrammar"] = third
    table = ["| part of the suite | schemas | engine | exact | narrower | admit invalid | refused |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        suite = args.suite or fetched(Path(folder))
        for part, pattern in PARTS.items():
            cases = list(groups(suite, pattern))
            for name, opinion in engines.items():
                counts: Counter[str] = Counter()
                for file, group in cases:
                    end = outcome(opinion(group["schema"]), group, args.literal)
                    counts[end] += 1
                    if end == "admits invalid" and name == "pcsuite":
                        wrong += 1
                        print(f"WRONG {file}: {group['description']}", file=sys.stderr)
                ends = " | ".join(str(counts[end]) for end in ENDS)
                table.append(f"| {part} | {len(cases)} | {name} | {ends} |")
    print("\n".join(table))
    if args.write:
        write_block(DOCS, NAME, table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
