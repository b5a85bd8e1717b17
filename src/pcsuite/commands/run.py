"""``pcsuite run``, ``run-task``, ``rescore`` and ``verifier-pass``: rows into a log."""

from __future__ import annotations

import argparse

from pcsuite.commands.options import (
    add_executor_arguments,
    add_profile_arguments,
    executor_from,
    not_applicable_lines,
    suite_from,
)
from pcsuite.config.load import Suite
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import RunSummary, run_suite
from pcsuite.runners.verifier_pass import VerifierSummary, verifier_pass


def configure_run(parser: argparse.ArgumentParser) -> None:
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


def execute_run(args: argparse.Namespace) -> int:
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


# ``pcsuite run-task``: run one task of a profile.


execute_run_task = execute_run


def configure_run_task(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "example:\n  pcsuite run-task gsm8k --config quickstart --limit 5 --conditions C0,C4"
    parser.add_argument("tasks", metavar="TASK", help="task id")
    add_profile_arguments(parser, tasks=False)
    add_run_arguments(parser)


# ``pcsuite rescore``: score stored answers anew.


def configure_rescore(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "Rows whose score changed are appended with the same run_id; the newest row counts, the old one stays.\n\n"
        "examples:\n"
        "  pcsuite rescore --config quickstart\n"
        "  pcsuite rescore --config quickstart --dry-run"
    )
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--dry-run", action="store_true", help="count what would change, write nothing")


def execute_rescore(args: argparse.Namespace) -> int:
    """Run the command."""
    outcome = rescore(suite_from(args), dry_run=args.dry_run)
    verb = "would change" if args.dry_run else "changed"
    print(f"{outcome.rows} rows read, {outcome.changed} {verb}, {outcome.skipped} without an answer or item")
    return 0


# ``pcsuite verifier-pass``: the same model judges the answers it gave.


def configure_verifier_pass(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "Every stored answer is put to the same model once more, at temperature 0: does it contradict itself,\n"
        "and is it right? Verdicts are rows of kind 'verifier' in the same log; main tables leave them out.\n"
        "The same command goes on where a stopped pass ended.\n\n"
        "examples:\n"
        "  pcsuite verifier-pass --config quickstart\n"
        "  pcsuite verifier-pass --config configs/profile_A.yaml --tasks truthfulqa_gen --conditions C0,C2"
    )
    add_profile_arguments(parser)
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the response cache")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress display")


def execute_verifier_pass(args: argparse.Namespace) -> int:
    """Run the command."""
    suite = suite_from(args)
    _print(verifier_pass(suite, quiet=args.quiet, use_cache=not args.no_cache))
    return 0


def _print(summary: VerifierSummary) -> None:
    words = [f"{summary.asked} verdicts in {summary.seconds:.1f} s", f"{summary.tokens:,} tokens"]
    if summary.done_before:
        words.append(f"{summary.done_before} were given before")
    if summary.empty:
        words.append(f"{summary.empty} answers are empty")
    if summary.failed:
        words.append(f"{summary.failed} failed (run again to retry them)")
    print(", ".join(words))
    for (task, model, condition), rate in sorted(summary.rates.items()):
        shown = "no readable verdict" if rate.rate is None else f"contradiction rate {rate.rate:.3f}"
        unread = f", {rate.unreadable} of {rate.answers} verdicts unreadable" if rate.unreadable else ""
        print(f"  {task} × {model} × {condition}: {shown} over {rate.items} items{unread}")
    print(f"log: {summary.paths.log}")
