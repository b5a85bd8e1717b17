"""GSM8K word problems."""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

from pcsuite.data.export.base import SPLIT_SEED, Built, Exporter, ExportOptions, items_output, numbered
from pcsuite.data.export.files import OriginalFiles
from pcsuite.data.export.hub import HubTable, HubTables
from pcsuite.data.items import Item
from pcsuite.data.jsonl import Row
from pcsuite.data.sampling import split_off

HUB = HubTable("gsm8k", "openai/gsm8k", config="main")
DEV_ITEMS = 1000

_CALCULATION = re.compile(r"<<[^<>]*>>")
_ANSWER_LINE = re.compile(r"^####\s*(-?[\d,]*\.?\d+)\s*$", re.MULTILINE)


class Problem(NamedTuple):
    """A question, its final number without commas, and the worked solution."""

    question: str
    answer: str
    solution: str


class Gsm8kExporter(Exporter[dict[str, list[Problem]]]):
    """Test as published; dev is 1,000 of train by the fixed seed, train is the rest."""

    name = "gsm8k"
    folders = ("gsm8k", "grade_school_math")
    official: ClassVar = {"train": 7473, "test": 1319}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Problem]]:
        return {
            split: [_problem(row) for row in files.jsonl(files.need(f"{split}.jsonl", split=split))]
            for split in ("train", "test")
        }

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Problem]]:
        return {split: [_problem(row) for row in hub.rows(HUB, split)] for split in ("train", "test")}

    def build(self, records: dict[str, list[Problem]], options: ExportOptions) -> Built:
        items = {split: _items(split, problems) for split, problems in records.items()}
        dev, train = split_off(items["train"], DEV_ITEMS, "gsm8k_dev", SPLIT_SEED)
        return Built(
            [
                items_output(self.name, "test", items["test"]),
                items_output(self.name, "train", train),
                items_output(self.name, "dev", dev),
            ]
        )


def _items(split: str, problems: list[Problem]) -> list[Item]:
    return [
        Item(
            numbered("gsm8k", split, position),
            problem.question,
            {"answer": problem.answer, "solution": problem.solution},
        )
        for position, problem in enumerate(problems, start=1)
    ]


def _problem(row: Row) -> Problem:
    worked = row.text("answer")
    found = _ANSWER_LINE.search(worked)
    if found is None:
        raise row.error("'answer' has no '#### number' line")
    solution = _CALCULATION.sub("", worked[: found.start()]).strip()
    return Problem(row.text("question").strip(), found.group(1).replace(",", ""), solution)
