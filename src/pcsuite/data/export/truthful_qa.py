"""TruthfulQA: free answers (TruthfulQA.csv) and single-choice questions (mc_task.json, MC1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from pcsuite._util.hashing import sha256_hex
from pcsuite.data.export.base import (
    Built,
    Exporter,
    ExportOptions,
    HubTable,
    HubTables,
    OriginalFiles,
    items_output,
    squeeze,
)
from pcsuite.data.export.questions import LETTERS, choice_text
from pcsuite.data.items import Item, Row, rank_of
from pcsuite.errors import DataError, did_you_mean

HUB_GENERATION = HubTable("truthful_qa", "truthfulqa/truthful_qa", config="generation")
HUB_CHOICE = HubTable("truthful_qa", "truthfulqa/truthful_qa", config="multiple_choice")
VERSIONS: Mapping[str, int] = {"v1": 817, "v2025": 790}


class OpenQuestion(NamedTuple):
    """A question with its true and false reference answers."""

    question: str
    category: str
    best: str
    correct: list[str]
    incorrect: list[str]


class ChoiceQuestion(NamedTuple):
    """A question with options, exactly one of them true."""

    question: str
    options: list[tuple[str, bool]]


def question_id(question: str) -> str:
    """Id from the question's text: the published copies differ in order, and neither carries ids."""
    return f"truthfulqa-{sha256_hex(squeeze(question))[:12]}"


def split_answers(cell: str) -> list[str]:
    """Answers of a ``;``-separated cell; a trailing separator makes no empty answer."""
    return [answer for answer in (squeeze(part) for part in cell.split(";")) if answer]


def is_no_comment(answer: str) -> bool:
    """Whether a reference answer says that the question has no answer."""
    return squeeze(answer).rstrip(".").casefold() == "i have no comment"


class TruthfulQaExporter(Exporter[dict[str, list[OpenQuestion]]]):
    """All questions in one split, ``validation``; upstream has no training split."""

    name = "truthful_qa"
    folders = ("truthfulqa", "truthful_qa")
    official: ClassVar = {"validation": VERSIONS["v1"]}

    def official_counts(self, options: ExportOptions) -> Mapping[str, int]:
        return {"validation": VERSIONS[_version(options)]}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[OpenQuestion]]:
        path = files.need(*_places("TruthfulQA.csv", options), split="validation")
        return {"validation": [_csv_question(row) for row in files.csv_rows(path)]}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[OpenQuestion]]:
        _refuse_revision(options)
        return {"validation": [_hub_question(row) for row in hub.rows(HUB_GENERATION, "validation")]}

    def build(self, records: dict[str, list[OpenQuestion]], options: ExportOptions) -> Built:
        items = [_open_item(question) for question in records["validation"]]
        return Built([items_output(self.name, "validation", items)])


class TruthfulQaMcExporter(Exporter[dict[str, list[ChoiceQuestion]]]):
    """MC1: options put in an order fixed by hash (upstream the true one is always first)."""

    name = "truthful_qa_mc"
    folders = ("truthfulqa", "truthful_qa")
    official: ClassVar = {"validation": VERSIONS["v1"]}

    def official_counts(self, options: ExportOptions) -> Mapping[str, int]:
        return {"validation": VERSIONS[_version(options)]}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[ChoiceQuestion]]:
        path = files.need(*_places("mc_task.json", options), split="validation")
        return {"validation": [_mc_question(row) for row in files.json_list(path)]}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[ChoiceQuestion]]:
        _refuse_revision(options)
        return {"validation": [_hub_mc_question(row) for row in hub.rows(HUB_CHOICE, "validation")]}

    def build(self, records: dict[str, list[ChoiceQuestion]], options: ExportOptions) -> Built:
        items = sorted((_choice_item(q) for q in records["validation"]), key=lambda item: item.item_id)
        return Built([items_output(self.name, "validation", items)])


def _open_item(question: OpenQuestion) -> Item:
    truth = {
        "best_answer": question.best,
        "correct_answers": question.correct,
        "incorrect_answers": question.incorrect,
        "unanswerable": any(is_no_comment(answer) for answer in question.correct),
        "category": question.category,
    }
    return Item(question_id(question.question), question.question, truth)


def _choice_item(question: ChoiceQuestion) -> Item:
    ordered = sorted(
        question.options, key=lambda option: rank_of("truthful_qa_mc", question.question, option[0])
    )
    choices = {LETTERS[place]: text for place, (text, _) in enumerate(ordered)}
    gold = next(LETTERS[place] for place, (_, true) in enumerate(ordered) if true)
    return Item(
        question_id(question.question),
        choice_text(question.question, choices),
        {"choice": gold, "choices": choices},
    )


def _csv_question(row: Row) -> OpenQuestion:
    return _checked(
        row,
        OpenQuestion(
            squeeze(row.text("Question")),
            squeeze(row.text("Category")),
            squeeze(row.text("Best Answer")),
            split_answers(row.text("Correct Answers")),
            split_answers(row.text("Incorrect Answers")),
        ),
    )


def _hub_question(row: Row) -> OpenQuestion:
    return _checked(
        row,
        OpenQuestion(
            squeeze(row.text("question")),
            squeeze(row.text("category")),
            squeeze(row.text("best_answer")),
            [squeeze(answer) for answer in row.texts("correct_answers") if answer.strip()],
            [squeeze(answer) for answer in row.texts("incorrect_answers") if answer.strip()],
        ),
    )


def _checked(row: Row, question: OpenQuestion) -> OpenQuestion:
    if not (question.question and question.correct and question.incorrect):
        raise row.error("question, correct answers and incorrect answers must not be empty")
    return question


def _mc_question(row: Row) -> ChoiceQuestion:
    targets = row.row("mc1_targets").values
    return _one_true(row, [(squeeze(text), label == 1) for text, label in targets.items()])


def _hub_mc_question(row: Row) -> ChoiceQuestion:
    targets = row.row("mc1_targets")
    pairs = zip(targets.texts("choices"), targets.items("labels"), strict=True)
    return _one_true(row, [(squeeze(text), label == 1) for text, label in pairs])


def _one_true(row: Row, options: list[tuple[str, bool]]) -> ChoiceQuestion:
    if sum(true for _, true in options) != 1:
        raise row.error("mc1_targets must have exactly one true option")
    if len(options) > len(LETTERS):
        raise row.error(f"{len(options)} options cannot be lettered A to Z")
    return ChoiceQuestion(squeeze(row.text("question")), options)


def _version(options: ExportOptions) -> str:
    version = options.truthfulqa_version
    if version not in VERSIONS:
        raise DataError(f"unknown TruthfulQA version '{version}'", hint=did_you_mean(version, VERSIONS))
    return version


def _places(name: str, options: ExportOptions) -> tuple[str, ...]:
    """Where a file may lie: under its version's folder, or (the original benchmark) at the top."""
    version = _version(options)
    return (f"{version}/{name}", name, f"data/{name}", f"{version}/data/{name}")[
        : 4 if version == "v1" else 1
    ]


def _refuse_revision(options: ExportOptions) -> None:
    if _version(options) != "v1":
        raise DataError(
            f"the hub has TruthfulQA v1 only, not {options.truthfulqa_version}",
            hint="export the revision from its original files: --from DIR",
        )
