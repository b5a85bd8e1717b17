"""The ``pcsuite`` command: parses, dispatches, prints. Its commands are in ``pcsuite.commands``.

A module serves a family of commands: for each it has ``configure_<name>(parser)`` and ``execute_<name>(args) -> int``,
with dashes as underscores. What ``--help`` shows below the options is the docstring of ``configure_<name>`` from its
second paragraph on. Only the module of the chosen command is imported, so that ``pcsuite --help`` stays instant.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from pcsuite import __version__
from pcsuite._util.secrets import redact
from pcsuite._util.text import describe, one_line, shorten, visible_output
from pcsuite.errors import Exit, PcsuiteError, did_you_mean


class Command(NamedTuple):
    """A subcommand: its name, the module of ``pcsuite.commands`` that has it, and one line of help."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("plan", "prompt", "show the grid: cells, calls, tokens, cost, what is not applicable"),
    Command("run", "run", "run a profile, or go on with it"),
    Command("run-task", "run", "run one task of a profile"),
    Command("report", "report", "write tables, figures and the HTML report of a run"),
    Command(
        "view", "view", "look into runs in a browser: answers side by side, effects that follow the filter"
    ),
    Command("ablate", "ablate", "what each part of your prompt is worth, and the shortest that is no worse"),
    Command("compare", "report", "compare two runs item by item, and fail on a regression"),
    Command("import", "data", "bring logs of inspect_ai or lm-eval into a run, for compare and report"),
    Command("promptbench", "integrations", "perturb prompts and measure what it costs each condition"),
    Command(
        "optimize",
        "optimize",
        "compile a prompt for C8 under the information objective, on development items",
    ),
    Command("helm", "integrations", "run HELM beside the suite and import what it finds"),
    Command("integrations", "integrations", "install other tools, each on its own"),
    Command("rescore", "run", "score stored answers anew, without a model call"),
    Command("judge", "judge", "draw judged answers to label, and hold the judge against the labels"),
    Command("log", "log", "check a run's log line by line, and mend it"),
    Command("verifier-pass", "run", "ask the same model whether stored answers contradict themselves"),
    Command("prompt", "prompt", "show the exact prompt of a condition, or what two differ in"),
    Command("config", "prompt", "check a profile, emit JSON schemas for editors"),
    Command(
        "constraint", "constraint", "who can enforce a schema, a pattern or a grammar, and answers under it"
    ),
    Command("models", "models", "list the models, pull their files, check that they answer"),
    Command("cache", "models", "show or clear the response cache"),
    Command("export-datasets", "data", "write published benchmarks as items files"),
    Command("index", "data", "build and try the search index that loops with retrieval use"),
    Command("init", "init", "a folder of your own prompt and table that runs from anywhere"),
    Command("list", "listing", "list tasks, conditions, operators, models or runs"),
    Command("completion", "completion", "completion of commands, flags and ids for bash, zsh or fish"),
    Command("init-task", "data", "make a runnable task of your own CSV or JSONL"),
    Command("verify", "verify", "check an extracted record against its truth, field by field"),
    Command("verify-all", "verify", "check every eval of a folder, with gates for CI"),
    Command("verify-history", "verify", "show how an eval's scores went over iterations"),
    Command("verify-diff", "verify", "show which fields two results fixed, broke or changed"),
    Command("improve", "improve", "better an extraction prompt, guarded by held-out evals"),
)

EPILOG = """examples:
  pcsuite models pull smollm2-135m            # fetch the embedded model once
  pcsuite run --config quickstart             # a real model, a ladder of conditions, bundled items
  pcsuite report --config quickstart          # tables, figures, outputs/reports/quickstart/index.html
  pcsuite prompt agnews_json C4 --diff C3     # what a condition adds to the prompt
  pcsuite init mine                           # your own prompt and table, in a folder that runs from anywhere
  pcsuite completion bash                     # completion of commands, flags and ids, for your shell

pcsuite COMMAND --help explains a command. Documentation: docs/."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script: run one command.

    ``argv`` are the words after ``pcsuite``, by default those of the process. Returns the exit status: the command's
    own, an error's ``exit_code`` after its one line on standard error (with ``--debug``, anywhere among the words, the
    error is raised instead), or 130 after Ctrl-C: one of :class:`~pcsuite.errors.Exit`. Words that argparse refuses end
    in ``SystemExit``.
    """
    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    parser = CommandParser(
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
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return Exit.DONE
    with visible_output():
        try:
            command = next((known for known in COMMANDS if known.name == args.command), None)
            if command is None:
                hint = did_you_mean(args.command, (known.name for known in COMMANDS))
                raise PcsuiteError(f"unknown command '{args.command}'", hint=hint)
            words = command_parser(command).parse_args([word for word in args.rest if word != "--debug"])
            # Completion looks into them, and may not import us.
            words.known = CommandTable(COMMANDS, command_parser)
            module = importlib.import_module(f"pcsuite.commands.{command.module}")
            return int(getattr(module, f"execute_{command.name.replace('-', '_')}")(words))
        except KeyboardInterrupt:
            again = "the same command" + (" without --overwrite" if "--overwrite" in args.rest else "")
            print(f"pcsuite: interrupted; finished work is kept, {again} goes on from here", file=sys.stderr)
            return Exit.INTERRUPTED
        except BrokenPipeError:
            # The reader (``head``, say) went away; what is still buffered must not fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.DONE
        except Exception as error:
            if args.debug or "--debug" in args.rest:
                raise
            message, code = _message_and_code(error)
            # Several problems of one file stand on lines of their own in the error; here they share one.
            print(f"pcsuite: {one_line(redact('; '.join(message.splitlines())))}", file=sys.stderr)
            return code


class CommandTable(NamedTuple):
    """The commands and how to have the parser of one."""

    commands: Sequence[Command]
    parser_of: Callable[[Command], argparse.ArgumentParser]


class CommandParser(argparse.ArgumentParser):
    """argparse, but a mistake is one line that names the flag, what may be meant, and where the help is."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the words and end with status 2."""
        kind, _, words = message.partition("unrecognized arguments: ")
        if words and not kind:
            unknown = words.split()[0]
            message = (
                f"unknown flag '{unknown}'" if unknown.startswith("-") else f"one word too many: '{unknown}'"
            )
            if unknown.startswith("--"):
                hint = did_you_mean(unknown.partition("=")[0], self._flags())
                message += f" ({hint})" if hint.startswith("did") else ""
        message = re.sub(r"invalid int value: (.*)", r"\1 is not a whole number", message)
        message = re.sub(r"invalid float value: (.*)", r"\1 is not a number", message)
        said = one_line(redact(message.removeprefix("argument ")))
        print(f"pcsuite: {said} ({self.prog} --help)", file=sys.stderr)
        raise SystemExit(Exit.BAD_INPUT)

    def _flags(self) -> list[str]:
        """Flags of this parser and of its actions."""
        found = [flag for flag in self._option_string_actions if flag.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub in dict.fromkeys(action.choices.values()):
                    found += sub._flags()
        return found


_DISK_ERRORS = frozenset({"IOException", "OperationalError", "OutOfMemoryException", "DatabaseError"})


def _message_and_code(error: Exception) -> tuple[str, int]:
    """What one line says of an error, and the exit status."""
    if isinstance(error, PcsuiteError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        told = "once that is mended, the same command goes on; finished work is kept"
        return f"{where}{error.strerror} ({told})", Exit.BAD_INPUT
    if type(error).__name__ in _DISK_ERRORS:  # of the databases, which are not imported for a name
        return (
            f"{shorten(str(error))} (see to space and permissions, then run the same command)",
            Exit.BAD_INPUT,
        )
    if isinstance(error, MemoryError):
        return "the memory is used up (finished work is kept; the same command goes on)", Exit.BAD_INPUT
    return f"{describe(error)} (a fault of pcsuite: --debug shows where; please report it)", Exit.FAULT


def command_parser(command: Command) -> CommandParser:
    """The parser of a command's arguments; imports the command's module.

    Its epilog is what the docstring of ``configure_<command>`` says after its first paragraph: explanations and
    examples.
    """
    module = importlib.import_module(f"pcsuite.commands.{command.module}")
    configure = getattr(module, f"configure_{command.name.replace('-', '_')}")
    parser = CommandParser(
        prog=f"pcsuite {command.name}",
        description=command.summary,
        epilog=(inspect.getdoc(configure) or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    configure(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
