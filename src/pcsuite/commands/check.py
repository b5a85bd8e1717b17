"""``pcsuite check``: did a prompt get worse? The whole prompt against what it was, as a gate for CI."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.commands import FILE, options
from pcsuite.commands.ablate import APPEND_INPUT, DATA, MODEL, TABLE, effects_from
from pcsuite.commands.options import Group, flag
from pcsuite.commands.report import FILES, FORMAT, comparison_document, print_comparison
from pcsuite.errors import ConfigError, Exit

if TYPE_CHECKING:
    from pcsuite.api.regression import RegressionCheck

CHECK = (
    Group("", [
        DATA,
        flag("--baseline", "what it is held against: a file (another prompt, a baseline, a log), else a run by its"
             " name, else a git ref, at which the same file is read (REF:PATH another)", metavar="REF"),
        options.one("model", "model to ask (default: smollm2-135m)", metavar="ID|PROVIDER/MODEL"),
        flag("--margin", "how much lower the score may be (default: 0.05)", type=float, default=0.05, metavar="X"),
        flag("--undecided", "where neither worse nor no worse is shown: pass (default) or fail",
             choices=("pass", "fail"), default="pass"),
        flag("--save-baseline", "ask the prompt and write its scores by item to this file, to be committed, instead of"
             " comparing", **FILE),
        flag("--condition", "of a run with several conditions: the one to hold it against (default: full, or the only"
             " one)", metavar="NAME"),
        flag("--limit", "at most N items", type=int, metavar="N"),
        flag("--budget-usd", "stop before so many dollars, for each of the prompts that are asked", type=float,
             metavar="X"),
        flag("--budget-tokens", "stop before so many tokens, for each of them", type=int, metavar="N"),
        APPEND_INPUT,
    ]),
    Group("what counts as evidence", [
        options.MISSING.but(),
        options.ASSUME,
        options.switch("--allow-different-items", "compare the items in common where a run or a baseline has others"),
    ]),
    Group("how it is told", [FORMAT, *FILES, options.JSON]),
    TABLE,
    MODEL,
    options.TARGET,
    Group("the run", [
        options.CONFIG.but("profile whose models, tasks and regimes can be named (default: quickstart)", default=None),
        options.NAME.but("first part of the runs' names (default: the prompt file's)"),
        options.OUTPUT_DIR.but("folder of results (default: outputs)", default="outputs"),
        flag("--cache-dir", "folder of items and responses (default: the profile's, without one the user's cache)",
             metavar="DIR"),
        options.NO_CACHE,
        options.QUIET,
        options.EXECUTOR,
    ]),
)  # fmt: skip


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite check``.

    The whole prompt is asked once for every row of the table, and so is the one it is held against, on the same rows;
    a prompt that reads as its baseline is not asked at all. The exit status is 1 where it is reliably worse and the
    loss seen is over --margin, or where scores that are missing could hide that; with --undecided fail also where it is
    not shown to be no worse. Rows that were asked before are not asked again.

    examples:
      pcsuite check triage.md --data tickets.csv --baseline main         # the same file at a branch, a tag or HEAD~1
      pcsuite check triage.md --data tickets.csv --baseline triage_old.md --model openai/gpt-5-mini
      pcsuite check AGENTS.md --data tasks.csv --baseline main --target 'python my_agent.py' --scorer check.py:score
      pcsuite check triage.md --data tickets.csv --save-baseline baselines/triage.json    # commit it
      pcsuite check triage.md --data tickets.csv --baseline baselines/triage.json --undecided fail
      pcsuite check triage.md --data tickets.csv --baseline main --format github > comment.md
    """
    parser.add_argument("prompt", type=Path, metavar="PROMPT", help="the prompt's file, as for ablate")
    options.add_flags(parser, *CHECK)


def execute_check(args: argparse.Namespace) -> int:
    """Ask what has to be asked, print how the prompt stands and return the gate's status.

    What the baseline turned out to be goes to standard error before a call is made: a pipe gets the result alone.
    """
    from pcsuite.api.regression import check, save_baseline

    if args.data is None:
        raise ConfigError("the table is not given", hint="--data TABLE, or the id of a task")
    if (args.baseline is None) == (args.save_baseline is None):
        raise ConfigError(
            "say what the prompt is held against" if args.baseline is None else "compare, or make a baseline",
            hint="--baseline FILE|RUN|GIT-REF, or --save-baseline FILE to make one",
        )
    if args.name is not None and not args.name.strip():
        raise ConfigError("--name: it is empty", hint="leave it out to name the runs after the prompt's file")
    for file in filter(None, (args.csv, args.junit)):  # before a call is paid for
        if file.is_dir():
            raise ConfigError(f"{file} is a folder", hint="name a file")
    table = options.table_from(args)
    targets = options.targets_from(args)
    if len(targets) + (args.model is not None) > 1:
        raise ConfigError("a check asks one model or one target, and several are given")
    settings: dict[str, Any] = {
        **table,
        "model": next(iter(targets), args.model or "smollm2-135m"),
        "targets": targets,
        "limit": args.limit,
        "budget_usd": args.budget_usd,
        "budget_tokens": args.budget_tokens,
        "append_input": args.append_input,
        "base_url": args.base_url,
        "model_options": options.key_values(args.model_option, "--model-option", "price_in=2.5"),
        "effects": effects_from(args),
        "regime": args.regime,
        "seeds": args.seeds,
        "max_tokens": args.max_tokens,
        "config": args.config,
        "name": args.name,
        "output_dir": args.output_dir,
        "cache_dir": args.cache_dir,
        **options.calls_from(args),
    }
    if args.save_baseline is not None:
        path = save_baseline(args.prompt, args.data, args.save_baseline, **settings)
        print(f"baseline {path}: commit it, then pcsuite check … --baseline {path}")
        return Exit.DONE
    checked = check(
        args.prompt,
        args.data,
        baseline=args.baseline,
        margin=args.margin,
        condition=args.condition,
        missing=args.missing,
        allow_different_items=args.allow_different_items,
        assume=args.assume,
        announce=lambda words: print(f"baseline: {words}", file=sys.stderr),
        **settings,
    )
    _print_check(args, checked)
    return Exit.DONE if checked.passes(undecided=args.undecided == "pass") else Exit.BELOW_GATE


def _print_check(args: argparse.Namespace, checked: RegressionCheck) -> None:
    """Print the comparison in the form asked for, or that there was nothing to compare."""
    reference = checked.reference
    assert reference is not None
    more = {
        "baseline": {"kind": reference.kind, "name": reference.name, "where": reference.words,
                     "commit": reference.commit or None},
        "sentence": checked.sentence(),
        "unchanged": checked.unchanged,
        "gate": "pass" if checked.passes(undecided=args.undecided == "pass") else "fail",
    }  # fmt: skip
    if checked.later is not None:
        print_comparison(
            args,
            checked.comparison,
            (checked.baseline, checked.run),
            (checked.earlier, checked.later),
            **more,
        )
        if args.shown == "text" and not args.json:
            print(f"\n{checked.sentence()}")
    elif args.json or args.shown == "json":
        document = comparison_document(checked.comparison, checked.baseline, checked.run)
        options.print_json(more | document | {"standing": checked.standing, "passes": True})
    else:
        print(checked.sentence())
