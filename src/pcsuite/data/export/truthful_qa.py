"""TruthfulQA: free answers (TruthfulQA.csv) and single-choice questions (mc_task.json, MC1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_uppercase as LETTERS

from pcsuite._util.hashing import sha256_hex
from pcsuite.data.export import base
from pcsuite.data.items import Item, Row, rank_of
from pcsuite.data.truths import choice_text, is_no_comment
from pcsuite.errors import DataError, did_you_mean

VERSIONS: Mapping[str, int] = {"v1": 817, "v2025": 790}


class _TruthfulQaFiles(base.ItemExporter):
    """All questions in one split, ``validation``; upstream has no training split."""

    folders = ("truthfulqa", "truthful_qa")
    option_names = ("allow_partial", "truthfulqa_version")

    def official_counts(self, options: base.ExportOptions) -> Mapping[str, int]:
        return {"validation": VERSIONS[_version(options)]}

    def file_rows(
        self, files: base.OriginalFiles, split: base.Split, options: base.ExportOptions
    ) -> Iterable[Row] | None:
        """The file lies under its version's folder, or (the original benchmark) at the top."""
        version, (name,) = _version(options), split.files
        places = (f"{version}/{name}", name, f"data/{name}", f"{version}/data/{name}")
        located = base.Split(split.name, split.official, places if version == "v1" else places[:1])
        return super().file_rows(files, located, options)

    def hub_rows(
        self, hub: base.HubTables, split: base.Split, options: base.ExportOptions
    ) -> Iterable[Row] | None:
        if _version(options) != "v1":
            hint = "export the revision from its original files: --from DIR"
            raise DataError(f"the hub has TruthfulQA v1 only, not {options.truthfulqa_version}", hint=hint)
        return super().hub_rows(hub, split, options)


class TruthfulQaExporter(_TruthfulQaFiles):
    """Questions with their true and false reference answers."""

    name = "truthful_qa"
    hub = base.HubTable("truthful_qa", "truthfulqa/truthful_qa", config="generation")
    splits = (base.Split("validation", VERSIONS["v1"], ("TruthfulQA.csv",)),)

    def item(self, row: Row, split: str, position: int) -> Item:
        correct = _split_answers(row.text("Correct Answers"))
        incorrect = _split_answers(row.text("Incorrect Answers"))
        return _open_item(row, ("Question", "Category", "Best Answer"), correct, incorrect)

    def hub_item(self, row: Row, split: str, position: int) -> Item:
        keys = ("correct_answers", "incorrect_answers")
        correct, incorrect = (
            [base.collapse_spaces(one) for one in row.texts(key) if one.strip()] for key in keys
        )
        return _open_item(row, ("question", "category", "best_answer"), correct, incorrect)


class TruthfulQaMcExporter(_TruthfulQaFiles):
    """MC1: options put in an order fixed by hash (upstream the true one is always first)."""

    name = "truthful_qa_mc"
    hub = base.HubTable("truthful_qa", "truthfulqa/truthful_qa", config="multiple_choice")
    splits = (base.Split("validation", VERSIONS["v1"], ("mc_task.json",)),)

    def item(self, row: Row, split: str, position: int) -> Item:
        targets = row.row("mc1_targets").values
        return _choice_item(
            row, [(base.collapse_spaces(text), label == 1) for text, label in targets.items()]
        )

    def hub_item(self, row: Row, split: str, position: int) -> Item:
        targets = row.row("mc1_targets")
        pairs = zip(targets.texts("choices"), targets.items("labels"), strict=True)
        return _choice_item(row, [(base.collapse_spaces(text), label == 1) for text, label in pairs])

    def build(self, records: dict[str, list[Item]], options: base.ExportOptions) -> base.BuiltDataset:
        """One file, in order of ids: the published copies differ in order."""
        items = sorted(records["validation"], key=lambda item: item.item_id)
        return base.BuiltDataset([base.items_output(self.name, "validation", items)])


def _version(options: base.ExportOptions) -> str:
    version = options.truthfulqa_version
    if version not in VERSIONS:
        raise DataError(f"unknown TruthfulQA version '{version}'", hint=did_you_mean(version, VERSIONS))
    return version


def _open_item(row: Row, keys: tuple[str, str, str], correct: list[str], incorrect: list[str]) -> Item:
    question, category, best = (base.collapse_spaces(row.text(key)) for key in keys)
    if not (question and correct and incorrect):
        raise row.error("question, correct answers and incorrect answers must not be empty")
    truth = {
        "best_answer": best,
        "correct_answers": correct,
        "incorrect_answers": incorrect,
        "unanswerable": any(map(is_no_comment, correct)),
        "category": category,
    }
    return Item(_question_id(question), question, truth)


def _choice_item(row: Row, options: list[tuple[str, bool]]) -> Item:
    """The item of a question whose options are given with whether each is true."""
    if sum(true for _, true in options) != 1:
        raise row.error("mc1_targets must have exactly one true option")
    if len(options) > len(LETTERS):
        raise row.error(f"{len(options)} options cannot be lettered A to Z")
    question = base.collapse_spaces(row.text("question"))
    ordered = sorted(options, key=lambda option: rank_of("truthful_qa_mc", question, option[0]))
    choices = {letter: text for letter, (text, _) in zip(LETTERS, ordered, strict=False)}
    gold = next(letter for letter, (_, true) in zip(LETTERS, ordered, strict=False) if true)
    return Item(_question_id(question), choice_text(question, choices), {"choice": gold, "choices": choices})


def _question_id(question: str) -> str:
    """Id from the question's text: the published copies differ in order, and neither carries ids."""
    return f"truthfulqa-{sha256_hex(base.collapse_spaces(question))[:12]}"


def _split_answers(cell: str) -> list[str]:
    """Answers of a ``;``-separated cell; a trailing separator makes no empty answer."""
    return [answer for answer in (base.collapse_spaces(part) for part in cell.split(";")) if answer]
