"""``pcsuite ablate``: what each part of a prompt is worth, and the shortest prompt that is no worse."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite.commands import options
from pcsuite.commands.options import Flag, Group, flag, switch
from pcsuite.errors import ConfigError, Exit
from pcsuite.prompts.splitting import SPLIT_METHODS

if TYPE_CHECKING:
    from rich.console import Console

    from pcsuite.ablation import AblationRequest
    from pcsuite.ablation.forecast import NoiseForecast

# As pcsuite.ablation.arms has them, which is not imported for the help.
DESIGN_NAMES = (
    "auto", "leave-one-out", "one-at-a-time", "factorial", "fractional", "shapley", "groups", "order", "repeat"
)  # fmt: skip
CHANGES = ("order", "repeat")
PLACES = ("before_examples", "before_question", "after_question", "system")


def _repeated(names: str, about: str, metavar: str) -> Flag:
    """A flag that may be given several times."""
    return flag(names, about, action="append", default=[], metavar=metavar)


DATA = flag("--data", "your table (.csv, .tsv, .xlsx, .jsonl, .json), or the id of a task of the profile",
            metavar="TABLE|TASK")  # fmt: skip
TABLE = options.table_group("the table, read as init-task reads it; what is left out is concluded and said",
    input="columns of the input (default: those the placeholders name)",
    kind="classification, number, choice, short_answer, extraction or assert (columns of assertions)",
    scorer="a function of yours, or the name of a registered scorer, instead of that of the kind")  # fmt: skip
APPEND_INPUT = switch("--append-input", "put the item after the prompt, which has no placeholder")
CHECKS = Group("what is looked at in the folder that a call worked in (--in)", [
    flag("--check", "score by this command's exit status there: 0 is 1, any other 0", metavar="COMMAND"),
    _repeated("--block-check", "whether an answer follows a block: a command whose exit status 0 says so",
              "BLOCK=COMMAND"),
    flag("--check-seconds", "seconds that a check may take (default: 300); a longer one does not hold", type=float,
         default=300.0, metavar="S"),
    flag("--check-memory-mb", "memory that each process of a check may take (default: 4096)", type=int, default=4096,
         metavar="MB"),
    flag("--reach", "whether the files reach the system is found out first, by marked lines: in its answer, in its list"
         " of loaded sources, either (auto, default) or not at all", choices=("auto", "answer", "loaded", "off"),
         default="auto"),
    switch("--check-network", "let checks reach the network, from which they are kept where the system can"),
], "Limits keep a check from running away. This is no sandbox: agents and checks can do what you can.")  # fmt: skip
MODEL = Group("the model", [
    options.BASE_URL,
    options.MODEL_OPTION.but("override a key of the model's entry, e.g. price_in=2.5, or api_key_env=VARIABLE"
         " with --base-url"),
    flag("--regime", "decoding regime (default: D0)", default=""),
    flag("--seeds", "answers an item of a sampled regime; in an ablation also of a target that varies, under any"
         " (default: 1; with neither this nor --regime 2 of such a target, if its A/A arm shows that it does)",
         type=int, metavar="N"),
    flag("--max-tokens", "longest answer (default: by the kind of task)", type=int, metavar="N"),
    _repeated("--effect --effects",
             "true effect of a block on the logit, with --model simulated; a*b=X is an interaction",
         "BLOCK=X"),
])  # fmt: skip
ABLATE = (
    Group("", [
        DATA.but("your table (.csv, .tsv, .xlsx, .jsonl, .json), or the id of a task of the profile; may be repeated",
             action="append"),
        options.several("--model --models", "one, or several that are asked the same, the one to compare with first"
             " (default: smollm2-135m, for the bundled example the model it was made for)", dest="models",
             metavar="ID|PROVIDER/MODEL"),
        switch("--show", "print blocks, arms, rows, tokens, cost and reach, and stop"),
        flag("--margin", "how much worse is still no worse, in score (default: 0.02)", type=float, metavar="X"),
        flag("--limit", "at most N items", type=int, metavar="N"),
    ]),
    TABLE,
    Group("the blocks", [
        flag("--split", "where to split (default: auto); marks in the file, <!-- block: name -->, go before;"
             " files: each of several files is one block", choices=(*SPLIT_METHODS, "files"), default="auto"),
        _repeated("--keep", "never leave this block out (name or number)", "BLOCK"),
        _repeated("--into", "split this block further, pin all others", "BLOCK"),
        _repeated("--rename", "call a block by another name", "BLOCK=NAME"),
        APPEND_INPUT,
        switch("--system", "the prompt is the system's message, and the item the user's"),
        _repeated("--literal", "a word that looks like a variable, such as {name}, and is meant to the letter", "NAME"),
    ]),
    Group("the design", [
        flag("--design", "which prompts are tried (default: auto, by the number of blocks and the budget); order moves"
             " blocks, repeat says one of them, or the whole prompt, twice", choices=DESIGN_NAMES),
        flag("--at", "with --design order: move blocks there only (default: every place the prompt has); may be"
             " repeated", action="append", default=[], choices=PLACES),
        switch("--no-controls", "leave out the A/A arm and the shams"),
        switch("--no-trim", "judge the blocks, do not look for a shorter prompt"),
    ]),
    Group("when it stops, and what it may cost", [
        flag("--until",
             "ask batches of items until every block is decided, instead of all; arms that are decided stop",
             choices=("decided",)),
        options.LOOKS.but(),
        flag("--budget-usd", "stop before so many dollars", type=float, metavar="X"),
        flag("--budget-tokens", "stop before so many tokens; the design fits itself to it", type=int, metavar="N"),
        flag("--budget-hours", "stop after so many hours, all starts together", type=float, metavar="X"),
        flag("--noise-first", "ask the full prompt and the A/A arm on N items first, and say what the rest can show and"
             " costs (default: 20 with a budget or a target that varies, else 0)", type=int, metavar="N"),
        flag("--assume-flips",
             "share of answers a change without effect flips, for --show (default: 0.1, or as measured)", type=float,
             metavar="X"),
        flag("--calls-per-day", "your calls a day: what blocks that can go save is told as money a year", type=float,
             metavar="N"),
    ]),
    Group("what counts as evidence", [
        options.MISSING.but(),
        options.ASSUME,
        flag("--covariate", "an earlier log, or a table of item ids and scores: effects are also given with what it"
             " foretells taken off", metavar="LOG|TABLE"),
        options.POSTERIOR.but("add the probabilities that a block helps, and that it matters less than --margin"),
    ]),
    MODEL,
    options.TARGET,
    CHECKS,
    Group("the run", [
        options.CONFIG.but("profile whose models, tasks and regimes can be named (default: quickstart)", default=None),
        options.NAME.but("name of the run (default: the prompt file's)"),
        options.OUTPUT_DIR.but("folder of results (default: outputs)", default="outputs"),
        flag("--cache-dir", "folder of items and responses (default: the profile's, without one the user's cache)",
             metavar="DIR"),
        options.OVERWRITE.but(),
        options.NO_CACHE,
        options.QUIET,
        options.EXECUTOR,
    ]),
)  # fmt: skip


def configure_ablate(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite ablate``.

    The prompt is a text (Markdown, XML-like tags, anything), a chat (a .yaml or .json list of {role, content}), a text
    of a Python or TypeScript file (app.py:SYSTEM_PROMPT), or one of a promptfoo, LangChain or Langfuse file. The item
    goes where a variable names a column of your table, {{ column }}, {column}, ${column}, …, or {{ input }}. Results:
    outputs/ablations/<run>/. The same command goes on where a killed or stopped ablation ended.

    examples:
      pcsuite ablate example                        # the bundled prompt and table on the embedded model
      pcsuite ablate triage.md --data tickets.csv --show
      pcsuite ablate triage.md --data tickets.csv --answer queue --model smollm2-135m --margin 0.05
      pcsuite ablate triage.md --data tickets.csv --scorer my_scorer.py:score
      pcsuite ablate triage.md --data tickets.csv --answer queue --cluster customer
      pcsuite ablate triage.md --data tickets.csv --model openai/gpt-5-mini --budget-usd 3
      pcsuite ablate triage.md --data tickets.csv --model openai/gpt-5-mini --until decided --looks 4 --margin 0.05
      pcsuite ablate app.py:SYSTEM_PROMPT --data tickets.csv --system
      pcsuite ablate triage.md --data tickets.csv --models openai/gpt-5-mini,openai/gpt-5.5   # old, new
      pcsuite ablate chat.yaml --data agnews_json --into rules --keep output_format
      pcsuite ablate AGENTS.md --data tasks.csv --target 'python my_agent.py' --scorer check.py:score
      pcsuite ablate AGENTS.md --data tasks.csv --in project/ --target 'python my_agent.py' --check 'pytest -q'
      pcsuite ablate AGENTS.md docs/RULES.md --data tasks.csv --in project/ --target 'python my_agent.py' \\
          --check 'pytest -q' --block-check 'AGENTS.md:naming=python check_names.py'
      pcsuite ablate system.md --data tickets.csv --target app.py:answer --answer queue
      pcsuite ablate triage.md --data tickets.csv --design order --at after_question   # is a block better placed there?
      pcsuite ablate triage.md --data tickets.csv --design repeat                      # a block, or the whole, twice
      pcsuite ablate triage.md --data tickets.csv --model simulated --effect rules=1.2 --effect tone=-0.5
    """
    about = (
        "the prompt's file, or FILE:NAME; several files, or a folder of prompts, are one prompt of many files; the"
        " word example runs the bundled one, with its own table"
    )
    parser.add_argument("prompt", type=Path, nargs="+", metavar="PROMPT", help=about)
    options.add_flags(parser, *ABLATE)


def request_from(args: argparse.Namespace) -> AblationRequest:
    """The request that the flags make; raises ``ConfigError`` for one that cannot be read.

    The word ``example`` stands for the bundled prompt where no file is called so; flags that are given go before its
    settings.
    """
    from pcsuite.ablation import AblationRequest
    from pcsuite.ablation.request import bundled_example

    options.check_named(args.models, "--models")
    targets = options.targets_from(args)
    models = [*targets, *(args.models or ())]
    settings = vars(args) | {"data": (args.data or [None])[0], "model": (models or [None])[0]}
    (prompt, *more), defaults = args.prompt, {"data": settings["data"]}
    if prompt == Path("example") and not prompt.exists():
        prompt, bundled = bundled_example()
        defaults |= {key: value for key, value in bundled.items() if not settings[key]}
    elif not args.data:
        raise ConfigError("the table is not given", hint="--data TABLE, or the id of a task")
    optional = ("margin", "design", "model", "missing")
    requested = {key: settings[key] for key in optional if settings[key] is not None}
    left_out = {key: field.default for key, field in AblationRequest.__dataclass_fields__.items()}
    return options.settings_from(
        AblationRequest,
        args,
        prompt=prompt,
        more_prompts=tuple(more),
        block_checks=dict(
            _pair(entry, "--block-check", "naming='python check_names.py'") for entry in args.block_check
        ),
        **{key: left_out[key] for key in optional} | options.table_from(args) | defaults | requested,
        models=tuple(models) if len(models) > 1 else (),
        targets=targets,
        more_data=tuple((args.data or [])[1:]),
        effects=effects_from(args),
        model_options=options.key_values(args.model_option, "--model-option", "price_in=2.5"),
        into=tuple(args.into),
        at=tuple(args.at),
        keep=tuple(name for entry in args.keep for name in options.listed(entry)),
        literal=tuple(args.literal),
        rename=dict(_pair(entry, "--rename", "3=tone") for entry in args.rename),
        controls=not args.no_controls,
        trim=not args.no_trim,
    )


def effects_from(args: argparse.Namespace) -> dict[str, float]:
    """True effects of blocks, as ``--effect BLOCK=X`` sets them; raises ``ConfigError`` for one that is no number."""
    effects = {}
    for block, value in (_pair(entry, "--effect", "rules=0.8") for entry in args.effect):
        try:
            effects[block] = float(value)
        except ValueError:
            raise ConfigError(f"--effect {block}={value}: the effect is no number") from None
    return effects


def _pair(entry: str, flag: str, example: str) -> tuple[str, str]:
    key, sep, value = entry.partition("=")
    if not sep or not key.strip() or not value.strip():
        raise ConfigError(f"{flag} {entry}: expected {example}")
    return key.strip(), value.strip()


EXAMPLE_NOTE = (
    "The example's rule and reviews were chosen so that there is something to see: an illustration, not evidence."
    " On 48 other reviews, half of them positive, its rule was not shown to hurt (the tutorial has the figures)."
)


def execute_ablate(args: argparse.Namespace) -> int:
    """Show what would be run, or run it, print the picture and write it as files.

    Raises what the checks and the run raise; a budget that ran out is told, and what was answered is judged.
    """
    from pcsuite.ablation import ablate, preview
    from pcsuite.ablation.across_picture import print_across
    from pcsuite.ablation.forecast_picture import noise_forecast_lines, print_preview, print_split
    from pcsuite.ablation.page import write_result
    from pcsuite.ablation.picture import print_ablation
    from pcsuite.ablation.request import bundled_example

    request = request_from(args)
    console = options.output_console()
    if args.show:
        print_preview(preview(request), console)
        return 0

    def tell(found: NoiseForecast) -> None:
        for line in noise_forecast_lines(found):
            console.print(line, markup=False, highlight=False)

    if request.design in CHANGES:
        return _execute_changes(request, args, console)
    result = ablate(
        request, **options.calls_from(args), show=lambda study: print_split(study, console), tell=tell
    )
    (print_across if result.beside else print_ablation)(result, console)
    if request.prompt == bundled_example()[0]:
        console.print(EXAMPLE_NOTE, soft_wrap=True)
    for path in write_result(result):
        print(path)
    print(f"next: {shlex.join(['pcsuite', 'report', str(result.log)])}")
    if result.stopped:
        return Exit.STOPPED
    return Exit.FAILED_ROWS if result.failed else Exit.DONE


def _execute_changes(request: AblationRequest, args: argparse.Namespace, console: Console) -> int:
    """Run a design that moves or repeats blocks, print its table and write it as files."""
    from pcsuite.ablation.forecast_picture import print_split
    from pcsuite.ablation.rearranged import print_changes, rearrange, write_changes

    result = rearrange(request, **options.calls_from(args), show=lambda study: print_split(study, console))
    print_changes(result, console)
    for path in write_changes(result):
        print(path)
    print(f"next: {shlex.join(['pcsuite', 'report', str(result.log)])}")
    if result.stopped:
        return Exit.STOPPED
    return Exit.FAILED_ROWS if result.failed else Exit.DONE
