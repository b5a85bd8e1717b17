"""``pcsuite cache``: what the response cache holds, and forgetting it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pcsuite.engines.response_cache import FILE_NAME, CacheStats, ResponseCache

EXAMPLES = """examples:
  pcsuite cache stats
  pcsuite cache stats --cache-dir .cache --json
  pcsuite cache clear
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("stats", "clear"), help="show the figures, or forget all answers")
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=Path(".cache"),
        metavar="DIR",
        help="the profile's run.cache_dir (default: .cache)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def execute(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    path = args.cache_dir / FILE_NAME
    if not path.is_file():
        print(f"no response cache at {path}")
        return 0
    with ResponseCache(path) as cache:
        if args.action == "clear":
            print(f"{path}: {cache.clear()} answers forgotten")
            return 0
        stats = cache.stats()
    print(json.dumps(stats.as_dict(), indent=2) if args.json else describe(stats))
    return 0


def describe(stats: CacheStats) -> str:
    """The figures in words, one a line."""
    rate = "no lookups yet" if stats.hit_rate is None else f"{stats.hit_rate:.1%}"
    return "\n".join(
        (
            f"file      {stats.path}",
            f"answers   {stats.entries}",
            f"size      {stats.bytes / 1e6:.2f} of {stats.max_bytes / 1e6:.0f} MB",
            f"hits      {stats.hits}",
            f"misses    {stats.misses}",
            f"hit rate  {rate}",
            f"stored    {stats.puts}",
            f"evicted   {stats.evicted}",
        )
    )
