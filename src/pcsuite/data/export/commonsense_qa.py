"""CommonsenseQA: validation is scored (the test set has no labels), dev is taken from train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from pcsuite.data.export.base import SPLIT_SEED, Built, Exporter, ExportOptions, items_output
from pcsuite.data.export.files import OriginalFiles
from pcsuite.data.export.hub import HubTable, HubTables
from pcsuite.data.items import Item
from pcsuite.data.jsonl import Row
from pcsuite.data.sampling import split_off

HUB = HubTable("commonsense_qa", "tau/commonsense_qa")
DEV_ITEMS = 1000
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Question(NamedTuple):
    """A question with its lettered choices."""

    item_id: str
    stem: str
    choices: dict[str, str]
    answer: str


def choice_text(question: str, choices: Mapping[str, str]) -> str:
    """The question, then a line for each choice."""
    return "\n".join([question, *(f"{letter}. {text}" for letter, text in choices.items())])


class CommonsenseQaExporter(Exporter[dict[str, list[Question]]]):
    """Validation as published; dev is 1,000 of train by the fixed seed, train is the rest."""

    name = "commonsense_qa"
    folders = ("commonsenseqa", "commonsense_qa", "csqa")
    official: ClassVar = {"train": 9741, "validation": 1221}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Question]]:
        paths = {
            "train": files.need("train_rand_split.jsonl", split="train"),
            "validation": files.need("dev_rand_split.jsonl", split="validation"),
        }
        return {split: [_question(row) for row in files.jsonl(path)] for split, path in paths.items()}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Question]]:
        return {
            split: [_hub_question(row) for row in hub.rows(HUB, split)] for split in ("train", "validation")
        }

    def build(self, records: dict[str, list[Question]], options: ExportOptions) -> Built:
        items = {split: [_item(question) for question in rows] for split, rows in records.items()}
        dev, train = split_off(items["train"], DEV_ITEMS, "commonsense_qa_dev", SPLIT_SEED)
        return Built(
            [
                items_output(self.name, "validation", items["validation"]),
                items_output(self.name, "train", train),
                items_output(self.name, "dev", dev),
            ]
        )


def _item(question: Question) -> Item:
    truth = {"choice": question.answer, "choices": question.choices}
    return Item(question.item_id, choice_text(question.stem, question.choices), truth)


def _question(row: Row) -> Question:
    question = row.row("question")
    choices = [Row(row.where, choice) for choice in question.items("choices")]
    lettered = {choice.text("label"): choice.text("text").strip() for choice in choices}
    return _checked(row, question.text("stem"), lettered)


def _hub_question(row: Row) -> Question:
    choices = row.row("choices")
    pairs = zip(choices.texts("label"), choices.texts("text"), strict=True)
    return _checked(row, row.text("question"), {label: text.strip() for label, text in pairs})


def _checked(row: Row, stem: str, choices: dict[str, str]) -> Question:
    answer = row.text("answerKey")
    if answer not in choices:
        raise row.error(f"answerKey '{answer}' is none of the choices {', '.join(choices)}")
    return Question(row.text("id"), stem.strip(), choices, answer)
