"""``pcsuite verify-diff``: what changed between two results."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.verifier.text_tables import ERROR_HEADINGS, table

if TYPE_CHECKING:
    from pcsuite.verifier.history import Change


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "before", type=Path, metavar="RESULTS_A", help="an iteration folder or its eval-results.json"
    )
    parser.add_argument("after", type=Path, metavar="RESULTS_B")
    parser.add_argument("--fail-on-broken", action="store_true", help="exit with status 1 if a field broke")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.epilog = (
        "example:\n"
        "  pcsuite verify-diff evals/cottage/results/iteration-001 evals/cottage/results/iteration-002"
    )


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.history import compare_results
    from pcsuite.verifier.store import read_results

    difference = compare_results(read_results(args.before), read_results(args.after))
    for warning in difference.warnings:
        print(f"pcsuite: warning: {warning}", file=sys.stderr)
    if args.json:
        print(json.dumps(asdict(difference), indent=1))
    else:
        print(f"F1 {difference.f1_before:.3f} -> {difference.f1_after:.3f}")
        for name in ("fixed", "broken", "changed"):
            print(_listing(name, getattr(difference, name)))
        print(f"unchanged errors: {difference.unchanged}")
    return 1 if args.fail_on_broken and difference.broken else 0


def _listing(name: str, changes: tuple[Change, ...]) -> str:
    if not changes:
        return f"{name}: 0"
    rows = [["", change.field_path, _words(change.before), _words(change.after)] for change in changes]
    return f"{name}: {len(changes)}\n" + table(["", "field", "before", "after"], rows)


def _words(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "right"
    kind = ERROR_HEADINGS[entry["error_type"]]
    if entry["actual"] is None:
        return kind
    text = json.dumps(entry["actual"])
    return f"{kind}: {text if len(text) <= 30 else text[:29] + '…'}"
