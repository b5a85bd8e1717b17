"""What several commands share: flags, each declared once, how they are read, and what is printed.

A command lists the groups of flags it takes and hands them to :func:`add_flags`; :func:`suite_from` lays the values
over the profile by the keys that the flags declare. So a flag is added in one place, and everything that reads the same
group has it, the steps of ``run --all`` too.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from pcsuite._util.code import saying_code, without_code
from pcsuite._util.text import describe
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.spellings import PROFILE_WORDS
from pcsuite.config.targets import TARGET_WORDS, target_entries, target_overrides
from pcsuite.config.yaml_source import load_yaml
from pcsuite.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from pcsuite.runners.executors import ExecutorChoice
    from pcsuite.runners.plan import NotApplicable

T = TypeVar("T")
_PIPE_WIDTH = 160
BY_ITEM_MEANS = (
    "looks judge the mean of item scores, each item weighing the same, not micro-F1 of pooled counts"
)
"""Said of tasks with pooled counts: no confidence sequence is known to hold for a ratio of sums at every look."""


@dataclass(frozen=True)
class Flag:
    """A flag: its spellings, its line of help, what argparse needs to read it, and the profile's keys it replaces."""

    names: tuple[str, ...]
    about: str
    keys: tuple[str, ...] = ()
    read: Callable[[Any], Any] = lambda value: value
    """The keys' value from the flag's; ``None`` leaves the profile as it is."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dest(self) -> str:
        """Its name among parsed arguments."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        return str(self.settings.get("dest", long.lstrip("-").replace("-", "_")))

    def but(self, about: str | None = None, *keys: str, **settings: Any) -> Flag:
        """The same flag with another line of help, other keys (none, where none is named) or other settings."""
        changed = {**self.settings, **settings}
        return replace(self, about=self.about if about is None else about, keys=keys, settings=changed)


def flag(
    names: str, about: str, *keys: str, read: Callable[[Any], Any] = lambda value: value, **settings: Any
) -> Flag:
    """Declare a flag: its spellings parted by blanks, what is said of it, and the profile's keys its value replaces.

    >>> flag("--name", "name of the run", "run.name").dest
    'name'
    """
    return Flag(tuple(names.split()), about, keys, read, settings)


def switch(names: str, about: str, *keys: str, **settings: Any) -> Flag:
    """Declare a flag without a value, false where it is not given."""
    return flag(names, about, *keys, action="store_true", **settings)


NO_CODE = switch("--no-code", "execute no Python file that the profile names: scorers are not loaded")


@contextmanager
def code_as_asked(args: argparse.Namespace) -> Iterator[None]:
    """Execute none of a profile's files where ``--no-code`` is given; else say which are executed."""
    with without_code() if args.no_code else saying_code():
        yield


@dataclass
class Group:
    """Flags under one title of the help; without a title they stand first, under argparse's ``options``."""

    title: str
    flags: Sequence[Flag]
    about: str | None = None
    one_of: bool = False
    """Whether they exclude each other."""


def add_flags(parser: argparse.ArgumentParser, *groups: Group) -> None:
    """Let a command take the flags of some groups, in the order of the help.

    Parsed arguments carry the groups as ``declared``, by which :func:`suite_from` reads them.
    """
    for group in groups:
        container: argparse._ActionsContainer = parser
        if group.title:
            container = parser.add_argument_group(group.title, group.about)
        if group.one_of:
            container = container.add_mutually_exclusive_group()
        for entry in group.flags:
            container.add_argument(*entry.names, help=entry.about, **entry.settings)
    parser.set_defaults(declared=(*(parser.get_default("declared") or ()), *groups))


def listed(text: str | None) -> list[str]:
    """The names of a list that a user typed; none where it was not given.

    >>> listed("A, B,")
    ['A', 'B']
    """
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def check_named(names: Sequence[str] | None, shown: str) -> None:
    """Refuse a list that was given and holds no name with a ``ConfigError``: nobody means to select nothing."""
    if names is not None and not names:
        raise ConfigError(f"{shown}: no name is given", hint=f"{shown} A,B; leave it out for all")


def one(what: str, about: str, *keys: str, metavar: str = "ID", default: str | None = None) -> Flag:
    """``--task`` or ``--model`` (``what``) of a command that takes one of them, also in the plural.

    Where it is given an empty name, or several, argparse says so in one line.
    """

    def single(text: str) -> str:
        names = listed(text)
        if len(names) != 1:
            problem = "no name is given" if not names else f"one {what} is taken here, not {len(names)}"
            raise argparse.ArgumentTypeError(problem)
        return names[0]

    settings: dict[str, Any] = {"dest": what, "type": single, "default": default, "metavar": metavar}
    return flag(f"--{what} --{what}s", about, *keys, read=lambda name: [name], **settings)


def several(names: str, about: str, *keys: str, **settings: Any) -> Flag:
    """A flag that holds a list of names, ``A,B``."""
    all_settings: dict[str, Any] = {"type": listed, "metavar": "A,B"} | settings
    return flag(names, about, *keys, **all_settings)


KEYS = PROFILE_WORDS
# fmt: off
CONFIG = flag("--config -c", "profile file or bundled name (default: quickstart)",
              default="quickstart", metavar="PROFILE")
NAME = flag("--name", "name of the run, instead of the profile's", KEYS["name"])
OUTPUT_DIR = flag("--output-dir", "folder of results, instead of the profile's", KEYS["output_dir"], metavar="DIR")
MODEL_OPTION = flag("--model-option", "override a key of the models' entries, e.g. logprobs=true or price_in=2.5",
                    action="append", default=[], metavar="KEY=VALUE")
SET = flag("--set", "override any profile key, e.g. limits.max_cost_usd=5",
           action="append", default=[], metavar="KEY=VALUE")
TASKS = several("--tasks --task", "only these tasks", KEYS["tasks"], dest="tasks")
MODELS = several("--models --model", "only these models: ids of the models file, or PROVIDER/MODEL (openai/gpt-5.5,"
                 " ollama/llama3.2, …)", KEYS["models"], dest="models")
CONDITIONS = several("--conditions", "only these conditions; DESIGN:MEMBER is one of a design", KEYS["conditions"])
REGIMES = several("--regimes", "only these decoding regimes", KEYS["regimes"])
LIMIT = flag("--limit", "at most N items a task", KEYS["limit"], type=int, metavar="N")
OVERWRITE = switch("--overwrite", "start anew; an earlier log, and what lies beside it, is set aside",
                   KEYS["overwrite"])
BASE_URL = flag("--base-url", "address of an OpenAI-compatible server, with --model openai/NAME", metavar="URL")
MODELS_URL = BASE_URL.but("ask the models at this address instead of their providers', with --models openai/NAME; it is"
                          " sent no key unless --model-option api_key_env=VARIABLE names one")
NO_CACHE = flag("--no-cache", "do not read or write the response cache", action="store_false", dest="use_cache")
# The display goes to standard error, so that --quiet changes nothing of what a pipe gets.
QUIET = switch("--quiet -q", "no progress display")
JSON = switch("--json", "print one JSON document on standard output and nothing else (docs/reference/json.md)")
UNTIL = flag("--until", "look after every batch of items and stop arms that are decided: 'decided' (better, worse, with"
             " --margin also equivalent) or 'no-worse' (also not worse by more than --margin)", KEYS["until"],
             read=lambda rule: rule.replace("-", "_"), choices=("decided", "no-worse"))
LOOKS = flag("--looks", "with --until: look N times, after equal parts of the items, instead of after every batch:"
             " finds more where calls are dear, and gives up what the items left would hardly decide", KEYS["looks"],
             type=int, metavar="N")
MARGIN = flag("--margin", "smallest difference that matters, e.g. 0.02", KEYS["margin"], type=float, metavar="D")
RELATED = several("--cluster", "columns that say which items are related (a customer, a document): splits, limits and"
                  " verdicts go by cluster (default: the task's; items with equal inputs are one cluster always)",
                  KEYS["cluster"], metavar="COL[,COL]")
MISSING = flag("--missing", "answers that never came: bound claims only what holds whatever they would have been"
               " (default), drop judges what was answered", KEYS["missing"], choices=("bound", "drop"))
ASSUME = flag("--assume", "what verdicts on graded scores may assume: nothing (default), or symmetric, that rare large"
              " opposite cases do not exist", choices=("nothing", "symmetric"), default="nothing")  # fmt: skip
POSTERIOR = switch("--posterior", "add the probabilities that it is better, and that it is too small to matter")
# fmt: on

PROFILE = Group("the profile", [NAME, OUTPUT_DIR, SET])
"""What changes a profile whatever runs of it: the same for ``run``, what ``run --all`` does after it, and readers."""
SELECTION = Group("", [CONFIG, TASKS, MODELS, CONDITIONS, REGIMES, LIMIT])
"""The profile, and what of it runs."""
STOPPING = Group("stop early", [UNTIL, LOOKS, MARGIN])
EVIDENCE = Group("what counts as evidence", [RELATED, MISSING])
CALLS = Group("calls", [MODEL_OPTION, NO_CACHE, QUIET])
"""Of commands that call models."""
MODEL_CALLS = Group("calls", [MODEL_OPTION, MODELS_URL, NO_CACHE, QUIET])
"""Of commands that call the models that are selected."""
EXECUTOR = flag("--executor", "who makes the calls: local (this process, the default) or ray (a cluster: the one that"
                " RAY_ADDRESS names, else one is started)", default="local", metavar="NAME")  # fmt: skip
CLUSTER = Group("who makes the calls", [
    EXECUTOR,
    flag("--address",
         "with --executor ray: an existing cluster (auto: the one on this machine); without it one is started",
         metavar="HOST:PORT"),
    flag("--workers", "with --executor ray: worker processes, instead of as many as the cluster has room for",
         type=int, metavar="N"),
])  # fmt: skip
TABLE = Group("the table; what is left out is concluded and said", [
    several("--input", "columns of the input", dest="inputs", metavar="COL[,COL]"),
    flag("--answer", "column of the right answer", metavar="COL"),
    flag("--kind", "kind of task, as for init-task", metavar="KIND"),
    several("--labels", "classification: the labels (default: those that occur)"),
    several("--choices", "choice: columns of the options, or one that holds 'a|b|c'", metavar="COL[,COL]"),
    several("--fields", "extraction: columns of the record", metavar="COL[,COL]"),
    flag("--id", "column of item ids (default: one called id, else numbered)", dest="id_column", metavar="COL"),
    RELATED.but("columns that say which items are related (a customer, a document): splits, limits and verdicts go by"
                " cluster; items with equal inputs are one cluster always"),
    flag("--decimal", "decimal mark of the table's numbers, . or , (default: what all cells of a column tell)",
         choices=(".", ",")),
    flag("--scorer", "a scoring function of your own", metavar="FILE.py:FUNCTION"),
])  # fmt: skip
"""Of every command that takes a user's table; read with :func:`table_from`."""


TARGET = Group("a system of your own in a model's place", [
    flag("--target", "what answers: a Python function (app.py:answer), a command ('python agent.py'), or an address;"
         " given again, several that are asked the same. NAME=SPEC calls it target/NAME", dest="targets",
         action="append", default=[], metavar="SPEC"),
    switch("--worker", "keep the command running: it gets a line of JSON a call and answers with a line"),
    flag("--concurrency", "calls at once (default: a command as many as there are processors, a plain function one)",
         type=int, metavar="N"),
    flag("--target-timeout", "seconds a call may take (default: 600); a longer one is out of time and scores 0",
         type=float, metavar="S"),
    flag("--target-version", "part of its identity that lies in no file: the version of a service", metavar="TEXT"),
    flag("--target-file", "a file that is part of its identity, besides those it names and modules beside them",
         dest="target_files", action="append", default=[], metavar="FILE"),
    switch("--target-shell", "give the command to the shell as it is written"),
    flag("--in", "each call gets a fresh copy of this folder, with the prompt's file at its place in it; a command runs"
         " there. It keeps calls apart, and is no sandbox", dest="in_folder", metavar="FOLDER"),
    flag("--target-header", "a header of the request to an address; a secret by its variable: 'Authorization: Bearer"
         " $APP_TOKEN'", dest="target_headers", action="append", default=[], metavar="NAME: VALUE"),
    flag("--target-body", "the request to an address, as JSON with {{ prompt }}, {{ messages }}, {{ item.COLUMN }}, …"
         " in it, or the file that holds it (default: the whole call)", metavar="JSON|FILE"),
    flag("--target-answer", "where the answer lies in the response, as a JMESPath (default: output)", metavar="PATH"),
    flag("--target-read", "where else to look in the response: tokens=usage.total_tokens, cost_usd, steps, …",
         action="append", default=[], metavar="KEY=PATH"),
    switch("--deterministic", "the same prompt, item and seed always give the same answer: stored answers may be used"),
])  # fmt: skip
"""Of every command that asks models; read with :func:`targets_from`."""


def targets_from(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The entries of the targets that ``--target`` names, by id; empty where it is not given.

    Raises ``ConfigError`` for one that names nothing, and for a flag of targets without one.
    """
    options = {}
    for name, key in TARGET_WORDS.items():
        value = getattr(args, name)
        if value is not None and value is not False and value != []:
            options[key] = value
            if not args.targets:
                flag_name = next(entry.names[0] for entry in TARGET.flags if entry.dest == name)
                raise ConfigError(f"{flag_name} goes with --target", hint="--target 'python agent.py'")
    if args.target_headers:
        options["headers"] = dict(_header(entry) for entry in args.target_headers)
    if args.target_read:
        pairs = (entry.partition("=") for entry in args.target_read)
        options["read"] = {key.strip(): path.strip() for key, _, path in pairs}
    if args.target_body is not None:
        options["body"] = _request_template(args.target_body)
    return target_entries(args.targets, options)


def _header(entry: str) -> tuple[str, str]:
    name, sep, value = entry.partition(":")
    if not sep or not name.strip() or not value.strip():
        raise ConfigError(
            f"--target-header {name}: expected NAME: VALUE", hint="'Authorization: Bearer $APP_TOKEN'"
        )
    return name.strip(), value.strip()


def _request_template(text: str) -> str:
    """A request template as JSON text: as it was given, or the content of the file that was named."""
    if text.lstrip().startswith(("{", "[")):
        return text
    try:
        return Path(text).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--target-body {text}: neither JSON nor a file that can be read ({describe(error)})"
        ) from None


def table_group(title: str = TABLE.title, *more: Flag, **about: str) -> Group:
    """:data:`TABLE` under another title, with ``more`` flags, and what a command says of some of them instead."""
    flags = [replace(entry, about=about.get(entry.names[0][2:], entry.about)) for entry in TABLE.flags]
    return Group(title, [*flags, *more])


def suite_from(
    args: argparse.Namespace, groups: Sequence[Group] | None = None, *, check_selection: bool = True
) -> Suite:
    """Load the profile that ``--config`` names, with the command line's overrides applied.

    ``groups`` are the flags to read, by default those that the command declared: with those of another command the
    same words are read as it would. What a flag names takes the place of the profile's list before names are checked,
    so that other entries of that list are nobody's concern. Without ``check_selection`` none is, for commands that take
    task, model and condition otherwise. ``--set`` beats the other flags. Raises ``ConfigError`` for a profile or an
    override that is wrong. From here on the command's messages go to standard error from the profile's
    ``run.log_level`` up.
    """
    declared = args.declared if groups is None else groups
    overrides: dict[str, Any] = {}
    shown: dict[str, str] = {}
    for entry, value in _given(args, declared):
        name = entry.names[0]
        if isinstance(value, str) and entry.keys and not value.strip():
            raise ConfigError(f"{name}: it is empty", hint="leave it out to keep the profile's")
        if entry.settings.get("type") is listed:
            check_named(value, name)
        replaced = entry.read(value)
        for key in entry.keys if replaced is not None else ():
            overrides[key], shown[key] = replaced, name
        if KEYS["limit"] in entry.keys:  # a limit for all tasks is none for single ones
            overrides["limits.per_task_max_items"] = {}
    for words, prefix, name, example in (
        (getattr(args, "model_option", ()), "model_options.*.", "--model-option", "logprobs=true"),
        (getattr(args, "set", ()), "", "--set", "limits.max_cost_usd=5"),
    ):
        for key, value in key_values(words, name, example).items():
            overrides[prefix + key], shown[prefix + key] = value, f"{name} {key}"
    targets = targets_from(args) if getattr(args, "targets", None) is not None else {}
    if targets:
        overrides |= target_overrides(targets)
        overrides["selection.models"] = [*targets, *(args.models or ())]
        shown |= dict.fromkeys(overrides.keys() - shown.keys(), "--target") | {"selection.models": "--target"}
    if not str(args.config).strip():
        raise ConfigError(
            "--config: it is empty", hint="a profile file, or the name of a bundled one: quickstart"
        )
    suite = load_suite(args.config, overrides, shown, check_selection=check_selection)
    address = getattr(args, "base_url", None)
    if address is not None:
        if not address.strip():
            raise ConfigError("--base-url: it is empty", hint="leave it out to ask the providers themselves")
        selection = suite.profile.selection
        judges = set(suite.judges(selection.tasks)) - set(selection.models)
        # A report may be of models that no profile selects.
        names = (args.models or selection.models) if hasattr(args, "models") else ()
        suite = replace(suite, models=suite.models.asked_at(address, names, judges))
    logger = logging.getLogger("pcsuite")
    logger.setLevel(suite.profile.run.log_level)
    logger.handlers = [logging.StreamHandler(sys.stderr)]
    for line in suite.schema_warnings():
        logger.warning("pcsuite: warning: %s", line)
    return suite


def _given(args: argparse.Namespace, groups: Sequence[Group]) -> Iterator[tuple[Flag, Any]]:
    """Flags of the groups that the command line gives a value."""
    for group in groups:
        for entry in group.flags:
            value = getattr(args, entry.dest, None)
            if value is not None and value is not False:
                yield entry, value


def key_values(entries: Iterable[str], name: str, example: str) -> dict[str, Any]:
    """What ``KEY=VALUE`` words set, the values read as YAML; raises ``ConfigError`` for a word of another form."""
    values = {}
    for entry in entries:
        key, sep, value = entry.partition("=")
        if not sep or not key.strip():
            raise ConfigError(f"{name} {entry}: expected KEY=VALUE, for example {example}")
        values[key.strip()] = load_yaml(value, f"{name} {key.strip()}")
    return values


def check_stopping(args: argparse.Namespace) -> None:
    """Refuse a margin or looks without the rule of :data:`STOPPING` that would use it (``ConfigError``)."""
    for name, example in (("margin", "0.02"), ("looks", "4")):
        if args.until is None and getattr(args, name) is not None:
            raise ConfigError(
                f"--{name} goes with --until", hint=f"pcsuite run --until decided --{name} {example}"
            )


def table_from(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags of :data:`TABLE` say, by the fields of a ``TableRequest``.

    Raises ``ConfigError`` for a list that was given and holds no name.
    """
    values = {}
    for entry in TABLE.flags:
        values[entry.dest] = value = getattr(args, entry.dest)
        if entry.settings.get("type") is listed:
            check_named(value, entry.names[0])
            values[entry.dest] = tuple(value or ())
    return values


class Calls(TypedDict):
    """How models are called, in the words of ``run``, ``ablate`` and the perturbation block."""

    quiet: bool
    use_cache: bool
    executor: ExecutorChoice


def calls_from(args: argparse.Namespace) -> Calls:
    """What the flags of :data:`CALLS` and, where the command takes them, :data:`CLUSTER` say.

    Raises ``ConfigError`` as :func:`executor_from` does.
    """
    from pcsuite.runners.executors import ExecutorChoice

    executor = executor_from(args) if hasattr(args, "executor") else ExecutorChoice()
    return {"quiet": args.quiet, "use_cache": args.use_cache, "executor": executor}


def settings_from(settings: type[T], args: argparse.Namespace, /, **more: Any) -> T:
    """A dataclass of settings, its fields taken from the flags of the same names.

    ``more`` gives the fields that have no such flag, or another value than it.
    """
    values = vars(args)
    names = [field.name for field in fields(cast(Any, settings)) if field.name in values]
    return settings(**{name: values[name] for name in names} | more)


def ask(what: str, flag: str, choices: Sequence[str] = (), *, empty: bool = False, example: str = "") -> str:
    """Ask on the terminal until there is an answer (one that may be ``empty``, where that means something).

    With ``choices`` each part of a list must be one of them. Elsewhere than on a terminal it is a ``DataError`` that
    names the flag.
    """
    if not sys.stdin.isatty():
        hint = f"{flag}, one of: {', '.join(choices)}" if choices else f"{flag} {example}"
        raise DataError(f"the {what} is not given", hint=hint)
    while True:
        answer = input(f"{what} ({', '.join(choices)}): " if choices else f"{what}: ").strip()
        wrong = [part for part in listed(answer) if choices and part not in choices]
        if (answer or empty) and not wrong:
            return answer
        if wrong:
            print(f"no '{wrong[0]}': {did_you_mean(wrong[0], choices)}")


def run_words(args: argparse.Namespace, command: str, *arguments: str) -> str:
    """``pcsuite COMMAND …`` about the run that was just made, ready to be pasted into a shell.

    The profile, the run's name, its folder, every ``--set`` and the models' address are repeated as they were given;
    without them the next command would look at another run. ``command`` may have an action: ``judge check``.
    """
    words = ["pcsuite", *command.split(), "--config", str(args.config)]
    more = {"run": (MODEL_OPTION, BASE_URL), "report": (BASE_URL,)}.get(command, ())
    for entry in (*PROFILE.flags, *more):
        value = getattr(args, entry.dest, None)
        for word in value if isinstance(value, list) else [value] if value else []:
            words += [entry.names[0], str(word)]
    return shlex.join([*words, *arguments])


def view_words(log: Path, config: str | None = None) -> str:
    """``pcsuite view RUN …`` for a run's log, ready to be pasted; with a profile its items are shown."""
    # What view lists: the runs of an output folder, and ablations below it.
    folder = log.parent.parent
    root = folder.parent.parent if folder.parent.name == "ablations" else folder
    words = ["pcsuite", "view", log.stem]
    words += [] if root == Path("outputs") else ["--output-dir", str(root)]
    return shlex.join([*words, *(["--config", config] if config else [])])


def next_line(args: argparse.Namespace, command: str, *arguments: str) -> str:
    """``next: pcsuite COMMAND …``, as :func:`run_words` gives it."""
    return f"next: {run_words(args, command, *arguments)}"


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


def executor_from(args: argparse.Namespace) -> ExecutorChoice:
    """The executor that ``--executor`` asks for, where the command takes them with the flags of :data:`CLUSTER`.

    Raises ``ConfigError`` for an unknown executor, fewer than one worker, or a cluster's flags without a cluster.
    """
    from pcsuite.runners.executors import EXECUTORS, ExecutorChoice

    address, workers = getattr(args, "address", None), getattr(args, "workers", None)
    if args.executor == "local" and (address or workers):
        hint = "in this process, repro.max_inflight says how many calls run at once"
        raise ConfigError("--address and --workers are for a cluster: add --executor ray", hint=hint)
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers {workers}: at least 1 is needed")
    if args.executor not in EXECUTORS:
        hint = did_you_mean(args.executor, EXECUTORS)
        raise ConfigError(f"--executor: unknown '{args.executor}'", hint=hint)
    return ExecutorChoice(args.executor, address, workers)


def output_console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that tables keep their words whole."""
    from rich.console import Console

    return Console(markup=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


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
