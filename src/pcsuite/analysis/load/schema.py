"""The log as DuckDB reads it: JSON columns and flat columns derived from the row, and metrics as columns.

Nothing is detected: a detector that looks at the first lines drops keys that appear late. Only metrics, which
differ by task and may appear late, are asked of every row; a metric that is text anywhere is kept as text, because
the string "nan" cast to a number would poison averages.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from pcsuite.evaluation.base import LENIENT
from pcsuite.logging.plain_rows import ANSWER_FIELDS, ANSWER_METRICS
from pcsuite.logging.row import BLOCKED, FINISH_OUTCOMES, FlatColumn, RunRow

METRIC_PREFIX = "metric_"
CELL_KEY = "task_id, model_id, decoding_id, perturbation_type, condition_id"
"""The columns that name a cell, in the order of ``CellKey``."""
IN_CELL = CELL_KEY.replace(",", " = ? AND") + " = ?"
"""Holds for the rows of a cell, whose key gives the parameters."""
CLEAN_KEY = "task_id, model_id, decoding_id, condition_id"
USABLE = "kind = 'main' AND n_errors = 0"
"""The rows that figures are made of; failed calls are only counted."""
USABLE_CLEAN = f"{USABLE} AND perturbation_type = 'none'"
_SCALARS = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
_METRIC_TYPES = {"number": "DOUBLE", "text": "VARCHAR"}

_ENDS = "".join(f" WHEN '{end}' THEN '{outcome}'" for end, outcome in FINISH_OUTCOMES.items())
_CONCLUDED = {
    "outcome": (
        "CASE WHEN len(errors) > 0 OR generation IS NULL THEN 'failed'"
        f" WHEN starts_with(generation.finish_reason, '{BLOCKED}') THEN 'filtered'"
        f" ELSE CASE generation.finish_reason{_ENDS} ELSE 'answered' END END"
    ),
    "reading": (
        "CASE WHEN parsed IS NULL THEN NULL WHEN parsed.answer IS NOT NULL THEN 'read'"
        f" WHEN contains(chr(31) || array_to_string(parsed.parse_errors, chr(31)), chr(31) || '{LENIENT}')"
        " THEN 'lenient'"
        " ELSE 'none' END"
    ),
}
_PLAIN_ANSWER = ", ".join(
    [f"metrics->>'$.{name}'" for name in ANSWER_METRICS]
    + [f"parsed.fields->>'$.{name}'" for name in ANSWER_FIELDS]
)
# Rows of the suite say their version: an answer that they leave empty could not be read, and stays empty.
_CONCLUDED["answer"] = f"CASE WHEN pcsuite_version IS NULL THEN coalesce({_PLAIN_ANSWER}) END"
_CONCLUDED["reading"] = _CONCLUDED["reading"].replace(
    "parsed.answer IS NOT NULL", f"coalesce(parsed.answer, {_CONCLUDED['answer']}) IS NOT NULL"
)
"""Columns that rows of earlier versions or in the specification's plain form lack, concluded as
:func:`~pcsuite.logging.row.decode_row` does."""

REQUIRED = ("run_id", "task_id", "item_id", "model_id", "condition_id", "decoding_id", "seed")
"""A line that lacks one of these is malformed."""

_PERTURBATION = ("perturbation_type", "perturbation_id")
CLEAN_NAMES = ", ".join(f"coalesce({name}, 'none') AS {name}" for name in _PERTURBATION)
"""What queries call a clean prompt, whose row names no perturbation: a cell's key has no gaps."""
CLEAN_UNNAMED = ", ".join(f"nullif({name}, 'none') AS {name}" for name in _PERTURBATION)
"""The reverse, for files of rows."""

LOGICAL_KEY = (
    "task_id", "item_id", "model_id", "condition_id", "decoding_id", "seed", "perturbation_type", "perturbation_id",
    "kind",
)  # fmt: skip
"""What a row is about: of several rows with the same key the newest counts."""


class _Field(NamedTuple):
    """A field of a record; ``kind`` is its type without annotation and ``None``."""

    name: str
    kind: Any
    optional: bool
    column: FlatColumn
    default: Any


def json_columns(row: type[msgspec.Struct]) -> dict[str, str]:
    """Top-level keys of a row's JSON and their DuckDB types; records are structs, mappings are ``JSON``.

    Raises :class:`TypeError` on a field whose type no column can hold.
    """
    return {field.name: _duckdb_type(field.kind) for field in _fields(row)}


def flat_columns(row: type[msgspec.Struct]) -> dict[str, str]:
    """Columns of the flat table in order, each with the SQL expression that makes it of the JSON columns.

    A list becomes one text, a mapping its JSON text. A key that older logs lack gets the field's default, unless
    the whole record may be missing: then nothing is known of it.
    """
    columns: dict[str, str] = {}
    moved: list[tuple[str, str, str]] = []
    for name, path, field, certain in _leaves(row):
        if _duckdb_type(field.kind) == "JSON":
            expression = f"CAST({path} AS VARCHAR)"
        elif _duckdb_type(field.kind).endswith("[]"):
            expression = f"array_to_string({path}, {sql_text(field.column.join)})"
        elif name in _CONCLUDED:
            expression = f"coalesce({path}, {_CONCLUDED[name]})"
        elif certain and isinstance(field.default, (str, bool, int, float)):
            default = (
                sql_text(field.default) if isinstance(field.default, str) else str(field.default).lower()
            )
            expression = f"coalesce({path}, {default})"
        else:
            expression = path
        if field.column.after:
            moved.append((field.column.after, name, expression))
            continue
        columns[name] = expression
        if field.column.count:
            columns[field.column.count] = f"coalesce(len({path}), 0)"
    ordered = list(columns)
    for after, name, expression in moved:
        ordered.insert(ordered.index(after) + 1, name)
        columns[name] = expression
    return {name: columns[name] for name in ordered}


def dotted_columns(row: type[msgspec.Struct]) -> dict[str, str]:
    """Columns of the flat table, each with its field's path in the row: ``task_id`` is ``task.id``."""
    return {name: path for name, path, _, _ in _leaves(row)}


def dotted_name(column: str) -> str:
    """The name that a column of ``runs.parquet`` or ``runs.csv`` has in the row; ``metric_x`` is ``metrics.x``.

    >>> dotted_name("task_id"), dotted_name("metric_task_score"), dotted_name("n_errors")
    ('task.id', 'metrics.task_score', 'n_errors')
    """
    if column.startswith(METRIC_PREFIX):
        return f"metrics.{column.removeprefix(METRIC_PREFIX)}"
    return DOTTED_COLUMNS.get(column, column)


def _fields(record: type[msgspec.Struct]) -> Iterator[_Field]:
    hints = get_type_hints(record, include_extras=True)
    for info in msgspec.structs.fields(record):
        kind, column = hints[info.name], FlatColumn()
        if get_origin(kind) is Annotated:
            kind, *notes = get_args(kind)
            column = next((note for note in notes if isinstance(note, FlatColumn)), column)
        several = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
        present = [part for part in several if part is not type(None)]
        if not column.absent:
            yield _Field(info.name, present[0], len(present) < len(several), column, info.default)


def _leaves(
    record: type[msgspec.Struct], parents: tuple[str, ...] = (), certain: bool = True
) -> Iterator[tuple[str, str, _Field, bool]]:
    """Fields that hold no record: column name, path in the row, field, and whether its record is always there."""
    for field in _fields(record):
        if _is_record(field.kind):
            yield from _leaves(field.kind, (*parents, field.name), certain and not field.optional)
            continue
        short = f"{parents[-1]}_{field.name}" if parents and field.name in ("id", "type") else field.name
        yield field.column.name or short, ".".join((*parents, field.name)), field, certain


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _duckdb_type(kind: Any) -> str:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if _is_record(kind):
        inner = ", ".join(f"{sql_name(field.name)} {_duckdb_type(field.kind)}" for field in _fields(kind))
        return f"STRUCT({inner})"
    if get_origin(kind) in (list, tuple):
        return f"{_duckdb_type(get_args(kind)[0])}[]"
    if get_origin(kind) is dict:
        return "JSON"
    raise TypeError(f"{kind} has no column type")


def sql_text(value: str) -> str:
    """A string literal for SQL.

    >>> sql_text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def sql_name(value: str) -> str:
    """An identifier for SQL, needed for every name from a log: metrics may be called anything."""
    return '"' + value.replace('"', '""') + '"'


JSON_COLUMNS: Mapping[str, str] = json_columns(RunRow)
FLAT_COLUMNS: Mapping[str, str] = flat_columns(RunRow)
DOTTED_COLUMNS: Mapping[str, str] = dotted_columns(RunRow)


def read_json_sql(files: Sequence[str]) -> str:
    """The table function that reads files of a log, one row a line; a malformed line gives NULLs.

    ``files`` may be plain or compressed. Only the columns of the row are read.
    """
    listed = ", ".join(sql_text(file) for file in files)
    columns = ", ".join(f"{sql_text(name)}: {sql_text(kind)}" for name, kind in JSON_COLUMNS.items())
    return (
        f"read_json([{listed}], format='newline_delimited', auto_detect=false, ignore_errors=true,"
        f" maximum_object_size=134217728, columns={{{columns}}})"
    )


def flat_select_sql() -> str:
    """The select list that makes the flat columns of what :func:`read_json_sql` reads."""
    return ", ".join(f"{expression} AS {sql_name(name)}" for name, expression in FLAT_COLUMNS.items())


def well_formed_sql() -> str:
    """The condition that holds for a line with everything a row needs (:data:`REQUIRED`)."""
    return " AND ".join(f"{field} IS NOT NULL" for field in REQUIRED)


def metric_select_sql(metrics: Mapping[str, str]) -> str:
    """The select list of the metric columns of rows with a JSON column ``metrics``, each beginning with a comma.

    ``metrics`` names each a ``number`` or ``text``.
    """
    shape = sql_text(json.dumps({name: _METRIC_TYPES[kind] for name, kind in metrics.items()}))
    # One transformation for all of them: DuckDB computes an expression that repeats once.
    return "".join(
        f", json_transform(metrics, {shape}).{sql_name(name)} AS {sql_name(METRIC_PREFIX + name)}"
        for name in metrics
    )


def found_metrics(connection: Any, rows: str) -> dict[str, str]:
    """Every metric in some rows (a table expression with a column ``metrics``), sorted, and its kind.

    ``connection`` is DuckDB's. Names with a quotation mark, which JSON paths cannot carry, are left out.
    """
    # Most rows have numbers only, which one look at the text tells; the kind of each value is asked of the rest.
    shapes = connection.execute(
        "SELECT DISTINCT json_keys(metrics) AS keys, CASE WHEN regexp_matches(metrics, ':\\s*[\"\\[{]') THEN"
        " list_transform(json_extract(metrics, '$.*'), lambda x: json_type(x)) END AS kinds"
        f" FROM {rows} WHERE metrics IS NOT NULL"
    ).fetchall()
    return metric_kinds(
        (name, kind in ("VARCHAR", "OBJECT", "ARRAY"))
        for names, kinds in shapes
        for name, kind in zip(names, kinds or [None] * len(names), strict=True)
    )


def merged_metrics(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The metrics of several parts, sorted by name; text in one of them is text."""
    return metric_kinds((name, kind == "text") for metrics in several for name, kind in metrics.items())


def metric_kinds(occurrences: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """Metrics, sorted, each a ``number`` or ``text``, from pairs of a name and whether its value is text.

    A metric that is text anywhere is text; names with a quotation mark are left out.
    """
    is_text: dict[str, bool] = {}
    for name, text in occurrences:
        if '"' not in name:
            is_text[name] = is_text.get(name, False) or text
    return {name: "text" if is_text[name] else "number" for name in sorted(is_text)}


NAMES = (
    "kind", "task_id", "item_id", "model_id", "family", "size", "condition_id", "decoding_id", "perturbation_type",
)  # fmt: skip
VALUES = ("seed", "n_errors", "answer", "json_valid", "latency_ms", "cache_hit")
METRICS = ("task_score", "unsupported_rate", "verifier_score")


def create_cell_rows(
    execute: Callable[[str], None], query: Callable[[str], list[tuple[Any, ...]]], metrics: Mapping[str, str]
) -> None:
    """Make ``cell_rows`` from the view ``runs``: what most tables ask of a row, as numbers and codes, in log order.

    Names are enumerations, sorted, so that grouping and ranking by them is grouping and ranking of small integers;
    in results they are the names again. Texts stay in ``runs``.
    """
    counts = query(f"SELECT {', '.join(f'count({sql_name(name)})' for name in NAMES)} FROM runs")[0]
    selected = []
    for name, count in zip(NAMES, counts, strict=True):
        column, code = sql_name(name), sql_name(f"{name}_code")
        if count:  # an enumeration of no names is none
            distinct = f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL ORDER BY ALL"
            execute(f"CREATE TYPE {code} AS ENUM ({distinct})")
            selected.append(f"CAST({column} AS {code}) AS {column}")
        else:
            selected.append(column)
    selected += [sql_name(name) for name in VALUES]
    selected += [sql_name(METRIC_PREFIX + name) for name in METRICS if metrics.get(name) == "number"]
    execute(f"CREATE TABLE cell_rows AS SELECT {', '.join(selected)} FROM runs")
