"""``pcsuite promptbench``: perturb prompts, run them into the profile's log, and table what it cost."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pcsuite.commands.options import add_profile_arguments, executor_from, suite_from
from pcsuite.commands.run import add_run_arguments, print_summary
from pcsuite.config.load import Suite
from pcsuite.runners.run_promptbench import run_promptbench

EXAMPLES = """examples:
  pcsuite promptbench --config configs/profile_A.yaml
  pcsuite promptbench --config quickstart --tasks agnews_json --conditions C0,C4 --limit 5 --variants 1
  pcsuite promptbench --config quickstart --attacks reorder,paraphrase,promptbench:deepwordbug

Clean prompts are run too, so that every perturbed row has its pair; rows that the log has are not repeated.
The same command goes on where a killed run ended."""

_LISTS = {
    "tasks": "integrations.promptbench.tasks",
    "conditions": "integrations.promptbench.conditions_subset",
    "attacks": "integrations.promptbench.attack_types",
    "models": "selection.models",
}
_NUMBERS = {"limit": "max_items", "variants": "variants", "budget": "query_budget"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--tasks", metavar="A,B", help="tasks, instead of integrations.promptbench.tasks")
    parser.add_argument("--models", metavar="A,B", help="only these models")
    parser.add_argument("--conditions", metavar="A,B", help="conditions, instead of the block's")
    parser.add_argument("--attacks", metavar="A,B", help="kinds of perturbation, instead of the block's")
    parser.add_argument("--regimes", metavar="A,B", help="decoding regimes (default: the greedy ones)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N items a task")
    parser.add_argument("--variants", type=int, metavar="N", help="at most N variants of each kind")
    parser.add_argument("--budget", type=int, metavar="N", help="prompts a search of PromptBench may try")
    parser.add_argument("--no-tables", action="store_true", help="only run; write no tables and figures")
    add_run_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    suite = _suite(args)
    summary = run_promptbench(
        suite,
        regimes=_names(args.regimes),
        report=lambda line: print(f"  {line}", flush=True),
        quiet=args.quiet,
        use_cache=not args.no_cache,
        executor=executor_from(args),
    )
    print_summary(suite, summary, args.config)
    if not args.no_tables:
        _write_tables(summary.paths.log, Path(suite.profile.run.output_dir))
    return 0


def _suite(args: argparse.Namespace) -> Suite:
    """The profile, with the flags applied to its perturbation block instead of its selection."""
    section = "integrations.promptbench"
    changes: dict[str, Any] = {}
    for flag, key in _LISTS.items():
        if getattr(args, flag):
            changes[key] = _names(getattr(args, flag))
    for flag, key in _NUMBERS.items():
        if getattr(args, flag) is not None:
            changes[f"{section}.{key}"] = getattr(args, flag)
    if args.overwrite:
        changes["run.overwrite"] = True
    profile_flags = {key: getattr(args, key) for key in ("config", "name", "output_dir", "set", "limit")}
    return suite_from(argparse.Namespace(**profile_flags), changes)


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _write_tables(log: Path, output_dir: Path) -> None:
    from pcsuite.report.robustness import write_robustness

    written = write_robustness([log], output_dir)
    for path in written.tables + written.figures:
        print(f"wrote {path}")
    for note in written.notes:
        print(f"note: {note}")
