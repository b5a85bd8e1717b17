"""What ``init-task`` makes of each kind of task: truths of rows, the answer's schema, and the task's wording."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from pcsuite.data.items import Item, Row
from pcsuite.errors import DataError, did_you_mean

ABSTAIN_LABEL = "INSUFFICIENT_INFO"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MAX_INFERRED_LABELS = 50

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of the user's table mean what."""

    inputs: tuple[str, ...]
    """Columns of the input; several are shown as ``name: value`` lines."""
    answer: str | None = None
    labels: tuple[str, ...] = ()
    """Labels of a classification, in the order to show; by default those that occur."""
    choices: tuple[str, ...] = ()
    """Columns of a multiple choice's options, or one column that holds them as a list or ``|``-separated."""
    fields: tuple[str, ...] = ()
    """Columns that make the record to extract; without them the answer column holds a JSON object."""


class Reading(NamedTuple):
    """Input and truth of one row."""

    input_text: str
    truth: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wording:
    """The parts of a task that depend on its kind: its words, and the schema of its answer."""

    kind: str
    instruction: str
    role: str
    goal: str
    rules: tuple[str, ...]
    abstain: str
    decompose: tuple[str, ...]
    checks: tuple[str, ...]
    max_tokens: int
    primary_metric: str
    final_answer_format: str | None = None
    answer_regex: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    schema: Schema | None = None


class Recipe(NamedTuple):
    """How a kind of task is made: what a row of the user's table says, and what all of them ask for."""

    summary: str
    read: Callable[[Row, Columns], Reading]
    describe: Callable[[Sequence[Item], Columns], Wording]


def cell_text(row: Row, name: str) -> str:
    """A cell as text without blanks at its ends; other values than text as JSON.

    Raises :class:`DataError`, which names the row, where the cell is empty.
    """
    value = row.get(name)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if value is None or not text.strip():
        raise row.error(f"column '{name}' is empty")
    return text.strip()


def _input_text(row: Row, columns: Columns) -> str:
    if len(columns.inputs) == 1:
        return cell_text(row, columns.inputs[0])
    return "\n".join(f"{name}: {cell_text(row, name)}" for name in columns.inputs)


def _several(row: Row, name: str) -> list[str]:
    """Values of a cell that holds a list, or text parted by ``|``."""
    value = row.get(name)
    parts = [str(part) for part in value] if isinstance(value, list) else cell_text(row, name).split("|")
    texts = [part.strip() for part in parts if part.strip()]
    if not texts:
        raise row.error(f"column '{name}' is empty")
    return texts


def _object_schema(**properties: Any) -> Schema:
    """A JSON schema of an object with just these keys, all of them required."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _answer(columns: Columns) -> str:
    if columns.answer is None:
        raise DataError("this kind of task needs an answer column", hint="--answer COLUMN")
    return columns.answer


def _read_label(row: Row, columns: Columns) -> Reading:
    label = cell_text(row, _answer(columns))
    if columns.labels:
        spelled = {known.casefold(): known for known in columns.labels}
        if label.casefold() not in spelled:
            raise row.error(
                f"label '{label}' is not one of the labels", hint=did_you_mean(label, columns.labels)
            )
        label = spelled[label.casefold()]
    return Reading(_input_text(row, columns), {"label": label})


def _label_words(items: Sequence[Item], columns: Columns) -> Wording:
    labels = list(columns.labels) or list(dict.fromkeys(item.truth["label"] for item in items))
    if len(labels) > MAX_INFERRED_LABELS and not columns.labels:
        raise DataError(
            f"column '{columns.answer}' has {len(labels)} different values: too many for labels",
            hint="list them with --labels, or choose --kind short_answer",
        )
    if len(labels) < 2:
        raise DataError(f"a classification needs two labels or more, found {', '.join(labels)}")
    names = ", ".join(labels)
    return Wording(
        kind="structured",
        instruction=f'Classify the input as one of: {names}. Answer as JSON with "label" and "confidence".',
        role="a careful annotator who files every input under one label",
        goal="Name the one label that fits the input best, and how sure you are.",
        rules=(f"The label is exactly one of {names}.", "The confidence is a number between 0 and 1."),
        abstain=f"If no label can be decided, the label is {ABSTAIN_LABEL}.",
        decompose=("Say what the input is mainly about.", "Compare the labels.", "Choose one."),
        checks=(
            "Is the label one of the list, spelled exactly?",
            "Is the confidence between 0 and 1?",
            "Would a second reader of the input choose the same label?",
        ),
        max_tokens=80,
        primary_metric="accuracy",
        options={"labels": labels},
        schema=_object_schema(
            label={"enum": [*labels, ABSTAIN_LABEL]},
            confidence={"type": "number", "minimum": 0, "maximum": 1},
        ),
    )


def _read_number(row: Row, columns: Columns) -> Reading:
    name = _answer(columns)
    plain = cell_text(row, name).replace(",", "").removeprefix("$")
    try:
        number = Decimal(plain)
    except InvalidOperation:
        number = Decimal("nan")
    if not _is_plain(number):
        raise row.error(f"column '{name}' holds no number: '{cell_text(row, name)}'")
    text = f"{number:f}"
    return Reading(
        _input_text(row, columns), {"answer": text.rstrip("0").rstrip(".") if "." in text else text}
    )


def _is_plain(number: Decimal) -> bool:
    """Whether a number can be written out: an exponent of millions would take as many digits."""
    return number.is_finite() and abs(number.adjusted()) <= 30


def _number_words(items: Sequence[Item], columns: Columns) -> Wording:
    return Wording(
        kind="reasoning",
        instruction="Answer the question with a number.",
        role="a careful calculator who shows short, correct steps",
        goal="Find the number that answers the question.",
        rules=("Write each calculation on its own line.", "Use only numbers that follow from the input."),
        abstain=f'If the number cannot be found from the input, the last line is "#### {ABSTAIN_LABEL}".',
        decompose=("List what is given.", "Say what is asked for.", "Calculate step by step."),
        checks=(
            "Does every calculation hold when done again?",
            "Does the number answer what was asked?",
            'Is the last line "####" followed by the number alone?',
        ),
        max_tokens=320,
        primary_metric="exact match",
        final_answer_format='Write the solution, then a last line of the form "#### NUMBER".',
        answer_regex=rf"[^#]{{1,700}}\n#### (-?[0-9]{{1,12}}(\.[0-9]{{1,6}})?|{ABSTAIN_LABEL})",
    )


def _read_choice(row: Row, columns: Columns) -> Reading:
    if not columns.choices:
        raise DataError("a multiple choice needs its options", hint="--choices COLUMN[,COLUMN…]")
    if len(columns.choices) == 1:
        options = _several(row, columns.choices[0])
    else:
        options = [cell_text(row, name) for name in columns.choices]
    if not 2 <= len(options) <= len(LETTERS):
        raise row.error(f"a choice needs 2 to {len(LETTERS)} options, found {len(options)}")
    choices = dict(zip(LETTERS, options, strict=False))
    given = cell_text(row, _answer(columns))
    by_text = [letter for letter, option in choices.items() if option.casefold() == given.casefold()]
    letter = by_text[0] if by_text else given.upper()
    if letter not in choices:
        raise row.error(f"answer '{given}' is neither a letter A to {list(choices)[-1]} nor an option's text")
    lines = [_input_text(row, columns), *(f"{key}. {option}" for key, option in choices.items())]
    return Reading("\n".join(lines), {"choice": letter, "choices": choices})


def _choice_words(items: Sequence[Item], columns: Columns) -> Wording:
    letters = LETTERS[: max(len(item.truth["choices"]) for item in items)]
    return Wording(
        kind="structured",
        instruction='Choose the best option. Answer as JSON with "choice" (the letter) and "justification".',
        role="a careful reader who answers multiple-choice questions",
        goal="Name the letter of the one option that answers the question best.",
        rules=("The choice is the letter of one of the options.", "The justification has at most 25 words."),
        abstain=f"If no option can be chosen, the choice is {ABSTAIN_LABEL}.",
        decompose=(
            "Say what is asked.",
            "Rule out options that cannot be right.",
            "Choose the best one left.",
        ),
        checks=("Is the choice a letter of the list?", "Does the justification speak for that option only?"),
        max_tokens=140,
        primary_metric="accuracy",
        options={"word_limits": {"justification": 25}},
        schema=_object_schema(
            choice={"enum": [*letters, ABSTAIN_LABEL]}, justification={"type": "string", "maxLength": 200}
        ),
    )


def _read_short(row: Row, columns: Columns) -> Reading:
    return Reading(_input_text(row, columns), {"answers": _several(row, _answer(columns))})


def _short_words(items: Sequence[Item], columns: Columns) -> Wording:
    return Wording(
        kind="structured",
        instruction='Answer the question in a few words, as JSON with "answer".',
        role="a careful expert who answers in as few words as possible",
        goal="Give the shortest answer that is right.",
        rules=("The answer is a name, a date, a number or a short phrase, not a sentence.",),
        abstain=f"If the answer is not known, the answer is {ABSTAIN_LABEL}.",
        decompose=("Say what kind of answer is asked for.", "Recall or find it.", "Shorten it."),
        checks=("Is the answer of the kind that was asked for?", "Is it as short as it can be?"),
        max_tokens=80,
        primary_metric="exact match",
        schema=_object_schema(answer={"type": "string", "maxLength": 200}),
    )


def _read_record(row: Row, columns: Columns) -> Reading:
    if columns.fields:
        record = {name: _field_value(row.get(name)) for name in columns.fields}
    else:
        value = row.get(_answer(columns))
        try:
            record = json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            raise row.error(f"column '{columns.answer}' is not valid JSON ({error.msg})") from error
        if not isinstance(record, dict):
            raise row.error(f"column '{columns.answer}' should hold a JSON object")
    return Reading(_input_text(row, columns), record)


def _field_value(value: Any) -> Any:
    """A cell of a record: empty is ``null`` (the input does not say), digits are numbers."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    # "007" and "1e5" are codes rather than quantities
    if not _is_plain(number) or f"{number:f}" != text:
        return text
    return int(text) if "." not in text else float(text)


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
    shown = ", ".join(f'"{name}"' for name in names)
    return Wording(
        kind="structured",
        instruction=f"Extract from the input, as JSON: {shown}.",
        role="a careful clerk who copies facts from texts into records",
        goal="Fill every field with what the input says, and nothing else.",
        rules=(
            "Use only what the input says.",
            "A field the input says nothing about is null.",
            "Numbers are written as numbers, without units.",
        ),
        abstain="Set a field to null rather than guess it.",
        decompose=("Go through the fields one by one.", "Find the words of the input that give each."),
        checks=(
            "Is every field there?",
            "Can each value be pointed to in the input?",
            "Is every field null that the input says nothing about?",
        ),
        max_tokens=60 + 30 * len(names),
        primary_metric="field F1",
        schema=_object_schema(
            **{name: _value_schema([item.truth.get(name) for item in items]) for name in names}
        ),
    )


RECIPES: Mapping[str, Recipe] = {
    "classification": Recipe("one label of a fixed set", _read_label, _label_words),
    "number": Recipe("a number, after some reasoning", _read_number, _number_words),
    "choice": Recipe("one of lettered options", _read_choice, _choice_words),
    "short_answer": Recipe("a few words", _read_short, _short_words),
    "extraction": Recipe("a record of fields", _read_record, _record_words),
}
"""Kinds of task by the name of their evaluator."""
