"""Truths of items files as people have them, read into the forms that evaluators score.

Published datasets and the specification write one truth in several ways: options as pairs or as a table, evidence
nested or flat, answers in one text. A form is known by its keys; a truth in the suite's own form comes back as it is.
What has the keys of a form and cannot be read is a :class:`~pcsuite.errors.DataError` that names file, line and field.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from pcsuite.errors import DataError

CHOICE_KEYS = ("label", "answerKey", "answer_key", "answer", "correct")
"""Where a truth with options says the right one, besides ``choice``."""
_PAGE_KEYS = ("page", "wiki_url", "evidence_wiki_url", "title", "doc")
_SENTENCE_KEYS = ("sentence", "sentence_id", "sent_id", "evidence_sentence_id", "line", "number")
_SET_KEYS = ("evidence_id", "set", "group")


def normalise_truth(input_text: str, truth: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """Input and truth of an item in the suite's own form; ``where`` names file and line in errors.

    Options that the input does not show are written below it, as exported items have them.

    >>> normalise_truth("Where?\\nA. sea\\nB. bank", {"label": "B", "choices": [["A", "sea"], ["B", "bank"]]}, "x")[1]
    {'choice': 'B', 'choices': {'A': 'sea', 'B': 'bank'}}
    """
    known = dict(truth)
    if "mc1_targets" in known and "choices" not in known:
        known |= _single_true(known.pop("mc1_targets"), where)
    if "choices" in known and (
        "choice" in known or any(isinstance(known.get(key), (str, int)) for key in CHOICE_KEYS)
    ):
        known = _with_choices(known, where)
        options = known["choices"]
        if not any(option.casefold() in input_text.casefold() for option in options.values()):
            input_text = choice_text(input_text, options)
    if (
        "evidence_sets" not in known
        and ("evidence" in known or "evidence_wiki_url" in known)
        and "label" in known
    ):
        known = _with_evidence_sets(known, where)
    if "correct_answers" in known and "incorrect_answers" in known:
        known = _with_references(known, where)
    answer = known.get("answer")
    if isinstance(answer, str) and "####" in answer:  # GSM8K as published: the solution, then the number
        solution, _, number = answer.rpartition("####")
        known = {**known, "answer": number.strip(), "solution": known.get("solution", solution.strip())}
    if "entities" not in known and "tokens" in known and ("ner_tags" in known or "tags" in known):
        known = _with_entities(known, input_text, where)
    elif isinstance(known.get("entities"), list):
        known = {
            **known,
            "entities": [_with_offsets(entity, input_text, where) for entity in known["entities"]],
        }
    return input_text, known


def choice_text(question: str, choices: Mapping[str, str]) -> str:
    """The question, then a line for each choice: ``A. …``.

    ``choices`` are texts by letter, in the order to show.
    """
    return "\n".join([question, *(f"{letter}. {text}" for letter, text in choices.items())])


def is_no_comment(answer: str) -> bool:
    """Whether a reference answer says that the question has no answer."""
    return " ".join(answer.split()).rstrip(".").casefold() == "i have no comment"


def _with_choices(truth: dict[str, Any], where: str) -> dict[str, Any]:
    """Options by letter, and the right one's letter, whether it was given by letter, number or text."""
    options = _options(truth["choices"], where)
    key = "choice" if "choice" in truth else next(key for key in CHOICE_KEYS if key in truth)
    answer = truth[key]
    letter = answer if isinstance(answer, str) and answer in options else None
    if (
        letter is None
        and isinstance(answer, int)
        and not isinstance(answer, bool)
        and 0 <= answer < len(options)
    ):
        letter = list(options)[answer]
    if letter is None:
        folded = str(answer).strip().casefold()
        letter = next(
            (name for name, text in options.items() if folded in (name.casefold(), text.casefold())), None
        )
    if letter is None:
        raise DataError(
            f"{where}: truth '{key}' is {answer!r}, which is none of the choices {', '.join(options)}"
        )
    kept = {name: value for name, value in truth.items() if name not in (key, "choices", "choice")}
    return {"choice": letter, "choices": options, **kept}


def _options(choices: Any, where: str) -> dict[str, str]:
    """Options by letter from a mapping, a table of two columns, pairs, records or plain texts."""
    pairs: list[tuple[Any, Any]]
    if isinstance(choices, Mapping):
        columns = [choices.get(key) for key in ("label", "text")]
        if all(isinstance(column, Sequence) and not isinstance(column, str) for column in columns):
            pairs = list(zip(columns[0] or (), columns[1] or (), strict=False))
        else:
            pairs = list(choices.items())
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        if all(isinstance(entry, str) for entry in choices):
            pairs = list(zip(string.ascii_uppercase, choices, strict=False))
        else:
            pairs = []
            for entry in choices:
                if isinstance(entry, Mapping):
                    pairs.append(
                        (entry.get("label", entry.get("key")), entry.get("text", entry.get("value")))
                    )
                else:
                    is_pair = isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2
                    pairs.append((entry[0], entry[1]) if is_pair else (None, None))
    else:
        pairs = []
    if len(pairs) < 2 or not all(isinstance(name, str) and isinstance(text, str) for name, text in pairs):
        raise DataError(
            f"{where}: truth 'choices' cannot be read",
            hint='write {"A": "…", "B": "…"}, or [["A", "…"], ["B", "…"]]',
        )
    return dict(pairs)


def _single_true(targets: Any, where: str) -> dict[str, Any]:
    """The multiple-choice form of TruthfulQA on the hub: texts, and a 1 for the true one."""
    try:
        texts, labels = list(targets["choices"]), list(targets["labels"])
        right = labels.index(1)
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{where}: truth 'mc1_targets' should hold 'choices' and 'labels' with a 1") from None
    return {"choices": texts, "answer": right}


def _with_evidence_sets(truth: dict[str, Any], where: str) -> dict[str, Any]:
    """FEVER's evidence as sets of sentences, from the dataset's nested lists, a flat list, or columns.

    In a flat list sentences with one ``evidence_id`` make a set; without ids each is a set of its own, since nothing
    says which of them belong together.
    """
    if "evidence" not in truth:
        names = [name for name in (*_PAGE_KEYS, *_SENTENCE_KEYS, *_SET_KEYS) if name in truth]
        truth = {**truth, "evidence": {name: truth[name] for name in names}}
    evidence = truth["evidence"]
    if isinstance(evidence, Mapping):
        columns = {name: value if isinstance(value, list) else [value] for name, value in evidence.items()}
        rows = zip(*columns.values(), strict=False) if columns else iter(())
        evidence = [dict(zip(columns, row, strict=True)) for row in rows]
    if evidence is None:
        evidence = []
    if not isinstance(evidence, list):
        raise _bad_evidence(where, evidence)
    sets: list[list[dict[str, Any]]] = []
    nested = (
        isinstance(entry, list) and all(isinstance(row, (list, Mapping)) for row in entry)
        for entry in evidence
    )
    if evidence and all(nested):
        sets = [[_sentence(row, where)[1] for row in entry] for entry in evidence]
    else:
        grouped: dict[Any, list[dict[str, Any]]] = {}
        for index, row in enumerate(evidence):
            group, sentence = _sentence(row, where)
            grouped.setdefault(index if group is None else ("id", group), []).append(sentence)
        sets = list(grouped.values())
    complete = [[row for row in rows if row["page"]] for rows in sets]
    kept = {
        name: value for name, value in truth.items() if name not in ("evidence", *_PAGE_KEYS, *_SENTENCE_KEYS)
    }
    return {**kept, "evidence_sets": [rows for rows in complete if rows]}


def _sentence(row: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """A cited sentence, and what says which set it belongs to (``None`` where nothing does).

    Four values are annotation id, evidence id, page and sentence, as FEVER has them; two are page and sentence, and
    three its text as well.
    """
    if isinstance(row, list) and len(row) in (2, 3, 4):
        page, number = row[-2:] if len(row) == 4 else row[:2]
        group, text = row[1] if len(row) == 4 else None, row[2] if len(row) == 3 else None
    elif isinstance(row, Mapping):
        page, number, group = (
            next((row[key] for key in keys if key in row), None)
            for keys in (_PAGE_KEYS, _SENTENCE_KEYS, _SET_KEYS)
        )
        text = row.get("text")
    else:
        raise _bad_evidence(where, row)
    if isinstance(number, str) and number.strip().lstrip("-").isdecimal():
        number = int(number)
    if isinstance(number, int) and number < 0:  # the hub's way of saying that there is none
        page, number = None, None
    if (
        not isinstance(page, (str, type(None)))
        or not isinstance(number, (int, type(None)))
        or (page and number is None)
    ):
        raise _bad_evidence(where, row)
    return group, {"page": page or "", "sentence": number, "text": text}


def _bad_evidence(where: str, value: Any) -> DataError:
    return DataError(
        f"{where}: truth 'evidence' cannot be read: {str(value)[:80]!r}",
        hint='lists of [annotation, evidence, page, sentence], or {"page", "sentence"}, in sets or flat',
    )


def _with_references(truth: dict[str, Any], where: str) -> dict[str, Any]:
    """TruthfulQA's references as lists; a text holds several, parted by ``;`` as in the published table."""
    known = dict(truth)
    for key in ("correct_answers", "incorrect_answers"):
        value = known[key]
        if isinstance(value, str):
            value = [part.strip() for part in value.split(";") if part.strip()]
        if not isinstance(value, list) or not value or not all(isinstance(entry, str) for entry in value):
            raise DataError(
                f"{where}: truth '{key}' should be a list of answers (or one text, parted by ';')"
            )
        known[key] = value
    if not isinstance(known.get("best_answer", ""), str):
        raise DataError(f"{where}: truth 'best_answer' should be a text")
    known.setdefault("best_answer", known["correct_answers"][0])
    known.setdefault("unanswerable", any(map(is_no_comment, known["correct_answers"])))
    return known


HUB_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
"""The tags that CoNLL-2003 has numbers for on the hub."""


def _with_entities(truth: dict[str, Any], input_text: str, where: str) -> dict[str, Any]:
    """Entities of tokens and their tags (IOB1 or IOB2, or the hub's numbers), with offsets in the input."""
    tokens, tags = truth["tokens"], truth.get("ner_tags", truth.get("tags"))
    if not (isinstance(tokens, list) and isinstance(tags, list) and len(tokens) == len(tags)):
        raise DataError(f"{where}: truth 'tokens' and 'ner_tags' should be two lists of one length")
    names: list[str] = []
    places: list[tuple[int, int]] = []
    for token, tag in zip(tokens, tags, strict=True):
        name = HUB_TAGS[tag] if isinstance(tag, int) and 0 <= tag < len(HUB_TAGS) else tag
        if not isinstance(name, str) or not (name == "O" or name[:2] in ("B-", "I-")):
            raise DataError(f"{where}: truth 'ner_tags' has {tag!r}, which is no tag such as B-PER")
        start = input_text.find(str(token), places[-1][1] if places else 0)
        if start < 0:
            raise DataError(f"{where}: token {token!r} of the truth is not in the input")
        names.append(name)
        places.append((start, start + len(str(token))))
    entities = []
    for kind, first, after in entity_spans(names):
        start, end = places[first][0], places[after - 1][1]
        entities.append({"type": kind, "start": start, "end": end, "text": input_text[start:end]})
    others = {key: value for key, value in truth.items() if key not in ("ner_tags", "tags")}
    return {**others, "entities": entities}


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


def _with_offsets(entity: Any, input_text: str, where: str) -> Any:
    """An entity with the offsets of its text, where the truth gives none."""
    if not isinstance(entity, Mapping) or ("start" in entity and "end" in entity) or "text" not in entity:
        return entity
    start = input_text.find(str(entity["text"]))
    if start < 0:
        raise DataError(f"{where}: entity {entity['text']!r} of the truth is not in the input")
    return {**entity, "start": start, "end": start + len(str(entity["text"]))}
