"""FEVER claims: one item a claim with all its evidence sets; the pages they cite as a searchable corpus.

WikiPage names are put in Unicode normal form C, because claims and pages are published in different forms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row, split_off

HUB_PAGES = base.HubTable("fever", "fever/fever", "wiki_pages", ("wikipedia_pages",))
OPT_ITEMS = 500
LABELS = {"SUPPORTS": "SUPPORTS", "REFUTES": "REFUTES", "NOT ENOUGH INFO": "NOT_ENOUGH_INFO"}

Sentence = tuple[str, int]
"""Page name and FEVER's sentence id."""


class Claim(NamedTuple):
    """A claim, its label, and the sets of sentences that each prove it."""

    claim_id: str
    text: str
    label: str
    evidence: tuple[tuple[Sentence, ...], ...]


class WikiPage(NamedTuple):
    """A page's sentences. ``exact`` says that a sentence's place is its FEVER id."""

    name: str
    sentences: list[str]
    exact: bool


class FeverRecords(NamedTuple):
    """Claims by source split, and a way to read the pages (which may not fit in memory) more than once."""

    claims: dict[str, list[Claim]]
    pages: Callable[[], Iterator[WikiPage]] | None


def _page_name(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def certain_index(sentence_id: int, known_ids: Iterable[int], length: int) -> int | None:
    """Place of a sentence on a page whose blank lines were dropped, if it can be known.

    Dropped blanks only move sentences forward. Ids that gold evidence names are not blank, and neither is
    line 0; so at least the known ids before this one precede it, and at least those after it follow it.
    Where the two bounds meet, the place is certain; elsewhere nothing is guessed.
    """
    # Line 0 of a page is never blank.
    known = {0, *known_ids}
    at_least = sum(other < sentence_id for other in known)
    at_most = min(sentence_id, length - 1 - sum(other > sentence_id for other in known))
    return at_least if at_least == at_most else None


class FeverExporter(base.Exporter[FeverRecords]):
    """``fever_opt`` is 500 of paper_dev by the fixed seed, ``fever_dev`` the rest; train if it is there."""

    name = "fever"
    folders = ("fever",)
    hub = base.HubTable("fever", "fever/fever", "v1.0", ("paper_dev", "train"))
    splits = (
        base.Split("paper_dev", 9999, ("paper_dev.jsonl",)),
        base.Split("train", 145449, ("train.jsonl",), required=False),
    )

    def counts(self, records: FeverRecords) -> dict[str, int]:
        return {split: len(claims) for split, claims in records.claims.items()}

    def read_files(self, files: base.OriginalFiles, options: base.ExportOptions) -> FeverRecords:
        """Claims, and the pages either repacked as one file or as the Wikipedia dump of the task.

        Pages are read when asked for: the dump does not fit in memory.
        """
        claims = {
            split.name: [_claim(row) for row in files.jsonl(path)]
            for split in self.splits
            if (path := files.of_split(split)) is not None
        }
        repacked = files.find("wiki_pages.jsonl")
        if repacked is not None:
            # Blank lines that are still there show that none were dropped: then the places are exact.
            return FeverRecords(
                claims,
                lambda: (
                    WikiPage(
                        _page_name(row.text("page")), row.texts("sentences"), "" in row.texts("sentences")
                    )
                    for row in files.jsonl(repacked)
                ),
            )
        dump = files.find_all("wiki-pages/*.jsonl") or files.find_all("wiki-pages/wiki-pages/*.jsonl")
        if not dump:
            return FeverRecords(claims, None)
        return FeverRecords(
            claims, lambda: (_dump_page(row) for path in dump for row in files.jsonl(path) if row.get("id"))
        )

    def read_hub(self, hub: base.HubTables, options: base.ExportOptions) -> FeverRecords:
        """Claims, and the pages where a mirror has them or the user asks for all of Wikipedia.

        The hub has one row an evidence sentence; they are put together to one claim each.
        """
        claims = {
            split.name: _grouped_claims(hub.rows(self.hub, split.name))
            for split in self.splits
            if split.required or hub.has_split(self.hub, split.name)
        }
        if not (hub.holds(HUB_PAGES) if hub.mirror is not None else options.fever_wiki):
            return FeverRecords(claims, None)
        return FeverRecords(
            claims,
            lambda: (_dump_page(row) for row in hub.rows(HUB_PAGES, "wikipedia_pages") if row.get("id")),
        )

    def build(self, records: FeverRecords, options: base.ExportOptions) -> base.BuiltDataset:
        """Items with the texts of their evidence, and the pages as a corpus, where there are pages.

        ``opt`` is 500 of paper_dev by the fixed seed and ``dev`` the rest.
        """
        texts = _gold_texts(records)
        items: dict[str, list[Item]] = {}
        for split, claims in records.claims.items():
            for claim in claims:
                sets = [
                    [{"page": page, "sentence": n, "text": texts.get((page, n))} for page, n in evidence]
                    for evidence in claim.evidence
                ]
                truth = {"label": claim.label, "evidence_sets": sets}
                items.setdefault(split, []).append(Item(f"fever-{claim.claim_id}", claim.text, truth))
        opt, dev = split_off(items["paper_dev"], OPT_ITEMS, "fever_opt", base.SPLIT_SEED)
        parts = {"dev": dev, "opt": opt} | {split: items[split] for split in items if split == "train"}
        built = base.BuiltDataset(
            [base.items_output(self.name, split, part) for split, part in parts.items()]
        )
        if records.pages is None:
            built.notes.append("without wiki pages evidence has no text and there is no corpus to search")
        else:
            pages = ({"page": page.name, "sentences": page.sentences} for page in records.pages())
            built.outputs.append(base.OutputFile("fever_pages", pages))
        return built


def _gold_texts(records: FeverRecords) -> dict[Sentence, str]:
    """Text of every gold sentence whose place on its page is certain."""
    if records.pages is None:
        return {}
    cited: dict[str, set[int]] = {}
    for claims in records.claims.values():
        for claim in claims:
            for page, number in (sentence for evidence in claim.evidence for sentence in evidence):
                cited.setdefault(page, set()).add(number)
    texts: dict[Sentence, str] = {}
    for page_record in records.pages():
        numbers = cited.get(page_record.name, set())
        for number in numbers:
            length = len(page_record.sentences)
            index = number if page_record.exact else certain_index(number, numbers, length)
            if index is not None and index < length and page_record.sentences[index]:
                texts[page_record.name, number] = page_record.sentences[index]
    return texts


def _claim(row: Row) -> Claim:
    sets = []
    for evidence in row.items("evidence"):
        try:
            sets.append([(page, number) for _, _, page, number in evidence])
        except (TypeError, ValueError) as error:
            raise row.error("'evidence' should hold lists of four values") from error
    return _checked_claim(row, sets)


def _checked_claim(row: Row, sets: Sequence[Sequence[tuple[Any, Any]]]) -> Claim:
    label = row.text("label")
    if label not in LABELS:
        raise row.error(f"label '{label}' is none of {', '.join(LABELS)}")
    distinct: dict[tuple[Sentence, ...], None] = {}
    if label != "NOT ENOUGH INFO":
        for evidence in sets:
            if not all(isinstance(page, str) and isinstance(number, int) for page, number in evidence):
                raise row.error(f"a claim labelled {label} cites no page or no sentence")
            # annotators often chose the same sentences: one set of them is enough
            distinct[tuple(dict.fromkeys((_page_name(page), number) for page, number in evidence))] = None
    return Claim(str(row.get("id")), base.collapse_spaces(row.text("claim")), LABELS[label], tuple(distinct))


def _grouped_claims(rows: Iterable[Row]) -> list[Claim]:
    """Claims from the hub's rows, one an evidence sentence; those of one set share annotation and evidence ids."""
    first_rows: dict[Any, Row] = {}
    sets: dict[Any, dict[tuple[Any, Any], list[tuple[Any, Any]]]] = {}
    for row in rows:
        claim_id = row.get("id")
        first_rows.setdefault(claim_id, row)
        key = (row.get("evidence_annotation_id"), row.get("evidence_id"))
        sentence = (row.get("evidence_wiki_url"), row.get("evidence_sentence_id"))
        sets.setdefault(claim_id, {}).setdefault(key, []).append(sentence)
    return [_checked_claim(row, list(sets[claim_id].values())) for claim_id, row in first_rows.items()]


def _dump_page(row: Row) -> WikiPage:
    """A page of the Wikipedia dump: ``lines`` has number, sentence and links, parted by tabs."""
    sentences: list[str] = []
    for line in row.text("lines").split("\n"):
        number, _, rest = line.partition("\t")
        if number.isdigit() and int(number) == len(sentences):
            sentences.append(rest.split("\t", 1)[0])
    return WikiPage(_page_name(row.text("id")), sentences, exact=True)
