"""Short question sets: StrategyQA and BoolQ (yes or no), TREC question classes, NQ-open short answers.

Where a training file is there, ``opt`` is 500 of it by the fixed seed (``dev`` being the scored split of
these sets) and ``train`` the rest.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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
from pcsuite.data.items import Item, Row, decode_line, split_off
from pcsuite.errors import DataError

# CommonsenseQA: validation is scored (the test set has no labels), dev is taken from train.


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


OPT_ITEMS = 500

Records = dict[str, list[Item]]


class QuestionSetExporter(Exporter[Records]):
    """A scored dev split, and train where its file is there. Subclasses say how a record becomes an item."""

    hub: ClassVar[HubTable]
    dev_files: ClassVar[tuple[str, ...]]
    train_files: ClassVar[tuple[str, ...]]
    one_list: ClassVar[bool] = False
    """Whether a file is one JSON list rather than JSON lines."""

    def make_item(self, row: Row, split: str, position: int) -> Item:
        """The item of a record."""
        raise NotImplementedError

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> Records:
        records = {"dev": self._items(self._rows(files, files.need(*self.dev_files, split="dev")), "dev")}
        train = files.find(*self.train_files, split="train")
        if train is not None:
            records["train"] = self._items(self._rows(files, train), "train")
        return records

    def read_hub(self, hub: HubTables, options: ExportOptions) -> Records:
        records = {"dev": self._items(hub.rows(self.hub, "validation"), "dev")}
        if hub.has_split(self.hub, "train"):
            records["train"] = self._items(hub.rows(self.hub, "train"), "train")
        return records

    def build(self, records: Records, options: ExportOptions) -> Built:
        built = Built([items_output(self.name, "dev", records["dev"])])
        if "train" in records:
            opt, train = split_off(records["train"], OPT_ITEMS, f"{self.name}_opt", SPLIT_SEED)
            built.outputs += [items_output(self.name, "train", train), items_output(self.name, "opt", opt)]
        return built

    def _rows(self, files: OriginalFiles, path: Path) -> Iterator[Row]:
        return iter(files.json_list(path)) if self.one_list else files.jsonl(path)

    def _items(self, rows: Iterator[Row], split: str) -> list[Item]:
        return [self.make_item(row, split, position) for position, row in enumerate(rows, start=1)]


class StrategyQaExporter(QuestionSetExporter):
    """StrategyQA's own dev split; the hub's copies part the questions differently."""

    name = "strategyqa"
    folders = ("strategyqa", "strategy_qa")
    official: ClassVar = {"dev": 229, "train": 2061}
    hub = HubTable("strategyqa", None)
    dev_files = ("dev.json",)
    train_files = ("train.json",)
    one_list = True

    def make_item(self, row: Row, split: str, position: int) -> Item:
        label = "yes" if row.boolean("answer") else "no"
        return Item(f"strategyqa-{row.text('qid')}", squeeze(row.text("question")), {"label": label})


class BoolQExporter(QuestionSetExporter):
    """BoolQ: a passage, then a question about it."""

    name = "boolq"
    folders = ("boolq", "BoolQ")
    official: ClassVar = {"dev": 3270, "train": 9427}
    hub = HubTable("boolq", "google/boolq")
    dev_files = ("dev.jsonl",)
    train_files = ("train.jsonl",)

    def make_item(self, row: Row, split: str, position: int) -> Item:
        label = "yes" if row.boolean("answer") else "no"
        text = f"Passage: {squeeze(row.text('passage'))}\n\nQuestion: {_with_mark(row.text('question'))}"
        return Item(numbered(self.name, split, position), text, {"label": label})


class NqOpenExporter(QuestionSetExporter):
    """Natural Questions, open-domain part: questions with their accepted short answers."""

    name = "nq_open"
    folders = ("nq_open",)
    official: ClassVar = {"dev": 3610, "train": 87925}
    hub = HubTable("nq_open", "google-research-datasets/nq_open")
    dev_files = ("NQ-open.dev.jsonl",)
    train_files = ("NQ-open.train.jsonl",)

    def make_item(self, row: Row, split: str, position: int) -> Item:
        answers = row.texts("answer")
        if not answers:
            raise row.error("'answer' is empty")
        text = _with_mark(row.text("question"))
        return Item(numbered(self.name, split, position), text, {"answers": answers})


class TrecExporter(Exporter[Records]):
    """TREC question classes, coarse; dev is 500 of train by the fixed seed, train is the rest."""

    name = "trec"
    folders = ("trec",)
    official: ClassVar = {"train": 5452, "test": 500}
    hub = HubTable("trec", "CogComp/trec", "default", ("train", "test"))
    hub_labels = ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> Records:
        return {split: list(_trec_items(split, _trec_lines(files, split))) for split in ("train", "test")}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> Records:
        return {split: [*self._hub_items(hub, split)] for split in ("train", "test")}

    def build(self, records: Records, options: ExportOptions) -> Built:
        dev, train = split_off(records["train"], OPT_ITEMS, "trec_dev", SPLIT_SEED)
        splits: list[tuple[str, Sequence[Item]]] = [("test", records["test"]), ("train", train), ("dev", dev)]
        return Built([items_output(self.name, split, items) for split, items in splits])

    def _hub_items(self, hub: HubTables, split: str) -> Iterator[Item]:
        for position, row in enumerate(hub.rows(self.hub, split), start=1):
            number = row.get("coarse_label")
            if number not in range(len(self.hub_labels)):
                raise row.error(f"'coarse_label' should be 0 to 5, found {number!r}")
            label = self.hub_labels[number]
            yield Item(numbered("trec", split, position), squeeze(row.text("text")), {"label": label})


def _with_mark(question: str) -> str:
    """A question with its mark: the published ones are search queries without."""
    text = squeeze(question)
    return text if text.endswith("?") else f"{text}?"


def _trec_lines(files: OriginalFiles, split: str) -> Iterator[tuple[str, str]]:
    """Lines with their place, from the published archive or the files unpacked from it."""
    names = {"train": ("train.txt", "train_5500.label"), "test": ("test.txt", "TREC_10.label")}[split]
    loose = files.find(*names, *(f"qc/{name}" for name in names), split=split)
    if loose is not None:
        for number, line in files.lines(loose, "latin-1"):
            yield f"{files.label(loose)} line {number}", line
        return
    archive = files.need("qc.zip", split=split)
    member = f"qc/{split}.txt"
    try:
        with zipfile.ZipFile(archive) as unpacked, unpacked.open(member) as stream:
            for number, raw in enumerate(stream, start=1):
                where = f"{files.label(archive)}:{member} line {number}"
                yield where, decode_line(raw, where, number, "latin-1")
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DataError(f"{files.label(archive)}: {member} cannot be read ({error})") from error


def _trec_items(split: str, lines: Iterator[tuple[str, str]]) -> Iterator[Item]:
    position = 0
    for where, line in lines:
        if not line.strip():
            continue
        classes, _, question = line.partition(" ")
        coarse = classes.partition(":")[0]
        if coarse not in TrecExporter.hub_labels or not question.strip():
            raise DataError(f"{where}: expected 'CLASS:detail question', found '{line[:40]}'")
        position += 1
        # the one stray byte (0xF0) of the published file stands for a blank, and is one on the hub
        text = squeeze(question.replace("\xf0", " "))
        yield Item(numbered("trec", split, position), text, {"label": coarse})
