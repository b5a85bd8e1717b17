"""``pcsuite init-task``: a runnable task from a CSV or JSONL file, by questions or by flags."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcsuite.data.task_recipes import RECIPES, Columns
from pcsuite.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from pcsuite.data.init_task import InitResult

EPILOG = """examples:
  pcsuite init-task tickets --data tickets.csv             asks for what is not given
  pcsuite init-task tickets --data tickets.csv --kind classification --input text --answer queue
  pcsuite init-task invoices --data invoices.jsonl --kind extraction --input body --fields total,currency,due
  pcsuite init-task quiz --data quiz.csv --kind choice --input question --choices a,b,c,d --answer right

then:
  pcsuite run --config tickets_profile.yaml"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("name", help="the task's id: small letters, digits and '_'")
    add("--data", type=Path, required=True, metavar="FILE", help="your table: .csv, .tsv, .jsonl or .json")
    add(
        "--kind",
        metavar="KIND",
        help="; ".join(f"{kind}: {recipe.summary}" for kind, recipe in RECIPES.items()),
    )
    add("--input", metavar="COL[,COL]", help="column of the input; several are shown as 'name: value' lines")
    add("--answer", metavar="COL", help="column of the right answer")
    add("--labels", metavar="A,B", help="classification: the labels, in order (default: those that occur)")
    add("--choices", metavar="COL[,COL]", help="choice: columns of the options, or one that holds 'a|b|c'")
    add("--fields", metavar="COL[,COL]", help="extraction: columns of the record (default: JSON in --answer)")
    add(
        "--schema", type=Path, metavar="FILE", help="JSON schema of the answer (default: made from the table)"
    )
    add("--id", dest="id_column", metavar="COL", help="column of item ids (default: numbered)")
    add("--title", help="name shown in reports")
    add("--instruction", help="the bare instruction")
    add("--model", default="smollm2-135m", help="model of the profile (default: smollm2-135m)")
    add(
        "--out",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder of task, schema and profile (default: .)",
    )
    add("--cache-dir", type=Path, default=Path(".cache"), metavar="DIR", help="items go to DIR/datasets")
    add(
        "--train-share",
        type=float,
        default=0.2,
        metavar="X",
        help="share of rows for exemplars (default: 0.2)",
    )
    add("--dev-share", type=float, default=0.2, metavar="X", help="share of rows for tuning (default: 0.2)")
    add("--overwrite", action="store_true", help="replace files of an earlier init-task")


def execute(args: argparse.Namespace) -> int:
    """Ask for what is missing, write the task, say how to run it."""
    from pcsuite.data.init_task import TaskRequest, init_task
    from pcsuite.data.user_tables import read_table

    known = list(read_table(args.data)[0].values)
    kind = args.kind or _ask("kind of task", "--kind", list(RECIPES))
    inputs = _listed(args.input) or _listed(_ask("column of the input", "--input", known))
    fields = _listed(args.fields)
    answer = args.answer
    choices = _listed(args.choices)
    if kind == "choice" and not choices:
        choices = _listed(_ask("columns of the options, parted by commas", "--choices", known))
    if kind == "extraction" and not fields and answer is None:
        fields = _listed(_ask("columns of the record, parted by commas", "--fields", known))
    elif kind != "extraction" and answer is None:
        answer = _ask("column of the right answer", "--answer", known)
    labels = _listed(args.labels)
    if kind == "classification" and not labels and sys.stdin.isatty() and args.answer is None:
        labels = _listed(input("labels, parted by commas (empty: those that occur): "))
    result = init_task(
        TaskRequest(
            name=args.name,
            data=args.data,
            kind=kind,
            columns=Columns(inputs, answer, labels, choices, fields),
            id_column=args.id_column,
            schema_file=args.schema,
            title=args.title,
            instruction=args.instruction,
            out_dir=args.out,
            cache_dir=args.cache_dir,
            model=args.model,
            train_share=args.train_share,
            dev_share=args.dev_share,
            overwrite=args.overwrite,
        )
    )
    _print_result(result)
    return 0


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def _ask(what: str, flag: str, choices: Sequence[str]) -> str:
    """Ask on the terminal until the answer is one of the choices (each part of it, where it is a list)."""
    if not sys.stdin.isatty():
        raise DataError(f"the {what} is not given", hint=f"{flag}, one of: {', '.join(choices)}")
    while True:
        given = input(f"{what} ({', '.join(choices)}): ").strip()
        wrong = [part for part in _listed(given) if part not in choices]
        if given and not wrong:
            return given
        if wrong:
            print(f"no '{wrong[0]}': {did_you_mean(wrong[0], choices)}")


def _print_result(result: InitResult) -> None:
    print(f"task     {result.task_file}")
    if result.schema_file is not None:
        print(f"schema   {result.schema_file}")
    for split, (path, count) in result.items.items():
        print(f"{split:<8} {path} ({count} items)")
    print(f"profile  {result.profile_file}")
    print(f"\nnext: pcsuite run --config {result.profile_file}")
