"""``pcsuite log`` and ``pcsuite status``: auditing the log of a run and mending it; how far it has come."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite.commands import options
from pcsuite.errors import Exit
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.ledger import SpentLine, read_spent
from pcsuite.logging.log import ResumeIndex, RunPaths
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.segments import find_log


def configure_log(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite log``.

    A check reads every line of a log: torn, altered (each row has a checksum), foreign and doubled lines, prompts
    without their text, and rows of the plan that are missing. With --repair all that is sound, and what a rescue file
    holds, is written into a new log of the same name; the old files stay beside it as <run>.old-N.

    examples:
      pcsuite log check quickstart
      pcsuite log check outputs/runs/full.jsonl --config configs/profile_A.yaml
      pcsuite log check quickstart --repair

    Exit status 1 where something is wrong, 0 where nothing is or all of it was mended.
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    checking = actions.add_parser("check", help="say what is wrong with a log")
    checking.add_argument("run", metavar="RUN", type=Path, help="name of a run, or its log")
    about = "the run's profile: missing rows are then counted one by one"
    flags = [
        options.switch("--repair", "write what is sound into a new log"),
        options.CONFIG.but(about, default=None),
        options.OUTPUT_DIR.but("folder of runs that are named (default: outputs)", *options.OUTPUT_DIR.keys),
    ]
    options.add_flags(checking, options.Group("", flags))


def execute_log(args: argparse.Namespace) -> int:
    """Audit a log and print what was found; with ``--repair`` mend it and audit the new one.

    Raises ``LogError`` where there is no such log, and where it cannot be repaired.
    """
    paths = RunPaths.beside(args.run)
    # Of a log that was deleted while it was written there may be a rescue file alone.
    if not paths.rescue.log.is_file():
        paths = RunPaths.beside(find_log(args.run, args.output_dir or "outputs"))
    planned = None
    if args.config is not None:
        from pcsuite.runners.plan import build_plan

        plan = build_plan(options.suite_from(args))
        planned = {unit.run_id for model_id in plan.scope.models for unit in plan.units(model_id)}
    if args.repair:
        problems = audit_log(paths).problems
        for problem in problems:
            print(f"found: {problem}")
        if problems:
            _, aside = repair_log(paths)
            print(f"mended: {paths.log}; the old log is {aside.log}")
    audit = audit_log(paths, planned)
    words = [f"{audit.lines} lines", f"{audit.rows} rows of {audit.run_ids} run ids"]
    if audit.failed:
        words.append(f"{audit.failed} failed")
    if audit.unchecked:
        words.append(f"{audit.unchecked} without a checksum (written by an earlier version)")
    print(f"{audit.log}: " + ", ".join(words))
    for problem in audit.problems:
        print(f"  {problem}")
    if audit.rows_missing:
        print(f"  {audit.rows_missing} rows of the plan are not there; the run goes on with them")
    if not audit.problems:
        print("  nothing is wrong with it")
    return Exit.BELOW_GATE if audit.problems else Exit.DONE


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite status``.

    Rows that are done, failed and missing, and what the run has spent: in all, by start, and what its limits leave.
    What a start that was killed had under way counts as spent.

    examples:
      pcsuite status quickstart
      pcsuite status outputs/runs/full.jsonl
    """
    parser.add_argument("run", metavar="RUN", type=Path, help="name of a run, or its log")
    about = "folder of runs that are named (default: outputs)"
    options.add_flags(parser, options.Group("", [options.OUTPUT_DIR.but(about, *options.OUTPUT_DIR.keys)]))


def execute_status(args: argparse.Namespace) -> int:
    """Print where a run stands; raises ``ConfigError`` where there is no such run."""
    log = find_log(args.run, args.output_dir or "outputs")
    index, manifest = ResumeIndex.read(log), read_manifest(log)
    planned = manifest.planned_rows if manifest is not None else 0
    words = [f"{len(index):,}{f' of {planned:,}' if planned else ''} rows done"]
    if index.failed:
        words.append(f"{index.failed:,} failed (run again to retry them)")
    if index.altered_count:
        words.append(f"{index.altered_count:,} not as written (pcsuite log check {log})")
    print(f"{log.stem}: " + ", ".join(words))
    spent = read_spent(log)
    if not spent.starts:
        print("spent: nothing is written down (an import, or a run of an earlier version)")
        return Exit.DONE
    print(f"spent: {spent.words()}")
    for line in spent.starts:
        print(f"  {_start_words(line)}")
    last = spent.starts[-1]
    if last.max_tokens is not None:
        left = max(0, last.max_tokens - spent.tokens)
        print(f"limits.max_tokens_overall: {last.max_tokens:,} tokens, {left:,} left")
    if last.max_cost_usd is not None:
        print(
            f"limits.max_cost_usd: ${last.max_cost_usd:g}, ${max(0.0, last.max_cost_usd - spent.cost_usd):.4f} left"
        )
    if spent.damaged:
        print(f"{spent.damaged} lines of the ledger are not as written and count for nothing")
    return Exit.DONE


def _start_words(line: SpentLine) -> str:
    """One start of a run: its number, when it was last heard of, and what it spent."""
    cost = f", ${line.cost_usd:.4f}" if line.cost_usd else ""
    under_way = f", {line.under_way_tokens:,} tokens under way when it ended" if line.under_way_tokens else ""
    end = "" if line.ended else "; it did not end in order"
    return (
        f"start {line.start}, until {line.at_utc}: {line.tokens:,} tokens{cost}, {line.calls} calls"
        f" in {line.seconds:.0f} s{under_way}{end}"
    )
