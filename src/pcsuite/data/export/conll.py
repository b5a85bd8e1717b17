"""CoNLL-2003 named entities: column files in IOB1 or IOB2, or the hub's integer tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pcsuite.data.export.base import (
    Built,
    Exporter,
    ExportOptions,
    HubTable,
    HubTables,
    OriginalFiles,
    items_output,
    numbered,
)
from pcsuite.data.items import Item, Row
from pcsuite.errors import DataError

HUB = HubTable("conll2003", "eriktks/conll2003", "conll2003", ("train", "validation", "test"))
HUB_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
TYPES = frozenset({"PER", "ORG", "LOC", "MISC"})


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and their tags, in either IOB scheme."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """``(type, first token, token after the last)`` of every entity.

    One rule reads both schemes: an entity begins at a B- tag, and at an I- tag that does not continue an
    entity of its type. In IOB1 (Ramshaw and Marcus 1995) B- only parts two adjacent entities of one type.
    """
    spans: list[tuple[str, int, int]] = []
    kind: str | None = None
    start = 0
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, tag_kind = tag.partition("-")
        continues = prefix == "I" and tag_kind == kind
        if kind is not None and not continues:
            spans.append((kind, start, position))
            kind = None
        if prefix != "O" and not continues:
            kind, start = tag_kind, position
    return spans


def sentence_item(item_id: str, sentence: Sentence) -> Item:
    """The item of a sentence: tokens joined by blanks, entities with character offsets."""
    starts: list[int] = []
    offset = 0
    for token in sentence.tokens:
        starts.append(offset)
        offset += len(token) + 1
    text = " ".join(sentence.tokens)
    entities: list[dict[str, Any]] = []
    for kind, first, after in entity_spans(sentence.tags):
        start, end = starts[first], starts[after - 1] + len(sentence.tokens[after - 1])
        entities.append({"text": text[start:end], "type": kind, "start": start, "end": end})
    return Item(item_id, text, {"tokens": list(sentence.tokens), "entities": entities})


class ConllExporter(Exporter[dict[str, list[Sentence]]]):
    """Train, dev and test as published; ``-DOCSTART-`` lines are no sentences."""

    name = "conll2003"
    folders = ("conll2003", "conll03")
    official: ClassVar = {"train": 14041, "dev": 3250, "test": 3453}

    def read_files(self, files: OriginalFiles, options: ExportOptions) -> dict[str, list[Sentence]]:
        paths = {
            "train": files.need("train.txt", "eng.train", split="train"),
            "dev": files.need("dev.txt", "valid.txt", "eng.testa", split="dev"),
            "test": files.need("test.txt", "eng.testb", split="test"),
        }
        return {split: list(_column_sentences(files, path)) for split, path in paths.items()}

    def read_hub(self, hub: HubTables, options: ExportOptions) -> dict[str, list[Sentence]]:
        splits = {"train": "train", "dev": "validation", "test": "test"}
        return {
            split: [_hub_sentence(row, _hub_tags(hub, theirs)) for row in hub.rows(HUB, theirs)]
            for split, theirs in splits.items()
        }

    def build(self, records: dict[str, list[Sentence]], options: ExportOptions) -> Built:
        return Built(
            [
                items_output(
                    self.name,
                    split,
                    [
                        sentence_item(numbered(self.name, split, position), sentence)
                        for position, sentence in enumerate(sentences, start=1)
                    ],
                )
                for split, sentences in records.items()
            ]
        )


def _column_sentences(files: OriginalFiles, path: Path) -> Iterator[Sentence]:
    tokens: list[str] = []
    tags: list[str] = []
    for number, line in files.lines(path):
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            where = f"{files.label(path)} line {number}"
            if len(columns) != 4:
                raise DataError(f"{where}: expected 4 columns, found {len(columns)}")
            tokens.append(columns[0])
            tags.append(_checked_tag(columns[3], where))
        elif tokens:
            yield Sentence(tuple(tokens), tuple(tags))
            tokens, tags = [], []
    if tokens:
        yield Sentence(tuple(tokens), tuple(tags))


def _checked_tag(tag: str, where: str) -> str:
    prefix, _, kind = tag.partition("-")
    if tag != "O" and (prefix not in {"B", "I"} or kind not in TYPES):
        raise DataError(f"{where}: '{tag}' is no CoNLL-2003 entity tag")
    return tag


def _hub_tags(hub: HubTables, split: str) -> Sequence[str]:
    return hub.label_names(HUB, split, "ner_tags") or HUB_TAGS


def _hub_sentence(row: Row, names: Sequence[str]) -> Sentence:
    tokens, numbers = row.texts("tokens"), row.items("ner_tags")
    if len(tokens) != len(numbers):
        raise row.error(f"{len(tokens)} tokens but {len(numbers)} tags")
    try:
        tags = tuple(_checked_tag(names[number], row.where) for number in numbers)
    except IndexError as error:
        raise row.error(f"a tag number is outside 0..{len(names) - 1}") from error
    return Sentence(tuple(tokens), tags)
