"""``pcsuite index``: build the search index of a dataset's pages, and try it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pcsuite.retrieval.base import DEFAULT_K
from pcsuite.retrieval.bm25_index import Bm25Index, ensure_index
from pcsuite.retrieval.corpus import find_pages

EXAMPLES = """examples:
  pcsuite index build                                     # of the exported FEVER pages, else of the bundled sample
  pcsuite index build --pages my_pages.jsonl              # {"page": ..., "sentences": [...]} a line
  pcsuite index search "capital of Karvenia" -k 3
  pcsuite index search "who wrote it" --index .cache/indexes/3f…
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="build|search")
    build = actions.add_parser("build", help="build the index, unless it is there")
    search = actions.add_parser("search", help="print the best sentences for a query")
    for action in (build, search):
        action.add_argument("--dataset", default="fever", help="whose pages (default: fever)")
        action.add_argument(
            "--pages", type=Path, metavar="FILE", help="a pages file instead of the dataset's"
        )
        action.add_argument(
            "--cache-dir",
            type=Path,
            default=Path(".cache"),
            metavar="DIR",
            help="the profile's run.cache_dir",
        )
    search.add_argument("query", help="what to look for")
    search.add_argument("-k", type=int, default=DEFAULT_K, help=f"how many (default: {DEFAULT_K})")
    search.add_argument("--index", type=Path, metavar="DIR", help="an index folder, instead of the dataset's")


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.action == "build":
        return _build(args)
    index = Bm25Index(args.index if args.index is not None else _folder(args))
    passages = index.search(args.query, args.k)
    for passage in passages:
        print(f"{passage.score:7.3f}  {passage.page} [{passage.sentence}]  {passage.text}")
    if not passages:
        print("nothing found")
    return 0


def _build(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    folder = _folder(args)
    seconds = time.perf_counter() - started
    meta = Bm25Index(folder).meta
    print(f"{meta.passages:,} sentences of {meta.pages:,} pages ({meta.source}), {seconds:.1f} s")
    print(f"index: {folder}")
    return 0


def _folder(args: argparse.Namespace) -> Path:
    pages = args.pages if args.pages is not None else find_pages(args.dataset, args.cache_dir).path
    return ensure_index(pages, args.cache_dir)
