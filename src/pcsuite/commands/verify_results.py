"""``pcsuite verify-diff`` and ``verify-history``: results of one eval held against one another."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pcsuite._util.text import limits_text, signed, text_table
from pcsuite.commands import options
from pcsuite.commands.options import Group, switch
from pcsuite.commands.verify import (
    MAPPING,
    TABLES_OR_JSON,
    cut_json,
    error_cells,
    error_headings,
    print_notes,
    score_text,
)
from pcsuite.errors import Exit

_SHOWN_FIELDS = 15
_BEYOND = ("better", "worse")


def configure_verify_diff(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-diff``.

    example:
      pcsuite verify-diff evals/cottage/results/iteration-001 evals/cottage/results/iteration-002

    Of results over many records it also says which fields changed beyond chance: paired by record, corrected over
    fields.
    Results made under other rules or another truth are scored again from their stored extractions before they are
    compared; where those or the truth are gone, the comparison is refused.
    """
    about = "an iteration folder or its eval-results.json"
    parser.add_argument("before", type=Path, metavar="RESULTS_A", help=about)
    parser.add_argument("after", type=Path, metavar="RESULTS_B")
    broken = switch("--fail-on-broken", "exit with status 1 if a field broke")
    mapping = MAPPING.but("score both again under this mapping")
    options.add_flags(parser, Group("", [mapping, broken, TABLES_OR_JSON]))


def execute_verify_diff(args: argparse.Namespace) -> int:
    """Print which fields two results fixed, broke or changed.

    Returns 1 with ``--fail-on-broken`` where one broke.
    """
    from pcsuite.verifier.store import difference_between

    difference = difference_between(args.before, args.after, args.mapping)
    print_notes(difference.warnings, "warning")
    if args.json:
        document = asdict(difference)
        document["fields"] = [one._asdict() for one in difference.fields]
        print(json.dumps(document, indent=1))
    else:
        print(f"F1 {difference.f1_before:.3f} -> {difference.f1_after:.3f}")
        for name in ("fixed", "broken", "changed"):
            changes = getattr(difference, name)
            print(f"{name}: {len(changes)}")
            if changes:
                rows = [["", one.field_path, _words(one.before), _words(one.after)] for one in changes]
                print(text_table(["", "field", "before", "after"], rows))
        print(f"unchanged errors: {difference.unchanged}")
        if difference.fields:
            print(
                f"\nby field, over records ({sum(one.verdict in _BEYOND for one in difference.fields)} beyond chance)"
            )
            rows = [
                [one.field, score_text(one.before), score_text(one.after),
                 f"{signed(one.after - one.before, 3)}{limits_text(one.low, one.high, 3)}", f"{one.p_adjusted:.3g}",
                 one.verdict if one.verdict in _BEYOND else "within chance"]
                for one in difference.fields[:_SHOWN_FIELDS]
            ]  # fmt: skip
            print(text_table(["field", "F1 before", "after", "change", "p (Holm)", ""], rows))
    return Exit.BELOW_GATE if args.fail_on_broken and difference.broken else Exit.DONE


def _words(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "right"
    from pcsuite.verifier.error_types import ERROR_TYPES

    kind = ERROR_TYPES[entry["error_type"]].heading
    return kind if entry["actual"] is None else f"{kind}: {cut_json(entry['actual'], 30)}"


def configure_verify_history(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-history``.

    example:
      pcsuite verify-history evals/cottage
    """
    parser.add_argument("eval_dir", type=Path, metavar="EVAL_DIR")
    about = "score all iterations under this mapping (default: the newest iteration's rules)"
    every = switch("--all-fields", "show every field, not only those that moved")
    options.add_flags(parser, Group("", [MAPPING.but(about), every, TABLES_OR_JSON]))


def execute_verify_history(args: argparse.Namespace) -> int:
    """Print an eval's scores over its iterations, the best of them, and the fields that moved.

    Iterations recorded under other rules are scored again from their stored extractions, and the table says so.
    Nothing is written.
    """
    from pcsuite.verifier.store import field_trends, rebuild_aggregate, rules_for

    rules = rules_for(args.eval_dir, args.mapping)
    aggregate = rebuild_aggregate(args.eval_dir, rules)
    trends = field_trends(args.eval_dir, aggregate, rules)
    if args.json:
        fields = {trend.field: list(trend.scores) for trend in trends}
        print(json.dumps({**aggregate, "field_trends": fields}, indent=1))
        return 0
    rows = []
    for entry in aggregate["iterations"]:
        remark = entry.get("note", "")
        if "rescored" in entry:
            remark = f"scored again; was {score_text(entry['rescored']['recorded_f1'])} under other rules"
        rows.append(
            [
                str(entry["iteration"]),
                *(score_text(entry.get(key)) for key in ("f1", "precision", "recall")),
                *error_cells(entry.get("error_counts")),
                entry["trend"],
                entry.get("timestamp") or "",
                remark,
            ]
        )
    headings = ["iteration", "F1", "precision", "recall", *error_headings(), "trend", "time", ""]
    print(f"{aggregate['eval_id']}\n\n{text_table(headings, rows)}")
    print(f"\nbest: F1 {score_text(aggregate['best_f1'])} in iteration {aggregate['best_iteration']}\n")
    moved = [trend for trend in trends if args.all_fields or abs(trend.change) > 1e-12]
    shown = moved if args.all_fields else moved[:_SHOWN_FIELDS]
    rows = [
        [one.field, score_text(one.scores[0]), score_text(one.scores[-1]), signed(one.change, 3)]
        for one in shown
    ]
    print(text_table(["field", "first F1", "last F1", "change"], rows) if rows else "no field moved")
    if len(moved) > len(shown):
        print(f"… and {len(moved) - len(shown)} more (--all-fields)")
    return 0
