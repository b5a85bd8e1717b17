"""A runnable task from a user's table: task file, answer schema, items in three splits, and a profile."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from heapq import nsmallest
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import unreadable_text, write_errors
from pcsuite._util.json_schema import schema_problem, schema_validator
from pcsuite._util.text import counted, read_json, shorten, table_delimiter
from pcsuite.config.definitions import AnswerForm, TaskSpec
from pcsuite.config.load import ScorerFile, models_beside
from pcsuite.config.yaml_source import as_yaml
from pcsuite.data.clusters import cluster_sentence, clustered, input_cluster, numbers_rows, text_key
from pcsuite.data.items import Item, Row, datasets_dir, dump_line, rank_of, read_jsonl, split_off
from pcsuite.data.promptfoo_tests import read_promptfoo_tests
from pcsuite.data.table_numbers import MARKS, all_numbers
from pcsuite.data.task_recipes import RECIPES, Columns, Recipe, Schema, Wording, cell_text, with_answer_form
from pcsuite.data.workbook import read_sheets
from pcsuite.errors import ConfigError, DataError, did_you_mean

LARGE_TABLE = 50_000
"""Rows of a table beyond which only those are kept from which the items that are asked can come."""
KEPT_ROWS = 10_000


def read_table(path: Path, rank: Callable[[int, Row], Any] | None = None) -> list[Row]:
    """Rows of a user's table, each with its place: CSV, TSV, workbook, JSON lines or a JSON list, by the file's ending.

    A YAML file is a promptfoo configuration, whose tests are the rows.
    With a ``rank`` (of a row and its number, from 1) a table of more than :data:`LARGE_TABLE` rows is read to its end
    and checked line by line, but only the :data:`KEPT_ROWS` rows of the lowest rank are kept, in their order. Raises
    :class:`DataError` where the file is missing, empty, of another kind or malformed, and
    :class:`~pcsuite.errors.MissingExtraError` for a workbook without the package that reads it.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix in {".csv", ".tsv"}:
        rows = _kept(_csv_rows(path), rank)
    elif suffix == ".xlsx":
        rows = list(_workbook_rows(path))
    elif suffix in {".jsonl", ".ndjson"}:
        rows = _kept(read_jsonl(path), rank)
    elif suffix == ".json":
        try:
            values = read_json(path.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            raise DataError(f"{path} line {error.lineno}: not valid JSON ({error.msg})") from error
        except (ValueError, OSError) as error:  # not UTF-8, too deep, unreadable
            raise DataError(f"{path}: cannot be read as JSON ({shorten(str(error))})") from error
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise DataError(f"{path}: expected a JSON list of objects")
        rows = [Row(f"{path} entry {number}", value) for number, value in enumerate(values, start=1)]
    elif suffix in {".yaml", ".yml"}:
        rows = read_promptfoo_tests(path, read_table)
    else:
        raise DataError(
            f"{path}: cannot tell the kind of table", hint="name it .csv, .tsv, .xlsx, .jsonl or .json"
        )
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


_SEPARATOR = re.compile(r"sep=([,;\t|])", re.IGNORECASE)


def _workbook_rows(path: Path) -> Iterator[Row]:
    """The rows of a workbook's only sheet below its first, which has the names; a cell is text, as in a CSV file."""
    sheets = read_sheets(path.read_bytes(), str(path))
    if len(sheets) > 1:
        raise DataError(
            f"{path}: there are {len(sheets)} sheets: {shorten(', '.join(sheets))}",
            hint="save the one you mean as a file of its own",
        )
    (rows,) = sheets.values()
    header = _column_names(rows[0].cells, f"{path} row {rows[0].number}")
    for number, cells in rows[1:]:
        row = Row(f"{path} row {number}", {})
        if len(cells) > len(header):
            raise row.error(f"expected {len(header)} columns, found {len(cells)}")
        row.values.update(zip(header, [*cells, *[""] * (len(header) - len(cells))], strict=True))
        yield row


def _column_names(cells: Sequence[str], where: str) -> list[str]:
    """The names of a table's columns; a ``DataError`` where one is empty or there twice."""
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) != len(names):
        raise DataError(f"{where}: column names must be there and differ, found {shorten(', '.join(cells))}")
    return names


def _kept(rows: Iterator[Row], rank: Callable[[int, Row], Any] | None) -> list[Row]:
    """All rows or, of a large table whose rows have ranks, those of the lowest."""
    kept = list(rows if rank is None else islice(rows, LARGE_TABLE + 1))
    if rank is None or len(kept) <= LARGE_TABLE:
        return kept
    numbered = enumerate(chain(kept, rows), start=1)
    del kept
    lowest = nsmallest(KEPT_ROWS, ((rank(number, row), number, row) for number, row in numbered))
    return [row._replace(number=number) for _, number, row in sorted(lowest, key=itemgetter(1))]


def table_rank(request: Columns, name: str, seed: int, hash_seed: str) -> Callable[[int, Row], bytes]:
    """The rank by which :func:`~pcsuite.data.items.sample_items` chooses among the items of a task called ``name``."""

    def rank(number: int, row: Row) -> bytes:
        return rank_of(hash_seed, seed, name, _item_id(request, name, number, row))

    return rank


def _item_id(request: Columns, name: str, number: int, row: Row) -> str:
    return cell_text(row, request.id_column) if request.id_column else f"{name}-{number:06d}"


def _csv_rows(path: Path) -> Iterator[Row]:
    header: list[str] | None = None
    line = 0
    try:
        with path.open("rb") as raw:
            # Spreadsheets save "Unicode text" as UTF-16, with a mark at its beginning.
            encoding = "utf-16" if raw.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        with path.open(encoding=encoding, newline="") as stream:
            first = stream.readline()
            # A first line "sep=;" is a spreadsheet's note to itself.
            noted = _SEPARATOR.fullmatch(first.strip())
            skipped = 1 if noted else 0
            if not noted:
                stream.seek(0)
            delimiter = (
                noted[1] if noted else "\t" if path.suffix.lower() == ".tsv" else table_delimiter(first)
            )
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for cells in reader:
                line = reader.line_num + skipped
                row = Row(f"{path} line {line}", {})
                if header is None:
                    header = _column_names(cells, f"{path} line 1")
                elif cells and len(cells) != len(header):
                    more = delimiter == "," and len(cells) > len(header)
                    quotes = "a cell with a comma in it (0,5) needs quotes in a file parted by commas"
                    raise row.error(
                        f"expected {len(header)} columns, found {len(cells)}", quotes if more else None
                    )
                elif cells:
                    row.values.update(zip(header, cells, strict=True))
                    yield row
    except csv.Error as error:
        cut = str(error) == "unexpected end of data"
        hint = "a quote is never closed, or the file was cut off" if cut else None
        raise DataError(f"{path} after line {line}: {error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {unreadable_text(path, error)}") from error


SPLITS = ("train", "dev", "test")
SPLIT_SEED = 1337
MIN_ROWS = 8
MIN_TRAIN = 4
"""Rows the training split gets at least: the largest number of exemplars a condition shows."""

MAX_TESTED = 50
"""Items that a profile tests where nobody says how many."""
ALL_TESTED = 60
"""Rows of which all but the exemplars are tested."""
MIN_DEV = 8
"""Rows the development split gets at least, where it gets any."""

_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


ANSWER_NAMES = (
    "answer",
    "label",
    "target",
    "expected",
    "expected_output",
    "gold",
    "output",
    "class",
    "category",
)
"""Columns taken for the right answer where none is named, the first that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest(Columns):
    """The arguments of every command that takes a user's table; every field has the flag of its name."""

    kind: str | None = None
    """Kind of task, one of :data:`~pcsuite.data.task_recipes.RECIPES`."""
    scorer: str | None = None
    """A function of the user's, ``my_scorer.py:score``; where a command says so, also a registered evaluator."""
    cluster: tuple[str, ...] = ()
    """Columns that say which items are related: items with equal values in all of them are one cluster."""
    model: str = "smollm2-135m"
    limit: int | None = None
    """Items that are asked, at most."""
    budget_tokens: int | None = None
    """Tokens before which a run stops."""
    budget_usd: float | None = None
    """Dollars before which a run stops."""
    overwrite: bool = False
    """Replace what an earlier command of that name wrote."""

    def table_fields(self, **changes: Any) -> dict[str, Any]:
        """The fields of this class with ``changes``, for another request on the same table."""
        return {entry.name: getattr(self, entry.name) for entry in fields(TableRequest)} | changes


@dataclass(frozen=True, slots=True)
class TaskRequest(TableRequest):
    """What ``init-task`` is asked for. Its ``limit`` is by default :data:`MAX_TESTED`."""

    name: str
    data: Path
    schema_file: Path | None = None
    answer_as: AnswerForm | None = None
    """What an answer is to be, where it is not what the kind of task is usually answered with."""
    title: str | None = None
    instruction: str | None = None
    out_dir: Path = Path()
    cache_dir: Path = Path(".cache")
    train_share: float | None = None
    """Share of rows for exemplars; by default as :func:`default_sizes` says."""
    dev_share: float | None = None
    """Share of rows for tuning."""
    prefix: str | None = None
    """What the names of task, schema and profile begin with; by default the task's own and ``_``."""
    copy_scorer: bool = False
    """Whether the scorer's file is copied beside the task's, so that the folder can be sent on."""

    def file(self, name: str) -> Path:
        """Where a file of the task goes."""
        return self.out_dir / f"{self.name + '_' if self.prefix is None else self.prefix}{name}"


class TableTask(NamedTuple):
    """What a user's table says: its items, the words of its kind of task, and the answer's schema."""

    items: list[Item]
    """As they are written: clusters are those of the inputs."""
    words: Wording
    schema: Schema | None
    ignored: tuple[str, ...] = ()
    """Columns of the input that only number the rows, left aside where inputs are compared."""
    numbers: str = ""
    """How the numbers of columns were read, in a sentence; empty where they are plain."""

    def related(self, columns: Sequence[str], where: str) -> list[Item]:
        """The items clustered by some columns too, as a run of the task has them."""
        return clustered(self.items, columns, where) if columns else self.items


class InitResult(NamedTuple):
    """What was written."""

    task_file: Path
    profile_file: Path
    schema_file: Path | None
    items: dict[str, tuple[Path, int]]
    """Items file and number of items of each split."""
    related: str = ""
    """Which items are related and what follows, in a sentence; empty where none are."""
    numbers: str = ""
    """How the numbers of columns were read, in a sentence; empty where they are plain."""


def init_task(request: TaskRequest) -> InitResult:
    """Read the table, check every row, and write the task; nothing is written if a row is wrong.

    Written are the task file, a profile that runs it, the answer's schema (where the kind has one) and the items of
    the splits. Raises :class:`DataError`, with the place in the table, on anything that cannot be used.
    """
    if not _NAME.match(request.name):
        hint = "use small letters, digits and '_', a letter first"
        raise DataError(f"'{request.name}' cannot name a task", hint=hint)
    for flag, share in (("--train-share", request.train_share), ("--dev-share", request.dev_share)):
        if share is not None and not 0 <= share < 1:  # NaN is neither
            raise DataError(f"{flag} {share:g}: a share of the rows is from 0 to below 1", hint="0.2, say")
    models = models_beside(request.out_dir)
    if request.model not in models:
        hint = models.hint(request.model)
        raise ConfigError(f"--model: unknown model '{request.model}'", hint=hint)
    if (request.kind == "own") != (request.scorer is not None):
        raise DataError(
            "a task of kind own needs --scorer"
            if request.scorer is None
            else "--scorer goes with --kind own",
            hint="pcsuite init-task NAME --data TABLE --kind own --scorer my_scorer.py:score",
        )
    table = read_table_task(request)
    words, schema = table.words, table.schema
    related = table.related(request.cluster, str(request.data))
    splits = _splits(table.items, related, request)
    task_file = request.file("task.yaml")
    profile_file = request.file("profile.yaml")
    schema_file = request.file("schema.json") if schema is not None else None
    files = {
        task_file: _task_yaml(words, "dev" in splits, schema, request),
        profile_file: _profile_yaml(len(splits["test"]), request),
    }
    if schema_file is not None:
        files[schema_file] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    own_scorer = ScorerFile.read(request.scorer, [Path()]) if request.scorer and request.copy_scorer else None
    if own_scorer is not None:
        files[request.out_dir / own_scorer.path.name] = own_scorer.source
    written = {}
    for split, part in splits.items():
        path = datasets_dir(request.cache_dir) / f"{request.name}_{split}.jsonl"
        files[path] = "".join(dump_line(item.line()) for item in part)
        written[split] = (path, len(part))
    # What an earlier init-task of that name wrote is replaced as a whole: a split that is left over would be used.
    splits_of_old = [datasets_dir(request.cache_dir) / f"{request.name}_{split}.jsonl" for split in SPLITS]
    task_files = dict.fromkeys([*files, request.file("schema.json"), *splits_of_old])
    journal = task_file.parent / f".{request.name}.changes"
    root = Path(os.path.commonpath([path.absolute().parent for path in task_files]))
    settle_changes(journal, root=root)
    present = [path for path in task_files if path.exists()]
    if present and not request.overwrite:
        exist = f"{', '.join(map(str, present))} {'exist' if len(present) > 1 else 'exists'} already"
        raise DataError(exist, hint="--overwrite replaces them")
    with write_errors(DataError, task_file), changing_files(journal, root=root) as changes:
        for path, text in files.items():
            changes.write(path, text)
        for path in present:
            if path not in files:
                changes.remove(path)
    sentence = cluster_sentence(related, request.cluster, table.ignored)
    return InitResult(task_file, profile_file, schema_file, written, sentence, table.numbers)


def read_table_task(
    request: TaskRequest, *, least: int = MIN_ROWS, rows: Sequence[Row] | None = None
) -> TableTask:
    """Read a table as the request says, every row checked; nothing is written.

    ``rows`` are those of the table where it was read already. Raises :class:`DataError`, with the place in the table,
    on anything that cannot be used, and where there are fewer than ``least`` rows.
    """
    kind = request.kind or ""
    if kind not in RECIPES:
        raise DataError(f"unknown kind of task '{kind}'", hint=did_you_mean(kind, RECIPES))
    recipe = RECIPES[kind]
    rows = read_table(request.data) if rows is None else rows
    if request.decimal not in (None, *MARKS):
        raise DataError(f"--decimal '{request.decimal}': the decimal mark is . or ,")
    _check_columns(request, rows)
    rows, told = recipe.settle(rows, request)
    request = replace(request, id_column=id_column(request, rows)[0])
    asked = request.inputs or request.placed
    ignored = [name for name in asked if numbers_rows(name, [str(row.values.get(name, "")) for row in rows])]
    if len(ignored) == len(asked):  # the only input there is
        ignored = []
    items = _read_items(recipe, request, rows, least, ignored)
    words = with_answer_form(recipe.describe(items, request), request.answer_as, kind)
    schema = words.schema if request.schema_file is None else _own_schema(items, request)
    return TableTask(items, words, schema, tuple(ignored), "; ".join(told))


def _check_columns(request: TaskRequest, rows: Sequence[Row]) -> None:
    """See that the columns that the request names are there in the first row; later rows are checked when read."""
    columns: dict[str, tuple[str | None, ...]] = {
        "--input": request.inputs,
        "--choices": request.choices,
        "--fields": request.fields,
        "--answer": (request.answer,),
        "--id": (request.id_column,),
        "--cluster": request.cluster,
        "a placeholder": request.placed,
    }
    for flag, names in columns.items():
        for name in names:
            if name is not None and name not in rows[0].values:
                hint = did_you_mean(name, list(rows[0].values))
                raise DataError(f"{rows[0].where}: no column '{name}' ({flag})", hint=hint)


def scorer_reference(reference: str, folder: Path) -> str:
    """A scorer as a task file in ``folder`` names it: relative where it lies there or below, else by its whole path.

    ``reference`` is relative to the working directory, as words of a command line are. Raises ``ConfigError`` for one
    that names no function or no file.
    """
    scorer = ScorerFile.read(reference, [Path()])
    if scorer is None:
        raise DataError(f"--scorer {reference}: no function of a file", hint="my_scorer.py:score")
    path = scorer.path.resolve()
    inside = path.is_relative_to(folder.resolve())
    return f"{path.relative_to(folder.resolve()) if inside else path}:{scorer.function}"


def answer_column(
    columns: Columns,
    known: Sequence[str],
    source: Path,
    *,
    placeholders: Sequence[str] = (),
    needed: bool = True,
) -> tuple[str | None, str]:
    """The column of the right answer among a table's ``known`` ones, and how it was found where none is named.

    Columns that are named must be there. Where none is named for the answer, it is one that is called so
    (:data:`ANSWER_NAMES`), or the only one that has no other use; columns that ``placeholders`` of a prompt
    name are not meant. ``(None, "")`` for records of several fields, and where none is found and none is ``needed``, as
    for a function that judges an answer by itself. Raises :class:`DataError` otherwise.

    >>> answer_column(Columns(inputs=("mail",)), ["mail", "Label", "date"], Path("mails.csv"))
    ('Label', ' (by its name)')
    """
    for flag, names in (
        ("--answer", [columns.answer]),
        ("--input", columns.inputs),
        ("--fields", columns.fields),
    ):
        for name in names:
            if name is not None and name not in known:
                raise DataError(f"{source}: no column '{name}' ({flag})", hint=did_you_mean(name, known))
    if columns.answer is not None or columns.fields:
        return columns.answer, ""
    used = {*placeholders, *columns.inputs}
    folded = {name.casefold(): name for name in known}
    for name in ANSWER_NAMES:
        if name in folded and folded[name] not in used:
            return folded[name], " (by its name)"
    unused = [name for name in known if name not in {*used, *columns.choices, columns.id_column}]
    if len(unused) == 1 and (needed or used):  # of a table with one column that is the input
        return unused[0], " (the only column left)"
    if not needed:
        return None, ""
    raise DataError(
        f"{source}: which column is the right answer?", hint=f"--answer, one of {', '.join(unused or known)}"
    )


def input_columns(columns: Columns, known: Sequence[str], source: Path) -> tuple[str, ...]:
    """The columns of the input: those that are named, else all that have no other use.

    Raises :class:`DataError` where none is left.
    """
    used = {columns.answer, columns.id_column, *columns.choices, *columns.fields}
    inputs = columns.inputs or columns.placed or tuple(name for name in known if name not in used)
    if not inputs:
        raise DataError(f"{source}: no column is left for the input", hint="--input COLUMN")
    return inputs


ID_NAMES = ("id", "item_id")
"""Columns taken for the items' ids where none is named, whatever their case."""
_LONGEST_ID = 100


def id_column(columns: Columns, rows: Sequence[Row]) -> tuple[str | None, str]:
    """The column that names a table's rows, and what is said of it: as named, else one of :data:`ID_NAMES`.

    One that is empty somewhere or names two rows alike is not taken, and that is said; rows are numbered then.

    >>> id_column(Columns(), [Row("line 2", {"ID": "a7"}), Row("line 3", {"ID": "b1"})])
    ('ID', 'ids: ID')
    """
    if columns.id_column is not None:
        return columns.id_column, f"ids: {columns.id_column}"
    if rows[0].number:  # a part of a large table: whether its ids differ is not known
        return None, "rows are numbered, since not all were kept (--id COL names their ids)"
    for name in rows[0].values:
        if name.casefold() not in ID_NAMES or name == columns.answer or name in columns.fields:
            continue
        values = [str(row.values.get(name, "")).strip() for row in rows]
        if not all(0 < len(value) <= _LONGEST_ID for value in values):
            return None, f"rows are numbered, since column {name} has no id in some"
        if len(set(values)) < len(values):
            return None, f"rows are numbered, since ids in column {name} repeat"
        return name, f"ids: {name}"
    return None, ""


def task_name(text: str) -> str:
    """A task's id made of a file's or folder's name.

    >>> task_name("Support tickets"), task_name("2026")
    ('support_tickets', 't_2026')
    """
    name = "".join(c if c.isalnum() else "_" for c in text.casefold()).strip("_") or "task"
    return name if name[0].isalpha() else f"t_{name}"


def likely_kind(rows: Sequence[Row], columns: Columns) -> str:
    """The kind of task that a table looks like: by what its columns are said to be, else by the answers themselves."""
    if columns.choices:
        return "choice"
    if columns.fields:
        return "extraction"
    if columns.labels:
        return "classification"
    cells = [row.values.get(columns.answer or "", "") for row in rows]
    values = [str(value).strip() for value in cells]
    if all_numbers(cells):
        return "number"
    if all(isinstance(value, dict) or str(value).startswith("{") for value in cells):
        return "extraction"
    few = len({value.casefold() for value in values}) <= max(2, min(20, len(values) // 3))
    return "classification" if len(set(values)) > 1 and few else "short_answer"


_LONGEST_ATTRIBUTE = 200


def _attributes(row: Row, placed: Sequence[str]) -> dict[str, str]:
    """The row's columns that no prompt places, for clusters; a long text is kept as its hash, which serves as well."""
    kept = {}
    for name, value in row.values.items():
        if name not in placed and isinstance(value, (str, int, float)) and str(value).strip():
            text = str(value).strip()
            kept[name] = text if len(text) <= _LONGEST_ATTRIBUTE else f"#{input_cluster(text, {})}"
    return kept


def _read_items(
    recipe: Recipe, request: TaskRequest, rows: Sequence[Row], least: int, ignored: Sequence[str]
) -> list[Item]:
    """The items of the table's rows, every row checked.

    ``ignored`` columns are part of the input, and of no weight where inputs are compared.
    """
    compared = replace(request, inputs=tuple(name for name in request.inputs if name not in ignored))
    if len(rows) < least:
        few = f"{request.data} has {counted(len(rows), 'row')}: too few to part"
        raise DataError(few, hint=f"give {least} or more")
    items: dict[str, Item] = {}
    first_asked: dict[tuple[str, ...], tuple[str, dict[str, Any]]] = {}
    for number, row in enumerate(rows, start=1):
        item_id = _item_id(request, request.name, row.number or number, row)
        if item_id in items:
            raise row.error(f"id '{item_id}' was already used")
        shown = {name: cell_text(row, name) for name in request.placed}
        cluster = ""
        if ignored:
            cluster = input_cluster(recipe.read(row, compared).input_text, shown, ignored=ignored)
        attributes = _attributes(row, request.placed)
        item = items[item_id] = Item(item_id, *recipe.read(row, request), None, shown, cluster, attributes)
        asked = tuple(map(text_key, (item.input_text, *shown.values())))
        where, truth = first_asked.setdefault(asked, (row.where, item.truth))
        if truth != item.truth:
            raise row.error(
                f"the same input as in {where.removeprefix(f'{request.data} ')}, but another answer:"
                f" '{_differing(item.truth, truth)}' here, '{_differing(truth, item.truth)}' there",
                "correct one of them, or leave both out",
            )
    return list(items.values())


def _differing(truth: dict[str, Any], other: dict[str, Any]) -> str:
    """What a truth says that another does not, in few words."""
    return shorten(", ".join(str(value) for key, value in truth.items() if other.get(key) != value), 40)


def _own_schema(items: list[Item], request: TaskRequest) -> Schema:
    """The user's schema of the answer; for an extraction every truth must fit it."""
    assert request.schema_file is not None
    try:
        schema = read_json(request.schema_file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{request.schema_file} is not a readable JSON schema: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise DataError(f"{request.schema_file}: the schema must describe an object", hint='"type": "object"')
    problem = schema_problem(schema)
    if problem is not None:
        raise DataError(f"{request.schema_file} is not a JSON schema: {problem}")
    if request.kind == "extraction":
        validator = schema_validator(schema)
        for item in items:
            misfit = next(validator.iter_errors(item.truth), None)
            if misfit is not None:
                raise DataError(
                    f"{request.data}: the truth of item '{item.item_id}' does not fit the schema: {misfit.message}"
                )
    return schema


def _splits(items: list[Item], related: list[Item], request: TaskRequest) -> dict[str, list[Item]]:
    """Train, dev and test by hash; rows with the same input or of one cluster (``related``) fall in the same split."""
    count = len(items)
    train_size, dev_size = default_sizes(count)
    if request.train_share is not None:
        train_size = max(MIN_TRAIN, round(count * request.train_share))
    if request.dev_share is not None:
        dev_size = round(count * request.dev_share)
    by_id = {item.item_id: item for item in items}
    # Clusters larger than the split wanted give it the smallest of them that makes enough exemplars.
    larger = {size for size in Counter(item.cluster for item in related).values() if size > train_size}
    for size in sorted({train_size, *larger}):
        train, rest = split_off(related, size, f"{request.name}_train", SPLIT_SEED)
        if len(train) >= MIN_TRAIN:
            break
    dev, test = split_off(rest, dev_size, f"{request.name}_dev", SPLIT_SEED)
    train, dev, test = ([by_id[item.item_id] for item in part] for part in (train, dev, test))
    if not test or len(train) < MIN_TRAIN:
        raise DataError(
            f"{request.data}: {count} rows give {len(train)} train, {len(dev)} dev and {len(test)} test items",
            hint="add rows with different inputs (or of other clusters), or lower --train-share and --dev-share",
        )
    return {"train": train, "dev": dev, "test": test} if dev else {"train": train, "test": test}


def default_sizes(count: int) -> tuple[int, int]:
    """How many of a table's rows are for exemplars and for tuning; the rest is for testing.

    Of a small table all but the exemplars: what is not tested cannot show anything, and tuning is seldom asked for. Of
    the rows beyond :data:`ALL_TESTED` a tenth goes to exemplars and a fifth to tuning, once that is a handful.

    >>> default_sizes(40), default_sizes(100), default_sizes(1060)
    ((4, 0), (8, 8), (104, 200))
    """
    beyond = max(0, count - ALL_TESTED)
    dev = beyond // 5
    return MIN_TRAIN + beyond // 10, dev if dev >= MIN_DEV else 0


def _task_yaml(words: Wording, has_dev: bool, schema: Schema | None, request: TaskRequest) -> str:
    task: dict[str, Any] = {
        **words.task,
        "title": request.title or request.name.replace("_", " ").capitalize(),
        "dataset": request.name,
        "split": "test",
        "dev_split": "dev" if has_dev else None,
        "train_split": "train",
        "instruction": request.instruction or words.task["instruction"],
        "evaluator": request.kind,
    }
    if request.scorer is not None:
        named = scorer_reference(request.scorer, request.out_dir)
        task["evaluator"] = Path(named).name if request.copy_scorer else named
    if schema is not None:
        task |= {"kind": "structured", "schema_ref": request.file("schema.json").name}
        task |= {"final_answer_format": None, "answer_regex": None}
    spec = TaskSpec.model_validate(task)
    entry = {key: value for key, value in spec.model_dump(mode="json").items() if value not in (None, [], {})}
    entry.pop("retrieval")
    if request.cluster:
        entry["cluster"] = list(request.cluster)
    about = (
        "# Written by pcsuite init-task. Every word a prompt says about the task stands here: edit freely.\n"
    )
    return about + as_yaml({"version": "1.0", "tasks": {request.name: entry}}, width=100)


def _profile_yaml(test_items: int, request: TaskRequest) -> str:
    limits = {"max_tokens_overall": request.budget_tokens, "max_cost_usd": request.budget_usd}
    budget = {key: value for key, value in limits.items() if value is not None}
    profile = {
        "version": "1.0",
        "run": {
            "name": request.name,
            "relative_to": "profile",
            "output_dir": "outputs",
            "cache_dir": Path(os.path.relpath(request.cache_dir, request.out_dir)).as_posix(),
        },
        "repro": {"seeds": {"d0_greedy": [0], "d1_sampled": [1, 2, 3]}, "seeds_per_task": {"default": 3}},
        "suite": {"tasks_ref": request.file("task.yaml").name},
        "selection": {
            "tasks": [request.name],
            "models": [request.model],
            "conditions": ["C0", "C1", "C2", "C3", "C4", "C5", "C6"],
            "decoding_regimes": ["D0", "D1"],
        },
        "limits": {"max_items_per_task": min(request.limit or MAX_TESTED, test_items), **budget},
        # The lengths of a task that nobody has measured yet are no ground for an alarm.
        "length_control": "off",
    }
    comment = f"# Written by pcsuite. Run it: pcsuite run --config {request.file('profile.yaml').name}\n"
    return comment + as_yaml(profile, width=100)
