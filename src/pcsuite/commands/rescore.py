"""``pcsuite rescore``: score stored answers anew."""

from __future__ import annotations

import argparse

from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.runners.rescore import rescore


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "Rows whose score changed are appended with the same run_id; the newest row counts, the old one stays.\n\n"
        "examples:\n"
        "  pcsuite rescore --config quickstart\n"
        "  pcsuite rescore --config quickstart --dry-run"
    )
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--dry-run", action="store_true", help="count what would change, write nothing")


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    outcome = rescore(suite_from(args), dry_run=args.dry_run)
    verb = "would change" if args.dry_run else "changed"
    print(f"{outcome.rows} rows read, {outcome.changed} {verb}, {outcome.skipped} without an answer or item")
    return 0
