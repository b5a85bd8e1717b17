"""``pcsuite compare``: two runs item by item, for a prompt change or for continuous integration."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite.errors import ConfigError

if TYPE_CHECKING:
    from pcsuite.analysis.compare import Comparison
    from pcsuite.analysis.item_scores import ItemScores

EXAMPLES = """A change counts as reliable where it holds after the Benjamini–Hochberg correction over all cells.
Cells are paired by task, model, regime, perturbation and condition; where each run has one model (or one
condition) and they differ, those are paired with each other.

examples:
  pcsuite compare outputs/runs/before.jsonl outputs/runs/after.jsonl
  pcsuite compare before after                # by name, of outputs/runs
  pcsuite compare before.jsonl after.jsonl --fail-on-regression --margin 0.01
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("first", type=Path, metavar="RUN_A", help="name or log of the run to compare with")
    parser.add_argument("second", type=Path, metavar="RUN_B", help="name or log of the run that is judged")
    parser.add_argument(
        "--output-dir", default="outputs", metavar="DIR", help="where runs are looked up by name"
    )
    parser.add_argument(
        "--fail-on-regression", action="store_true", help="exit with status 1 where RUN_B is reliably worse"
    )
    parser.add_argument(
        "--margin", type=float, default=0.0, help="changes up to this size are no regression (default 0)"
    )
    parser.add_argument("--format", choices=("text", "md", "json"), default="text", help="how to print")
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write every compared cell to a CSV file"
    )


def execute(args: argparse.Namespace) -> int:
    """Compare, print, and judge."""
    if args.margin < 0:
        raise ConfigError(f"--margin {args.margin}: a margin is not negative")
    from pcsuite.analysis.compare import compare_runs
    from pcsuite.commands.options import run_log
    from pcsuite.report.comparison import comparison_markdown, comparison_text

    logs = [run_log(given, args.output_dir) for given in (args.first, args.second)]
    with tempfile.TemporaryDirectory(prefix="pcsuite-compare-") as folder:
        scores = [_scores(log, Path(folder) / side) for log, side in zip(logs, "ab", strict=True)]
    comparison = compare_runs(scores[0], scores[1], margin=args.margin)
    if args.csv:
        comparison.table.write_csv(args.csv)
    if args.format == "json":
        print(json.dumps(_as_json(comparison), indent=1, ensure_ascii=False))
    else:
        write = comparison_markdown if args.format == "md" else comparison_text
        print(write(comparison, logs[0].stem, logs[1].stem))
    return 1 if args.fail_on_regression and comparison.regressions else 0


def _scores(log: Path, folder: Path) -> ItemScores:
    from pcsuite.analysis.item_scores import item_scores
    from pcsuite.analysis.tables import RunTables

    with RunTables([log], folder) as tables:
        return item_scores(tables)


def _as_json(comparison: Comparison) -> dict[str, object]:
    return {
        "regressions": len(comparison.regressions),
        "improvements": len(comparison.improvements),
        "renamed": comparison.renamed,
        "only_first": [key._asdict() for key in comparison.only_first],
        "only_second": [key._asdict() for key in comparison.only_second],
        "cells": list(comparison.table.records()),
    }
