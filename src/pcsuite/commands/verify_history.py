"""``pcsuite verify-history``: an eval over its iterations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.verifier.text_tables import ERROR_HEADINGS, error_cells, score, table

if TYPE_CHECKING:
    from pcsuite.verifier.history import FieldTrend
    from pcsuite.verifier.results import Rules

_SHOWN = 15


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("eval_dir", type=Path, metavar="EVAL_DIR")
    parser.add_argument(
        "--mapping",
        type=Path,
        help="score all iterations under this mapping (default: the newest iteration's rules)",
    )
    parser.add_argument(
        "--all-fields", action="store_true", help="show every field, not only those that moved"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.epilog = "example:\n  pcsuite verify-history evals/cottage"


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.history import field_trends
    from pcsuite.verifier.store import rebuild_aggregate

    rules = _rules(args)
    aggregate = rebuild_aggregate(args.eval_dir, rules)
    trends = field_trends(args.eval_dir, aggregate, rules)
    if args.json:
        fields = {trend.field: list(trend.scores) for trend in trends}
        print(json.dumps({**aggregate, "field_trends": fields}, indent=1))
    else:
        print(_iterations(aggregate))
        print()
        print(_fields(trends, args.all_fields))
    return 0


def _rules(args: argparse.Namespace) -> Rules | None:
    """The rules to score under: a mapping that was named, or the bundled one where the newest iteration used it."""
    from pcsuite.errors import DataError
    from pcsuite.verifier.evals import TRUTH
    from pcsuite.verifier.mapping import bundled_mapping, load_mapping
    from pcsuite.verifier.results import Rules
    from pcsuite.verifier.store import iteration_folders, read_results, results_folder
    from pcsuite.verifier.truth import read_truth

    results = results_folder(args.eval_dir)
    truth_file = results.parent / TRUTH
    if args.mapping is not None:
        mapping = load_mapping(args.mapping)
        return Rules.of(read_truth(truth_file, mapping), mapping)
    folders = iteration_folders(results)
    if not folders or not truth_file.exists():
        return None
    try:
        newest = read_results(folders[-1][1]).get("rules_hash")
    except DataError:
        return None
    for name in ("field_mapping.yaml", "field_mapping_classes.yaml"):
        mapping = load_mapping(bundled_mapping(name))
        if mapping.rules_hash() == newest:
            return Rules.of(read_truth(truth_file, mapping), mapping)
    return None


def _iterations(aggregate: dict[str, Any]) -> str:
    rows = []
    for entry in aggregate["iterations"]:
        remark = entry.get("note", "")
        if "rescored" in entry:
            remark = f"scored again; was {score(entry['rescored']['recorded_f1'])} under other rules"
        rows.append(
            [
                str(entry["iteration"]),
                score(entry["f1"]),
                score(entry.get("precision")),
                score(entry.get("recall")),
                *error_cells(entry.get("error_counts")),
                entry["trend"],
                entry.get("timestamp") or "",
                remark,
            ]
        )
    headings = ["iteration", "F1", "precision", "recall", *ERROR_HEADINGS.values(), "trend", "time", ""]
    best = f"best: F1 {score(aggregate['best_f1'])} in iteration {aggregate['best_iteration']}"
    return f"{aggregate['eval_id']}\n\n{table(headings, rows)}\n\n{best}"


def _fields(trends: list[FieldTrend], everything: bool) -> str:
    moved = [trend for trend in trends if everything or abs(trend.change) > 1e-12]
    if not moved:
        return "no field moved"
    rows = [
        [trend.field, score(trend.scores[0]), score(trend.scores[-1]), f"{trend.change:+.3f}"]
        for trend in (moved if everything else moved[:_SHOWN])
    ]
    text = table(["field", "first F1", "last F1", "change"], rows)
    return text if len(rows) == len(moved) else f"{text}\n… and {len(moved) - len(rows)} more (--all-fields)"
