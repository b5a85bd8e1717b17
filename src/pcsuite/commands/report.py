"""``pcsuite report`` and ``compare``: what a log says, and what changed between two."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pcsuite.commands import DIR, FILE
from pcsuite.errors import ConfigError, Exit


def configure_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite report``.

    With --config the items are at hand too, which the measures of information need.

    examples:
      pcsuite report --config quickstart
      pcsuite report outputs/runs/mine.jsonl
      pcsuite report mine                        # by name, of outputs/runs
      pcsuite report outputs/runs/mine.jsonl --out paper --format md --format latex
      pcsuite report mine --baseline C4          # every condition against C4
    """
    from pcsuite.commands.options import add_profile_arguments

    add = parser.add_argument
    add("runs", nargs="*", type=Path, metavar="RUN", help="names or logs of runs to report on together")
    add_profile_arguments(parser, default=None, selection=False)
    add("--out", **DIR, help="where to write (default: beside the log)")
    about = "html (default): one page; md: one Markdown file; latex: tables; may be given several times"
    add("--format", action="append", choices=("html", "md", "latex"), help=about)
    add("--title", help="title of the report")
    about = "embedding model for InfoNCE and semantic entropy (default: the bundled one if installed), or off"
    add("--embeddings", metavar="MODEL", help=about)
    about = (
        "compare with this condition (default: C0, else the bare condition, else the smallest or full bundle)"
    )
    add("--baseline", metavar="CONDITION", help=about)
    add("--no-plots", action="store_true", help="leave the figures out")


def execute_report(args: argparse.Namespace) -> int:
    """Write the report of the named runs, or of the profile's own, and say where it is.

    Raises ``ConfigError`` where neither is given and ``LogError`` for a log that does not exist.
    """
    from pcsuite.analysis.load.item_scores import items_at_hand, truth_texts
    from pcsuite.commands.options import run_log, suite_from
    from pcsuite.config.load import load_suite
    from pcsuite.logging.log import RunPaths
    from pcsuite.logging.manifest import read_manifests
    from pcsuite.report.build import build_report

    suite = suite_from(args) if args.config else None
    logs = [run_log(given, args.output_dir or "outputs") for given in args.runs]
    if suite is not None and not logs:
        run = suite.profile.run
        logs = [RunPaths.of(run.output_dir, run.name).log]
    if not logs:
        hint = "give --config PROFILE, a RUN.jsonl or the name of a run"
        raise ConfigError("nothing to report on", hint=hint)
    truths = truth_texts(suite) if suite is not None else None
    # Without a profile the rows of bundled tasks still say what was expected of them.
    items = items_at_hand(suite or load_suite("quickstart"), read_manifests(logs).tasks)
    folder = logs[0].parent
    files = build_report(
        logs,
        args.out or (folder.parent if folder.name == "runs" else folder),
        title=args.title,
        plots=not args.no_plots,
        formats=args.format or ("html",),
        truths=truths.labels if truths is not None else None,
        references=truths.answers if truths is not None else None,
        embeddings=args.embeddings,
        metrics=suite.metrics if suite is not None else None,
        baseline=args.baseline,
        items=items,
    )
    print(f"tables  {files.tables[0].parent} ({len(files.tables)} files)")
    if files.plots:
        print(f"plots   {files.plots[0].parent} ({len(files.plots)} files)")
    print(f"report  {files.index}")
    return 0


def configure_compare(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite compare``.

    A change counts as reliable where it holds after the Benjamini–Hochberg correction over all cells.
    Cells are paired by task, model, regime, perturbation and condition; where each run has one model (or one
    condition) and they differ, those are paired with each other.

    examples:
      pcsuite compare outputs/runs/before.jsonl outputs/runs/after.jsonl
      pcsuite compare before after                # by name, of outputs/runs
      pcsuite compare before.jsonl after.jsonl --fail-on-regression --margin 0.01
    """
    add = parser.add_argument
    add("first", type=Path, metavar="RUN_A", help="name or log of the run to compare with")
    add("second", type=Path, metavar="RUN_B", help="name or log of the run that is judged")
    add("--output-dir", default="outputs", metavar="DIR", help="where runs are looked up by name")
    add("--fail-on-regression", action="store_true", help="exit with status 1 where RUN_B is reliably worse")
    add("--margin", type=float, default=0.0, help="changes up to this size are no regression (default 0)")
    add("--format", choices=("text", "md", "json"), default="text", help="how to print")
    add("--csv", **FILE, help="also write every compared cell to a CSV file")


def execute_compare(args: argparse.Namespace) -> int:
    """Compare two runs item by item and print it.

    Returns 1 with ``--fail-on-regression`` where a cell is reliably worse by more than ``--margin``.
    """
    if args.margin < 0:
        raise ConfigError(f"--margin {args.margin}: a margin is not negative")
    from pcsuite.analysis.compare import compare_runs
    from pcsuite.analysis.load.item_scores import item_scores
    from pcsuite.analysis.load.runs import RunTables
    from pcsuite.analysis.metrics import metrics_of
    from pcsuite.commands.options import run_log
    from pcsuite.logging.manifest import read_manifests
    from pcsuite.report.markdown import comparison_markdown, comparison_text

    logs = [run_log(given, args.output_dir) for given in (args.first, args.second)]
    scores = []
    with tempfile.TemporaryDirectory(prefix="pcsuite-compare-") as folder:
        for log, side in zip(logs, "ab", strict=True):
            with RunTables([log], Path(folder) / side) as tables:
                scores.append(item_scores(tables))
    metrics = metrics_of(read_manifests(logs).metrics)
    comparison = compare_runs(scores[0], scores[1], metrics=metrics, margin=args.margin)
    if args.csv:
        comparison.table.write_csv(args.csv)
    if args.format == "json":
        document = {
            "regressions": len(comparison.regressions),
            "improvements": len(comparison.improvements),
            "renamed": comparison.renamed,
            "only_first": [key._asdict() for key in comparison.only_first],
            "only_second": [key._asdict() for key in comparison.only_second],
            "cells": list(comparison.table.records()),
        }
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        write = comparison_markdown if args.format == "md" else comparison_text
        print(write(comparison, logs[0].stem, logs[1].stem))
    return Exit.BELOW_GATE if args.fail_on_regression and comparison.regressions else Exit.DONE
