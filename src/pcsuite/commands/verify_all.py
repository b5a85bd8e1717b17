"""``pcsuite verify-all``: every eval of a folder, with gates for CI."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.verifier.text_tables import ERROR_HEADINGS, error_cells, score, table

if TYPE_CHECKING:
    from pcsuite.verifier.evals import ScoredEval
    from pcsuite.verifier.scores import Interval, Pooled


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("evals_dir", type=Path, metavar="EVALS_DIR")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="this eval only (repeatable)"
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="ID", help="not this eval (repeatable)"
    )
    parser.add_argument(
        "--mapping", type=Path, help="mapping file (default: the bundled one for BuildingSpec)"
    )
    parser.add_argument(
        "--extracted", default="extracted.json", metavar="NAME", help="file name of the extractions"
    )
    parser.add_argument(
        "--instructions-version", metavar="V", help="version of the extraction prompt, kept beside"
    )
    parser.add_argument(
        "--fail-under", type=float, metavar="F1", help="exit with status 1 below this macro-F1"
    )
    parser.add_argument(
        "--no-regress",
        action="store_true",
        help="exit with status 1 if an eval is below its best iteration so far",
    )
    parser.add_argument(
        "--copy-samples", action="store_true", help="first copy the bundled synthetic evals to EVALS_DIR"
    )
    parser.add_argument("--no-save", action="store_true", help="print the scores and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.epilog = (
        "examples:\n"
        "  pcsuite verify-all evals --fail-under 0.90 --no-regress\n"
        "  pcsuite verify-all evals --copy-samples\n"
        "  pcsuite verify-all evals --only cottage --no-save\n\n"
        "exit status: 0 passed, 1 below a gate, 2 bad input (then nothing is written)"
    )


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.evals import copy_samples, find_evals, score_evals
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.report import render_report
    from pcsuite.verifier.scores import pool
    from pcsuite.verifier.store import save_iteration

    if args.copy_samples:
        copy_samples(args.evals_dir)
    evals = find_evals(args.evals_dir, args.only, args.exclude)
    scored = score_evals(evals, load_mapping(args.mapping), args.extracted)
    best_before = {entry.eval.eval_id: _best(entry) for entry in scored}
    if not args.no_save:
        for entry in scored:
            save_iteration(
                entry.eval.folder,
                entry.scored,
                entry.rules,
                entry.eval.eval_id,
                render_report,
                args.instructions_version,
            )
    pooled = pool([entry.scored.comparison.counts for entry in scored])
    print(_as_json(scored, pooled, best_before) if args.json else _as_table(scored, pooled, best_before))
    problems = _problems(args, scored, pooled, best_before)
    for problem in problems:
        print(f"pcsuite: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _best(entry: ScoredEval) -> float | None:
    """Best F1 of the iterations saved so far, under the present rules."""
    from pcsuite.verifier.store import iteration_folders, rebuild_aggregate, results_folder

    if not iteration_folders(results_folder(entry.eval.folder)):
        return None
    best: float | None = rebuild_aggregate(entry.eval.folder, entry.rules)["best_f1"]
    return best


def _problems(
    args: argparse.Namespace, scored: list[ScoredEval], pooled: Pooled, best_before: dict[str, float | None]
) -> list[str]:
    problems = []
    if args.fail_under is not None and pooled.macro_f1 < args.fail_under:
        problems.append(f"macro-F1 {pooled.macro_f1:.4f} is below {args.fail_under:g}")
    if args.no_regress:
        for entry in scored:
            best, now = best_before[entry.eval.eval_id], entry.scored.comparison.counts.f1
            if best is not None and now < best - 1e-12:
                problems.append(f"{entry.eval.eval_id} regressed: F1 {now:.4f}, its best was {best:.4f}")
    return problems


def _as_table(scored: list[ScoredEval], pooled: Pooled, best_before: dict[str, float | None]) -> str:
    rows = []
    for entry in scored:
        counts = entry.scored.comparison.counts
        rows.append(
            [
                entry.eval.eval_id,
                score(counts.f1),
                score(counts.precision),
                score(counts.recall),
                *error_cells(counts.errors_by_type()),
                score(best_before[entry.eval.eval_id]),
                "could not be parsed" if entry.scored.parse_error else "",
            ]
        )
    headings = ["eval", "F1", "precision", "recall", *ERROR_HEADINGS.values(), "best before", ""]
    lines = [table(headings, rows), ""]
    noun = "eval" if pooled.evals == 1 else "evals"
    for name, value, interval in (
        ("macro-F1", pooled.macro_f1, pooled.macro_interval),
        ("micro-F1", pooled.micro_f1, pooled.micro_interval),
    ):
        spread = f"  95 % interval {interval.low:.3f} to {interval.high:.3f}" if interval else ""
        lines.append(f"{name} {value:.3f}{spread}  over {pooled.evals} {noun}")
    return "\n".join(lines)


def _as_json(scored: list[ScoredEval], pooled: Pooled, best_before: dict[str, float | None]) -> str:
    def bounds(interval: Interval | None) -> list[float] | None:
        return [interval.low, interval.high] if interval else None

    document: dict[str, Any] = {
        "macro_f1": pooled.macro_f1,
        "macro_f1_interval": bounds(pooled.macro_interval),
        "micro_f1": pooled.micro_f1,
        "micro_f1_interval": bounds(pooled.micro_interval),
        "evals": {
            entry.eval.eval_id: {
                **entry.scored.comparison.counts.as_dict(),
                "best_f1_before": best_before[entry.eval.eval_id],
                "parse_error": entry.scored.parse_error,
            }
            for entry in scored
        },
    }
    return json.dumps(document, indent=1)
