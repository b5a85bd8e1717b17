"""What several commands share: the arguments of a profile, the console, and the line that says what comes next."""

from __future__ import annotations

import argparse
import json
import logging
import math
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pcsuite.config.load import Suite, load_suite
from pcsuite.config.yaml_source import load_yaml
from pcsuite.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from pcsuite.runners.executors import ExecutorChoice
    from pcsuite.runners.plan import NotApplicable

T = TypeVar("T")
_PIPE_WIDTH = 160
SELECTION = {
    "tasks": "selection.tasks",
    "models": "selection.models",
    "conditions": "selection.conditions",
    "regimes": "selection.decoding_regimes",
}
"""Flags that hold a list, and the profile's keys they replace."""
FLAGS = {
    "preregistration.stopping.rule": "--until",
    "preregistration.margin": "--margin",
    "preregistration.stopping.batch": "--look-every",
    "integrations.promptbench.max_items": "--limit",
    "integrations.promptbench.variants": "--variants",
    "integrations.promptbench.query_budget": "--budget",
    "integrations.helm.scenarios": "--scenarios",
    "integrations.helm.max_instances": "--limit",
    "integrations.helm.data_dir": "--data",
    "selection.models": "--models",
    "selection.tasks": "--tasks",
}
"""Which flag a further override of a command comes from, for messages about it."""

BY_ITEM_MEANS = (
    "looks judge the mean of item scores, each item weighing the same, not micro-F1 of pooled counts"
)
"""Said of tasks with pooled counts: no confidence sequence is known to hold for a ratio of sums at every look."""


def listed(text: str | None, flag: str | None = None) -> list[str]:
    """The names of a list that a user typed; none where it was not given.

    With a ``flag``, a list that was given and holds no name is a ``ConfigError``: nobody means to select nothing.

    >>> listed("A, B,")
    ['A', 'B']
    """
    names = [part.strip() for part in (text or "").split(",") if part.strip()]
    if flag is not None and text is not None and not names:
        raise ConfigError(f"{flag}: no name is given", hint=f"{flag} A,B; leave it out for all")
    return names


def add_tasks(parser: argparse._ActionsContainer, about: str = "only these tasks") -> None:
    """``--tasks A,B``, also as ``--task``; read with :func:`listed`."""
    parser.add_argument("--tasks", "--task", dest="tasks", metavar="A,B", help=about)


MODELS_MEANT = (
    "only these models: ids of the models file, or PROVIDER/MODEL (openai/gpt-5.5, ollama/llama3.2, …)"
)


def add_models(parser: argparse._ActionsContainer, about: str = MODELS_MEANT) -> None:
    """``--models A,B``, also as ``--model``; read with :func:`listed`."""
    parser.add_argument("--models", "--model", dest="models", metavar="A,B", help=about)


def add_one(
    parser: argparse._ActionsContainer, what: str, about: str, default: str | None = None, metavar: str = "ID"
) -> None:
    """``--task`` or ``--model`` (``what``) of a command that takes one of them, also in the plural.

    Raises nothing itself: where the flag is given an empty name, or several, argparse says so in one line.
    """

    def single(text: str) -> str:
        names = listed(text)
        if len(names) != 1:
            problem = "no name is given" if not names else f"one {what} is taken here, not {len(names)}"
            raise argparse.ArgumentTypeError(problem)
        return names[0]

    parser.add_argument(
        f"--{what}", f"--{what}s", dest=what, type=single, default=default, metavar=metavar, help=about
    )


def add_profile_arguments(
    parser: argparse.ArgumentParser,
    *,
    default: str | None = "quickstart",
    run: bool = True,
    selection: bool = True,
    tasks: bool = True,
) -> None:
    """``--config`` and ``--set``, which every command on a profile has, and more flags that override the profile.

    ``default`` is the profile where none is named; ``run`` adds ``--name`` and ``--output-dir``, ``selection`` the
    flags that narrow what runs, ``tasks`` the one for tasks among them. :func:`suite_from` reads them all.
    """
    add = parser.add_argument
    shown = f" (default: {default})" if default else ""
    add("--config", "-c", default=default, metavar="PROFILE", help=f"profile file or bundled name{shown}")
    if run:
        add("--name", help="name of the run, instead of the profile's")
        add("--output-dir", metavar="DIR", help="folder of results, instead of the profile's")
    if selection:
        if tasks:
            add_tasks(parser)
        add_models(parser)
        add("--conditions", metavar="A,B", help="only these conditions; DESIGN:MEMBER is one of a design")
        add("--regimes", metavar="A,B", help="only these decoding regimes")
        add("--limit", type=int, metavar="N", help="at most N items a task")
    about = "override a key of the models' entries, e.g. logprobs=true or price_in=2.5"
    add("--model-option", action="append", default=[], metavar="KEY=VALUE", help=about)
    about = "override any profile key, e.g. limits.max_cost_usd=5"
    add("--set", action="append", default=[], metavar="KEY=VALUE", help=about)


def suite_from(
    args: argparse.Namespace,
    more: Mapping[str, Any] | None = None,
    lists: Mapping[str, str] = SELECTION,
    *,
    check_selection: bool = True,
) -> Suite:
    """Load the profile that ``--config`` names, with the command line's overrides applied.

    ``more`` are further overrides by dotted key, the weakest; ``lists`` says which flags hold lists of names, and the
    keys they set: what a flag names takes the place of the profile's list before names are checked, so that other
    entries of that list are nobody's concern. Without ``check_selection`` none is, for commands that take task, model
    and condition otherwise. ``--set`` beats the other flags. Raises ``ConfigError`` for a profile or an override that
    is wrong. From here on the command's messages go to standard error from the profile's ``run.log_level`` up.
    """
    given = vars(args)
    overrides: dict[str, Any] = dict(more or {})
    flags = dict(FLAGS)
    for flag, key in (("name", "run.name"), ("output_dir", "run.output_dir")):
        if given.get(flag) is not None:
            flags[key] = f"--{flag.replace('_', '-')}"
            if not str(given[flag]).strip():
                raise ConfigError(f"{flags[key]}: it is empty", hint="leave it out to keep the profile's")
            overrides[key] = given[flag]
    for flag, key in lists.items():
        if given.get(flag) is not None:
            overrides[key], flags[key] = listed(given[flag], f"--{flag}"), f"--{flag}"
    if given.get("limit") is not None:
        overrides["limits.max_items_per_task"], flags["limits.max_items_per_task"] = args.limit, "--limit"
        overrides["limits.per_task_max_items"] = {}
    for flag, prefix, example in (
        ("model_option", "model_options.*.", "logprobs=true"),
        ("set", "", "limits.max_cost_usd=5"),
    ):
        shown = f"--{flag.replace('_', '-')}"
        for key, value in key_values(given.get(flag) or (), shown, example).items():
            overrides[prefix + key], flags[prefix + key] = value, f"{shown} {key}"
    if given.get("overwrite"):
        overrides["run.overwrite"] = True
    if not str(args.config).strip():
        raise ConfigError(
            "--config: it is empty", hint="a profile file, or the name of a bundled one: quickstart"
        )
    suite = load_suite(args.config, overrides, flags, check_selection=check_selection)
    logger = logging.getLogger("pcsuite")
    logger.setLevel(suite.profile.run.log_level)
    logger.handlers = [logging.StreamHandler(sys.stderr)]
    for line in suite.schema_warnings():
        logger.warning("pcsuite: warning: %s", line)
    return suite


def key_values(entries: Iterable[str], flag: str, example: str) -> dict[str, Any]:
    """What ``KEY=VALUE`` words set, the values read as YAML; raises ``ConfigError`` for a word of another form."""
    found = {}
    for entry in entries:
        key, sep, value = entry.partition("=")
        if not sep or not key.strip():
            raise ConfigError(f"{flag} {entry}: expected KEY=VALUE, for example {example}")
        found[key.strip()] = load_yaml(value, f"{flag} {key.strip()}")
    return found


def add_stopping_arguments(parser: argparse.ArgumentParser) -> None:
    """``--until``, ``--margin`` and ``--look-every``, which override the profile's ``preregistration``.

    Read with :func:`stopping_overrides`.
    """
    about = (
        "look after every batch of items and stop arms that are decided: 'decided' (better, worse, with --margin also"
        " equivalent) or 'no-worse' (also not worse by more than --margin)"
    )
    parser.add_argument("--until", choices=("decided", "no-worse"), help=about)
    about = "smallest difference that matters, e.g. 0.02"
    parser.add_argument("--margin", type=float, metavar="D", help=about)
    parser.add_argument("--look-every", type=int, metavar="N", help="items between two looks (default 10)")


def stopping_overrides(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags of :func:`add_stopping_arguments` set in the profile.

    Raises ``ConfigError`` for a margin or number of items without a rule that would use it.
    """
    section = "preregistration."
    given: dict[str, Any] = {}
    if args.until is not None:
        given[f"{section}stopping.rule"] = args.until.replace("-", "_")
    if args.margin is not None:
        given[f"{section}margin"] = args.margin
    if args.look_every is not None:
        given[f"{section}stopping.batch"] = args.look_every
    if given and args.until is None:
        flag = "--margin" if args.margin is not None else "--look-every"
        raise ConfigError(f"{flag} goes with --until", hint="pcsuite run --until decided --margin 0.02")
    return given


TABLE_FLAGS = {
    "input": ("COL[,COL]", "columns of the input"),
    "answer": ("COL", "column of the right answer"),
    "kind": ("KIND", "kind of task, as for init-task"),
    "labels": ("A,B", "classification: the labels (default: those that occur)"),
    "choices": ("COL[,COL]", "choice: columns of the options, or one that holds 'a|b|c'"),
    "fields": ("COL[,COL]", "extraction: columns of the record"),
    "id": ("COL", "column of item ids (default: numbered)"),
    "scorer": ("FILE.py:FUNCTION", "a scoring function of your own"),
}
"""Flags of every command that takes a user's table: what follows each, and what is said of it."""


def add_table_arguments(parser: argparse._ActionsContainer, **about: str) -> None:
    """:data:`TABLE_FLAGS`; ``about`` is what a command says of some of them instead. Read with :func:`table_from`."""
    for flag, (metavar, default) in TABLE_FLAGS.items():
        dest = {"input": "inputs", "id": "id_column"}.get(flag, flag)
        parser.add_argument(f"--{flag}", dest=dest, metavar=metavar, help=about.get(flag, default))


def table_from(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags of :func:`add_table_arguments` say, by the fields of a ``TableRequest``.

    Raises ``ConfigError`` for a list that was given and holds no name.
    """
    lists = {"inputs": "--input", "labels": "--labels", "choices": "--choices", "fields": "--fields"}
    several = {key: tuple(listed(getattr(args, key), flag)) for key, flag in lists.items()}
    return several | {key: getattr(args, key) for key in ("answer", "kind", "id_column", "scorer")}


def settings_from(settings: type[T], args: argparse.Namespace, /, **more: Any) -> T:
    """A dataclass of settings, its fields taken from the flags of the same names.

    ``more`` gives the fields that have no such flag, or another value than it.
    """
    given = vars(args)
    names = [field.name for field in fields(cast(Any, settings)) if field.name in given]
    return settings(**{name: given[name] for name in names} | more)


def ask(what: str, flag: str, choices: Sequence[str] = (), *, empty: bool = False, example: str = "") -> str:
    """Ask on the terminal until there is an answer (one that may be ``empty``, where that means something).

    With ``choices`` each part of a list must be one of them. Elsewhere than on a terminal it is a ``DataError`` that
    names the flag.
    """
    if not sys.stdin.isatty():
        hint = f"{flag}, one of: {', '.join(choices)}" if choices else f"{flag} {example}"
        raise DataError(f"the {what} is not given", hint=hint)
    while True:
        given = input(f"{what} ({', '.join(choices)}): " if choices else f"{what}: ").strip()
        wrong = [part for part in listed(given) if choices and part not in choices]
        if (given or empty) and not wrong:
            return given
        if wrong:
            print(f"no '{wrong[0]}': {did_you_mean(wrong[0], choices)}")


def next_line(args: argparse.Namespace, command: str, *more: str) -> str:
    """``next: pcsuite COMMAND …`` for the run that was just made, ready to be pasted into a shell.

    The profile, the run's name, its folder and every ``--set`` are repeated as they were given; without them the
    next command would look at another run.
    """
    words = ["pcsuite", command, "--config", str(args.config)]
    for flag, value in (("--name", args.name), ("--output-dir", args.output_dir)):
        if value:
            words += [flag, str(value)]
    for entry in getattr(args, "model_option", ()):
        words += ["--model-option", entry]
    for entry in args.set:
        words += ["--set", entry]
    return f"next: {shlex.join([*words, *more])}"


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """``--json``, of commands whose answer a program may want."""
    about = "print one JSON document on standard output and nothing else (docs/reference/json.md)"
    parser.add_argument("--json", action="store_true", help=about)


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON, for ``--json``; what JSON has no word for (NaN, infinity) becomes null.

    Paths and whatever else JSON does not know are written as text.
    """
    print(json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def add_call_arguments(parser: argparse.ArgumentParser) -> None:
    """``--no-cache`` and ``--quiet`` of the commands that call models.

    The progress display goes to standard error, so that ``--quiet`` changes nothing of what a pipe gets.
    """
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the response cache")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress display")


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """``--executor``, ``--address`` and ``--workers``, of the commands that make many calls.

    Read with :func:`executor_from`.
    """
    add = parser.add_argument
    about = "who makes the calls: local (this process, the default) or ray (a cluster)"
    add("--executor", default="local", metavar="NAME", help=about)
    add(
        "--address",
        metavar="HOST:PORT",
        help="with --executor ray: an existing cluster (auto: the one on this machine); "
        "without it one is started for the run",
    )
    about = "with --executor ray: worker processes, instead of as many as the cluster has room for"
    add("--workers", type=int, metavar="N", help=about)


def executor_from(args: argparse.Namespace) -> ExecutorChoice:
    """The executor that the flags of :func:`add_executor_arguments` ask for.

    Raises ``ConfigError`` for an unknown executor, fewer than one worker, or a cluster's flags without a cluster.
    """
    from pcsuite.runners.executors import EXECUTORS, ExecutorChoice

    if args.executor == "local" and (args.address or args.workers):
        hint = "in this process, repro.max_inflight says how many calls run at once"
        raise ConfigError("--address and --workers are for a cluster: add --executor ray", hint=hint)
    if args.workers is not None and args.workers < 1:
        raise ConfigError(f"--workers {args.workers}: at least 1 is needed")
    if args.executor not in EXECUTORS:
        hint = did_you_mean(args.executor, EXECUTORS)
        raise ConfigError(f"--executor: unknown '{args.executor}'", hint=hint)
    return ExecutorChoice(args.executor, args.address, args.workers)


def output_console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that tables keep their words whole."""
    from rich.console import Console

    return (
        Console(markup=False)
        if sys.stdout.isatty()
        else Console(width=_PIPE_WIDTH, soft_wrap=False, markup=False)
    )


def not_applicable_entry(entry: NotApplicable) -> dict[str, str]:
    """What cannot run and why, for ``--json``."""
    return {
        "condition": entry.condition_id,
        "task": entry.task_id,
        "model": entry.model_id,
        "reason": entry.reason,
    }


def not_applicable_lines(entries: Iterable[NotApplicable]) -> list[str]:
    """What cannot run and why, for people.

    One line for a condition on a model, with the tasks that share the reason.
    """
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        tasks.setdefault((entry.condition_id, entry.model_id, entry.reason), []).append(entry.task_id)
    return [
        f"{condition} × {', '.join(names)} × {model}: {reason}"
        for (condition, model, reason), names in tasks.items()
    ]
