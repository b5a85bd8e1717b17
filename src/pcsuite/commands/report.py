"""``pcsuite report``: tables, figures and a page from a run's log."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite.errors import ConfigError

if TYPE_CHECKING:
    from pcsuite.config.load import Suite

EXAMPLES = """With --config the items are at hand too, which the measures of information need.

examples:
  pcsuite report --config quickstart
  pcsuite report outputs/runs/mine.jsonl
  pcsuite report mine                        # by name, of outputs/runs
  pcsuite report outputs/runs/mine.jsonl --out paper --format md --format latex
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="names or logs of runs to report on together"
    )
    parser.add_argument("--config", "-c", metavar="PROFILE", help="profile whose run is reported on")
    parser.add_argument("--name", help="name of the run, instead of the profile's")
    parser.add_argument("--output-dir", metavar="DIR", help="folder of results, instead of the profile's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override any profile key"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: beside the log)")
    parser.add_argument(
        "--format",
        action="append",
        choices=("html", "md", "latex"),
        help="html (default): one page; md: one Markdown file; latex: tables; may be given several times",
    )
    parser.add_argument("--title", help="title of the report")
    parser.add_argument(
        "--embeddings",
        metavar="MODEL",
        help="embedding model for InfoNCE and semantic entropy (default: the bundled one if installed), or off",
    )
    parser.add_argument("--no-plots", action="store_true", help="leave the figures out")


def execute(args: argparse.Namespace) -> int:
    """Write the report and say where it is."""
    from pcsuite.analysis.truths import truth_texts
    from pcsuite.report.build import build_report

    suite = _suite(args)
    logs = _logs(args, suite)
    truths = truth_texts(suite) if suite is not None else None
    folder = logs[0].parent
    out = args.out or (folder.parent if folder.name == "runs" else folder)
    files = build_report(
        logs,
        out,
        title=args.title,
        plots=not args.no_plots,
        formats=args.format or ("html",),
        truths=truths.labels if truths is not None else None,
        references=truths.answers if truths is not None else None,
        embeddings=args.embeddings,
    )
    print(f"tables  {files.tables[0].parent} ({len(files.tables)} files)")
    if files.plots:
        print(f"plots   {files.plots[0].parent} ({len(files.plots)} files)")
    print(f"report  {files.index}")
    return 0


def _suite(args: argparse.Namespace) -> Suite | None:
    if not args.config:
        return None
    from pcsuite.commands.options import suite_from

    return suite_from(args)


def _logs(args: argparse.Namespace, suite: Suite | None) -> list[Path]:
    from pcsuite.commands.options import run_log

    logs = [run_log(given, args.output_dir or "outputs") for given in args.runs]
    if suite is not None and not logs:
        from pcsuite.logging.writer import RunPaths

        run = suite.profile.run
        logs.append(RunPaths.of(run.output_dir, run.name).log)
    if not logs:
        raise ConfigError(
            "nothing to report on", hint="give --config PROFILE, a RUN.jsonl or the name of a run"
        )
    return logs
