"""The ``pcsuite`` command: parses, dispatches, prints. Its commands are in ``pcsuite.commands``.

A module serves a family of commands: for each it has ``configure_<name>(parser)`` and ``execute_<name>(args) -> int``,
with dashes as underscores. What ``--help`` shows below the options is the docstring of ``configure_<name>`` from its
second paragraph on. Only the module of the chosen command is imported, so that ``pcsuite --help`` stays instant.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NoReturn

from pcsuite import __version__
from pcsuite._util import signals
from pcsuite._util.code import ask_about_code
from pcsuite._util.secrets import redact
from pcsuite._util.text import describe, one_line, shorten, visible_output
from pcsuite.commands import Command, CommandTable
from pcsuite.commands.former_flags import FORMER_FLAGS, current_words
from pcsuite.errors import Exit, PcsuiteError, did_you_mean

MEASURE, STUDY, LOOK = "measure a prompt", "run a study", "look"
VERIFY, MODELS, UPKEEP = "verify extractions", "models", "upkeep"
COMMANDS = (
    Command("ablate", "ablate", MEASURE, "what each part of your prompt is worth, and the shortest that is no worse"),
    Command("check", "check", MEASURE, "did your prompt get worse than at a branch, a run or a file? A gate for CI"),
    Command("compare", "report", MEASURE, "compare two runs, or other tools' files, item by item"),
    Command("gate", "gate", MEASURE, "what a gate can find: could it ever fail, could it ever pass?"),
    Command("init", "init", MEASURE, "a folder of your own prompt and table that runs from anywhere"),
    Command("init-task", "data", MEASURE, "make a runnable task of your own CSV or JSONL"),
    Command("optimize", "optimize", MEASURE, "compile a prompt for C8 under the information objective"),
    Command("plan", "prompt", STUDY, "show the grid: cells, calls, tokens, cost, what is not applicable"),
    Command("run", "run", STUDY, "run a profile, or go on with it"),
    Command("run-task", "run", STUDY, "run one task of a profile"),
    Command("promptbench", "integrations", STUDY, "perturb prompts and measure what it costs each condition"),
    Command("helm", "integrations", STUDY, "run HELM beside the suite and import what it finds"),
    Command("judge", "judge", STUDY, "draw judged answers to label, and hold the judge against the labels"),
    Command("verifier-pass", "run", STUDY, "ask the same model whether stored answers contradict themselves"),
    Command("rescore", "run", STUDY, "score stored answers anew, without a model call"),
    Command("import", "data", STUDY, "bring logs of other tools or a plain table into a run, for compare and report"),
    Command("report", "report", LOOK, "write tables, figures and the HTML report of a run"),
    Command("view", "view", LOOK, "look into runs in a browser: answers side by side, effects that follow the filter"),
    Command("status", "log", LOOK, "how far a run has come, and what it has spent over all its starts"),
    Command("prompt", "prompt", LOOK, "show the exact prompt of a condition, or what two differ in"),
    Command("list", "listing", LOOK, "list tasks, conditions, operators, models or runs"),
    Command("verify", "verify", VERIFY, "check an extracted record against its truth, field by field"),
    Command("verify-all", "verify", VERIFY, "check every eval of a folder, with gates for CI"),
    Command("verify-history", "verify_results", VERIFY, "show how an eval's scores went over iterations"),
    Command("verify-diff", "verify_results", VERIFY, "show which fields two results fixed, broke or changed"),
    Command("improve", "improve", VERIFY, "better an extraction prompt, guarded by held-out evals"),
    Command("models", "models", MODELS, "list the models, pull their files, check that they answer"),
    Command("constraint", "constraint", MODELS, "who can enforce a schema, a pattern or a grammar"),
    Command("cache", "models", MODELS, "show or clear the response cache"),
    Command("config", "prompt", UPKEEP, "check a profile, emit JSON schemas for editors"),
    Command("log", "log", UPKEEP, "check a run's log line by line, and mend it"),
    Command("export-datasets", "data", UPKEEP, "write published benchmarks as items files"),
    Command("index", "data", UPKEEP, "build and try the search index that loops with retrieval use"),
    Command("integrations", "integrations", UPKEEP, "install other tools, each on its own"),
    Command("completion", "completion", UPKEEP, "completion of commands, flags and ids for bash, zsh or fish"),
)  # fmt: skip
"""In the order of the help: the commands of a group stand together."""
FIRST_STEPS = Command("first steps", "init", MEASURE, "three questions, and the command that answers yours")
"""What ``pcsuite`` alone does on a terminal; nobody can type it."""

EPILOG = """examples:
  pcsuite ablate example                      # what each part of a prompt is worth, on the bundled table
  pcsuite models pull qwen2.5-coder-0.5b      # once: the embedded model that the example asks
  pcsuite ablate my_prompt.md --data my_table.csv --show    # your own: blocks, cost and reach; nothing is called
  pcsuite                                     # on a terminal: three questions, and the command that answers yours
  pcsuite init mine                           # your own prompt and table, in a folder that runs from anywhere
  pcsuite run --config quickstart             # a study: a ladder of conditions on bundled items
  pcsuite report --config quickstart          # tables, figures, outputs/reports/quickstart/index.html
  pcsuite completion bash                     # completion of commands, flags and ids, for your shell

pcsuite COMMAND --help explains a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script: run one command.

    ``argv`` are the words after ``pcsuite``, by default those of the process. Returns the exit status: the command's
    own, an error's ``exit_code`` after its one line on standard error (with ``--debug``, anywhere among the words, the
    error is raised instead), or 130 after Ctrl-C: one of :class:`~pcsuite.errors.Exit`. Words that argparse refuses end
    in ``SystemExit``.
    """
    if argv is not None:
        return _until_ended(argv)
    words = sys.argv[1:]
    ask_about_code()
    with signals.heard(partial(_last_words, words)):
        return _flushed(_until_ended(words))


def _until_ended(words: Sequence[str]) -> int:
    """Run one command, or as much of it as a signal lets; that one is answered with its last words."""
    try:
        return _run(words)
    except KeyboardInterrupt as ended:
        number = ended.number if isinstance(ended, signals.Ended) else signals.received() or signal.SIGINT
    for _ in range(2):  # a further signal may come while they are said
        with suppress(OSError, KeyboardInterrupt), visible_output():  # after SIGHUP the terminal is gone
            print(_last_words(words, number), file=sys.stderr)
            break
    return 128 + number


def _last_words(words: Sequence[str], number: int) -> str:
    """The line after a signal: that finished work is kept, and what goes on from here."""
    again = [word for word in words if word != "--overwrite"]
    if number == signal.SIGINT:
        same = "the same command" + (" without --overwrite" if len(again) < len(words) else "")
        return f"pcsuite: interrupted; finished work is kept, {same} goes on from here"
    command = one_line(redact(shlex.join(["pcsuite", *again])))
    return f"pcsuite: ended by {signal.Signals(number).name}; finished work is kept; to go on: {command}"


def _flushed(status: int) -> int:
    """Write what is still buffered; whoever reads it may be gone, and code of the user's may have closed it."""
    if sys.stdout.closed:
        return status
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return Exit.OUTPUT_CLOSED
    return status


def _drop_output() -> None:
    """Have what is still written go nowhere: nobody reads it, and it must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_is_closed() -> bool:
    """Whether the reader of our output is gone; a broken pipe may also be one to a child or a server."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True


def _run(argv: Sequence[str]) -> int:
    """Run one command in this process; see :func:`main`."""
    parser = CommandParser(
        prog="pcsuite",
        description="Which parts of a prompt actually help, how surely, and at what cost.",
        epilog=f"{_listing()}\n\n{EPILOG} Documentation: {documentation().as_uri()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="pcsuite [--version] [--debug] COMMAND …",
    )
    parser.add_argument("--version", action="version", version=f"pcsuite {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.command is None:
        if not (
            sys.stdin.isatty() and sys.stdout.isatty()
        ):  # a script gets the help, and is never waited for
            parser.print_help()
            return Exit.DONE
        args.command = FIRST_STEPS.name
    with visible_output():
        try:
            command = next((known for known in (*COMMANDS, FIRST_STEPS) if known.name == args.command), None)
            if command is None:
                hint = did_you_mean(args.command, (known.name for known in COMMANDS))
                raise PcsuiteError(f"unknown command '{args.command}'", hint=hint)
            typed, notes = current_words(command.name, (word for word in args.rest if word != "--debug"))
            for note in notes:
                print(f"pcsuite: {note}", file=sys.stderr)
            words = command_parser(command).parse_args(typed)
            # Completion looks into them, and may not import us.
            words.known = CommandTable(COMMANDS, command_parser)
            module = importlib.import_module(f"pcsuite.commands.{command.module}")
            return int(getattr(module, f"execute_{_identifier(command)}")(words))
        except SystemExit as leaving:
            if isinstance(
                leaving.__context__, BrokenPipeError
            ):  # rich leaves so where nobody reads its tables
                return Exit.OUTPUT_CLOSED
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _output_is_closed():
                _drop_output()
                return Exit.OUTPUT_CLOSED
            if args.debug or "--debug" in args.rest:
                raise
            message, code = _message_and_code(error)
            # Several problems of one file stand on lines of their own in the error; here they share one.
            print(f"pcsuite: {one_line(redact('; '.join(message.splitlines())))}", file=sys.stderr)
            return code


def documentation() -> Path:
    """The first page of this installation's documentation: inside the package of a wheel, else the tree's."""
    package = Path(__file__).resolve().parent
    inside = package / "docs" / "README.md"
    return inside if inside.is_file() else package.parents[1] / "docs" / "README.md"


def _listing() -> str:
    """The commands with their summaries, under the titles of their groups."""
    width = max(len(command.name) for command in COMMANDS)
    titled = (
        f"{title}:\n" + "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in commands)
        for title, commands in groupby(COMMANDS, key=attrgetter("group"))
    )
    return "\n\n".join(titled)


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
                message = self._unknown_flag(unknown.partition("=")[0])
        message = re.sub(r"invalid int value: (.*)", r"\1 is not a whole number", message)
        message = re.sub(r"invalid float value: (.*)", r"\1 is not a number", message)
        line = one_line(redact(message.removeprefix("argument ")))
        print(f"pcsuite: {line} ({self.prog} --help)", file=sys.stderr)
        raise SystemExit(Exit.BAD_INPUT)

    def _unknown_flag(self, unknown: str) -> str:
        """What may be meant by a flag that the command does not take, or what takes the place of a former one."""
        command = self.prog.removeprefix("pcsuite ").partition(" ")[0]
        instead = FORMER_FLAGS.get(command, {}).get(unknown)
        if instead is not None:
            return f"{unknown} {instead}"
        hint = did_you_mean(unknown, self._flags())
        return f"unknown flag '{unknown}'" + (f" ({hint})" if hint.startswith("did") else "")

    def _flags(self) -> list[str]:
        """Flags of this parser and of its actions."""
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub in dict.fromkeys(action.choices.values()):
                    flags += sub._flags()
        return flags


_MOST_IN_USAGE = 8
_DISK_ERRORS = frozenset({"IOException", "OperationalError", "OutOfMemoryException", "DatabaseError"})


def _message_and_code(error: Exception) -> tuple[str, int]:
    """What one line says of an error, and the exit status."""
    if isinstance(error, PcsuiteError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        remedy = "once that is mended, the same command goes on; finished work is kept"
        return f"{where}{error.strerror} ({remedy})", Exit.BAD_INPUT
    if type(error).__name__ in _DISK_ERRORS:  # of the databases, which are not imported for a name
        text = str(error)
        with suppress(ValueError, KeyError, TypeError):  # DuckDB's threads say it in JSON
            text = json.loads(text[text.index("{") :])["exception_message"]
        return f"{shorten(text)} (see to space and permissions, then run the same command)", Exit.BAD_INPUT
    if isinstance(error, MemoryError):
        return "the memory is used up (finished work is kept; the same command goes on)", Exit.BAD_INPUT
    return f"{describe(error)} (a fault of pcsuite: --debug shows where; please report it)", Exit.FAULT


def command_parser(command: Command) -> CommandParser:
    """The parser of a command's arguments; imports the command's module.

    Its epilog is what the docstring of ``configure_<command>`` says after its first paragraph: explanations and
    examples.
    """
    module = importlib.import_module(f"pcsuite.commands.{command.module}")
    configure = getattr(module, f"configure_{_identifier(command)}")
    parser = CommandParser(
        prog=f"pcsuite {command.name}",
        description=command.summary,
        epilog=(inspect.getdoc(configure) or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    configure(parser)
    if len(parser._actions) > _MOST_IN_USAGE:
        parser.usage = _short_usage(parser)
    return parser


def _identifier(command: Command) -> str:
    return command.name.replace("-", "_").replace(" ", "_")


def _short_usage(parser: argparse.ArgumentParser) -> str:
    """What must be given, without a list of all that may be: the help has it below, in groups."""
    words = ["%(prog)s"]
    for action in parser._actions:
        name = str(action.metavar or action.dest)
        if action.required and action.option_strings:
            words.append(f"{action.option_strings[0]} {name.upper()}")
        elif not action.option_strings:
            shown = f"{name} …" if action.nargs in ("*", "+") else name
            words.append(f"[{shown}]" if action.nargs in ("*", "?") else shown)
    return " ".join([*words, "[options]"])


if __name__ == "__main__":
    sys.exit(main())
