"""``pcsuite verify``, ``verify-all``, ``verify-diff``, ``verify-history`` and ``improve``: extraction against truth."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite.commands import DIR, FILE
from pcsuite.errors import Exit

if TYPE_CHECKING:
    from pcsuite.verifier.evals import ScoredEval
    from pcsuite.verifier.improve.engine import ImproveOutcome
    from pcsuite.verifier.scores import Pooled

_ERRORS = {
    "omission": "omitted",
    "hallucination": "invented",
    "format_error": "mistyped",
    "wrong_value": "wrong",
}
"""Kinds of error, as tables head and name them."""
_SHOWN_DISCREPANCIES = 12
_SHOWN_FIELDS = 15


def _add_scoring_arguments(parser: argparse.ArgumentParser, score_name: str) -> None:
    add = parser.add_argument
    add("--mapping", type=Path, help="mapping file (default: the bundled one for BuildingSpec)")
    add("--instructions-version", metavar="V", help="version of the extraction prompt, kept beside")
    add("--fail-under", type=float, metavar="F1", help=f"exit with status 1 below this {score_name}")
    add("--no-save", action="store_true", help="print the scores and write nothing")


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify``.

    examples:
      pcsuite verify evals/cottage/ground_truth.csv evals/cottage/extracted.json --open
      pcsuite verify truth.csv record.json --mapping mine.yaml --no-save --fail-under 0.9

    exit status: 0 passed, 1 below the gate, 2 bad input (then nothing is written)
    """
    add = parser.add_argument
    add("ground_truth", type=Path, metavar="GROUND_TRUTH.csv")
    add("extracted", type=Path, metavar="EXTRACTED.json")
    _add_scoring_arguments(parser, "F1")
    add("--out", **DIR, help="eval folder to save into (default: that of the truth)")
    add("--eval-id", metavar="ID", help="name of the eval (default: name of the eval folder)")
    add("--json", action="store_true", help="print the results document instead of a summary")
    add("--open", action="store_true", help="open the report in a browser")


def execute_verify(args: argparse.Namespace) -> int:
    """Score one record against its truth, save it as an iteration and print the summary.

    Returns 1 below ``--fail-under``. Bad input is raised before anything is written.
    """
    from pcsuite.verifier.compare import Rules, results_document, score_file
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.store import save_iteration
    from pcsuite.verifier.truth import read_truth

    mapping = load_mapping(args.mapping)
    rules = Rules(read_truth(args.ground_truth, mapping), mapping)
    scored = score_file(args.extracted, rules)
    folder = args.out if args.out is not None else args.ground_truth.parent
    eval_id = args.eval_id or folder.resolve().name
    for warning in rules.truth.warnings:
        print(f"pcsuite: note: {args.ground_truth}: {warning}", file=sys.stderr)
    if args.no_save:
        document = results_document(scored, rules, eval_id, None, args.instructions_version)
        report = None
    else:
        saved = save_iteration(folder, scored, rules, eval_id, args.instructions_version)
        document, report = saved.document, saved.report
    print(json.dumps(document, indent=1) if args.json else _summary(document))
    if report is not None:
        print(f"report: {report}", file=sys.stderr if args.json else sys.stdout)
        if args.open:
            import webbrowser

            webbrowser.open(report.resolve().as_uri())
    f1 = document["metrics"]["f1"]
    if args.fail_under is not None and f1 < args.fail_under:
        print(f"pcsuite: F1 {f1:.4f} is below {args.fail_under:g}", file=sys.stderr)
        return Exit.BELOW_GATE
    return Exit.DONE


def _summary(document: dict[str, Any]) -> str:
    metrics = document["metrics"]
    f1, precision, recall = (_score(metrics[key]) for key in ("f1", "precision", "recall"))
    heading = f"{document['eval_id']}: F1 {f1}  precision {precision}  recall {recall}"
    heading += f"  {metrics['correct_fields']} of {metrics['total_fields_gt']} right"
    sections = [
        [name, _score(part["f1"]), str(part["total_fields_gt"]), *_error_cells(part["errors_by_type"])]
        for name, part in document["by_section"].items()
    ]
    lines = [heading, "", _table(["section", "F1", "fields", *_ERRORS.values()], sections)]
    found = document["discrepancies"]
    if found:
        rows = [
            [
                _ERRORS[entry["error_type"]],
                entry["field_path"],
                *("-" if entry[key] is None else _cut(entry[key], 40) for key in ("expected", "actual")),
            ]
            for entry in found[:_SHOWN_DISCREPANCIES]
        ]
        lines += ["", _table(["error", "field", "expected", "actual"], rows)]
        if len(found) > _SHOWN_DISCREPANCIES:
            lines.append(f"… and {len(found) - _SHOWN_DISCREPANCIES} more in the report")
    return "\n".join(lines)


def configure_verify_all(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-all``.

    examples:
      pcsuite verify-all evals --fail-under 0.90 --no-regress
      pcsuite verify-all evals --copy-samples
      pcsuite verify-all evals --only cottage --no-save

    exit status: 0 passed, 1 below a gate, 2 bad input (then nothing is written)
    """
    add = parser.add_argument
    add("evals_dir", type=Path, metavar="EVALS_DIR")
    add("--only", action="append", default=[], metavar="ID", help="this eval only (repeatable)")
    add("--exclude", action="append", default=[], metavar="ID", help="not this eval (repeatable)")
    add("--extracted", default="extracted.json", metavar="NAME", help="file name of the extractions")
    _add_scoring_arguments(parser, "macro-F1")
    about = "exit with status 1 if an eval is below its best iteration so far"
    add("--no-regress", action="store_true", help=about)
    add("--copy-samples", action="store_true", help="first copy the bundled synthetic evals to EVALS_DIR")
    add("--json", action="store_true", help="print JSON instead of a table")


def execute_verify_all(args: argparse.Namespace) -> int:
    """Score every eval of a folder, save an iteration of each and print them together.

    Returns 1 where a gate fails: macro-F1 below ``--fail-under``, or with ``--no-regress`` an eval below its best
    iteration so far. All evals are scored before anything is written.
    """
    from pcsuite.verifier.evals import copy_samples, find_evals, score_evals
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.scores import pool
    from pcsuite.verifier.store import best_f1, save_iteration

    if args.copy_samples:
        copy_samples(args.evals_dir)
    evals = find_evals(args.evals_dir, args.only, args.exclude)
    scored = score_evals(evals, load_mapping(args.mapping), args.extracted)
    best = {entry.eval.eval_id: best_f1(entry.eval.folder, entry.rules) for entry in scored}
    if not args.no_save:
        for entry in scored:
            version, eval_id = args.instructions_version, entry.eval.eval_id
            save_iteration(entry.eval.folder, entry.scored, entry.rules, eval_id, version)
    pooled = pool([entry.scored.comparison.counts for entry in scored])
    if args.json:
        document = {
            "macro_f1": pooled.macro_f1,
            "macro_f1_interval": pooled.macro_interval,
            "micro_f1": pooled.micro_f1,
            "micro_f1_interval": pooled.micro_interval,
            "evals": {
                entry.eval.eval_id: {
                    **entry.scored.comparison.counts.as_dict(),
                    "best_f1_before": best[entry.eval.eval_id],
                    "parse_error": entry.scored.parse_error,
                }
                for entry in scored
            },
        }
        print(json.dumps(document, indent=1))
    else:
        print(_evals_table(scored, pooled, best))
    problems = []
    if args.fail_under is not None and pooled.macro_f1 < args.fail_under:
        problems.append(f"macro-F1 {pooled.macro_f1:.4f} is below {args.fail_under:g}")
    for entry in scored if args.no_regress else []:
        before, now = best[entry.eval.eval_id], entry.scored.comparison.counts.f1
        if before is not None and now < before - 1e-12:
            problems.append(f"{entry.eval.eval_id} regressed: F1 {now:.4f}, its best was {before:.4f}")
    for problem in problems:
        print(f"pcsuite: {problem}", file=sys.stderr)
    return Exit.BELOW_GATE if problems else Exit.DONE


def _evals_table(scored: Sequence[ScoredEval], pooled: Pooled, best: dict[str, float | None]) -> str:
    rows = []
    for entry in scored:
        counts = entry.scored.comparison.counts
        rows.append(
            [
                entry.eval.eval_id,
                *(_score(value) for value in (counts.f1, counts.precision, counts.recall)),
                *_error_cells(counts.errors_by_type()),
                _score(best[entry.eval.eval_id]),
                "could not be parsed" if entry.scored.parse_error else "",
            ]
        )
    headings = ["eval", "F1", "precision", "recall", *_ERRORS.values(), "best before", ""]
    lines = [_table(headings, rows), ""]
    noun = "eval" if pooled.evals == 1 else "evals"
    for name, value, interval in (
        ("macro-F1", pooled.macro_f1, pooled.macro_interval),
        ("micro-F1", pooled.micro_f1, pooled.micro_interval),
    ):
        spread = f"  95 % interval {interval[0]:.3f} to {interval[1]:.3f}" if interval else ""
        lines.append(f"{name} {value:.3f}{spread}  over {pooled.evals} {noun}")
    return "\n".join(lines)


def configure_verify_diff(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-diff``.

    example:
      pcsuite verify-diff evals/cottage/results/iteration-001 evals/cottage/results/iteration-002
    """
    add = parser.add_argument
    add("before", type=Path, metavar="RESULTS_A", help="an iteration folder or its eval-results.json")
    add("after", type=Path, metavar="RESULTS_B")
    add("--fail-on-broken", action="store_true", help="exit with status 1 if a field broke")
    add("--json", action="store_true", help="print JSON instead of tables")


def execute_verify_diff(args: argparse.Namespace) -> int:
    """Print which fields two results fixed, broke or changed.

    Returns 1 with ``--fail-on-broken`` where one broke.
    """
    from pcsuite.verifier.store import compare_results, read_results

    difference = compare_results(read_results(args.before), read_results(args.after))
    for warning in difference.warnings:
        print(f"pcsuite: warning: {warning}", file=sys.stderr)
    if args.json:
        print(json.dumps(asdict(difference), indent=1))
    else:
        print(f"F1 {difference.f1_before:.3f} -> {difference.f1_after:.3f}")
        for name in ("fixed", "broken", "changed"):
            changes = getattr(difference, name)
            print(f"{name}: {len(changes)}")
            if changes:
                rows = [["", one.field_path, _words(one.before), _words(one.after)] for one in changes]
                print(_table(["", "field", "before", "after"], rows))
        print(f"unchanged errors: {difference.unchanged}")
    return Exit.BELOW_GATE if args.fail_on_broken and difference.broken else Exit.DONE


def _words(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "right"
    kind = _ERRORS[entry["error_type"]]
    return kind if entry["actual"] is None else f"{kind}: {_cut(entry['actual'], 30)}"


def configure_verify_history(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-history``.

    example:
      pcsuite verify-history evals/cottage
    """
    add = parser.add_argument
    add("eval_dir", type=Path, metavar="EVAL_DIR")
    about = "score all iterations under this mapping (default: the newest iteration's rules)"
    add("--mapping", type=Path, help=about)
    add("--all-fields", action="store_true", help="show every field, not only those that moved")
    add("--json", action="store_true", help="print JSON instead of tables")


def execute_verify_history(args: argparse.Namespace) -> int:
    """Print an eval's scores over its iterations, the best of them, and the fields that moved."""
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
            remark = f"scored again; was {_score(entry['rescored']['recorded_f1'])} under other rules"
        rows.append(
            [
                str(entry["iteration"]),
                *(_score(entry.get(key)) for key in ("f1", "precision", "recall")),
                *_error_cells(entry.get("error_counts")),
                entry["trend"],
                entry.get("timestamp") or "",
                remark,
            ]
        )
    headings = ["iteration", "F1", "precision", "recall", *_ERRORS.values(), "trend", "time", ""]
    print(f"{aggregate['eval_id']}\n\n{_table(headings, rows)}")
    print(f"\nbest: F1 {_score(aggregate['best_f1'])} in iteration {aggregate['best_iteration']}\n")
    moved = [trend for trend in trends if args.all_fields or abs(trend.change) > 1e-12]
    shown = moved if args.all_fields else moved[:_SHOWN_FIELDS]
    rows = [[one.field, _score(one.scores[0]), _score(one.scores[-1]), f"{one.change:+.3f}"] for one in shown]
    print(_table(["field", "first F1", "last F1", "change"], rows) if rows else "no field moved")
    if len(moved) > len(shown):
        print(f"… and {len(moved) - len(shown)} more (--all-fields)")
    return 0


def configure_improve(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite improve``.

    The same command goes on where a killed or stopped loop ended; nothing is asked twice.

    examples:
      pcsuite verify-all evals --copy-samples
      pcsuite improve evals --model simulated --iterations 3         # a rehearsal
      pcsuite improve evals --model smollm2-135m --condition C6
      pcsuite improve evals --model qwen3-8b --method model --held-out copper-hill,otter-barn
      pcsuite improve evals --propose-only                           # then edit the draft and run again
    """
    from pcsuite.commands.options import add_profile_arguments

    add = parser.add_argument
    add("evals_dir", type=Path, metavar="EVALS_DIR", help="EVALS_DIR/<id>/{ground_truth.csv,document.txt}")
    add_profile_arguments(parser, run=False, selection=False)
    add("--model", default="smollm2-135m", metavar="ID", help="model of the profile's models file")
    add("--condition", default="C4", metavar="C", help="condition to extract under (default C4)")
    add("--task", default="buildingspec_json", metavar="ID", help="task (default buildingspec_json)")
    add("--regime", default="d0_greedy", metavar="ID", help="decoding regime (default d0_greedy)")
    add("--seed", type=int, default=0, help="seed of the extractions")
    add("--start", **FILE, help="instruction to start from (default: the task's)")
    about = "who drafts a change: a catalogue of rules (default), or the model itself"
    add("--method", choices=("rules", "model"), default="rules", help=about)
    add("--rules", **FILE, help="catalogue of rules (default: the bundled one)")
    add("--propose-only", action="store_true", help="write the next draft and stop, so that you can edit it")
    add("--held-out", metavar="ID,ID", help="evals that only decide (default: a third, by hash)")
    add("--iterations", type=int, default=10, metavar="N", help="changes to try in all (default 10)")
    add("--patience", type=int, default=3, metavar="N", help="rejected changes in a row (default 3)")
    about = "how far the held-out interval may reach below no change (default 0.02)"
    add("--margin", type=float, default=0.02, metavar="F1", help=about)
    about = "training gain a change must exceed (default 0)"
    add("--min-gain", type=float, default=0.0, metavar="F1", help=about)
    add("--mapping", type=Path, help="mapping file (default: the task's, else the bundled one)")
    add("--out", **DIR, help="folder of the loop (default: EVALS_DIR/improve)")
    add("--no-cache", action="store_true", help="do not read or write the response cache")
    add("--json", action="store_true", help="print the summary as JSON instead of a table")


def execute_improve(args: argparse.Namespace) -> int:
    """Run the improvement loop, or go on with it, and print its steps and the best prompt.

    Raises ``DataError`` for a number below its least, an empty instruction to start from, or evals that cannot be used.
    """
    from pcsuite.commands.options import listed, settings_from, suite_from
    from pcsuite.errors import DataError
    from pcsuite.verifier.cells import read_text
    from pcsuite.verifier.improve.engine import SUMMARY, ImproveSettings, run_improvement

    for flag, least in (("iterations", 1), ("patience", 1), ("margin", 0), ("min_gain", 0)):
        value = getattr(args, flag)
        if value < least:
            raise DataError(f"--{flag.replace('_', '-')} {value:g}: it must be at least {least:g}")
    instruction = None
    if args.start is not None:
        instruction = read_text(args.start).strip()
        if not instruction:
            raise DataError(f"{args.start}: the instruction to start from is empty")
    settings = settings_from(
        ImproveSettings,
        args,
        folder=args.out,
        held_out=tuple(listed(args.held_out)),
        instruction=instruction,
        use_cache=not args.no_cache,
    )
    outcome = run_improvement(suite_from(args), settings)
    if args.json:
        print(json.dumps(json.loads((outcome.folder / SUMMARY).read_text(encoding="utf-8")), indent=1))
    else:
        _print_improvement(outcome)
    return 0


def _print_improvement(outcome: ImproveOutcome) -> None:
    from pcsuite.verifier.improve.engine import BEST_PROMPT

    result, best = outcome.result, outcome.result.best
    rows = []
    for step in result.steps:
        change = "" if step.decision == "baseline" else f"{step.held_out_change:+.3f}"
        if change and step.held_out_low is not None and step.held_out_high is not None:
            change += f" [{step.held_out_low:+.3f}, {step.held_out_high:+.3f}]"
        gap = f"{step.train_f1 - step.held_out_f1:+.3f}"
        scores = (f"{step.train_f1:.3f}", f"{step.held_out_f1:.3f}", gap, change)
        rows.append([str(step.iteration), f"v{step.prompt_version:03d}", *scores, step.decision, step.reason])
    headings = ("training F1", "held-out F1", "gap", "held-out change", "decision", "why")
    print(_table(["iteration", "prompt", *headings], rows))
    print(f"\nheld out: {', '.join(outcome.held_out)}")
    if result.stopped == "proposed":
        print(f"draft: {outcome.folder / 'prompts' / f'v{result.prompt.version:03d}.txt'}")
        print("edit it if you like; the same command without --propose-only tries it")
        return
    why = {
        "plateau": "no change helped any more",
        "max_iterations": "all iterations are done",
        "perfect": "the training evals are perfect",
    }[result.stopped]
    print(f"stopped: {why}")
    print(
        f"best: iteration {best.iteration}, prompt v{best.prompt_version:03d}, training F1 {best.train_f1:.3f},"
        f" held-out F1 {best.held_out_f1:.3f}, gap {result.gap:+.3f}"
    )
    print(f"prompt: {outcome.folder / BEST_PROMPT}")
    cost = f", ${outcome.spent_cost_usd:.4f}" if outcome.spent_cost_usd else ""
    print(f"spent now: {outcome.spent_tokens:,} tokens{cost}")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content; numbers to the right."""
    columns = list(zip(headings, *rows, strict=True)) if rows else [(heading,) for heading in headings]
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [
        bool(rows) and all(c in ("", "-") or c.replace(".", "", 1).lstrip("+-").isdigit() for c in column[1:])
        for column in columns
    ]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _error_cells(counts: dict[str, int] | None) -> list[str]:
    return [str(counts[kind]) if counts else "-" for kind in _ERRORS]


def _cut(value: Any, longest: int) -> str:
    """A JSON value as text of at most ``longest`` characters."""
    text = json.dumps(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"
