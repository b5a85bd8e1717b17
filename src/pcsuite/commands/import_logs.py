"""``pcsuite import``: logs of other evaluation tools as a run of ours."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite.errors import ConfigError

if TYPE_CHECKING:
    from pcsuite.importers.import_run import ImportedLog

MOST_REASONS = 8
EXAMPLES = """Every sample becomes a row; repetitions (epochs) become seeds. Samples without a score are kept,
counted and named. Importing the same log again adds nothing; a log that was scored anew or retried replaces its rows.

examples:
  pcsuite import --from inspect logs/a.eval --name a
  pcsuite import --from inspect logs/b.eval --name b --metric match
  pcsuite compare a b
  pcsuite import --from inspect logs/ --name study --metric match --condition-from eval.task_args.prompt
  pcsuite import --from lm-eval results/ --name base --metric exact_match,strict-match
  pcsuite report outputs/runs/study.jsonl
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="log files, or folders of them")
    parser.add_argument(
        "--from", dest="format", required=True, metavar="FORMAT", help="inspect (.eval, .json) or lm-eval"
    )
    parser.add_argument("--name", required=True, help="name of the run to write")
    parser.add_argument("--output-dir", default="outputs", metavar="DIR", help="folder of results")
    parser.add_argument(
        "--metric",
        "--scorer",
        dest="measures",
        action="append",
        default=[],
        metavar="NAME",
        help="which score counts, where a log has several; once for each kind of log",
    )
    parser.add_argument("--condition", metavar="NAME", help="name of the condition; C0 is the control")
    parser.add_argument(
        "--condition-from", metavar="KEY", help="key of the log's header whose value names the condition"
    )
    parser.add_argument("--model", metavar="ID", help="id of the model, instead of the log's")
    parser.add_argument("--family", default="unknown", help="family of the model, for the report")
    parser.add_argument("--size", default="unknown", help="size class of the model, for the report")
    parser.add_argument(
        "--first-seed", type=int, default=1, metavar="N", help="seed of the first repetition (default 1)"
    )
    parser.add_argument(
        "--match-by",
        choices=("id", "content"),
        default="id",
        help="what names an item: its id in the log (default), or its question and target",
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace rows of another evaluation of the same cell"
    )


def execute(args: argparse.Namespace) -> int:
    """Import the logs and say what came of each."""
    from pcsuite.importers.import_run import ImportOptions, import_logs
    from pcsuite.logging.writer import RunPaths

    if args.condition and args.condition_from:
        raise ConfigError("--condition and --condition-from exclude each other")
    if Path(args.name).name != args.name or args.name in (".", ".."):
        raise ConfigError(f"--name {args.name}: a run's name is no path")
    paths = RunPaths.of(args.output_dir, args.name)
    options = ImportOptions(
        measures=args.measures,
        condition=args.condition,
        condition_from=args.condition_from,
        model=args.model,
        family=args.family,
        size=args.size,
        first_seed=args.first_seed,
        by_content=args.match_by == "content",
        replace=args.replace,
    )
    for imported in import_logs(args.format, args.logs, paths, options):
        print("\n".join(_lines(imported)))
    print(f"run     {paths.log}")
    return 0


def _lines(imported: ImportedLog) -> Iterator[str]:
    cell, header = imported.cell, imported.cell.header
    yield f"{imported.path.name}: {header.task} on {header.model}, condition {cell.condition}, {cell.decoding.id}"
    yield (
        f"  {imported.samples:,} samples of {imported.items:,} items: {imported.new:,} new,"
        f" {imported.changed:,} changed, {imported.unchanged:,} already there"
    )
    yield f"  score {cell.measure}: {_mean(imported)}"
    if imported.missing:
        yield f"  {imported.missing:,} of {header.expected:,} samples are not in the log"
    if imported.errors:
        yield f"  {imported.errors.total():,} samples without a score, kept as failed rows:"
        yield from _counted(imported.errors)
    if imported.unmapped:
        yield f"  {imported.unmapped.total():,} values are no number and count as 0, as in {header.tool}:"
        yield from _counted(imported.unmapped)
    yield from _counted(imported.remarks, indent="  ")
    for remark in header.remarks:
        yield f"  note: {remark}"


def _mean(imported: ImportedLog) -> str:
    tool = imported.cell.header.tool
    if imported.mean is None:
        return "no sample is scored"
    if imported.agrees is None:
        return f"mean {imported.mean:.6g} ({tool} reports no mean to check it against)"
    if imported.agrees:
        return f"mean {imported.mean:.6g}, as {tool} reports"
    return (
        f"mean {imported.mean:.6g}, but {tool} reports {imported.reported:.6g}: its figure is not the plain"
        " mean of the samples, or the log is not whole"
    )


def _counted(counts: Counter[str], indent: str = "    ") -> Iterator[str]:
    for text, count in counts.most_common(MOST_REASONS):
        yield f"{indent}{count:,} × {text}"
    if len(counts) > MOST_REASONS:
        yield f"{indent}… and {len(counts) - MOST_REASONS:,} more kinds"
