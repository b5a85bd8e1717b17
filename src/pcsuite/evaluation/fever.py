"""Claim verification with evidence (FEVER, Thorne et al. 2018)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel

from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import base
from pcsuite.evaluation.claims import Unsure
from pcsuite.evaluation.lenient import loose_answer
from pcsuite.evaluation.mentions import claimed_label
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.schema_check import written_answer
from pcsuite.retrieval.base import KnownPages

NOT_ENOUGH_INFO = "NOT_ENOUGH_INFO"
LABELS = ("SUPPORTS", "REFUTES", NOT_ENOUGH_INFO)
MOST_EVIDENCE = 5
"""Only the first five cited sentences count towards a complete evidence set, as in the shared task."""

INVENTED_PAGE = "A page that nobody wrote"
_MOST_CITED = 1_000
_SPELLINGS = {base.fold(label.replace("_", " ")): label for label in LABELS}
_LENIENT = {
    "SUPPORTS": "SUPPORTS", "SUPPORTED": "SUPPORTS", "SUPPORT": "SUPPORTS",
    "REFUTES": "REFUTES", "REFUTED": "REFUTES", "REFUTE": "REFUTES",
    "NOT ENOUGH INFO": NOT_ENOUGH_INFO, "NOT_ENOUGH_INFO": NOT_ENOUGH_INFO, "NOT ENOUGH INFORMATION": NOT_ENOUGH_INFO,
    "NOT_ENOUGH_INFORMATION": NOT_ENOUGH_INFO, "NOT ENOUGH EVIDENCE": NOT_ENOUGH_INFO, "NEI": NOT_ENOUGH_INFO,
    "INSUFFICIENT_INFO": NOT_ENOUGH_INFO, "INSUFFICIENT INFORMATION": NOT_ENOUGH_INFO,
    "INSUFFICIENT EVIDENCE": NOT_ENOUGH_INFO, "UNVERIFIABLE": NOT_ENOUGH_INFO, "NEUTRAL": NOT_ENOUGH_INFO,
    "CANNOT BE VERIFIED": NOT_ENOUGH_INFO, "NO EVIDENCE": NOT_ENOUGH_INFO,
    "TRUE": "SUPPORTS", "ENTAILMENT": "SUPPORTS", "ENTAILED": "SUPPORTS", "CONFIRMED": "SUPPORTS",
    "CONFIRMS": "SUPPORTS",
    "FALSE": "REFUTES", "NOT TRUE": "REFUTES", "UNTRUE": "REFUTES", "CONTRADICTS": "REFUTES", "CONTRADICTED": "REFUTES",
    "CONTRADICTION": "REFUTES", "CONTRADICT": "REFUTES", "DISPROVED": "REFUTES", "DISPROVEN": "REFUTES",
    "DISPUTED": "REFUTES",
}  # fmt: skip
"""What only ``lenient_score`` takes for a verdict."""
_LABEL_NAMES = ("label", "verdict", "answer", "claim_label", "classification")
_ESCAPE = re.compile(r"-(?:(LRB)|(RRB)|(LSB)|(RSB)|(COLON))-", re.IGNORECASE)


class FeverOptions(Definition):
    """Options of the ``fever`` evaluator."""

    label_field: str = "label"
    """Field with the verdict."""
    evidence_field: str = "evidence"
    """Field with the list of cited sentences."""
    known_pages: tuple[str, ...] | None = None
    """Titles of all pages that exist; a citation of another page is unsupported."""
    known_pages_file: str | None = None
    """A text file with one such title a line."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a page, known by its id, its text, or both."""

    page: str
    id: int | None
    text: str | None

    def matches(self, other: Sentence) -> bool:
        """Same page, and same text where both texts are known, else same id.

        A citation may give the number of a sentence or the sentence itself.
        """
        if self.text is not None and other.text is not None:
            return self.page == other.page and self.text == other.text
        return self.page == other.page and self.id is not None and self.id == other.id


class FeverEvaluator(base.Evaluator):
    """Label accuracy; evidence by page and by sentence; FEVER score; unsupported citations.

    Evidence precision and recall are those of the shared task's scorer: precision is the share of citations
    that belong to any evidence set (1 where nothing is cited), recall is 1 where the first five citations
    cover one whole set. Both are ``None`` for claims that are not verifiable. ``unsupported_rate`` is a share of
    citations, so it is ``None`` where nothing is cited (0 would praise a verdict for giving no evidence);
    ``uncited_verdict`` counts those. A citation is supported where its page and sentence exist in the corpus, in a loop
    that searches as in a prompt that does not: one measure for both. ``unretrieved_rate`` is the share of citations
    that the loop was never shown, ``None`` where nothing was searched.
    """

    Options: ClassVar[type[BaseModel]] = FeverOptions
    cites_pages: ClassVar[bool] = True
    options: FeverOptions

    _corpus: KnownPages | None = None

    def know_pages(self, pages: KnownPages) -> None:
        """Take the corpus's pages, read when first needed.

        Where the options name known pages themselves, those count and the corpus's do not.
        """
        self._corpus = pages

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer; ``NOT_ENOUGH_INFO`` counts as abstaining.

        ``fever_score`` is 1 where the label is right and the evidence covers a whole set (Thorne et al. 2018).
        """
        parsed = parse_object(base.clean_text(answer.text), self.schema, (self.options.label_field,))
        gold_label = canonical_label(base.truth_of(item, "label"))
        label = canonical_label(parsed.fields.get(self.options.label_field))
        parsed.answer = label
        if label is None and parsed.fields:
            parsed.parse_errors.append(f"no verdict in field '{self.options.label_field}'")
        readable = label is not None and answer.finish_reason != "length"
        listed = parsed.fields.get(self.options.evidence_field) if readable else None
        cited = self._cited_sentences(listed, answer.retrieved)
        gold_sets = [
            [_sentence(row["page"], row.get("sentence"), row.get("text")) for row in rows]
            for rows in _evidence_sets(item)
        ]
        verifiable = gold_label != NOT_ENOUGH_INFO
        known = "evidence_sets" in item.truth
        covered = not verifiable or _covers_a_set(cited[:MOST_EVIDENCE], gold_sets)
        right = readable and label == gold_label
        unsupported = sum(not self._exists(citation) for citation in cited) if self._can_tell else None
        unretrieved = None
        if answer.retrieved is not None and cited:
            shown = [_sentence(*row) for row in answer.retrieved]
            unseen = sum(not any(map(citation.matches, shown)) for citation in cited)
            unretrieved = unseen / len(cited)
        fields = (self.options.label_field, self.options.evidence_field)
        extra: dict[str, base.MetricValue] = {
            "fever_score": float(right and covered) if known or not verifiable else None,
            "pred_label": label if readable else None,
            "cited": len(cited),
            "unsupported": unsupported,
            "unretrieved_rate": unretrieved,
            "uncited_verdict": not cited if readable and label != NOT_ENOUGH_INFO else None,
            **base.field_metrics(parsed.fields, expected=fields),
            **_evidence_metrics(cited, gold_sets, verifiable=verifiable and known, readable=readable),
        }
        rate = None if unsupported is None or not cited else unsupported / len(cited)
        return base.conclude(
            parsed,
            answer,
            score=float(right),
            lenient=None if label is not None else float(self._lenient_label(answer, parsed) == gold_label),
            exact_match=right,
            answered=label is not None,
            abstained=label == NOT_ENOUGH_INFO,
            unanswerable=not verifiable,
            unsupported_rate=rate,
            extra=extra,
        )

    def _lenient_label(self, answer: base.Answer, parsed: base.Parsed) -> str | None:
        """The verdict by another name, in broken JSON or in a sentence that names just one; ``None`` if cut off."""
        names = (self.options.label_field, *_LABEL_NAMES)
        doubted = parsed.reading == Unsure.AMBIGUOUS.value
        loose = None
        if answer.finish_reason != "length":
            loose = loose_answer(answer.text, parsed.fields, names, doubted=doubted)
        if loose is None or not isinstance(loose[0], (str, bool)):
            return None
        value, rule = str(loose[0]), loose[1] or "verdict in a sentence"
        label = canonical_label(value) or claimed_label(value, _LENIENT, names, any_case=True, verbs=True)
        if isinstance(label, Unsure):
            parsed.reading = label.value
            return None
        if label is not None:
            parsed.reading = "lenient"
            parsed.note_lenient(repr(label), rule)
        return label

    def check(self, item: Item) -> None:
        """See that label and evidence can be met; a claim without any word on evidence is scored on its label alone."""
        label = canonical_label(base.truth_of(item, "label"))
        if label is None:
            raise DataError(
                f"item '{item.item_id}': truth 'label' is {item.truth['label']!r}",
                hint=f"one of {', '.join(LABELS)}",
            )
        if label != NOT_ENOUGH_INFO and "evidence_sets" in item.truth and not _evidence_sets(item):
            raise DataError(
                f"item '{item.item_id}': truth 'evidence' names no sentence, and the label is {label}",
                hint="leave evidence out where it is not known",
            )

    def gold_answer(self, item: Item) -> str:
        """The right label with the smallest evidence set; none for a claim without enough information.

        The label is written as FEVER spells it.
        """
        label = canonical_label(base.truth_of(item, "label")) or str(item.truth["label"])
        complete = [] if label == NOT_ENOUGH_INFO else _evidence_sets(item)
        chosen = min(complete, key=len, default=[])
        return self._write(label, [{"page": row["page"], "sentence": row["sentence"]} for row in chosen])

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """Another label; half of the wrong verdicts cite a page that nobody wrote, as models do."""
        gold = canonical_label(base.truth_of(item, "label"))
        label = rng.choice([label for label in LABELS if label != gold])
        invented = label != NOT_ENOUGH_INFO and rng.random() < 0.5
        return self._write(label, [{"page": INVENTED_PAGE, "sentence": 0}] if invented else [])

    def _write(self, label: str, evidence: list[dict[str, Any]]) -> str:
        fields = {self.options.label_field: label, self.options.evidence_field: evidence}
        return written_answer(fields, self.schema)

    @property
    def _can_tell(self) -> bool:
        """Whether anything says which pages exist."""
        settings = self.options
        return not (
            settings.known_pages is None and settings.known_pages_file is None and self._corpus is None
        )

    @property
    def _by_title(self) -> bool:
        """Whether only titles are known, by the options: then a sentence is not asked for."""
        return self.options.known_pages is not None or self.options.known_pages_file is not None

    def _exists(self, citation: Sentence) -> bool:
        """Whether the corpus has the page and, where it knows sentences, the sentence."""
        if citation.page not in self._titles:
            return False
        if self._by_title:
            return True
        if citation.id is None and citation.text is None:
            return False
        return any(citation.matches(sentence) for sentence in self._sentences_of(citation.page))

    def _sentences_of(self, page: str) -> list[Sentence]:
        """The sentences that the corpus has under a normalised title."""
        if self._corpus is None or self._by_title or page not in self._titles:
            return []
        texts = self._corpus.sentences(self._titles[page])
        return [_sentence(page, number, text) for number, text in texts.items()]

    @cached_property
    def _titles(self) -> Mapping[str, str]:
        """Titles of the pages that exist, as they are written, by their normalised spelling."""
        settings = self.options
        titles: Iterable[str] = self._corpus if self._corpus is not None and not self._by_title else ()
        if self._by_title:
            titles = list(settings.known_pages or ())
        if settings.known_pages_file is not None:
            path = Path(settings.known_pages_file)
            try:
                titles = [*titles, *path.read_text(encoding="utf-8").split("\n")]
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"known_pages_file {path} cannot be read: {error}") from error
        return {normalise_page(title): title for title in titles if title.strip()}

    def _cited_sentences(
        self, listed: object, retrieved: Sequence[tuple[str, int, str]] | None
    ) -> list[Sentence]:
        """The cited sentences in order, each once; a number is given the text that the corpus has under it.

        Where no corpus is known it is the text that a search showed.
        """
        if not isinstance(listed, list):
            return []
        shown = {(normalise_page(page), number): text for page, number, text in retrieved or ()}
        cited: dict[Sentence, None] = {}
        for row in listed[:_MOST_CITED]:
            if not isinstance(row, dict) or not isinstance(row.get("page"), str):
                continue
            sentence = _sentence(row["page"], row.get("sentence"), row.get("text"))
            if sentence.id is not None:
                texts = {entry.id: entry.text for entry in self._sentences_of(sentence.page)}
                text = texts.get(sentence.id) or shown.get((sentence.page, sentence.id))
                if text is not None:
                    sentence = _sentence(row["page"], sentence.id, text)
            cited[sentence] = None
        return list(cited)


def canonical_label(value: object) -> str | None:
    """The label as FEVER spells it, with or without blanks; ``None`` for anything else.

    >>> canonical_label("not enough info.")
    'NOT_ENOUGH_INFO'
    """
    if not isinstance(value, str):
        return None
    return _SPELLINGS.get(base.fold(value.replace("_", " ").strip(" .\"'")))


def normalise_page(title: str) -> str:
    """One spelling of a page title, whatever its blanks and FEVER's escapes; case counts but for the first letter.

    "Match_Point" and "Match_point" are two pages of the encyclopedia; that a title begins with a capital is its rule.

    >>> normalise_page("soul_Food_-LRB-film-RRB-"), normalise_page("Match_point") == normalise_page("Match_Point")
    ('Soul Food (film)', False)
    """
    name = unicodedata.normalize("NFC", title).replace("_", " ")
    if "-" in name:
        name = _ESCAPE.sub(lambda match: "()[]:"[(match.lastindex or 1) - 1], name)
    name = " ".join(name.split())
    return name[:1].upper() + name[1:]


def _evidence_sets(item: Item) -> list[list[Mapping[str, Any]]]:
    """The item's evidence sets, without rows that name no page and sets that have no other."""
    rows_of_sets = item.truth.get("evidence_sets") or []
    sets = [[row for row in rows if row.get("page")] for rows in rows_of_sets]
    return [rows for rows in sets if rows]


def _sentence(page: object, number: object, text: object) -> Sentence:
    if isinstance(number, str) and number.strip().isdecimal() and len(number) < 10:
        number = int(number)
    elif isinstance(number, str):
        text = number if text is None else text
        number = None
    elif isinstance(number, float) and number.is_integer():
        number = int(number)
    identifier = number if isinstance(number, int) and not isinstance(number, bool) else None
    words = base.fold(text) if isinstance(text, str) and text.strip() else None
    return Sentence(normalise_page(str(page)), identifier, words)


def _covers_a_set(cited: Sequence[Sentence], gold_sets: Sequence[Sequence[Sentence]]) -> bool:
    return any(
        all(any(cite.matches(gold) for cite in cited) for gold in sentences) for sentences in gold_sets
    )


def _evidence_metrics(
    cited: Sequence[Sentence], gold_sets: Sequence[Sequence[Sentence]], *, verifiable: bool, readable: bool
) -> dict[str, base.MetricValue]:
    names = [f"evidence_{part}_{level}" for level in ("page", "sentence") for part in ("p", "r", "f1")]
    if not verifiable:
        return dict.fromkeys(names)
    if not readable:
        return dict.fromkeys(names, 0.0)
    gold = [sentence for sentences in gold_sets for sentence in sentences]
    gold_pages = {sentence.page for sentence in gold}
    cited_pages = list(dict.fromkeys(citation.page for citation in cited))
    page_hits = sum(page in gold_pages for page in cited_pages)
    first_pages = {citation.page for citation in cited[:MOST_EVIDENCE]}
    page_recall = any({sentence.page for sentence in sentences} <= first_pages for sentences in gold_sets)
    hits = sum(any(citation.matches(sentence) for sentence in gold) for citation in cited)
    by_page = page_hits / len(cited_pages) if cited_pages else 1.0, float(page_recall)
    by_sentence = hits / len(cited) if cited else 1.0, float(_covers_a_set(cited[:MOST_EVIDENCE], gold_sets))
    values = (*by_page, base.harmonic_mean(*by_page), *by_sentence, base.harmonic_mean(*by_sentence))
    return dict(zip(names, values, strict=True))
