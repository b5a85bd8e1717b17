"""Gold labels beside a run: the sample that was drawn to be labelled, and what people said of it.

``<run>.judge_sample.json`` holds the drawn answers in the order they are to be labelled, without a word on condition or
model; ``<run>.labels.ndjson`` is append-only, one label a line, the newest of an answer counts. A label belongs to the
text that was judged (task, item, answer, and the other answer of a pair): equal answers under several conditions are
labelled once.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.text import table_delimiter
from pcsuite.errors import DataError, LogError, did_you_mean
from pcsuite.logging.notes import LONGEST_NOTE, NoteFile, spreadsheet_csv
from pcsuite.logging.segments import Beside

CANNOT_TELL = "cannot tell"
"""A label that says that there is none: the answer counts as looked at, and has no gold value."""
PERSON = "person"
LABEL_WORDS: Mapping[str, tuple[str, ...]] = {
    "pass_fail": ("pass", "fail"),
    "one_to_five": ("1", "2", "3", "4", "5"),
    "pairwise": ("first", "second", "tie"),
}
"""By scale: what a person may say; of a pair, which of the two answers as shown is better."""


class LabelUnit(msgspec.Struct, frozen=True):
    """An answer (or a pair) to be labelled."""

    id: str
    task: str
    item: str
    answer: str
    other: str = ""
    """Of a pair: the control's answer."""
    first: str = "answer"
    """Of a pair: which one is shown first, ``answer`` or ``control``; drawn by lot."""
    run_ids: list[str] = []
    """The rows it was drawn for."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The answers in the order a person sees them."""
        if not self.other:
            return (self.answer,)
        return (self.answer, self.other) if self.first == "answer" else (self.other, self.answer)


class JudgeSample(msgspec.Struct):
    """A random sample of a run's judged answers."""

    seed: str = ""
    drawn_utc: str = ""
    items: dict[str, list[str]] = {}
    """By task: the drawn items in the order they were drawn."""
    frame: dict[str, int] = {}
    """By task: the items there were to draw from."""
    scales: dict[str, str] = {}
    rubrics: dict[str, str] = {}
    units: list[LabelUnit] = []


def unit_id(task: str, item: str, answer: str, other: str = "") -> str:
    """The name of what is labelled: a hash of the very texts (24 hexadecimal digits).

    Replicates that gave the same answer are one thing to label; another wording is another.
    """
    return sha256_hex("\x1f".join((task, item, answer, other)))[:24]


def write_sample(log: Path, sample: JudgeSample) -> Path:
    """Write the sample of a log, whole or not at all; raises :class:`LogError` where it cannot be written."""
    path = Beside.JUDGE_SAMPLE.of(log)
    with write_errors(LogError, path):
        replace_atomically(path, msgspec.json.format(msgspec.json.encode(sample), indent=1) + b"\n")
    return path


def read_sample(log: Path) -> JudgeSample | None:
    """The sample of a log, ``None`` where none was drawn; raises :class:`LogError` where it cannot be read.

    ``pcsuite judge sample`` draws one; a sample stays the same however the run goes on.
    """
    path = Beside.JUDGE_SAMPLE.of(log)
    try:
        return msgspec.json.decode(path.read_bytes(), type=JudgeSample)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise LogError(f"{path}: not a sample of answers ({error})", hint="pcsuite judge sample") from error


@dataclass(frozen=True, slots=True)
class GoldLabel:
    """What a person, or a judge, said of one answer."""

    unit: str
    label: str
    note: str
    made_utc: str
    source: str = PERSON
    """Who said it: ``person``, or ``judge`` and a model's id, of answers that can be read in two ways."""


class Labels:
    """The labels of one run."""

    def __init__(self, log: Path) -> None:
        self.path = Beside.LABELS.of(log)
        self._notes: NoteFile[str, GoldLabel] = NoteFile(self.path, GoldLabel)

    def read(self) -> dict[str, GoldLabel]:
        """The newest label of each answer that has one; a line that cannot be read is passed over.

        By the answers' ids (:func:`unit_id`).
        """
        return self._notes.newest(lambda label: label.unit, lambda label: label.label)

    def add(self, unit: LabelUnit, scale: str, label: str, note: str = "", source: str = PERSON) -> GoldLabel:
        """Note a label, on the disk before this returns; an empty one takes the last away.

        Raises :class:`DataError` for a word that the scale has not, :class:`LogError` where it cannot be written.
        """
        allowed = (*LABEL_WORDS[scale], CANNOT_TELL)
        if label and label not in allowed:
            raise DataError(f"'{label}' is no label of the scale {scale}", hint=did_you_mean(label, allowed))
        if len(note) > LONGEST_NOTE:
            raise DataError(f"a note has at most {LONGEST_NOTE} characters")
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        gold = GoldLabel(unit.id, label, note, now, source)
        self._notes.append(asdict(gold))
        return gold


def gold_verdict(unit: LabelUnit, label: str) -> str | None:
    """A person's label as a verdict of the scale (``answer``, ``control`` or ``tie`` of a pair); ``None`` for none."""
    if label == CANNOT_TELL or not label:
        return None
    if label in ("first", "second"):
        second = "control" if unit.first == "answer" else "answer"
        return unit.first if label == "first" else second
    return label


COLUMNS = ("label_id", "task", "input", "answer", "other_answer", "label", "allowed")


def sheet_csv(
    sample: JudgeSample, inputs: Mapping[tuple[str, str], str], labels: Mapping[str, GoldLabel]
) -> str:
    """The sample as a table to fill in: one answer a line, blind to condition and model, formulas disarmed.

    ``inputs`` are the items' texts by task and item id.
    """
    rows = []
    for unit in sample.units:
        gold = labels.get(unit.id)
        allowed = " | ".join((*LABEL_WORDS[sample.scales[unit.task]], CANNOT_TELL))
        text = inputs.get((unit.task, unit.item), "")
        answers = (*unit.shown, "")[:2]
        rows.append([unit.id, unit.task, text, *answers, gold.label if gold else "", allowed])
    return spreadsheet_csv(COLUMNS, rows)


def read_sheet(path: Path, sample: JudgeSample) -> dict[str, str]:
    """Labels of a filled-in table by unit id; lines without a label are left out.

    Needs the columns ``label_id`` and ``label``. Raises :class:`DataError` with the line for a column that is missing,
    an id that was not drawn or a word that is no label.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            delimiter = table_delimiter(stream.readline())
            stream.seek(0)
            rows = list(csv.DictReader(stream, delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from error
    if not rows:
        raise DataError(f"{path}: the table has no line", hint="pcsuite judge sample writes one to fill in")
    for column in ("label_id", "label"):
        if column not in rows[0]:
            names = [name for name in rows[0] if name]
            raise DataError(f"{path}: no column '{column}'", hint=did_you_mean(column, names))
    units = {unit.id: unit for unit in sample.units}
    labels: dict[str, str] = {}
    for line, row in enumerate(rows, start=2):
        name, label = (row["label_id"] or "").strip(), (row["label"] or "").strip().casefold()
        if not label:
            continue
        if name not in units:
            raise DataError(
                f"{path}: line {line}: '{name}' was not drawn for this run",
                hint="use the table that pcsuite judge sample wrote for it",
            )
        allowed = (*LABEL_WORDS[sample.scales[units[name].task]], CANNOT_TELL)
        if label not in allowed:
            raise DataError(
                f"{path}: line {line}: '{label}' is no label here", hint=f"choose from: {', '.join(allowed)}"
            )
        if labels.setdefault(name, label) != label:
            raise DataError(f"{path}: line {line}: two labels for '{name}'")
    if not labels:
        raise DataError(f"{path}: no line has a label", hint="fill in the column 'label'")
    return labels
