"""``pcsuite run``: run a profile, or go on with it."""

from __future__ import annotations

import argparse

from pcsuite.commands.console import not_applicable_lines
from pcsuite.commands.options import add_executor_arguments, add_profile_arguments, executor_from, suite_from
from pcsuite.config.load import Suite
from pcsuite.runners.run_suite import RunSummary, run_suite


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "The same command goes on where a killed or stopped run ended; failed rows are tried again.\n\n"
        "examples:\n"
        "  pcsuite run --config quickstart\n"
        "  pcsuite run --config configs/profile_A.yaml --tasks gsm8k --conditions C0,C4 --limit 50 --name trial\n"
        "  pcsuite run --config configs/profile_A.yaml --set limits.max_cost_usd=5\n"
        "  pcsuite run --config configs/profile_B.yaml --executor ray --address auto"
    )
    add_profile_arguments(parser)
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the commands that call models."""
    parser.add_argument("--overwrite", action="store_true", help="start anew; an earlier log is set aside")
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the response cache")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress display")
    add_executor_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.overwrite:
        args.set.append("run.overwrite=true")
    return run_and_print(suite_from(args), args)


def run_and_print(suite: Suite, args: argparse.Namespace) -> int:
    """Run a suite and say what came of it."""
    summary = run_suite(suite, quiet=args.quiet, use_cache=not args.no_cache, executor=executor_from(args))
    print_summary(suite, summary, args.config)
    return 0


def print_summary(suite: Suite, summary: RunSummary, config: str) -> None:
    """Say what a run came to and what comes next."""
    tally = summary.tally
    words = [f"{tally.done} rows in {summary.seconds:.1f} s", f"{tally.tokens:,} tokens"]
    if tally.cost_usd:
        words.append(f"${tally.cost_usd:.4f}")
    if summary.skipped:
        words.append(f"{summary.skipped} were done before")
    if tally.cache_hits:
        words.append(f"{tally.cache_hits} answers from the cache")
    if tally.failed:
        words.append(f"{tally.failed} failed (run again to retry them)")
    print(f"{suite.profile.run.name}: " + ", ".join(words))
    for line in not_applicable_lines(summary.not_applicable):
        print(f"  not applicable: {line}")
    print(f"log: {summary.paths.log}")
    print(f"next: pcsuite report --config {config}")
