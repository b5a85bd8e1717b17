"""``pcsuite report``: tables, figures and a page from a run's log."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite.errors import ConfigError

EXAMPLES = """examples:
  pcsuite report --config quickstart
  pcsuite report outputs/runs/mine.jsonl
  pcsuite report outputs/runs/mine.jsonl --out paper --no-plots
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN.jsonl", help="logs to report on together")
    parser.add_argument("--config", metavar="PROFILE", help="profile whose run is reported on")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: the log's)")
    parser.add_argument("--no-plots", action="store_true", help="leave the figures out")


def execute(args: argparse.Namespace) -> int:
    """Write the report and say where it is."""
    from pcsuite.report.build import build_report

    logs, out = _inputs(args)
    files = build_report(logs, out, plots=not args.no_plots)
    for warning in files.warnings:
        print(f"note: {warning}")
    print(f"tables  {files.tables[0].parent} ({len(files.tables)} files)")
    if files.plots:
        print(f"plots   {files.plots[0].parent} ({len(files.plots)} files)")
    print(f"report  {files.index}")
    return 0


def _inputs(args: argparse.Namespace) -> tuple[list[Path], Path]:
    logs: list[Path] = list(args.runs)
    if args.config:
        from pcsuite.config.load import load_suite
        from pcsuite.logging.writer import RunPaths

        run = load_suite(args.config).profile.run
        logs.append(RunPaths.of(run.output_dir, run.name).log)
    if not logs:
        raise ConfigError("nothing to report on", hint="give --config PROFILE or a RUN.jsonl")
    folder = logs[0].parent
    return logs, args.out or (folder.parent if folder.name == "runs" else folder)
