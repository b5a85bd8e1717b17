"""``pcsuite verify``, ``verify-all``, ``verify-diff`` and ``verify-history``: extracted records against their truth."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.commands.options import ERROR_HEADINGS, error_cells, score, table

if TYPE_CHECKING:
    from pcsuite.verifier.compare import Rules
    from pcsuite.verifier.evals import ScoredEval
    from pcsuite.verifier.scores import Interval, Pooled
    from pcsuite.verifier.store import Change, FieldTrend

_SHOWN = 12


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("ground_truth", type=Path, metavar="GROUND_TRUTH.csv")
    parser.add_argument("extracted", type=Path, metavar="EXTRACTED.json")
    parser.add_argument(
        "--mapping", type=Path, help="mapping file (default: the bundled one for BuildingSpec)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="eval folder to save into (default: that of the truth)"
    )
    parser.add_argument("--eval-id", metavar="ID", help="name of the eval (default: name of the eval folder)")
    parser.add_argument(
        "--instructions-version", metavar="V", help="version of the extraction prompt, kept beside"
    )
    parser.add_argument("--fail-under", type=float, metavar="F1", help="exit with status 1 below this F1")
    parser.add_argument("--no-save", action="store_true", help="print the scores and write nothing")
    parser.add_argument("--json", action="store_true", help="print the results document instead of a summary")
    parser.add_argument("--open", action="store_true", help="open the report in a browser")
    parser.epilog = (
        "examples:\n"
        "  pcsuite verify evals/cottage/ground_truth.csv evals/cottage/extracted.json --open\n"
        "  pcsuite verify truth.csv record.json --mapping mine.yaml --no-save --fail-under 0.9\n\n"
        "exit status: 0 passed, 1 below the gate, 2 bad input (then nothing is written)"
    )


def execute_verify(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.compare import Rules, results_document, score_file
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.report import render_report
    from pcsuite.verifier.store import save_iteration
    from pcsuite.verifier.truth import read_truth

    mapping = load_mapping(args.mapping)
    rules = Rules.of(read_truth(args.ground_truth, mapping), mapping)
    scored = score_file(args.extracted, rules)
    place = args.out if args.out is not None else args.ground_truth.parent
    eval_id = args.eval_id or place.resolve().name
    for warning in rules.truth.warnings:
        print(f"pcsuite: note: {args.ground_truth}: {warning}", file=sys.stderr)
    if args.no_save:
        document = results_document(scored, rules, eval_id, None, args.instructions_version)
        report = None
    else:
        saved = save_iteration(place, scored, rules, eval_id, render_report, args.instructions_version)
        document, report = saved.document, saved.report
    print(json.dumps(document, indent=1) if args.json else _summary(document))
    if report is not None:
        print(f"report: {report}", file=sys.stderr if args.json else sys.stdout)
        if args.open:
            import webbrowser

            webbrowser.open(report.resolve().as_uri())
    failed = args.fail_under is not None and document["metrics"]["f1"] < args.fail_under
    if failed:
        print(f"pcsuite: F1 {document['metrics']['f1']:.4f} is below {args.fail_under:g}", file=sys.stderr)
    return 1 if failed else 0


def _summary(document: dict[str, Any]) -> str:
    metrics = document["metrics"]
    heading = f"{document['eval_id']}: F1 {score(metrics['f1'])}  precision {score(metrics['precision'])}"
    heading += f"  recall {score(metrics['recall'])}  {metrics['correct_fields']} of {metrics['total_fields_gt']} right"
    sections = [
        [name, score(part["f1"]), str(part["total_fields_gt"]), *error_cells(part["errors_by_type"])]
        for name, part in document["by_section"].items()
    ]
    lines = [heading, "", table(["section", "F1", "fields", *ERROR_HEADINGS.values()], sections)]
    found = document["discrepancies"]
    if found:
        rows = [
            [
                ERROR_HEADINGS[entry["error_type"]],
                entry["field_path"],
                _short(entry["expected"]),
                _short(entry["actual"]),
            ]
            for entry in found[:_SHOWN]
        ]
        lines += ["", table(["error", "field", "expected", "actual"], rows)]
        if len(found) > _SHOWN:
            lines.append(f"… and {len(found) - _SHOWN} more in the report")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = "-" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


# ``pcsuite verify-all``: every eval of a folder, with gates for CI.


def configure_verify_all(parser: argparse.ArgumentParser) -> None:
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


def execute_verify_all(args: argparse.Namespace) -> int:
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


# ``pcsuite verify-diff``: what changed between two results.


def configure_verify_diff(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "before", type=Path, metavar="RESULTS_A", help="an iteration folder or its eval-results.json"
    )
    parser.add_argument("after", type=Path, metavar="RESULTS_B")
    parser.add_argument("--fail-on-broken", action="store_true", help="exit with status 1 if a field broke")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.epilog = (
        "example:\n"
        "  pcsuite verify-diff evals/cottage/results/iteration-001 evals/cottage/results/iteration-002"
    )


def execute_verify_diff(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.store import compare_results, read_results

    difference = compare_results(read_results(args.before), read_results(args.after))
    for warning in difference.warnings:
        print(f"pcsuite: warning: {warning}", file=sys.stderr)
    if args.json:
        print(json.dumps(asdict(difference), indent=1))
    else:
        print(f"F1 {difference.f1_before:.3f} -> {difference.f1_after:.3f}")
        for name in ("fixed", "broken", "changed"):
            print(_listing(name, getattr(difference, name)))
        print(f"unchanged errors: {difference.unchanged}")
    return 1 if args.fail_on_broken and difference.broken else 0


def _listing(name: str, changes: tuple[Change, ...]) -> str:
    if not changes:
        return f"{name}: 0"
    rows = [["", change.field_path, _words(change.before), _words(change.after)] for change in changes]
    return f"{name}: {len(changes)}\n" + table(["", "field", "before", "after"], rows)


def _words(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "right"
    kind = ERROR_HEADINGS[entry["error_type"]]
    if entry["actual"] is None:
        return kind
    text = json.dumps(entry["actual"])
    return f"{kind}: {text if len(text) <= 30 else text[:29] + '…'}"


# ``pcsuite verify-history``: an eval over its iterations.


_VERIFY_HISTORY_SHOWN = 15


def configure_verify_history(parser: argparse.ArgumentParser) -> None:
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


def execute_verify_history(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.store import field_trends, rebuild_aggregate

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
    from pcsuite.verifier.compare import Rules
    from pcsuite.verifier.evals import TRUTH
    from pcsuite.verifier.mapping import bundled_mapping, load_mapping
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
        for trend in (moved if everything else moved[:_VERIFY_HISTORY_SHOWN])
    ]
    text = table(["field", "first F1", "last F1", "change"], rows)
    return text if len(rows) == len(moved) else f"{text}\n… and {len(moved) - len(rows)} more (--all-fields)"
