"""``pcsuite constraint``: who can enforce a schema, a pattern or a grammar, and what answers look like under it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from pcsuite.commands import options
from pcsuite.commands.options import Group, flag
from pcsuite.constraints.checking import (
    SAMPLES,
    SchemaView,
    check_constraint,
    read_constraint,
    schema_views,
)
from pcsuite.engines.constrained import CONSTRAINTS
from pcsuite.errors import Exit


def configure_constraint(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite constraint``.

    Says for each backend whether it enforces the constraint in full, or what it cannot, and shows three answers of
    the embedded model under it (one greedy, two sampled). Of a schema also, keyword by keyword, what the suite's own
    engine and each service keeps by its documentation, and the fewest changes that would make a refused schema
    enforceable (what enforce: in_part does). Exit status 1 where no backend that was asked enforces it.

    examples:
      pcsuite constraint check my_schema.json
      pcsuite constraint check '[A-Z]{2}-[0-9]{3}'               # a pattern, or a file that holds one
      pcsuite constraint check query.lark --backend native
      pcsuite constraint check my_schema.json --samples 0 --json  # no model needed but for its vocabulary
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="who can enforce a schema, a pattern or a grammar")
    about = "a file (.json, .lark, .gbnf, else a pattern) or a pattern"
    check.add_argument("constraint", metavar="SCHEMA|PATTERN|GRAMMAR", help=about)
    flags = [
        flag("--kind", "what it is, where the file's name does not say", choices=("json_schema", "regex", "cfg")),
        flag("--backend", "ask this backend only; may be given several times", action="append",
             choices=sorted(CONSTRAINTS)),
        flag("--max-tokens", "limit of the answers shown (default 60)", type=int, default=60, metavar="N"),
        flag("--samples", "answers shown (default 3)", type=int, default=3, choices=range(4)),
        options.JSON.but("print as JSON"),
    ]  # fmt: skip
    options.add_flags(check, Group("", flags))


def execute_constraint(args: argparse.Namespace) -> int:
    """Check one constraint on the embedded model.

    What is no schema, pattern or grammar at all is a ``ConfigError``.
    """
    from rich.markup import escape
    from rich.table import Table

    constraint = read_constraint(args.constraint, args.kind)
    checks = check_constraint(
        constraint, args.backend or (), max_tokens=args.max_tokens, samples=args.samples
    )
    views = schema_views(json.loads(constraint.text)) if constraint.kind == "json_schema" else []
    status = Exit.DONE if any(check.enforced for check in checks) else Exit.BELOW_GATE
    if args.json:
        backends = [asdict(check) for check in checks]
        report = {"kind": constraint.kind, "warnings": constraint.warnings, "backends": backends}
        options.print_json({**report, **({"schema": [asdict(view) for view in views]} if views else {})})
        return status
    console = options.output_console()
    for line in constraint.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(line)}")
    table = Table("backend", "enforces it", "reason", title=f"{constraint.kind} on the embedded model")
    for check in checks:
        reason = check.reason or (f"{check.cut} of {len(check.answers)} cut off" if check.cut else "")
        table.add_row(check.backend, "yes" if check.enforced else "no", escape(reason))
    console.print(table)
    if views:
        print_views(views)
    for check in checks:
        for (temperature, _), answer in zip(SAMPLES, check.answers, strict=False):
            line = f"{check.backend}  temperature {temperature:g}  {answer!r}"
            console.print(line, markup=False, highlight=False)
    return status


def print_views(views: Sequence[SchemaView]) -> None:
    """Print what is enforced of a schema by whom, and what would have to change where it is not all of it."""
    from rich.markup import escape
    from rich.table import Table

    console = options.output_console()
    table = Table("keyword", "enforced whole by", "checked afterwards by", title="keyword by keyword")
    for word in views[0].kept:
        whole = [view.engine for view in views if view.kept[word] == "enforced"]
        # An engine that keeps it in some places only is told with the number.
        others = [
            view.engine if view.kept[word] == "checked afterwards" else f"{view.engine} ({view.kept[word]})"
            for view in views
            if view.kept[word] != "enforced"
        ]
        table.add_row(escape(word), ", ".join(whole), ", ".join(others))
    console.print(table)
    for view in views:
        if view.enforced:
            continue
        if not view.changes:
            console.print(f"{view.engine}: {view.reason}", markup=False, highlight=False)
            continue
        console.print(f"{view.engine} would enforce it after:", markup=False, highlight=False)
        for change in view.changes:
            console.print(f"  {change}", markup=False, highlight=False)
