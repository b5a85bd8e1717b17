"""What ``init-task`` makes of each kind of task: truths of rows, the answer's schema, and the task's wording.

The words themselves are in ``task_recipes.yaml``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import ascii_uppercase as LETTERS
from typing import Any, NamedTuple

import yaml

from pcsuite._util.text import fraction_text, plain_number
from pcsuite.config.definitions import AnswerForm
from pcsuite.data.items import Item, Row
from pcsuite.data.table_numbers import Mark, quantity_column, read_column
from pcsuite.data.truths import choice_text
from pcsuite.errors import DataError, did_you_mean

ABSTAIN_LABEL = "INSUFFICIENT_INFO"
MAX_INFERRED_LABELS = 50

Schema = dict[str, Any]
_QUANTITY = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
"""A number as a record's cell writes it: "007" and "1e5" are codes rather than quantities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of the user's table mean what."""

    inputs: tuple[str, ...] = ()
    """Columns of the input; several are shown as ``name: value`` lines."""
    answer: str | None = None
    labels: tuple[str, ...] = ()
    """Labels of a classification, in the order to show; by default those that occur."""
    choices: tuple[str, ...] = ()
    """Columns of a multiple choice's options, or one column that holds them as a list or ``|``-separated."""
    fields: tuple[str, ...] = ()
    """Columns that make the record to extract; without them the answer column holds a JSON object."""
    id_column: str | None = None
    """Column of item ids; without it items are numbered."""
    placed: tuple[str, ...] = ()
    """Columns that a prompt of the user's own puts in places of its own."""
    decimal: Mark | None = None
    """The decimal mark of numbers; by default what all cells of a column tell."""


class RowContent(NamedTuple):
    """Input and truth of one row."""

    input_text: str
    truth: dict[str, Any]


class Wording(NamedTuple):
    """The parts of a task that depend on its kind: its words, by the task file's keys, and the answer's schema."""

    task: dict[str, Any]
    schema: Schema | None
    forms: Mapping[str, Mapping[str, Any]] = {}
    """Words that replace those of ``task`` where the answer is to be ``plain`` text or ``json`` instead."""


def _as_they_are(rows: Sequence[Row], columns: Columns) -> tuple[Sequence[Row], list[str]]:
    return rows, []


class Recipe(NamedTuple):
    """How a kind of task is made: what a row of the user's table says, and what all of them ask for."""

    summary: str
    read: Callable[[Row, Columns], RowContent]
    describe: Callable[[Sequence[Item], Columns], Wording]
    settle: Callable[[Sequence[Row], Columns], tuple[Sequence[Row], list[str]]] = _as_they_are
    """What whole columns tell before a row is read (the decimal mark of numbers): the rows in one spelling, and what
    was concluded, a sentence each. Raises :class:`DataError` where a column tells two things."""


FILL_IT_IN = "fill it in, or take the row out of the table"


def cell_text(row: Row, name: str) -> str:
    """A cell as text without blanks at its ends; other values than text as JSON.

    Raises :class:`DataError`, which names the row, where the cell is empty.
    """
    value = row.get(name)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if value is None or not text.strip():
        raise row.error(f"column '{name}' is empty", FILL_IT_IN)
    return text.strip()


def _input_text(row: Row, columns: Columns) -> str:
    if len(columns.inputs) == 1:
        return cell_text(row, columns.inputs[0])
    return "\n".join(f"{name}: {cell_text(row, name)}" for name in columns.inputs)


def _list_values(row: Row, name: str) -> list[str]:
    """Values of a cell that holds a list, or text parted by ``|``."""
    value = row.get(name)
    parts = [str(part) for part in value] if isinstance(value, list) else cell_text(row, name).split("|")
    texts = [part.strip() for part in parts if part.strip()]
    if not texts:
        raise row.error(f"column '{name}' is empty", FILL_IT_IN)
    return texts


def _worded(kind: str, names: Sequence[str], properties: Mapping[str, Any], **more: Any) -> Wording:
    """The words of a kind, and the schema of an object with just these keys, all required; none without keys."""
    words = _named(recipe_words()[kind], ", ".join(names))
    forms = {name: words.pop(name) for name in ("plain", "json") if name in words}
    return Wording(words | more, object_schema(properties) if properties else None, forms)


@lru_cache(maxsize=1)
def recipe_words() -> Mapping[str, Any]:
    """The bundled words by kind of task, read once; ``{names}`` stands where labels or fields are named.

    A mapping to read, not to change: it is the same for everybody.
    """
    words: Mapping[str, Any] = yaml.safe_load(
        (files("pcsuite.data") / "task_recipes.yaml").read_text("utf-8")
    )
    return words


def _named(words: Any, listed: str) -> Any:
    """The words with the labels or fields in their places."""
    if isinstance(words, dict):
        return {key: _named(value, listed) for key, value in words.items()}
    if isinstance(words, list):
        return [_named(value, listed) for value in words]
    return words.replace("{names}", listed) if isinstance(words, str) else words


def object_schema(properties: Mapping[str, Any]) -> Schema:
    """The JSON schema of an object that has just these keys, all of them required."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def with_answer_form(words: Wording, form: AnswerForm | None, kind: str) -> Wording:
    """The words of a kind for an answer of another form: without JSON (text, number, label), or in it.

    ``None`` leaves the kind's own form. Raises :class:`DataError` for a record, which is JSON or nothing.
    """
    if form is None or (form == "json") == (words.schema is not None):
        return words
    if form == "json":
        if "json" not in words.forms:
            raise DataError(f"--answer-as json: a task of kind {kind} is answered in text")
        task = {**words.task, **words.forms["json"], "kind": "structured"}
        task |= {"final_answer_format": None, "answer_regex": None}
        return Wording(task, object_schema({"answer": {"type": ["number", "null"]}}))
    if "plain" not in words.forms:
        raise DataError(f"--answer-as {form}: a task of kind {kind} is answered in JSON")
    return Wording({**words.task, **words.forms["plain"], "kind": "reasoning"}, None)


def _answer(columns: Columns) -> str:
    if columns.answer is None:
        raise DataError("this kind of task needs an answer column", hint="--answer COLUMN")
    return columns.answer


def _read_label(row: Row, columns: Columns) -> RowContent:
    label = cell_text(row, _answer(columns))
    if columns.labels:
        spelled = {folded_label(known): known for known in columns.labels}
        if folded_label(label) not in spelled:
            hint = did_you_mean(label, columns.labels)
            raise row.error(f"label '{label}' is not one of the labels", hint)
        label = spelled[folded_label(label)]
    return RowContent(_input_text(row, columns), {"label": label})


def _one_spelling(rows: Sequence[Row], columns: Columns) -> tuple[Sequence[Row], list[str]]:
    """The rows, whose labels must differ by more than case, blanks or Unicode form, which no scorer tells apart."""
    name = _answer(columns)
    known: dict[str, tuple[str, str]] = {}
    for label in columns.labels:
        other, _ = known.setdefault(folded_label(label), (label, ""))
        if other != label:
            raise DataError(f"--labels: '{other}' and '{label}' differ by {_difference(other, label)} alone")
    for row in [] if columns.labels else rows:
        label = cell_text(row, name)
        other, where = known.setdefault(folded_label(label), (label, row.where))
        if other != label:
            raise row.error(
                f"label '{label}' differs from '{other}' ({where}) by {_difference(other, label)} alone",
                "write one of them throughout, or list the labels with --labels: then other spellings are theirs",
            )
    return rows, []


def folded_label(label: str) -> str:
    """What two labels are the same by: case, blanks and Unicode form aside.

    >>> folded_label("Caf\u0065\u0301  Bar") == folded_label("CAF\u00c9 bar")
    True
    """
    shown = "".join(c for c in unicodedata.normalize("NFKC", label) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", " ".join(shown.split()).casefold())


def _difference(first: str, second: str) -> str:
    if first.casefold() == second.casefold():
        return "case"
    return "blanks" if "".join(first.split()) == "".join(second.split()) else "Unicode form"


def _label_words(items: Sequence[Item], columns: Columns) -> Wording:
    labels = list(columns.labels) or list(dict.fromkeys(item.truth["label"] for item in items))
    if len(labels) > MAX_INFERRED_LABELS and not columns.labels:
        raise DataError(
            f"column '{columns.answer}' has {len(labels)} different values: too many for labels",
            hint="list them with --labels, or choose --kind short_answer",
        )
    if len(labels) < 2:
        raise DataError(f"a classification needs two labels or more, found {', '.join(labels)}")
    confidence = {"type": "number", "minimum": 0, "maximum": 1}
    properties = {"label": {"enum": [*labels, ABSTAIN_LABEL]}, "confidence": confidence}
    return _worded("classification", labels, properties, evaluator_options={"labels": labels})


def _one_mark(rows: Sequence[Row], columns: Columns) -> tuple[Sequence[Row], list[str]]:
    """The rows with the numbers of the answer in plain digits."""
    name = _answer(columns)
    numbers = read_column(rows, name, columns.decimal)
    plain = [None if value is None else fraction_text(value) for value in numbers.values]
    return _with_column(rows, name, plain), [numbers.sentence] if numbers.sentence else []


def _with_column(rows: Sequence[Row], name: str, values: Sequence[Any]) -> list[Row]:
    return [row._replace(values={**row.values, name: value}) for row, value in zip(rows, values, strict=True)]


def _read_number(row: Row, columns: Columns) -> RowContent:
    return RowContent(_input_text(row, columns), {"answer": cell_text(row, _answer(columns))})


def _read_choice(row: Row, columns: Columns) -> RowContent:
    if not columns.choices:
        raise DataError("a multiple choice needs its options", hint="--choices COLUMN[,COLUMN…]")
    if len(columns.choices) == 1:
        options = _list_values(row, columns.choices[0])
    else:
        options = [cell_text(row, name) for name in columns.choices]
    if not 2 <= len(options) <= len(LETTERS):
        raise row.error(f"a choice needs 2 to {len(LETTERS)} options, found {len(options)}")
    choices = dict(zip(LETTERS, options, strict=False))
    answer = cell_text(row, _answer(columns))
    # An option's text goes before its letter: an option may itself be called A.
    by_text = [letter for letter, option in choices.items() if option.casefold() == answer.casefold()]
    letter = by_text[0] if by_text else answer.upper()
    if letter not in choices:
        raise row.error(
            f"answer '{answer}' is neither a letter A to {list(choices)[-1]} nor an option's text"
        )
    text = choice_text(_input_text(row, columns), choices)
    return RowContent(text, {"choice": letter, "choices": choices})


def _choice_words(items: Sequence[Item], columns: Columns) -> Wording:
    letters = LETTERS[: max(len(item.truth["choices"]) for item in items)]
    justification = {"type": "string", "maxLength": 200}
    properties = {"choice": {"enum": [*letters, ABSTAIN_LABEL]}, "justification": justification}
    return _worded("choice", (), properties)


def _field_marks(rows: Sequence[Row], columns: Columns) -> tuple[Sequence[Row], list[str]]:
    """The rows with the fields that are quantities throughout as numbers, each by its own decimal mark."""
    notes = []
    for name in columns.fields:
        numbers = quantity_column(rows, name, columns.decimal)
        if numbers is not None:
            values = [
                None if value is None else int(value) if value.denominator == 1 else float(value)
                for value in numbers.values
            ]
            rows = _with_column(rows, name, values)
            notes += [numbers.sentence] if numbers.sentence else []
    return rows, notes


def _read_record(row: Row, columns: Columns) -> RowContent:
    if columns.fields:
        record = {name: _field_value(row.get(name), columns.decimal or ".") for name in columns.fields}
    else:
        value = row.get(_answer(columns))
        try:
            record = json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            raise row.error(f"column '{columns.answer}' is not valid JSON ({error.msg})") from error
        if not isinstance(record, dict):
            raise row.error(f"column '{columns.answer}' should hold a JSON object")
    return RowContent(_input_text(row, columns), record)


def _field_value(value: Any, mark: Mark) -> Any:
    """A cell of a record: empty is ``null`` (the input does not say), digits are numbers.

    Columns of numbers alone were read as a whole before (:func:`_field_marks`); this is for those that also hold texts.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    # With a decimal comma a text with a point in it is a version or a date.
    digits = text.replace(",", ".") if mark == "," and "." not in text else text
    if (mark == "," and "." in text) or not _QUANTITY.fullmatch(digits) or plain_number(digits) is None:
        return text
    return int(digits) if "." not in digits else float(digits)


def _value_schema(values: Sequence[Any]) -> Schema:
    named = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    kinds = {named.get(type(value), "string") for value in values if value is not None}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    kind = kinds.pop() if len(kinds) == 1 else "string"
    if kind == "array":
        entries = [entry for value in values if isinstance(value, list) for entry in value]
        return {"type": ["array", "null"], "items": _value_schema(entries), "maxItems": 50}
    bound = {"maxLength": 200} if kind == "string" else {}
    return {"type": [kind, "null"], **bound}


def _record_words(items: Sequence[Item], columns: Columns) -> Wording:
    names = list(columns.fields) or list(dict.fromkeys(name for item in items for name in item.truth))
    properties = {name: _value_schema([item.truth.get(name) for item in items]) for name in names}
    quoted = [f'"{name}"' for name in names]
    return _worded("extraction", quoted, properties, max_tokens=60 + 30 * len(names))


def _read_assertions(row: Row, columns: Columns) -> RowContent:
    """What the answer must be, one assertion a column; an empty cell asserts nothing, but one must be filled."""
    names = columns.fields or (_answer(columns),)
    cells = [row.get(name) for name in names]
    assertions: list[Any] = []
    for value in cells:
        if isinstance(value, str) and value.strip().startswith("["):
            with suppress(ValueError):  # else a text in brackets that the answer must equal
                value = json.loads(value)
        assertions += value if isinstance(value, list) else [value] if str(value or "").strip() else []
    if not assertions:
        raise row.error(f"column '{names[0]}' is empty", FILL_IT_IN)
    return RowContent(_input_text(row, columns), {"assert": assertions})


RECIPES: Mapping[str, Recipe] = {
    "classification": Recipe("one label of a fixed set", _read_label, _label_words, _one_spelling),
    "number": Recipe(
        "a number, after some reasoning",
        _read_number,
        lambda items, columns: _worded("number", (), {}),
        _one_mark,
    ),
    "choice": Recipe("one of lettered options", _read_choice, _choice_words),
    "short_answer": Recipe(
        "a few words",
        lambda row, columns: RowContent(
            _input_text(row, columns), {"answers": _list_values(row, _answer(columns))}
        ),
        lambda items, columns: _worded("short_answer", (), {"answer": {"type": "string", "maxLength": 200}}),
    ),
    "extraction": Recipe("a record of fields", _read_record, _record_words, _field_marks),
    "assert": Recipe(
        "anything that its assertions hold for (contains: x, number: 3 within 0.1, …)",
        _read_assertions,
        lambda items, columns: _worded("assert", (), {}),
    ),
    "own": Recipe(
        "anything, judged by a function of yours (--scorer FILE.py:FUNCTION)",
        lambda row, columns: RowContent(_input_text(row, columns), dict(row.values)),
        lambda items, columns: _worded(
            "own", (), {}, evaluator_options={"expected": columns.answer} if columns.answer else {}
        ),
    ),
}
"""Kinds of task by the name of their evaluator; that of ``own`` is a function of the user's."""
KIND_OF_ANSWER: Mapping[AnswerForm, str] = {
    "label": "classification",
    "number": "number",
    "text": "short_answer",
    "json": "extraction",
}
"""The kind of task where only the form of its answer is named."""
