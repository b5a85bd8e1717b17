"""``pcsuite report`` and ``compare``: what a log says, and what changed between two."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.text import counted
from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.foreign import FOREIGN, reading_from
from pcsuite.commands.options import Group, flag, switch
from pcsuite.errors import ConfigError, Exit

if TYPE_CHECKING:
    from pcsuite.analysis.comparison import Comparison, ItemChange
    from pcsuite.api.runs import Run
    from pcsuite.config.load import Suite


def configure_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite report``.

    With --config the items are at hand too, which the measures of information need.

    examples:
      pcsuite report --config quickstart
      pcsuite report outputs/runs/mine.jsonl
      pcsuite report mine                        # by name, of outputs/runs
      pcsuite report outputs/runs/mine.jsonl --out paper --format md --format latex
      pcsuite report --config mine.yaml --base-url http://127.0.0.1:8000/v1    # as the run was made
      pcsuite report mine --baseline C4          # every condition against C4
      pcsuite report --config tickets_profile.yaml --cluster customer
      pcsuite report mine --posterior            # P(better) beside every effect
      pcsuite report mine --json                 # the answer for a program
    """
    about = "names or logs of runs to report on together"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=about)
    main = Group("", [
        options.CONFIG.but("profile file or bundled name", default=None),
        flag("--baseline", "compare with this condition (default: C0, else the bare condition, else the smallest or"
             " full bundle)", metavar="CONDITION"),
        flag("--format", "html (default): one page; md: one Markdown file; latex: tables; may be given several times",
             action="append", choices=("html", "md", "latex"), dest="formats"),
        options.RELATED.but("columns of the items that say which are related (default: as the log says); the items are"
                            " those of --config, else of the profile that the run was made from"),
        options.MISSING.but(),
        options.POSTERIOR.but("add to every effect the probability that it is better and, of the score, within the"
                              " profile's analysis.loss_margin"),
        options.JSON,
        options.BASE_URL.but("with --config: the address that run was given, so that the same words serve both"),
    ])  # fmt: skip
    files = Group("the report", [
        flag("--out", "where to write reports/RUN/, tables/RUN/ and plots/RUN/ (default: beside the log)", **DIR),
        flag("--title", "title of the report"),
        switch("--no-plots", "leave the figures out"),
        flag("--embeddings", "embedding model for InfoNCE and semantic entropy (default: the bundled one if installed),"
             " or off", metavar="MODEL"),
        switch("--runs-csv", "write runs.csv whatever its size (default: up to 1,048,575 rows; runs.parquet always has"
               " them all)"),
    ])  # fmt: skip
    options.add_flags(parser, main, files, options.PROFILE)


def execute_report(args: argparse.Namespace) -> int:
    """Write the report of the named runs, or of the profile's own; print its answer and say where it is.

    Raises ``ConfigError`` where neither is given and ``LogError`` for a log that does not exist.
    """
    from pcsuite.logging.segments import find_log

    options.check_named(args.cluster, "--cluster")
    if args.base_url and not args.config:
        raise ConfigError(
            "--base-url goes with --config", hint="a log says itself where its models were asked"
        )
    return write_report(
        options.suite_from(args) if args.config else None,
        [find_log(name, args.output_dir or "outputs") for name in args.runs],
        config=args.config,
        as_json=args.json,
        out=args.out,
        title=args.title,
        plots=not args.no_plots,
        formats=args.formats or ("html",),
        embeddings=args.embeddings,
        baseline=args.baseline,
        runs_csv=args.runs_csv,
        cluster=args.cluster or (),
        missing=args.missing,
        posterior=args.posterior,
    )


def write_report(
    suite: Suite | None,
    logs: Sequence[Path] = (),
    *,
    config: str | None,
    as_json: bool = False,
    **settings: Any,
) -> int:
    """Report on some logs, by default on that of the suite's own run; print the answer and where the files are.

    ``settings`` are those of :func:`pcsuite.api.runs.report`; ``config`` is how the user named the profile.
    """
    from pcsuite.api.runs import Run, report
    from pcsuite.logging.log import RunPaths
    from pcsuite.reporting.results import Result, print_result

    if suite is not None and not logs:
        run = suite.profile.run
        logs = [RunPaths.of(run.output_dir, run.name).log]
    if not logs:
        hint = "give --config PROFILE, a RUN.jsonl or the name of a run"
        raise ConfigError("nothing to report on", hint=hint)
    files = report([Run(log, suite) for log in logs], **settings)
    result = Result.read(files.result)
    if as_json:
        groups = {"reports": files.reports, "tables": files.tables, "plots": files.plots}
        written = {name: [str(path) for path in paths] for name, paths in groups.items()}
        options.print_json(
            result.document(files={"runs": str(files.runs), "index": str(files.index), **written})
        )
        return 0
    print_result(result, options.output_console())
    print(f"\ntables  {files.tables[0].parent} ({counted(len(files.tables), 'file')})")
    if all(table.name != "runs.csv" for table in files.tables):
        print(
            "        rows in runs.parquet alone: too many for a spreadsheet (--runs-csv writes runs.csv too)"
        )
    if files.plots:
        print(f"plots   {files.plots[0].parent} ({counted(len(files.plots), 'file')})")
    print(f"report  {files.index}")
    print(f"runs    {files.runs}")
    if len(logs) == 1 and logs[0].parent.name == "runs":
        print(f"next: {options.view_words(logs[0], config)}")
    return 0


def configure_compare(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite compare``.

    A change counts as reliable where it holds after the Benjamini–Hochberg correction over all cells (of files of other
    tools: after Holm's over all cells and scores). Cells are paired by task, model, regime, perturbation and
    condition; where each run has one model (or one condition) and they differ, those are paired with each other.

    examples:
      pcsuite compare outputs/runs/before.jsonl outputs/runs/after.jsonl
      pcsuite compare before after                # by name, of outputs/runs
      pcsuite compare before.jsonl after.jsonl --fail-on-regression --margin 0.01 --junit gate.xml
      pcsuite compare before after --margin 0.05 --cluster customer --config tickets_profile.yaml
      pcsuite compare before after --json | jq .regressions
      pcsuite compare before after --margin 0.05 --format github > comment.md
      pcsuite compare baselines/triage.json after --margin 0.05
      pcsuite compare base.json new.json --margin 0.05      # results of promptfoo, a log of inspect_ai, …: as they are
      pcsuite compare results.json --arms v1 v2             # two prompts of one file
      pcsuite compare base.csv new.csv --from table --item id --score correct --cluster customer --margin 0.05
      pcsuite compare before after --margin 0.05 --posterior    # P(better), P(within the margin)
      pcsuite compare before after --conditions C3=C4    # C4 of the second against C3 of the first
    """
    about = "name or log of the run to compare with, a baseline (.json), or a file of another tool"
    parser.add_argument("first", type=Path, metavar="RUN_A", help=about)
    about = "name, log or file of the run that is judged; without it, RUN_A by --arms"
    parser.add_argument("second", nargs="?", type=Path, metavar="RUN_B", help=about)
    margin = "changes up to this size are no regression (default 0); with it, it is also said whether RUN_B is no worse"
    groups = (
        Group("", [
            flag("--margin", margin, type=float, default=0.0),
            switch("--fail-on-regression", "exit with status 1 where RUN_B is reliably worse, or missing scores could"
                   " hide that it is"),
            flag("--arms", "compare these two conditions, by name or its beginning: that of RUN_A, that of RUN_B",
                 nargs=2, metavar=("A", "B")),
            options.several("--conditions", "only these conditions; A=B holds B of RUN_B against A of RUN_A"),
            options.OUTPUT_DIR.but("where runs are looked up by name", default="outputs"),
        ]),
        Group("what counts as evidence", [
            options.MISSING.but("planned items without a score: bound counts them at their worst (default), drop judges"
                                " the scored items alone"),
            options.ASSUME,
            switch("--allow-different-items", "compare the items in common where the runs were to ask different ones"),
            flag("--correction", "over what a change must hold: bh, the cells of its metric (default), or holm, all"
                 " cells and scores at once (default of files of other tools)", choices=("bh", "holm")),
            options.RELATED.but("columns of the items that say which are related (default: as the logs say)"),
            options.CONFIG.but("with --cluster: profile that has the items (default: the one the runs were made from)",
                               default=None),
            options.POSTERIOR.but("add the probability that a cell is better and, with --margin, within it"),
        ]),
        Group("how it is told", [FORMAT, *FILES, options.JSON]),
        FOREIGN,
    )  # fmt: skip
    options.add_flags(parser, *groups)


def execute_compare(args: argparse.Namespace) -> int:
    """Compare two runs item by item and print it.

    Returns 1 with ``--fail-on-regression`` where a cell is reliably worse by more than ``--margin``, or where planned
    items without a score could hide that. Runs that were to ask different items are an ``AnalysisError``.
    """
    from pcsuite.api.runs import Run, check_reading, compare, side_of

    options.check_named(args.cluster, "--cluster")
    options.check_named(args.conditions, "--conditions")
    if args.second is None and args.arms is None:
        hint = "name a second one, or two conditions of this one with --arms A B"
        raise ConfigError(f"{args.first} alone has nothing to be compared with", hint=hint)
    reading, columns = reading_from(args), args.cluster or ()
    before = side_of(args.first, args.output_dir, reading, cluster=columns, name="first")
    second = before
    if args.second is not None:
        second = side_of(args.second, args.output_dir, reading, cluster=columns, name="second", beside=before)
    if not isinstance(second, Run):
        raise ConfigError("a baseline goes first", hint="pcsuite compare BASELINE.json RUN")
    check_reading(reading, (before, second))
    first = before if isinstance(before, Run) else None
    comparison = compare(
        before,
        second,
        margin=args.margin,
        missing=args.missing,
        allow_different_items=args.allow_different_items,
        cluster=args.cluster or (),
        profile=args.config,
        posterior=args.posterior,
        assume=args.assume,
        conditions=args.conditions or (),
        arms=None if args.arms is None else (args.arms[0], args.arms[1]),
        correction=args.correction,
    )
    names = (args.first.stem if first is None else first.name, second.name)
    if args.second is None and args.arms is not None:
        names = (args.arms[0], args.arms[1])
    elif names[0] == names[1] and first is not None:  # main/results.json and branch/results.json
        names = (str(args.first), str(args.second))
    print_comparison(args, comparison, names, (first, second))
    whole = {"full", "none"} <= {key.condition for key in comparison.keys}
    if whole and not args.conditions and args.shown == "text" and not args.json:
        print("\nConditions other than full are the prompt without some of its blocks:"
              " --conditions full compares the whole prompt alone.")  # fmt: skip
    return Exit.BELOW_GATE if args.fail_on_regression and not comparison.passes else Exit.DONE


FORMAT = flag("--format", "how to print; github: a comment for a pull request, with the items that broke or were fixed"
              " (default: text)", choices=("text", "md", "markdown", "github", "json"), default="text",
              dest="shown")  # fmt: skip
FILES = (
    flag("--csv", "also write every compared cell to a CSV file", **FILE),
    flag("--junit", "also write JUnit XML: a case for each compared metric", **FILE),
)
"""How a comparison is shown: the same for ``compare`` and ``check``."""


def print_comparison(
    args: argparse.Namespace,
    comparison: Comparison,
    names: tuple[str, str],
    runs: tuple[Run | None, Run],
    **more: Any,
) -> None:
    """Print a comparison as ``--format`` says and write the files that were asked for; ``more`` joins the JSON.

    ``names`` are what the two are called; ``runs`` have the answers (``None``: a baseline, which keeps none).
    """
    from pcsuite.reporting.junit import comparison_junit
    from pcsuite.reporting.markdown import comparison_github, comparison_markdown, comparison_text

    if args.csv:
        comparison.table.write_csv(args.csv)
    if args.junit:
        with write_errors(ConfigError, args.junit):
            args.junit.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(args.junit, comparison_junit(comparison, *names))
    if args.json or args.shown == "json":
        options.print_json(more | comparison_document(comparison, *names))
    elif args.shown == "github":
        changed = [*comparison.broke[:50], *comparison.fixed[:50]]
        print(comparison_github(comparison, *names, changed_answers(*runs, changed)))
    else:
        write = comparison_text if args.shown == "text" else comparison_markdown
        print(write(comparison, *names))


def comparison_document(comparison: Comparison, first: str, second: str) -> dict[str, Any]:
    """A comparison for a program (docs/reference/json.md)."""
    from pcsuite.reporting.gates import gate_line

    def changed(changes: Sequence[ItemChange]) -> list[dict[str, Any]]:
        kept = ("item_id", "first", "second")
        return [change.key._asdict() | {key: getattr(change, key) for key in kept} for change in changes]

    return {
        "first": first,
        "second": second,
        "standing": comparison.standing,
        "margin": comparison.margin,
        "passes": comparison.passes,
        "different_items": [
            key._asdict()
            | {"first": paired.counts[0], "second": paired.counts[1], "common": len(paired.names)}
            for key, paired in comparison.different.items()
        ],
        "missing": {
            "policy": comparison.policy,
            "first": len(comparison.missing_of("first")),
            "second": len(comparison.missing_of("second")),
            "could_hide": [key._asdict() for key, _ in comparison.hidden],
            "not_compared": [key._asdict() for key in comparison.unscored],
            "items": [
                entry.key._asdict() | {key: getattr(entry, key) for key in ("run", "item_id", "why", "share")}
                for entry in comparison.missing
            ],
        },
        "regressions": len(comparison.regressions),
        "improvements": len(comparison.improvements),
        "renamed": comparison.renamed,
        "only_first": [key._asdict() for key in comparison.only_first],
        "only_second": [key._asdict() for key in comparison.only_second],
        "cells": list(comparison.table.records()),
        "correction": comparison.correction,
        "reach": gate_line(comparison.gates) or None,
        "broke": changed(comparison.broke),
        "fixed": changed(comparison.fixed),
    }


def changed_answers(
    first: Run | None, second: Run, changes: Sequence[ItemChange]
) -> dict[ItemChange, tuple[str, str]]:
    """What was answered before and now to items whose score changed; of several replicates the one that scores lowest.

    ``first`` is ``None`` where it is a baseline, which keeps no texts.
    """
    keys = [(change.key, change.item_id) for change in changes]
    now = second.answers(keys)
    before = first.answers(keys) if first is not None else {}
    return {
        change: (before.get(key, ""), now.get(key, "")) for change, key in zip(changes, keys, strict=True)
    }
