"""Question sets: CommonsenseQA, StrategyQA and BoolQ (yes or no), TREC question classes, NQ-open short answers.

Where a training file is there, ``opt`` is 500 of it by the fixed seed (``dev`` being the scored split of StrategyQA,
BoolQ and NQ-open) and ``train`` the rest.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row, decode_line
from pcsuite.data.truths import choice_text
from pcsuite.errors import DataError

OPT_ITEMS = 500
RATIONALE_WORDS, RATIONALE_CHARACTERS = 30, 200
"""What the task ``strategyqa`` and its schema allow a rationale."""
TREC_LABELS = ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")


class CommonsenseQaExporter(base.ItemExporter):
    """Validation is scored (the test set has no labels); dev is 1,000 of train by the fixed seed."""

    name = "commonsense_qa"
    folders = ("commonsenseqa", "commonsense_qa", "csqa")
    hub = base.HubTable("commonsense_qa", "tau/commonsense_qa")
    splits = (
        base.Split("train", 9741, ("train_rand_split.jsonl",)),
        base.Split("validation", 1221, ("dev_rand_split.jsonl",)),
    )
    split_off = ("train", "dev", 1000)

    def item(self, row: Row, split: str, position: int) -> Item:
        question = row.row("question")
        choices = [Row(row.where, choice) for choice in question.items("choices")]
        lettered = {choice.text("label"): choice.text("text").strip() for choice in choices}
        return _choice_item(row, question.text("stem"), lettered)

    def hub_item(self, row: Row, split: str, position: int) -> Item:
        choices = row.row("choices")
        pairs = zip(choices.texts("label"), choices.texts("text"), strict=True)
        return _choice_item(row, row.text("question"), {label: text.strip() for label, text in pairs})


def _choice_item(row: Row, stem: str, choices: dict[str, str]) -> Item:
    answer = row.text("answerKey")
    if answer not in choices:
        raise row.error(f"answerKey '{answer}' is none of the choices {', '.join(choices)}")
    return Item(row.text("id"), choice_text(stem.strip(), choices), {"choice": answer, "choices": choices})


class StrategyQaExporter(base.ItemExporter):
    """StrategyQA's own dev split; the hub's copies part the questions differently."""

    name = "strategyqa"
    folders = ("strategyqa", "strategy_qa")
    hub = base.HubTable("strategyqa", None)
    splits = (
        base.Split("dev", 229, ("dev.json",), hub=("validation",)),
        base.Split("train", 2061, ("train.json",), required=False),
    )
    split_off = ("train", "opt", OPT_ITEMS)

    def item(self, row: Row, split: str, position: int) -> Item:
        truth = {"label": "yes" if row.boolean("answer") else "no"}
        facts = row.texts("facts") if "facts" in row.values else []
        if rationale := _short_rationale(facts):
            truth["rationale"] = rationale
        return Item(f"strategyqa-{row.text('qid')}", base.collapse_spaces(row.text("question")), truth)


def _short_rationale(facts: list[str]) -> str:
    """The first published facts that a rationale of the task has room for, each a sentence; empty where none fits."""
    sentences: list[str] = []
    for fact in facts:
        text = base.collapse_spaces(fact)
        longer = [*sentences, text if text.endswith((".", "!", "?")) else f"{text}."]
        joined = " ".join(longer)
        if len(joined.split()) > RATIONALE_WORDS or len(joined) > RATIONALE_CHARACTERS:
            break
        sentences = longer
    return " ".join(sentences)


class BoolQExporter(base.ItemExporter):
    """BoolQ: a passage, then a question about it."""

    name = "boolq"
    folders = ("boolq", "BoolQ")
    hub = base.HubTable("boolq", "google/boolq")
    splits = (
        base.Split("dev", 3270, ("dev.jsonl",), hub=("validation",)),
        base.Split("train", 9427, ("train.jsonl",), required=False),
    )
    split_off = ("train", "opt", OPT_ITEMS)

    def item(self, row: Row, split: str, position: int) -> Item:
        label = "yes" if row.boolean("answer") else "no"
        text = f"Passage: {base.collapse_spaces(row.text('passage'))}\n\nQuestion: {_with_mark(row.text('question'))}"
        return Item(base.numbered(self.name, split, position), text, {"label": label})


class NqOpenExporter(base.ItemExporter):
    """Natural Questions, open-domain part: questions with their accepted short answers."""

    name = "nq_open"
    folders = ("nq_open",)
    hub = base.HubTable("nq_open", "google-research-datasets/nq_open")
    splits = (
        base.Split("dev", 3610, ("NQ-open.dev.jsonl",), hub=("validation",)),
        base.Split("train", 87925, ("NQ-open.train.jsonl",), required=False),
    )
    split_off = ("train", "opt", OPT_ITEMS)

    def item(self, row: Row, split: str, position: int) -> Item:
        answers = row.texts("answer")
        if not answers:
            raise row.error("'answer' is empty")
        text = _with_mark(row.text("question"))
        return Item(base.numbered(self.name, split, position), text, {"answers": answers})


def _with_mark(question: str) -> str:
    """A question with its mark: the published ones are search queries without."""
    text = base.collapse_spaces(question)
    return text if text.endswith("?") else f"{text}?"


class TrecExporter(base.ItemExporter):
    """TREC question classes, coarse; dev is 500 of train by the fixed seed, train is the rest."""

    name = "trec"
    folders = ("trec",)
    hub = base.HubTable("trec", "CogComp/trec", "default", ("train", "test"))
    splits = (
        base.Split("train", 5452, ("train.txt", "train_5500.label", "qc/train.txt", "qc/train_5500.label")),
        base.Split("test", 500, ("test.txt", "TREC_10.label", "qc/test.txt", "qc/TREC_10.label")),
    )
    split_off = ("train", "dev", OPT_ITEMS)

    def file_rows(
        self, files: base.OriginalFiles, split: base.Split, options: base.ExportOptions
    ) -> Iterator[Row]:
        """Lines of the published archive or of the files unpacked from it, as rows of the hub's columns.

        The files are Latin-1. Raises :class:`DataError` on a line without class and question.
        """
        for where, line in _trec_lines(files, split):
            if not line.strip():
                continue
            classes, _, question = line.partition(" ")
            coarse = classes.partition(":")[0]
            if coarse not in TREC_LABELS or not question.strip():
                raise DataError(f"{where}: expected 'CLASS:detail question', found '{line[:40]}'")
            # the one stray byte (0xF0) of the published file stands for a blank, and is one on the hub
            text = question.replace("\xf0", " ")
            yield Row(where, {"text": text, "coarse_label": TREC_LABELS.index(coarse)})

    def item(self, row: Row, split: str, position: int) -> Item:
        number = row.get("coarse_label")
        if number not in range(len(TREC_LABELS)):
            raise row.error(f"'coarse_label' should be 0 to 5, found {number!r}")
        text = base.collapse_spaces(row.text("text"))
        return Item(base.numbered(self.name, split, position), text, {"label": TREC_LABELS[number]})


def _trec_lines(files: base.OriginalFiles, split: base.Split) -> Iterator[tuple[str, str]]:
    """Lines, each with the words that name its place."""
    loose = files.find(*split.files, split=split.name)
    if loose is not None:
        for number, line in files.lines(loose, "latin-1"):
            yield f"{files.label(loose)} line {number}", line
        return
    archive = files.need("qc.zip", split=split.name)
    member = f"qc/{split.name}.txt"
    try:
        with zipfile.ZipFile(archive) as unpacked, unpacked.open(member) as stream:
            for number, raw in enumerate(stream, start=1):
                where = f"{files.label(archive)}:{member} line {number}"
                yield where, decode_line(raw, where, number, "latin-1")
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DataError(f"{files.label(archive)}: {member} cannot be read ({error})") from error
