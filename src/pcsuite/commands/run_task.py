"""``pcsuite run-task``: run one task of a profile."""

from __future__ import annotations

import argparse

from pcsuite.commands.options import add_profile_arguments
from pcsuite.commands.run import add_run_arguments, execute

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "example:\n  pcsuite run-task gsm8k --config quickstart --limit 5 --conditions C0,C4"
    parser.add_argument("tasks", metavar="TASK", help="task id")
    add_profile_arguments(parser, tasks=False)
    add_run_arguments(parser)
