"""Relations between entities: CoNLL04 and SciERC, in the file formats they are published in.

Two formats are read, whatever the dataset. SpERT's: one JSON list of ``{"tokens", "entities": [{"type", "start",
"end"}], "relations": [{"type", "head", "tail"}]}``, ends exclusive, relations by the number of their entities. DyGIE's:
one document a line, ``{"doc_key", "sentences": [[token]], "ner": [[[start, end, type]]], "relations": [[[start, end,
start, end, type]]]}``, token numbers counted through the document, ends inclusive; each sentence becomes an item.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row


class _Span(NamedTuple):
    """An entity of a sentence: token numbers (end exclusive) and its type."""

    start: int
    end: int
    type: str


class _RelationExporter(base.ItemExporter):
    """Sentences of either format as items with ``entities`` and ``relations`` in their own words."""

    def file_rows(
        self, files: base.OriginalFiles, split: base.Split, options: base.ExportOptions
    ) -> Iterator[Row] | None:
        """Sentences of a split's file: a JSON list as it is, or the sentences of documents, one a line."""
        path = files.of_split(split)
        if path is None:
            return None
        # Both formats are called ``.json`` where they are published.
        with path.open("rb") as stream:
            is_list = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        if is_list:
            return iter(files.json_list(path))
        return (sentence for row in files.jsonl(path) for sentence in _sentences(row))

    def item(self, row: Row, split: str, position: int) -> Item:
        tokens = row.texts("tokens")
        spans = [self._span(row, entity, len(tokens)) for entity in row.items("entities")]
        relations = []
        for relation in row.items("relations"):
            if not isinstance(relation, dict):
                raise row.error("a relation is no object")
            ends = [relation.get(name) for name in ("head", "tail")]
            if not all(isinstance(end, int) and 0 <= end < len(spans) for end in ends):
                raise row.error(f"a relation names entities {ends} of {len(spans)}")
            kind = relation.get("type")
            if not isinstance(kind, str) or not kind:
                raise row.error("a relation has no type")
            head, tail = (_words(tokens, spans[int(end)]) for end in ends)  # type: ignore[arg-type]
            relations.append({"head": head, "type": kind, "tail": tail})
        truth: dict[str, Any] = {
            "tokens": tokens,
            "entities": [{"text": _words(tokens, span), "type": span.type} for span in spans],
            "relations": relations,
        }
        return Item(base.numbered(self.name, split, position), " ".join(tokens), truth)

    def _span(self, row: Row, entity: Any, length: int) -> _Span:
        if not isinstance(entity, dict):
            raise row.error("an entity is no object")
        start, end, kind = entity.get("start"), entity.get("end"), entity.get("type")
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= length):
            raise row.error(f"an entity spans tokens {start} to {end} of {length}")
        return _Span(start, end, str(kind))


class Conll04Exporter(_RelationExporter):
    """News sentences with five relations (Roth and Yih 2004), in the split of Gupta et al. 2016."""

    name = "conll04"
    folders = ("conll04",)
    hub = base.HubTable("conll04", None)
    splits = (
        base.Split("train", 922, ("conll04_train.json", "train.json", "train.jsonl")),
        base.Split("dev", 231, ("conll04_dev.json", "dev.json", "dev.jsonl"), hub=("validation",)),
        base.Split("test", 288, ("conll04_test.json", "test.json", "test.jsonl")),
    )


class SciErcExporter(_RelationExporter):
    """Sentences of 500 abstracts of computer science with seven relations (Luan et al. 2018)."""

    name = "scierc"
    folders = ("scierc", "SciERC")
    hub = base.HubTable("scierc", None)
    splits = (
        base.Split("train", 1861, ("scierc_train.json", "train.json", "train.jsonl", "json/train.json")),
        base.Split(
            "dev", 275, ("scierc_dev.json", "dev.json", "dev.jsonl", "json/dev.json"), hub=("validation",)
        ),
        base.Split("test", 551, ("scierc_test.json", "test.json", "test.jsonl", "json/test.json")),
    )


def _sentences(row: Row) -> Iterator[Row]:
    """The sentences of a document, its token numbers counted from the beginning of each."""
    sentences, entities, relations = (row.items(name) for name in ("sentences", "ner", "relations"))
    if not len(sentences) == len(entities) == len(relations):
        raise row.error("'sentences', 'ner' and 'relations' differ in number")
    offset = 0
    for number, (tokens, named, related) in enumerate(
        zip(sentences, entities, relations, strict=True), start=1
    ):
        where = f"{row.where} sentence {number}"
        if not isinstance(tokens, list):
            raise row.error(f"sentence {number} is no list of tokens")
        try:
            spans = [(int(start) - offset, int(end) - offset + 1, str(kind)) for start, end, kind in named]
            index = {(start, end): place for place, (start, end, _) in enumerate(spans)}
            rows = []
            for first, last, other, end, kind in related:
                ends = (first - offset, last - offset + 1), (other - offset, end - offset + 1)
                rows.append({"head": index[ends[0]], "tail": index[ends[1]], "type": kind})
        except (TypeError, ValueError) as error:
            raise row.error(
                f"sentence {number}: an entity or relation is not as published ({error})"
            ) from error
        except KeyError as error:
            raise row.error(
                f"sentence {number}: a relation names the span {error} that is no entity"
            ) from error
        listed = [{"start": start, "end": end, "type": kind} for start, end, kind in spans]
        yield Row(where, {"tokens": tokens, "entities": listed, "relations": rows})
        offset += len(tokens)


def _words(tokens: list[str], span: _Span) -> str:
    return " ".join(tokens[span.start : span.end])
