"""Plain tables: a row for every answer, with columns that name the item, the arm and the score. It always works.

Nothing of a table is guessed: the columns are named by the user (``--item``, ``--score``, ``--arm``, ``--repeat``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pcsuite._util.text import plain_number
from pcsuite.data.items import Row
from pcsuite.data.table_files import read_table
from pcsuite.errors import ConfigError, DataError, did_you_mean
from pcsuite.importers.base import UNKNOWN, ImportedSample, LogHeader, ReadOptions, SampleList
from pcsuite.importers.shapes import FileShape
from pcsuite.importers.values import as_number, quoted_names

_NO_SCORE = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})
_TRUTH = {
    "true": 1.0,
    "false": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "pass": 1.0,
    "fail": 0.0,
    "passed": 1.0,
    "failed": 0.0,
}


class TableFormat:
    """CSV, TSV, JSON lines or a JSON list."""

    def recognises(self, shape: FileShape) -> bool:
        """Never by itself: which columns count is the user's to say."""
        return False

    def find(self, path: Path) -> list[Path]:
        """The file itself, or every table of a folder."""
        if not path.is_dir():
            return [path]
        kinds = {".csv", ".tsv", ".jsonl", ".ndjson", ".json"}
        return sorted(file for file in path.iterdir() if file.suffix.lower() in kinds)

    def open(self, path: Path, options: ReadOptions) -> Sequence[SampleList]:
        """An evaluation for each arm, or one for the file."""
        return tabled_evaluations(read_table(path), options, name=path.stem, where=str(path))


FORMAT = TableFormat()


def tabled_evaluations(
    rows: Sequence[Row], options: ReadOptions, *, name: str, where: str
) -> list[SampleList]:
    """The evaluations of a table's rows, one for each value of the arm's column.

    ``name`` is what the task is called, ``where`` the table in messages. Raises :class:`ConfigError` where columns are
    not named, :class:`DataError` for a column that is not there, a score that is no number, and an item that has two
    rows of one repetition.
    """
    if not options.item or not options.scores:
        raise ConfigError(
            f"{where}: a table needs the columns of item and score", hint="--item COL --score COL [--arm COL]"
        )
    known = list(dict.fromkeys(column for row in rows for column in row.values))
    chosen = [options.item, *options.scores, options.arm, options.repeat]
    for column in filter(None, chosen):
        if column not in known:
            raise DataError(f"{where}: no column '{column}'", hint=did_you_mean(column, known))
    arms: dict[str, list[Row]] = {}
    for row in rows:
        arms.setdefault(_cell(row, options.arm) if options.arm else "", []).append(row)
    if "" in arms and options.arm:
        raise arms[""][0].error(f"no value in '{options.arm}', the column of the arm")
    return [_evaluation(listed, arm, options, name, known) for arm, listed in arms.items()]


def _evaluation(
    rows: Sequence[Row], arm: str, options: ReadOptions, name: str, known: Sequence[str]
) -> SampleList:
    repeats = _repetitions(rows, options)
    samples = []
    for row, epoch in zip(rows, repeats, strict=True):
        item = _cell(row, options.item)
        samples.append(
            ImportedSample(
                item_id=item,
                epoch=epoch,
                content=item,
                prompt="",
                text=None,
                answer=None,
                scores={column: _score(row, column) for column in options.scores},
                unscored="the cell is empty",
                attributes={column: _cell(row, column) for column in row.values},
            )
        )
    others = [
        column
        for column in known
        if column not in {options.item, options.arm, options.repeat, *options.scores}
    ]
    header = LogHeader(
        tool="table",
        tool_version="1",
        source=f"{name}:{arm}",
        task="table",
        split=UNKNOWN,
        model=options.model or UNKNOWN,
        measures=tuple(options.scores),
        epochs=max(repeats, default=1),
        condition=arm or None,
        primary=options.scores[0],
        ranges={} if options.range is None else {options.scores[0]: options.range},
        fields={"file": name, "arm": arm},
        remarks=(f"columns that are not read: {quoted_names(others)}",) if others else (),
    )
    return SampleList(header, samples)


def _repetitions(rows: Sequence[Row], options: ReadOptions) -> list[int]:
    """The number of each row's repetition of its item, from 1, by the order of what tells repetitions apart.

    Without a column for that an item has one row: a second one may be a repetition or a mistake, and nobody can tell.
    """
    labels = sorted({_cell(row, options.repeat) for row in rows} if options.repeat else {""}, key=_in_order)
    places = {label: number for number, label in enumerate(labels, start=1)}
    first_rows: dict[tuple[str, str], Row] = {}
    numbers = []
    for row in rows:
        item, label = _cell(row, options.item), _cell(row, options.repeat) if options.repeat else ""
        if not item:
            raise row.error(f"no value in '{options.item}', the column of the item")
        if (item, label) in first_rows:
            before = first_rows[item, label].where
            if options.repeat:
                raise row.error(f"item '{item}' has a row of {options.repeat} '{label}' already ({before})")
            raise row.error(
                f"item '{item}' has a row already ({before}); a column that tells repetitions apart goes with --repeat"
            )
        first_rows[item, label] = row
        numbers.append(places[label])
    return numbers


def _in_order(label: str) -> tuple[float, str]:
    """Numbers by size, then words."""
    number = plain_number(label)
    return (float("inf") if number is None else float(number), label)


def _cell(row: Row, column: str) -> str:
    value: Any = row.values.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with a gap in it comes as 1.0, 2.0
    return "" if value is None else " ".join(str(value).split())


def _score(row: Row, column: str) -> float | None:
    """The number of a cell; ``None`` where it is empty, which is a missing score."""
    value: Any = row.values.get(column)
    if value is None or isinstance(value, (bool, int, float)):
        number = as_number(value)
        if number is None and value is not None and value == value:
            raise row.error(f"'{column}' is {value}, no finite number")
        return number
    text = str(value).strip()
    if text.casefold() in _NO_SCORE:
        return None
    truth = _TRUTH.get(text.casefold())
    if truth is not None:
        return truth
    try:
        number = as_number(float(text))
    except ValueError:
        number = None
    if number is None:
        accepted = "a number, true or false, pass or fail; empty where there is no score"
        raise row.error(f"'{column}' is '{text[:40]}', no finite number ({accepted})")
    return number
