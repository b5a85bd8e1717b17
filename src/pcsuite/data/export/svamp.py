"""SVAMP arithmetic: the 1,000 challenge problems."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import ClassVar, NamedTuple

from pcsuite.data.export.base import Built, Exporter, ExportOptions, items_output, squeeze
from pcsuite.data.export.files import OriginalFiles
from pcsuite.data.export.hub import HubTable, HubTables
from pcsuite.data.items import Item
from pcsuite.data.jsonl import Row

HUB = HubTable("svamp", "ChilleD/SVAMP")

_OPENERS = frozenset({"How", "What", "Who", "Which", "Where", "When", "Find", "If", "Did", "Does", "Do"})


class Problem(NamedTuple):
    """A problem in two parts, and its answer in plain digits."""

    problem_id: str
    body: str
    question: str
    answer: str


def plain_number(value: object) -> str | None:
    """A number as plain digits without a trailing ``.0``, or ``None``."""
    try:
        number = Decimal(str(value).strip().replace(",", ""))
    except InvalidOperation:
        return None
    # an exponent of millions would be written out digit by digit
    if not number.is_finite() or abs(number.adjusted()) > 30:
        return None
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


class SvampExporter(Exporter[dict[str, list[Problem]]]):
    """All problems are the test set, in order of their ids (the hub parts them 700/300)."""

    name = "svamp"
    folders = ("svamp", "SVAMP")
    official: ClassVar = {"test": 1000}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Problem]]:
        return {"test": [_problem(row) for row in files.json_list(files.need("SVAMP.json", split="test"))]}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Problem]]:
        return {"test": [_problem(row) for split in ("train", "test") for row in hub.rows(HUB, split)]}

    def build(self, records: dict[str, list[Problem]], options: ExportOptions) -> Built:
        ordered = sorted(records["test"], key=lambda p: (int(p.problem_id.rpartition("-")[2]), p.problem_id))
        return Built([items_output(self.name, "test", [_item(problem) for problem in ordered])])


def _item(problem: Problem) -> Item:
    # bodies often end without a stop, because the question goes on in the same sentence
    joint = " " if problem.body.endswith((".", "?", "!", ",")) else ", "
    question = problem.question
    if joint == ", " and question.split(" ")[0] in _OPENERS:
        question = question[0].lower() + question[1:]
    text = f"{problem.body}{joint}{question}" if problem.body else question
    return Item(f"svamp-{problem.problem_id}", text, {"answer": problem.answer})


def _problem(row: Row) -> Problem:
    answer = plain_number(row.get("Answer"))
    if answer is None:
        raise row.error(f"'Answer' is no number: {row.get('Answer')!r}")
    problem_id = row.text("ID")
    if not problem_id.rpartition("-")[2].isdigit():
        raise row.error(f"'ID' should end in a number, found '{problem_id}'")
    return Problem(problem_id, squeeze(row.text("Body")), squeeze(row.text("Question")), answer)
