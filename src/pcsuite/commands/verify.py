"""``pcsuite verify`` and ``verify-all``: extraction against truth."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pcsuite._util.text import counted, signed, text_table
from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.options import Flag, Group, flag, switch
from pcsuite.errors import DataError, Exit

if TYPE_CHECKING:
    from pcsuite.verifier.ci import CheckedEval
    from pcsuite.verifier.evals import ScoredEval
    from pcsuite.verifier.keys import ConcludedKey
    from pcsuite.verifier.mapping import FieldMapping
    from pcsuite.verifier.scores import PooledScores
    from pcsuite.verifier.store import SavedIteration

_SHOWN_DISCREPANCIES = 12
_SHOWN_DIAGNOSES = 6
_SHOWN_WORST = 5
_STDIN = "-"


MAPPING = flag("--mapping", "mapping file (default: the bundled one for BuildingSpec)", type=Path)
TABLES_OR_JSON = options.JSON.but("print JSON instead of tables")


def _scoring_flags(score_name: str) -> list[Flag]:
    """What ``verify`` and ``verify-all`` share; ``score_name`` is what the gate looks at."""
    return [
        MAPPING,
        flag("--record-key", "field or column that tells records apart, where one file has many (default: that of the"
             " mapping, or 'record')", metavar="FIELD"),
        flag("--instructions", "the extraction prompt, kept in the results: its file (name, version in its"
             " first line, hash) or a version", metavar="FILE|V"),
        flag("--fail-under", f"exit with status 1 below this {score_name} (0 to 1)", type=float, metavar="F1"),
        flag("--junit", "write JUnit XML too: a case for each item", **FILE),
        flag("--sarif", "write SARIF 2.1.0 too: a result for each discrepancy", **FILE),
        switch("--no-save", "print the scores and write no iteration"),
    ]  # fmt: skip


def _instructions_version(instructions: str | None) -> str | None:
    """What the results call the extraction prompt: ``name@hash`` of a file, else the version as it is given.

    A file whose first line states a version (``# Instructions v1.2.0``) is ``name v1.2.0@hash``. What is spelled like a
    path and is none is a ``DataError``.
    """
    from pcsuite._util.hashing import sha256_hex
    from pcsuite.verifier.cells import read_bytes

    if instructions is None:
        return None
    path = Path(instructions)
    if path.is_file() or path.parent != Path() or path.suffix in (".md", ".txt"):
        content = read_bytes(path)
        head = content.decode("utf-8", "replace").lstrip("\ufeff\n\r ").partition("\n")[0]
        stated = re.search(r"\bv?(\d+(?:\.\d+)+)\b", head) or re.search(r"\bv(\d+)\b", head)
        version = f" v{stated[1]}" if stated else ""
        return f"{path.name}{version}@{sha256_hex(content)[:12]}"
    return instructions


def _check_gate(value: float | None) -> None:
    if value is not None and not 0 <= value <= 1:  # NaN is neither
        hint = f"{value / 100:g} for {value:g} %" if 1 < value <= 100 else "0.9, say"
        raise DataError(f"--fail-under {value:g}: it must lie between 0 and 1", hint=hint)


@contextmanager
def _ci_files(
    args: argparse.Namespace, checked: Sequence[CheckedEval], problems: Sequence[str]
) -> Iterator[None]:
    """Write what CI asked for; the files appear when the block ends well, and an error leaves none."""
    from pcsuite._util.files import replacing, write_errors
    from pcsuite.verifier.ci import junit_xml, sarif_json

    with ExitStack() as stack:
        for path, is_junit in ((args.junit, True), (args.sarif, False)):
            if path is None:
                continue
            if not path.parent.is_dir():
                raise DataError(f"{path}: cannot be written (no folder {path.parent})")
            content = junit_xml(checked, problems) if is_junit else sarif_json(checked)
            with write_errors(DataError, path):
                stack.enter_context(replacing(path)).write_bytes(content)
        yield


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify``.

    examples:
      pcsuite verify evals/cottage/ground_truth.csv evals/cottage/extracted.json --open
      pcsuite verify truth.csv record.json --mapping mine.yaml --no-save --fail-under 0.9
      my-extractor plan.pdf | pcsuite verify truth.csv - --no-save --junit verify.xml
      pcsuite verify invoices.csv extracted.jsonl --mapping invoice.yaml --record-key number   # 500 records
      pcsuite verify --init-mapping extracted.json --truth truth.csv > mine.yaml               # a first mapping
      pcsuite verify --init-mapping --schema model.py:Invoice > mine.yaml

    exit status: 0 passed, 1 below the gate, 2 bad input (then nothing is written)
    """
    shown = {"ground_truth": "GROUND_TRUTH", "extracted": "EXTRACTED"}
    about = {
        "ground_truth": "CSV, JSON, JSON Lines or xlsx, with one record or many; - for standard input",
        "extracted": "JSON, or JSON Lines for many records; - for standard input",
    }
    for name in shown:
        parser.add_argument(name, type=Path, nargs="?", metavar=shown[name], help=about[name])
    drafting = [
        flag("--init-mapping", "draft a mapping from a sample of the extraction (JSON or JSON Lines), print it and say"
             " what could not be concluded; writes to --out FILE where that is given", nargs="?", const=_NO_SAMPLE,
             type=Path, metavar="SAMPLE"),
        flag("--truth", "with --init-mapping: truth whose columns and values are drawn on", **FILE),
        flag("--schema", "with --init-mapping: a JSON Schema, or a pydantic model as FILE.py:CLASS", metavar="FILE"),
    ]  # fmt: skip
    flags = [
        *_scoring_flags("F1"),
        flag("--out", "eval folder to save into (default: that of the truth)", **DIR),
        flag("--eval-id", "name of the eval (default: name of the eval folder)", metavar="ID"),
        options.JSON.but("print the results document instead of a summary"),
        switch("--open", "open the report in a browser"),
    ]
    options.add_flags(parser, Group("", flags), Group("a first mapping", drafting))


_NO_SAMPLE = Path()


def _chosen_mapping(args: argparse.Namespace) -> FieldMapping:
    """The mapping that is named, with the record key of the command line in it."""
    from pcsuite.verifier.mapping import load_mapping

    mapping = load_mapping(args.mapping)
    return mapping if args.record_key is None else mapping.model_copy(update={"record_key": args.record_key})


def _key_notes(args: argparse.Namespace, concluded: Sequence[ConcludedKey], source: Path) -> list[str]:
    """What is said of keys that were concluded: which, and where they are kept."""
    from pcsuite.verifier.keys import keep_keys

    if not concluded:
        return []
    notes = [one.reason for one in concluded]
    by_hand = keep_keys(None if args.no_save else args.mapping, concluded, source.name)
    return [
        *notes,
        by_hand or f"{args.mapping}: now has {'it' if len(concluded) == 1 else 'them'} (concluded)",
    ]


def _init_mapping(args: argparse.Namespace) -> int:
    """Draft a mapping and print it, or write it to a file that is not there yet."""
    from pcsuite._util.files import replace_atomically, write_errors
    from pcsuite.verifier.draft import draft_mapping

    sample = None if args.init_mapping == _NO_SAMPLE else args.init_mapping
    if args.ground_truth is not None:
        raise DataError("--init-mapping drafts and verifies nothing", hint="name the truth by --truth FILE")
    if args.truth is not None and args.schema is not None and sample is None:
        raise DataError(
            "--truth and --schema: a sample belongs to the truth", hint="--init-mapping SAMPLE.json"
        )
    if sample is None and args.truth is None and args.schema is None:
        raise DataError(
            "--init-mapping: nothing to draft from", hint="a sample, --truth FILE or --schema FILE"
        )
    draft = draft_mapping(sample, args.truth, args.schema, args.record_key)
    if args.out is None:
        print(draft.text, end="")
    else:
        if args.out.exists():
            raise DataError(f"{args.out}: exists already", hint="a draft is written to a new file only")
        with write_errors(DataError, args.out):
            replace_atomically(args.out, draft.text)
        print(f"draft: {args.out}")
    print_notes(draft.open_questions, "to decide")
    return Exit.DONE


def execute_verify(args: argparse.Namespace) -> int:
    """Score one record against its truth, save it as an iteration and print the summary.

    Returns 1 below ``--fail-under``. Bad input is raised before anything is written.
    """
    from pcsuite.verifier.cells import read_bytes
    from pcsuite.verifier.ci import CheckedEval
    from pcsuite.verifier.results import read_rules, require_fields, results_document, rules_of, score_bytes
    from pcsuite.verifier.store import save_iteration
    from pcsuite.verifier.truth import parse_truth

    if args.init_mapping is not None:
        return _init_mapping(args)
    for name in ("truth", "schema"):
        if getattr(args, name) is not None:
            raise DataError(f"--{name} belongs to --init-mapping", hint="the truth is the first argument")
    if args.ground_truth is None or args.extracted is None:
        raise DataError("a truth and an extraction are needed", hint="pcsuite verify GROUND_TRUTH EXTRACTED")
    if args.ground_truth.suffix in (".json", ".jsonl") and args.extracted.suffix in (".csv", ".tsv", ".xlsx"):
        swapped = "the truth comes first, the extraction second"
        raise DataError(f"{args.extracted}: an extraction is JSON or JSON Lines", hint=swapped)
    _check_gate(args.fail_under)
    version = _instructions_version(args.instructions)
    mapping = _chosen_mapping(args)
    piped = [path for path in (args.ground_truth, args.extracted) if str(path) == _STDIN]
    if len(piped) > 1:
        raise DataError("truth and extraction cannot both come from standard input", hint="name one file")
    if str(args.ground_truth) == _STDIN:
        if args.out is None and not args.no_save:
            raise DataError(
                "a truth from standard input has no folder to save into", hint="--out or --no-save"
            )
        (rules,) = rules_of([parse_truth(sys.stdin.buffer.read(), mapping, "standard input")], mapping)
        require_fields(rules, "standard input")
    else:
        rules = read_rules(args.ground_truth, mapping)
    is_piped = str(args.extracted) == _STDIN
    data = sys.stdin.buffer.read() if is_piped else read_bytes(args.extracted)
    scored = score_bytes(data, rules, "standard input" if is_piped else str(args.extracted), strict=True)
    folder = args.out if args.out is not None else args.ground_truth.parent
    eval_id = args.eval_id or folder.resolve().name
    report = None
    document = results_document(scored, rules, eval_id, None, version)
    # Of many records the mean over them is the primary figure.
    over = document.get("over_records")
    f1, figure = (over["macro_f1"], "macro-F1") if over else (scored.comparison.counts.f1, "F1")
    problems = []
    if args.fail_under is not None and f1 < args.fail_under:
        problems.append(f"{figure} {f1:.4f} is below {args.fail_under:g}")
    checked = [CheckedEval(document, args.ground_truth, args.extracted, data)]
    with _ci_files(args, checked, problems):
        if not args.no_save:
            saved = save_iteration(folder, scored, rules, eval_id, version)
            document, report = saved.document, saved.report
    print_notes([*scored.notes, *(f"{args.ground_truth}: {warning}" for warning in rules.truth.warnings)])
    print_notes(_key_notes(args, rules.concluded, args.ground_truth))
    print(json.dumps(document, indent=1) if args.json else _summary(document))
    if report is not None:
        print(f"report: {report}", file=sys.stderr if args.json else sys.stdout)
        if args.open:
            import webbrowser

            webbrowser.open(report.resolve().as_uri())
    return _gate_status(problems)


def print_notes(notes: Iterable[str], kind: str = "note") -> None:
    """Print what a reader must know on standard error, a line each."""
    for note in notes:
        print(f"pcsuite: {kind}: {note}", file=sys.stderr)


def _gate_status(problems: Sequence[str]) -> int:
    """Say which gates were missed; the exit status that follows."""
    for problem in problems:
        print(f"pcsuite: {problem}", file=sys.stderr)
    return Exit.BELOW_GATE if problems else Exit.DONE


def _summary(document: dict[str, Any]) -> str:
    from pcsuite.verifier.error_types import ERROR_TYPES

    metrics = document["metrics"]
    f1, precision, recall = (score_text(metrics[key]) for key in ("f1", "precision", "recall"))
    heading = f"{document['eval_id']}: F1 {f1}  precision {precision}  recall {recall}"
    heading += f"  {metrics['correct_fields']} of {metrics['total_fields_gt']} right"
    heading = "\n".join([heading, *_over_records(document)])
    sections = [
        [name, score_text(part["f1"]), str(part["total_fields_gt"]), *error_cells(part["errors_by_type"])]
        for name, part in document["by_section"].items()
    ]
    lines = [heading, "", text_table(["section", "F1", "fields", *error_headings()], sections)]
    ceiling = document["ceiling"]
    if ceiling["values_outside"]:
        outside, inside = ceiling["values_outside"], ceiling["values_in_mapping"]
        note = f"{outside} of {outside + inside} values of the truth are outside the mapping"
        lines += ["", f"a perfect record under this schema scores {score_text(ceiling['f1'])}: {note}"]
    if document["not_judged"]:
        lines.append(f"not judged: {len(document['not_judged'])} values that may stand in those parts")
    if document["diagnoses"]:
        shown = document["diagnoses"][:_SHOWN_DIAGNOSES]
        lines += ["", *(f"{one['kind']}: {one['message']}" for one in shown)]
        if len(document["diagnoses"]) > len(shown):
            lines.append(f"… and {len(document['diagnoses']) - len(shown)} more diagnoses in the report")
    discrepancies = document["discrepancies"]
    if discrepancies:
        rows = [
            [
                ERROR_TYPES[entry["error_type"]].heading,
                entry["field_path"],
                *("-" if entry[key] is None else cut_json(entry[key], 40) for key in ("expected", "actual")),
            ]
            for entry in discrepancies[:_SHOWN_DISCREPANCIES]
        ]
        lines += ["", text_table(["error", "field", "expected", "actual"], rows)]
        if len(discrepancies) > _SHOWN_DISCREPANCIES:
            lines.append(f"… and {len(discrepancies) - _SHOWN_DISCREPANCIES} more in the report")
    return "\n".join(lines)


def _over_records(document: dict[str, Any]) -> Iterator[str]:
    """What is said of many records: scores with intervals, the worst records, and the fields that cost most."""
    over = document.get("over_records")
    if over is not None:
        for name in ("macro", "micro"):
            interval = over[f"{name}_f1_interval"]
            spread = f"  95 % interval {interval[0]:.3f} to {interval[1]:.3f}" if interval else ""
            yield f"{name}-F1 {over[f'{name}_f1']:.3f}{spread}  over {over['records']} records"
        worst = sorted(document["records"], key=lambda row: (row["f1"], row["record"]))[:_SHOWN_WORST]
        wrong = [f"{row['record']} ({score_text(row['f1'])})" for row in worst if row["f1"] < 1]
        yield f"worst records: {', '.join(wrong)}" if wrong else "every record is right"
        gains = [one for one in document["field_gains"][:_SHOWN_WORST] if one["gain"] > 0]
        if gains:
            yield "repair first: " + ", ".join(
                f"{one['field']} ({signed(one['gain'], 3)} F1)" for one in gains
            )
    if (stated := document.get("confidence")) is not None:
        interval = stated["gap_interval"]
        spread = f" ({signed(interval[0], 3)} to {signed(interval[1], 3)} over records)" if interval else ""
        sure, right, gap = stated["mean_confidence"], stated["share_right"], signed(stated["gap"], 3)
        yield (
            f"confidence: {stated['values']} values, stated {sure:.3f}, right {right:.3f}, gap {gap}{spread},"
            f" calibration error {stated['expected_calibration_error']:.3f}"
        )


def configure_verify_all(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite verify-all``.

    examples:
      pcsuite verify-all evals --fail-under 0.90 --no-regress
      pcsuite verify-all evals --copy-samples
      pcsuite verify-all invoices --copy-samples --samples invoices
      pcsuite verify-all evals --only cottage --no-save
      pcsuite verify-all evals --no-save --junit verify.xml --sarif verify.sarif

    All evals get their next iteration, or none does. EVALS_DIR/verify-all.html shows them together. The mapping is
    --mapping, else EVALS_DIR/mapping.yaml, else the bundled one for buildings.

    exit status: 0 passed, 1 below a gate, 2 bad input (then nothing is written)
    """
    parser.add_argument("evals_dir", type=Path, metavar="EVALS_DIR")
    flags = [
        flag("--only", "this eval only (repeatable)", action="append", default=[], metavar="ID"),
        flag("--exclude", "not this eval (repeatable)", action="append", default=[], metavar="ID"),
        flag("--extracted", "file name of the extractions", default="extracted.json", metavar="NAME"),
        *_scoring_flags("macro-F1"),
        switch("--no-regress", "exit with status 1 if an eval is below its best iteration so far"),
        switch("--copy-samples", "first copy the bundled synthetic evals to EVALS_DIR"),
        flag("--samples", "with --copy-samples: of which domain (default buildings)", default="buildings",
             choices=("buildings", "invoices", "cvs", "labs")),
        options.JSON.but("print JSON instead of a table"),
    ]  # fmt: skip
    options.add_flags(parser, Group("", flags))


def execute_verify_all(args: argparse.Namespace) -> int:
    """Score every eval of a folder, save an iteration of each and print them together.

    Returns 1 where a gate fails: macro-F1 below ``--fail-under``, or with ``--no-regress`` an eval below its best
    iteration so far. All evals are scored before anything is written.
    """
    from pcsuite.verifier.ci import CheckedEval
    from pcsuite.verifier.evals import (
        copy_samples,
        find_evals,
        folder_mapping,
        score_evals,
        scored_units,
        skipped_folders,
    )
    from pcsuite.verifier.report import OVERVIEW, EvalRow, render_overview
    from pcsuite.verifier.results import results_document
    from pcsuite.verifier.scores import pool_evals
    from pcsuite.verifier.store import best_f1, save_together

    _check_gate(args.fail_under)
    version = _instructions_version(args.instructions)
    if args.copy_samples:
        copy_samples(args.evals_dir, args.samples)
    if args.mapping is None and (carried := folder_mapping(args.evals_dir)) is not None:
        args.mapping = carried
        print_notes([f"scored under {carried}"])
    mapping = _chosen_mapping(args)
    evals = find_evals(args.evals_dir, args.only, args.exclude)
    scored = score_evals(evals, mapping, args.extracted)
    best = {entry.eval.eval_id: best_f1(entry.eval.folder, entry.rules) for entry in scored}
    pooled = pool_evals(scored_units(scored))
    problems = _missed_gates(args, scored, pooled, best)
    documents = [results_document(one.scored, one.rules, one.eval.eval_id, None, version) for one in scored]
    checked = [
        CheckedEval(document, one.eval.truth, one.eval.extraction(args.extracted), one.scored.extraction)
        for one, document in zip(scored, documents, strict=True)
    ]
    overview = args.evals_dir / OVERVIEW
    with _ci_files(args, checked, problems):
        if not args.no_save:
            fields = [entry.scored.comparison.by_field for entry in scored]
            root = args.evals_dir.resolve()

            def overview_of(saved: Sequence[SavedIteration]) -> dict[Path, str]:
                links = [quote(one.report.resolve().relative_to(root).as_posix()) for one in saved]
                rows = [
                    EvalRow(one.document, by_field, best[one.document["eval_id"]], link)
                    for one, by_field, link in zip(saved, fields, links, strict=True)
                ]
                return {overview: render_overview(root.name, rows, pooled)}

            save_together(args.evals_dir, scored, version, overview_of)
    print_notes(skipped_folders(args.evals_dir))
    for entry in scored:
        notes = (*entry.scored.notes, *entry.rules.truth.warnings)
        print_notes(f"{entry.eval.eval_id}: {note}" for note in notes)
    print_notes(_key_notes(args, scored[0].rules.concluded, args.evals_dir))
    if args.json:
        shared = {key: documents[0][key] for key in ("rules_hash", "mapping_version", "instructions_version")}
        print(json.dumps(_evals_document(scored, pooled, best, shared), indent=1))
    else:
        print(_evals_table(scored, pooled, best))
        if not args.no_save:
            print(f"all evals: {overview}")
    return _gate_status(problems)


def _missed_gates(
    args: argparse.Namespace,
    scored: Sequence[ScoredEval],
    pooled: PooledScores,
    best: dict[str, float | None],
) -> list[str]:
    problems = []
    if args.fail_under is not None and pooled.macro_f1 < args.fail_under:
        problems.append(f"macro-F1 {pooled.macro_f1:.4f} is below {args.fail_under:g}")
    for entry in scored if args.no_regress else []:
        before, now = best[entry.eval.eval_id], entry.scored.comparison.counts.f1
        if before is not None and now < before - 1e-12:
            problems.append(f"{entry.eval.eval_id} regressed: F1 {now:.4f}, its best was {before:.4f}")
    return problems


def _evals_document(
    scored: Sequence[ScoredEval],
    pooled: PooledScores,
    best: dict[str, float | None],
    shared: dict[str, Any],
) -> dict[str, Any]:
    """All evals together, for ``--json``; ``shared`` is what their results have in common."""
    return {
        "macro_f1": pooled.macro_f1,
        "macro_f1_interval": pooled.macro_interval,
        "micro_f1": pooled.micro_f1,
        "micro_f1_interval": pooled.micro_interval,
        **shared,
        "evals": {
            entry.eval.eval_id: {
                **entry.scored.comparison.counts.as_dict(),
                "best_f1_before": best[entry.eval.eval_id],
                "parse_error": entry.scored.parse_error,
                "ceiling": entry.rules.ceiling,
            }
            for entry in scored
        },
    }


def _evals_table(scored: Sequence[ScoredEval], pooled: PooledScores, best: dict[str, float | None]) -> str:
    rows = []
    for entry in scored:
        counts = entry.scored.comparison.counts
        rows.append(
            [
                entry.eval.eval_id,
                *(score_text(value) for value in (counts.f1, counts.precision, counts.recall)),
                *error_cells(counts.errors_by_type()),
                score_text(best[entry.eval.eval_id]),
                "no readable JSON object" if entry.scored.parse_error else "",
            ]
        )
    headings = ["eval", "F1", "precision", "recall", *error_headings(), "best before", ""]
    lines = [text_table(headings, rows), ""]
    over = counted(len(scored), "eval")
    if pooled.evals != len(scored):
        over = f"{counted(pooled.evals, 'record')} in {over}"
    for name, value, interval in (
        ("macro-F1", pooled.macro_f1, pooled.macro_interval),
        ("micro-F1", pooled.micro_f1, pooled.micro_interval),
    ):
        spread = f"  95 % interval {interval[0]:.3f} to {interval[1]:.3f}" if interval else ""
        lines.append(f"{name} {value:.3f}{spread}  over {over}")
    return "\n".join(lines)


def score_text(value: float | None) -> str:
    """A score with three decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def error_headings() -> list[str]:
    """What columns of errors are called, by kind of error."""
    from pcsuite.verifier.error_types import ERROR_TYPES

    return [one.heading for one in ERROR_TYPES.values()]


def error_cells(counts: dict[str, int] | None) -> list[str]:
    """A cell for each kind of error; a dash where the results were written before there was such a kind."""
    from pcsuite.verifier.error_types import ERROR_TYPES

    return [str((counts or {}).get(name, "-")) for name in ERROR_TYPES]


def cut_json(value: Any, longest: int) -> str:
    """A JSON value as text of at most ``longest`` characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"
