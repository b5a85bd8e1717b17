"""``pcsuite verifier-pass``: the same model judges the answers it gave."""

from __future__ import annotations

import argparse

from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.runners.verifier_pass import VerifierSummary, verifier_pass


def configure(parser: argparse.ArgumentParser) -> None:
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


def execute(args: argparse.Namespace) -> int:
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
