"""``pcsuite log``: auditing the log of a run, and mending it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite.commands import options
from pcsuite.errors import Exit
from pcsuite.logging.audit import audit_log, repair_log
from pcsuite.logging.log import RunPaths
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
