"""The ``pcsuite`` command: parses, dispatches, prints. Its commands are in ``pcsuite.commands``.

A module serves a family of commands: for each it has ``configure_<name>(parser)`` and ``execute_<name>(args) -> int``,
with dashes as underscores. Only the module of the chosen command is imported, so that ``pcsuite --help`` stays instant.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from pcsuite import __version__
from pcsuite.errors import PcsuiteError, did_you_mean


class Command(NamedTuple):
    """A subcommand: its name, one line of help, and the module that implements it."""

    name: str
    summary: str
    module: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "plan", "show the grid: cells, calls, tokens, cost, what is not applicable", "pcsuite.commands.prompt"
    ),
    Command("run", "run a profile, or go on with it", "pcsuite.commands.run"),
    Command("run-task", "run one task of a profile", "pcsuite.commands.run"),
    Command("report", "write tables, figures and the HTML report of a run", "pcsuite.commands.report"),
    Command("compare", "compare two runs item by item, and fail on a regression", "pcsuite.commands.report"),
    Command(
        "import",
        "bring logs of inspect_ai or lm-eval into a run, for compare and report",
        "pcsuite.commands.data",
    ),
    Command(
        "promptbench",
        "perturb prompts and measure what it costs each condition",
        "pcsuite.commands.integrations",
    ),
    Command(
        "optimize",
        "compile a prompt for C8 under the information objective, on development items",
        "pcsuite.commands.optimize",
    ),
    Command("helm", "run HELM beside the suite and import what it finds", "pcsuite.commands.integrations"),
    Command("integrations", "install other tools, each on its own", "pcsuite.commands.integrations"),
    Command("rescore", "score stored answers anew, without a model call", "pcsuite.commands.run"),
    Command(
        "verifier-pass",
        "ask the same model whether stored answers contradict themselves",
        "pcsuite.commands.run",
    ),
    Command(
        "prompt", "show the exact prompt of a condition, or what two differ in", "pcsuite.commands.prompt"
    ),
    Command("config", "check a profile, emit JSON schemas for editors", "pcsuite.commands.prompt"),
    Command("models", "list the models, pull their files, check that they answer", "pcsuite.commands.models"),
    Command("cache", "show or clear the response cache", "pcsuite.commands.models"),
    Command("export-datasets", "write published benchmarks as items files", "pcsuite.commands.data"),
    Command("index", "build and try the search index that loops with retrieval use", "pcsuite.commands.data"),
    Command("init-task", "make a runnable task of your own CSV or JSONL", "pcsuite.commands.data"),
    Command(
        "verify", "check an extracted record against its truth, field by field", "pcsuite.commands.verify"
    ),
    Command("verify-all", "check every eval of a folder, with gates for CI", "pcsuite.commands.verify"),
    Command("verify-history", "show how an eval's scores went over iterations", "pcsuite.commands.verify"),
    Command(
        "verify-diff", "show which fields two results fixed, broke or changed", "pcsuite.commands.verify"
    ),
    Command("improve", "better an extraction prompt, guarded by held-out evals", "pcsuite.commands.improve"),
)

EPILOG = """examples:
  pcsuite models pull smollm2-135m            # fetch the embedded model once
  pcsuite run --config quickstart             # a real model, a ladder of conditions, bundled items
  pcsuite report --config quickstart          # tables, figures, outputs/reports/index.html
  pcsuite prompt agnews_json C4 --diff C3     # what a condition adds to the prompt

pcsuite COMMAND --help explains a command. Documentation: docs/."""


def build_parser() -> argparse.ArgumentParser:
    """Return the top-level parser, which knows the commands by name only."""
    width = max((len(command.name) for command in COMMANDS), default=0)
    listing = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="pcsuite",
        description="Which parts of a prompt actually help, how surely, and at what cost.",
        epilog=f"commands:\n{listing}\n\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="pcsuite [--version] [--debug] COMMAND …",
    )
    parser.add_argument("--version", action="version", version=f"pcsuite {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Import the command's module, parse its arguments and execute it."""
    command = next((candidate for candidate in COMMANDS if candidate.name == name), None)
    if command is None:
        hint = did_you_mean(name, (candidate.name for candidate in COMMANDS))
        raise PcsuiteError(f"unknown command '{name}'", hint=hint)
    module = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(
        prog=f"pcsuite {name}",
        description=command.summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    function = name.replace("-", "_")
    getattr(module, f"configure_{function}")(parser)
    args = parser.parse_args(list(arguments))
    return int(getattr(module, f"execute_{function}")(args))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    debug = args.debug or "--debug" in args.rest
    try:
        return run_command(args.command, args.rest)
    except PcsuiteError as error:
        if debug:
            raise
        print(f"pcsuite: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(
            "pcsuite: interrupted; finished work is kept, the same command goes on from here", file=sys.stderr
        )
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
