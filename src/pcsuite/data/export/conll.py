"""CoNLL-2003 named entities: column files in IOB1 or IOB2, or the hub's integer tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row
from pcsuite.data.truths import HUB_TAGS, entity_spans
from pcsuite.errors import DataError

TYPES = frozenset({"PER", "ORG", "LOC", "MISC"})


class ConllExporter(base.ItemExporter):
    """Train, dev and test as published; ``-DOCSTART-`` lines are no sentences."""

    name = "conll2003"
    folders = ("conll2003", "conll03")
    hub = base.HubTable("conll2003", "eriktks/conll2003", "conll2003", ("train", "validation", "test"))
    splits = (
        base.Split("train", 14041, ("train.txt", "eng.train")),
        base.Split("dev", 3250, ("dev.txt", "valid.txt", "eng.testa"), hub=("validation",)),
        base.Split("test", 3453, ("test.txt", "eng.testb")),
    )

    def file_rows(
        self, files: base.OriginalFiles, split: base.Split, options: base.ExportOptions
    ) -> Iterator[Row]:
        """Sentences of a column file, as rows of ``tokens`` and ``tags``.

        A blank line or a ``-DOCSTART-`` line ends a sentence. Raises :class:`DataError` on a line without four
        columns or with an unknown tag.
        """
        path = files.need(*split.files, split=split.name)
        tokens: list[str] = []
        tags: list[str] = []
        where = ""
        for number, line in files.lines(path):
            columns = line.split()
            if columns and columns[0] != "-DOCSTART-":
                where = f"{files.label(path)} line {number}"
                if len(columns) != 4:
                    raise DataError(f"{where}: expected 4 columns, found {len(columns)}")
                tokens.append(columns[0])
                tags.append(_checked_tag(columns[3], where))
            elif tokens:
                yield Row(where, {"tokens": tokens, "tags": tags})
                tokens, tags = [], []
        if tokens:
            yield Row(where, {"tokens": tokens, "tags": tags})

    def hub_rows(self, hub: base.HubTables, split: base.Split, options: base.ExportOptions) -> Iterator[Row]:
        """Sentences of the hub's table, its tag numbers turned into tags.

        The table's own names of the tags are used where it has them.
        """
        (theirs,) = split.hub or (split.name,)
        names: Sequence[str] = hub.label_names(self.hub, theirs, "ner_tags") or HUB_TAGS
        for row in hub.rows(self.hub, theirs):
            tokens, numbers = row.texts("tokens"), row.items("ner_tags")
            if len(tokens) != len(numbers):
                raise row.error(f"{len(tokens)} tokens but {len(numbers)} tags")
            try:
                tags = [_checked_tag(names[number], row.where) for number in numbers]
            except IndexError as error:
                raise row.error(f"a tag number is outside 0..{len(names) - 1}") from error
            yield Row(row.where, {"tokens": tokens, "tags": tags})

    def item(self, row: Row, split: str, position: int) -> Item:
        item_id = base.numbered(self.name, split, position)
        return sentence_item(item_id, row.texts("tokens"), row.texts("tags"))


def sentence_item(item_id: str, tokens: list[str], tags: Sequence[str]) -> Item:
    """The item of a sentence: tokens joined by blanks, entities with character offsets (end exclusive).

    Offsets count characters of the joined text.
    """
    starts: list[int] = []
    offset = 0
    for token in tokens:
        starts.append(offset)
        offset += len(token) + 1
    text = " ".join(tokens)
    entities: list[dict[str, Any]] = []
    for kind, first, after in entity_spans(tags):
        start, end = starts[first], starts[after - 1] + len(tokens[after - 1])
        entities.append({"text": text[start:end], "type": kind, "start": start, "end": end})
    return Item(item_id, text, {"tokens": tokens, "entities": entities})


def _checked_tag(tag: str, where: str) -> str:
    prefix, _, kind = tag.partition("-")
    if tag != "O" and (prefix not in {"B", "I"} or kind not in TYPES):
        raise DataError(f"{where}: '{tag}' is no CoNLL-2003 entity tag")
    return tag
