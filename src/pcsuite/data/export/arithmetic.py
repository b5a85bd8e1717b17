"""Arithmetic word problems: GSM8K and SVAMP."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import ClassVar, NamedTuple

from pcsuite.data.export.base import (
    SPLIT_SEED,
    Built,
    Exporter,
    ExportOptions,
    HubTable,
    HubTables,
    OriginalFiles,
    items_output,
    numbered,
    squeeze,
)
from pcsuite.data.items import Item, Row, split_off

# GSM8K word problems.


GSM8K_HUB = HubTable("gsm8k", "openai/gsm8k", config="main")
DEV_ITEMS = 1000

_CALCULATION = re.compile(r"<<[^<>]*>>")
_ANSWER_LINE = re.compile(r"^####\s*(-?[\d,]*\.?\d+)\s*$", re.MULTILINE)


class Gsm8kProblem(NamedTuple):
    """A question, its final number without commas, and the worked solution."""

    question: str
    answer: str
    solution: str


class Gsm8kExporter(Exporter[dict[str, list[Gsm8kProblem]]]):
    """Test as published; dev is 1,000 of train by the fixed seed, train is the rest."""

    name = "gsm8k"
    folders = ("gsm8k", "grade_school_math")
    official: ClassVar = {"train": 7473, "test": 1319}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Gsm8kProblem]]:
        return {
            split: [_gsm8k_problem(row) for row in files.jsonl(files.need(f"{split}.jsonl", split=split))]
            for split in ("train", "test")
        }

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Gsm8kProblem]]:
        return {
            split: [_gsm8k_problem(row) for row in hub.rows(GSM8K_HUB, split)] for split in ("train", "test")
        }

    def build(self, records: dict[str, list[Gsm8kProblem]], options: ExportOptions) -> Built:
        items = {split: _items(split, problems) for split, problems in records.items()}
        dev, train = split_off(items["train"], DEV_ITEMS, "gsm8k_dev", SPLIT_SEED)
        return Built(
            [
                items_output(self.name, "test", items["test"]),
                items_output(self.name, "train", train),
                items_output(self.name, "dev", dev),
            ]
        )


def _items(split: str, problems: list[Gsm8kProblem]) -> list[Item]:
    return [
        Item(
            numbered("gsm8k", split, position),
            problem.question,
            {"answer": problem.answer, "solution": problem.solution},
        )
        for position, problem in enumerate(problems, start=1)
    ]


def _gsm8k_problem(row: Row) -> Gsm8kProblem:
    worked = row.text("answer")
    found = _ANSWER_LINE.search(worked)
    if found is None:
        raise row.error("'answer' has no '#### number' line")
    solution = _CALCULATION.sub("", worked[: found.start()]).strip()
    return Gsm8kProblem(row.text("question").strip(), found.group(1).replace(",", ""), solution)


# SVAMP arithmetic: the 1,000 challenge problems.


SVAMP_HUB = HubTable("svamp", "ChilleD/SVAMP")

_OPENERS = frozenset({"How", "What", "Who", "Which", "Where", "When", "Find", "If", "Did", "Does", "Do"})


class SvampProblem(NamedTuple):
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


class SvampExporter(Exporter[dict[str, list[SvampProblem]]]):
    """All problems are the test set, in order of their ids (the hub parts them 700/300)."""

    name = "svamp"
    folders = ("svamp", "SVAMP")
    official: ClassVar = {"test": 1000}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[SvampProblem]]:
        return {"test": [_problem(row) for row in files.json_list(files.need("SVAMP.json", split="test"))]}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[SvampProblem]]:
        return {"test": [_problem(row) for split in ("train", "test") for row in hub.rows(SVAMP_HUB, split)]}

    def build(self, records: dict[str, list[SvampProblem]], options: ExportOptions) -> Built:
        ordered = sorted(records["test"], key=lambda p: (int(p.problem_id.rpartition("-")[2]), p.problem_id))
        return Built([items_output(self.name, "test", [_item(problem) for problem in ordered])])


def _item(problem: SvampProblem) -> Item:
    # bodies often end without a stop, because the question goes on in the same sentence
    joint = " " if problem.body.endswith((".", "?", "!", ",")) else ", "
    question = problem.question
    if joint == ", " and question.split(" ")[0] in _OPENERS:
        question = question[0].lower() + question[1:]
    text = f"{problem.body}{joint}{question}" if problem.body else question
    return Item(f"svamp-{problem.problem_id}", text, {"answer": problem.answer})


def _problem(row: Row) -> SvampProblem:
    answer = plain_number(row.get("Answer"))
    if answer is None:
        raise row.error(f"'Answer' is no number: {row.get('Answer')!r}")
    problem_id = row.text("ID")
    if not problem_id.rpartition("-")[2].isdigit():
        raise row.error(f"'ID' should end in a number, found '{problem_id}'")
    return SvampProblem(problem_id, squeeze(row.text("Body")), squeeze(row.text("Question")), answer)
