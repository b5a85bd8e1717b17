"""``pcsuite export-datasets``: published benchmarks to items files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcsuite.data.export import ExportResult

EPILOG = """examples:
  pcsuite export-datasets                                   everything, from the Hugging Face hub
  pcsuite export-datasets --from originals                  from original files in originals/<dataset>/
  pcsuite export-datasets --from originals --only gsm8k,trec
  pcsuite export-datasets --hub-dir mirror                  from tables saved in the hub's layout, offline
  pcsuite export-datasets --from originals --allow-partial  accept short files and say so in the manifest

Items go to <cache-dir>/datasets/<dataset>_<split>.jsonl, with a manifest.json of sources, counts and hashes.
scripts/download_datasets.sh fetches the original files."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--from", dest="from_dir", type=Path, metavar="DIR", help="read original published files under DIR"
    )
    parser.add_argument(
        "--hub-dir", type=Path, metavar="DIR", help="read hub tables saved under DIR instead of the hub"
    )
    parser.add_argument("--only", metavar="A,B", help="export these datasets only")
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=Path(".cache"),
        metavar="DIR",
        help="where to write (default: .cache)",
    )
    parser.add_argument(
        "--allow-partial", action="store_true", help="accept sources with fewer records than published"
    )
    parser.add_argument(
        "--truthfulqa-version",
        default="v1",
        metavar="V",
        help="v1: the 817 questions (default); v2025: the 790 of the revision",
    )
    parser.add_argument(
        "--fever-wiki",
        action="store_true",
        help="fetch FEVER's Wikipedia from the hub too: several GB (hub road)",
    )
    parser.add_argument(
        "--spider-dir",
        type=Path,
        metavar="DIR",
        help="folder of Spider's tables.json and database/ (hub road)",
    )


def execute(args: argparse.Namespace) -> int:
    """Export, print a summary, and fail if a dataset failed."""
    from pcsuite.data.export import ExportOptions, export_datasets

    only = [name.strip() for name in args.only.split(",") if name.strip()] if args.only is not None else None
    results = export_datasets(
        args.cache_dir,
        from_dir=args.from_dir,
        hub_dir=args.hub_dir,
        only=only,
        options=ExportOptions(
            allow_partial=args.allow_partial,
            truthfulqa_version=args.truthfulqa_version,
            fever_wiki=args.fever_wiki,
            spider_dir=args.spider_dir,
        ),
        progress=_progress,
    )
    _print_summary(results, args.cache_dir / "datasets")
    failed = [result for result in results if result.error is not None]
    for result in failed:
        print(f"pcsuite: {result.dataset}: {result.error}", file=sys.stderr)
    return 2 if failed else 0


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _print_summary(results: Sequence[ExportResult], folder: Path) -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    width = max((len(name) for result in results for name in result.outputs), default=0)
    for result in results:
        for name, records in result.outputs.items():
            print(f"{name:<{width}}  {records:>7} records")
    for result in results:
        if result.error is not None:
            print(f"{result.dataset}: FAILED")
        if result.skipped is not None:
            print(f"{result.dataset}: skipped, {result.skipped}")
        for note in result.notes:
            print(f"{result.dataset}: {note}")
    files = sum(len(result.outputs) for result in results)
    print(f"{files} files in {folder}")
