"""``pcsuite verify``: one extracted record against its truth."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pcsuite.verifier.text_tables import ERROR_HEADINGS, error_cells, score, table

_SHOWN = 12


def configure(parser: argparse.ArgumentParser) -> None:
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


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.report import render_report
    from pcsuite.verifier.results import Rules, results_document, score_file
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
