"""A runnable task from a user's table: task file, answer schema, items in three splits, and a profile."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pcsuite._util.text import read_json, shorten
from pcsuite.config.definitions import AnswerForm, TaskSpec
from pcsuite.config.load import ScorerFile
from pcsuite.data.items import Item, Row, datasets_dir, dump_line, read_jsonl, split_off
from pcsuite.data.task_recipes import RECIPES, Columns, Recipe, Schema, Wording, cell_text, worded_as
from pcsuite.errors import DataError, did_you_mean

DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path) -> list[Row]:
    """Rows of a user's table, each with its place: CSV, TSV, JSON lines or a JSON list, by the file's ending.

    Raises :class:`DataError` where the file is missing, empty, of another kind or malformed.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix in DELIMITERS:
        rows = list(_csv_rows(path, DELIMITERS[suffix]))
    elif suffix in {".jsonl", ".ndjson"}:
        rows = list(read_jsonl(path))
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
    else:
        raise DataError(f"{path}: cannot tell the kind of table", hint="name it .csv, .tsv, .jsonl or .json")
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


def _csv_rows(path: Path, delimiter: str) -> Iterator[Row]:
    header: list[str] | None = None
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for cells in reader:
                line = reader.line_num
                row = Row(f"{path} line {line}", {})
                if header is None:
                    header = [cell.strip() for cell in cells]
                    if "" in header or len(set(header)) != len(header):
                        found = ", ".join(cells)
                        raise DataError(
                            f"{path} line 1: column names must be there and differ, found {found}"
                        )
                elif cells and len(cells) != len(header):
                    raise row.error(f"expected {len(header)} columns, found {len(cells)}")
                elif cells:
                    row.values.update(zip(header, cells, strict=True))
                    yield row
    except csv.Error as error:
        raise DataError(f"{path} after line {line}: {error}") from error
    except UnicodeDecodeError as error:
        problem = f"{path}: byte {error.start + 1} is not utf-8"
        raise DataError(problem, hint="save the table as UTF-8") from error


SPLIT_SEED = 1337
MIN_ROWS = 8
MIN_TRAIN = 4
"""Rows the training split gets at least: the largest number of exemplars a condition shows."""

_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What ``init-task`` is asked for."""

    name: str
    data: Path
    kind: str
    columns: Columns
    id_column: str | None = None
    schema_file: Path | None = None
    answer_as: AnswerForm | None = None
    """What an answer is to be, where it is not what the kind of task is usually answered with."""
    scorer: str | None = None
    """A function of the user's, ``FILE.py:FUNCTION``, for a task of kind ``own``."""
    title: str | None = None
    instruction: str | None = None
    out_dir: Path = Path()
    cache_dir: Path = Path(".cache")
    model: str = "smollm2-135m"
    train_share: float = 0.2
    dev_share: float = 0.2
    overwrite: bool = False


class TableTask(NamedTuple):
    """What a user's table says: its items, the words of its kind of task, and the answer's schema."""

    items: list[Item]
    words: Wording
    schema: Schema | None


class InitResult(NamedTuple):
    """What was written."""

    task_file: Path
    profile_file: Path
    schema_file: Path | None
    items: dict[str, tuple[Path, int]]
    """Items file and number of items of each split."""


def init_task(request: TaskRequest) -> InitResult:
    """Read the table, check every row, and write the task; nothing is written if a row is wrong.

    Written are the task file, a profile that runs it, the answer's schema (where the kind has one) and the items of
    the splits. Raises :class:`DataError`, with the place in the table, on anything that cannot be used.
    """
    if not _NAME.match(request.name):
        hint = "use small letters, digits and '_', a letter first"
        raise DataError(f"'{request.name}' cannot name a task", hint=hint)
    shares = (request.train_share, request.dev_share)
    if min(shares) < 0 or sum(shares) >= 1:
        raise DataError(f"train and dev shares {shares[0]} and {shares[1]} leave no test items")
    if (request.kind == "own") != (request.scorer is not None):
        raise DataError(
            "a task of kind own needs --scorer"
            if request.scorer is None
            else "--scorer goes with --kind own",
            hint="pcsuite init-task NAME --data TABLE --kind own --scorer my_scorer.py:score",
        )
    items, words, schema = read_table_task(request)
    splits = _splits(items, request)
    task_file = request.out_dir / f"{request.name}_task.yaml"
    profile_file = request.out_dir / f"{request.name}_profile.yaml"
    schema_file = request.out_dir / f"{request.name}_schema.json" if schema is not None else None
    files = {
        task_file: _task_yaml(words, "dev" in splits, schema, request),
        profile_file: _profile_yaml(len(splits["test"]), request),
    }
    if schema_file is not None:
        files[schema_file] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    written = {}
    for split, part in splits.items():
        path = datasets_dir(request.cache_dir) / f"{request.name}_{split}.jsonl"
        files[path] = "".join(dump_line(item.line()) for item in part)
        written[split] = (path, len(part))
    present = [str(path) for path in files if path.exists()]
    if present and not request.overwrite:
        raise DataError(f"{', '.join(present)} exist already", hint="--overwrite replaces them")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return InitResult(task_file, profile_file, schema_file, written)


def read_table_task(request: TaskRequest, *, least: int = MIN_ROWS) -> TableTask:
    """Read a table as the request says, every row checked; nothing is written.

    Raises :class:`DataError`, with the place in the table, on anything that cannot be used, and where there are fewer
    than ``least`` rows.
    """
    if request.kind not in RECIPES:
        raise DataError(f"unknown kind of task '{request.kind}'", hint=did_you_mean(request.kind, RECIPES))
    recipe = RECIPES[request.kind]
    items = _read_items(recipe, request, least)
    words = worded_as(recipe.describe(items, request.columns), request.answer_as, request.kind)
    schema = words.schema if request.schema_file is None else _own_schema(items, request)
    return TableTask(items, words, schema)


def scorer_reference(reference: str, folder: Path) -> str:
    """A scorer as a task file in ``folder`` names it: relative where it lies there or below, else by its whole path.

    ``reference`` is relative to the working directory, as words of a command line are. Raises ``ConfigError`` for one
    that names no function or no file.
    """
    found = ScorerFile.read(reference, [Path()])
    if found is None:
        raise DataError(f"--scorer {reference}: no function of a file", hint="my_scorer.py:score")
    path = found.path.resolve()
    inside = path.is_relative_to(folder.resolve())
    return f"{path.relative_to(folder.resolve()) if inside else path}:{found.function}"


def _read_items(recipe: Recipe, request: TaskRequest, least: int) -> list[Item]:
    """The items of the table's rows, every column and row checked."""
    rows = read_table(request.data)
    columns = request.columns
    several = {"--input": columns.inputs, "--choices": columns.choices, "--fields": columns.fields}
    wanted = several | {"--answer": (columns.answer,), "--id": (request.id_column,)}
    wanted["a placeholder"] = columns.placed
    for flag, names in wanted.items():  # in the first row; later rows are checked when read
        for name in names:
            if name is not None and name not in rows[0].values:
                hint = did_you_mean(name, list(rows[0].values))
                raise DataError(f"{rows[0].where}: no column '{name}' ({flag})", hint=hint)
    if len(rows) < least:
        few = f"{request.data} has {len(rows)} rows: too few to part"
        raise DataError(few, hint=f"give {least} or more")
    items: dict[str, Item] = {}
    for number, row in enumerate(rows, start=1):
        item_id = cell_text(row, request.id_column) if request.id_column else f"{request.name}-{number:06d}"
        if item_id in items:
            raise row.error(f"id '{item_id}' was already used")
        shown = {name: cell_text(row, name) for name in columns.placed}
        items[item_id] = Item(item_id, *recipe.read(row, columns), columns=shown)
    return list(items.values())


def _own_schema(items: list[Item], request: TaskRequest) -> Schema:
    """The user's schema of the answer; for an extraction every truth must fit it."""
    assert request.schema_file is not None
    try:
        schema = read_json(request.schema_file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{request.schema_file} is not a readable JSON schema: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise DataError(f"{request.schema_file}: the schema must describe an object", hint='"type": "object"')
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise DataError(f"{request.schema_file} is not a JSON schema: {error.message}") from error
    if request.kind == "extraction":
        validator = Draft202012Validator(schema)
        for item in items:
            problem = next(validator.iter_errors(item.truth), None)
            if problem is not None:
                raise DataError(
                    f"{request.data}: the truth of item '{item.item_id}' does not fit the schema: {problem.message}"
                )
    return schema


def _splits(items: list[Item], request: TaskRequest) -> dict[str, list[Item]]:
    """Train, dev and test by hash; rows with the same input fall in the same split."""
    count = len(items)
    train_size = max(MIN_TRAIN, round(count * request.train_share))
    train, rest = split_off(items, train_size, f"{request.name}_train", SPLIT_SEED)
    dev, test = split_off(rest, round(count * request.dev_share), f"{request.name}_dev", SPLIT_SEED)
    if not test or len(train) < MIN_TRAIN:
        raise DataError(
            f"{request.data}: {count} rows give {len(train)} train, {len(dev)} dev and {len(test)} test items",
            hint="add rows with different inputs, or lower --train-share and --dev-share",
        )
    return {"train": train, "dev": dev, "test": test} if dev else {"train": train, "test": test}


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
        task["evaluator"] = scorer_reference(request.scorer, request.out_dir)
    if schema is not None:
        task |= {"kind": "structured", "schema_ref": f"{request.name}_schema.json"}
        task |= {"final_answer_format": None, "answer_regex": None}
    spec = TaskSpec.model_validate(task)
    entry = {key: value for key, value in spec.model_dump(mode="json").items() if value not in (None, [], {})}
    entry.pop("retrieval")
    about = (
        "# Written by pcsuite init-task. Every word a prompt says about the task stands here: edit freely.\n"
    )
    return about + _yaml({"version": "1.0", "tasks": {request.name: entry}})


def _profile_yaml(test_items: int, request: TaskRequest) -> str:
    profile = {
        "version": "1.0",
        "run": {"name": request.name, "output_dir": "outputs", "cache_dir": request.cache_dir.as_posix()},
        "repro": {"seeds": {"d0_greedy": [0], "d1_sampled": [1, 2, 3]}, "seeds_per_task": {"default": 3}},
        "suite": {"tasks_ref": f"{request.name}_task.yaml"},
        "selection": {
            "tasks": [request.name],
            "models": [request.model],
            "conditions": ["C0", "C1", "C2", "C3", "C4", "C5", "C6"],
            "decoding_regimes": ["D0", "D1"],
        },
        "limits": {"max_items_per_task": min(50, test_items)},
        "length_control": "warn",
    }
    comment = f"# Written by pcsuite init-task. Run it: pcsuite run --config {request.name}_profile.yaml\n"
    return comment + _yaml(profile)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
