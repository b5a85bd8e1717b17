"""The mapping file: from labels and columns of the truth to paths of the record, and how each field compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field

from pcsuite._util.hashing import digest
from pcsuite.config.definitions import Definition
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.tree import compile_mapping
from pcsuite.verifier.values import FieldType

_PATTERN = re.compile(r"[^.\[\]]*[^.\[\]\s](?:\[\])?(?:\.[^.\[\]]*[^.\[\]\s](?:\[\])?)*")
RULES_VERSION = 2
"""Raised whenever the comparison itself changes, so that old scores are not taken for new ones."""


class Tolerance(Definition):
    """How far a number may be off: the larger of the two bounds, inclusive."""

    relative: float = Field(default=0.0, ge=0)
    """Share of the expected value."""
    absolute: float = Field(default=0.0, ge=0)
    """Absolute bound; also what an expected 0 allows."""


class FieldRule(Definition):
    """One field: where the truth has it, where the record has it, and how they compare."""

    label: str | None = None
    """Label of a key/value row, or of a table column (the unit in parentheses may be left out)."""
    also: tuple[str, ...] = ()
    """Further labels of the same field, as other exports write it."""
    follows: str | None = None
    """For a column without a label: the label of the column before it."""
    path: str
    """Path of the field; within a table or block relative to the list item."""
    type: FieldType
    """Declared type; values are never typed by how they look."""
    unit: str | None = None
    """Unit the truth must be in, where it states one."""
    modulo: float | None = Field(default=None, gt=0)
    """For angles: 360, so that 0 equals 360."""
    tolerance: str = "default"
    """Name of a tolerance class."""
    weight: float = Field(default=1.0, ge=0)
    """Weight in the weighted scores; counts and F1 are unweighted."""
    extractable: bool = True
    """False where a document cannot contain the field: then it counts nowhere."""
    if_unreadable: Literal["error", "note"] = "error"
    """What a cell of the wrong type is: an error that stops, or a note, and then the value is not judged."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label of the field."""
        return (self.label, *self.also) if self.label else self.also


class PartRule(Definition):
    """A sub-table that fills an object of the list item above it."""

    headers: tuple[str, ...]
    """Labels of the sub-table's header; ``*`` stands for anything."""
    path: str
    """Key of the object in the list item."""
    columns: tuple[FieldRule, ...] = Field(min_length=1)
    """Columns; paths are relative to the object."""
    ignored: tuple[str, ...] = ()
    """Labels of columns that are known and never scored; any other column gets a note."""
    may_lack: tuple[str, ...] = ()
    """Labels of columns that some rows leave out altogether, moving the later cells to the left."""


class TableRule(PartRule):
    """A table whose rows are items of a list; ``path`` is the list's, and the first column the item's name."""

    headers: tuple[str, ...] = ()
    """Labels of the table's header row; none for lists that only a simple CSV gives."""
    rows_in: Literal["B", "C"] = "C"
    """Column in which rows (and for B also the header's first column) start."""
    usually_lacks: bool = False
    """Whether a row that can be read both ways lacks them."""
    parts: tuple[PartRule, ...] = ()
    """Sub-tables that follow a row."""


class BlockRule(Definition):
    """Key/value rows that come once for each item of a list."""

    path: str
    """Path of the list."""
    fields: tuple[FieldRule, ...] = Field(min_length=1)
    """Fields; the first one's label starts a new item."""


class Pairing(Definition):
    """When two list items are taken for the same thing."""

    name_weight: float = Field(default=0.5, ge=0, le=1)
    """Share of the name in the similarity of two items; with 0 names decide nothing."""
    gate: float = Field(default=0.45, gt=0, le=1)
    """Share of the fields both items give that must agree for a pair that no name suggests: about half."""
    position: bool = True
    """Whether items left over are paired in order where both lists have equally many."""


class PairingOverride(Definition):
    """What one list does otherwise; what is left out is as for all lists."""

    name_weight: float | None = Field(default=None, ge=0, le=1)
    """Share of the name in the similarity of two items."""
    gate: float | None = Field(default=None, gt=0, le=1)
    """Share of agreeing fields."""
    position: bool | None = None
    """Whether items left over are paired in order."""


class PairingRules(Pairing):
    """How list items are paired, and which lists do it otherwise."""

    lists: dict[str, PairingOverride] = Field(default_factory=dict)
    """Overrides by path of the list: ``windows``, ``water_heating_systems[].water_heaters``."""

    def of_list(self, pattern: str) -> Pairing:
        """The rules of a list, given by its pattern (``windows[]``).

        What the list's own entry leaves out is as for all lists.
        """
        override = self.lists.get(pattern.removesuffix("[]"))
        overrides = override.model_dump(exclude_none=True) if override else {}
        return Pairing(**{**self.model_dump(exclude={"lists"}), **overrides})


class FieldMapping(Definition):
    """A mapping file."""

    version: str = "1.0"
    """Version of the file."""
    record: Literal["buildingspec", "free"] = "free"
    """``buildingspec`` checks every path against BuildingSpec; ``free`` lets the mapping be the schema."""
    not_given: tuple[str, ...] = ("", "NA")
    """Cells that mean "no value", in any column but a name."""
    not_given_numbers: tuple[str | float, ...] = ()
    """Cells that mean "no value" in a number column."""
    metadata: tuple[str, ...] = ()
    """Paths a record may carry besides the fields; never compared, never hallucinations."""
    tolerances: dict[str, Tolerance]
    """Tolerance classes by name; ``default`` must be one."""
    pairing: PairingRules = PairingRules()
    """How list items are paired."""
    fields: tuple[FieldRule, ...] = ()
    """Key/value fields."""
    blocks: tuple[BlockRule, ...] = ()
    """Key/value fields of list items."""
    tables: tuple[TableRule, ...] = ()
    """Lists of items."""

    def patterns(self) -> Iterator[tuple[str, FieldRule]]:
        """Every field with its pattern, in the order of the file.

        A pattern is a path with its list steps left open: ``windows[].u_factor``.
        """
        for rule in self.fields:
            yield rule.path, rule
        for block in self.blocks:
            yield from ((f"{block.path}[].{rule.path}", rule) for rule in block.fields)
        for table in self.tables:
            yield from ((f"{table.path}[].{rule.path}", rule) for rule in table.columns)
            for part in table.parts:
                yield from ((f"{table.path}[].{part.path}.{rule.path}", rule) for rule in part.columns)

    def rules_hash(self) -> str:
        """Hash (sha256, hex) of everything that decides a score.

        Comments and layout of the file do not matter; a change of the comparison itself does, by
        :data:`RULES_VERSION`.
        """
        return digest({"rules_version": RULES_VERSION, "mapping": self})


def bundled_mapping(name: str = "field_mapping.yaml") -> Path:
    """Path of a mapping file that comes with the package, whether it exists or not.

    By default the one for BuildingSpec.
    """
    return Path(str(resources.files("pcsuite.verifier") / "schemas" / name))


def load_mapping(path: Path | None = None) -> FieldMapping:
    """Read and check a mapping file; by default the bundled one for BuildingSpec.

    ``field_mapping.yaml`` and ``schemas/field_mapping.yaml`` (and the same with classes) name the bundled files where
    there is no such file in the working folder. Raises ``ConfigError`` for a missing file, an unknown path, type or
    tolerance class, or paths that do not fit each other. The file is read again only where it changed.
    """
    file = path if path is not None else bundled_mapping()
    if path is not None and not path.exists() and str(path.parent) in (".", "schemas"):
        bundled = bundled_mapping(path.name)
        file = bundled if path.suffix == ".yaml" and bundled.exists() else path
    try:
        status = file.stat()
    except OSError:
        raise ConfigError(f"{file}: no such mapping file") from None
    # A file that changed has another time or size, and with it another entry of the cache.
    return _load(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _load(path: Path, changed: int, size: int) -> FieldMapping:
    source = YamlSource.read(path)
    try:
        mapping = source.parse(FieldMapping)
    except ConfigError as error:
        first, *others = error.message.splitlines()
        raise ConfigError(first + (f" (and {len(others)} more)" if others else "")) from error
    if "default" not in mapping.tolerances:
        raise ConfigError(source.problem(["tolerances"], "the class 'default' is missing"))
    model_paths = dict(record_paths(BuildingSpec)) if mapping.record == "buildingspec" else None
    patterns: set[str] = set()
    for pattern, rule in mapping.patterns():
        if not _PATTERN.fullmatch(pattern):
            hint = "names joined by single dots, a list's name followed by []"
            raise ConfigError(f"{path}: '{pattern}' is no path", hint=hint)
        if pattern in patterns:
            raise ConfigError(f"{path}: path '{pattern}' is mapped twice")
        patterns.add(pattern)
        if rule.tolerance not in mapping.tolerances:
            hint = did_you_mean(rule.tolerance, mapping.tolerances)
            raise ConfigError(f"{path}: '{pattern}': unknown tolerance class '{rule.tolerance}'", hint=hint)
        if model_paths is not None and pattern not in model_paths:
            raise ConfigError(f"{path}: unknown path '{pattern}'", hint=did_you_mean(pattern, model_paths))
        if model_paths is not None and model_paths[pattern] not in (rule.type, "any"):
            declared = f"declared {rule.type}, but BuildingSpec says {model_paths[pattern]}"
            raise ConfigError(f"{path}: '{pattern}' is {declared}")
    for metadata in mapping.metadata:
        if not _PATTERN.fullmatch(metadata):
            raise ConfigError(f"{path}: metadata: '{metadata}' is no path")
    # Every list that a path leads through: a[].b[].c has a and a[].b.
    lists = {pattern[: bracket.start()] for pattern in patterns for bracket in re.finditer(r"\[\]", pattern)}
    for name in mapping.pairing.lists:
        if name not in lists:
            raise ConfigError(f"{path}: pairing: no list '{name}'", hint=did_you_mean(name, lists))
    if model_paths is not None:
        sections = {pattern.split(".")[0].removesuffix("[]") for pattern in model_paths}
        for metadata in mapping.metadata:
            if metadata not in model_paths and metadata not in sections:
                hint = did_you_mean(metadata, model_paths)
                raise ConfigError(f"{path}: unknown metadata path '{metadata}'", hint=hint)
        for table in mapping.tables:
            if table.columns[0].path != "name":
                raise ConfigError(f"{path}: the first column of '{table.path}' must be its name")
    try:
        compile_mapping(mapping)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from error
    return mapping


def record_paths(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of a record model as ``(pattern, type)``: ``("windows[].u_factor", "number")``.

    ``prefix`` is the pattern of the model itself. A leaf that may hold several types is of type ``any``.
    """
    names = {str: "text", int: "integer", float: "number", bool: "boolean"}
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        kinds = [kind for kind in _members(field.annotation) if kind is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else Any
        if kind is Any:
            yield path, "any"
        elif get_origin(kind) is list:
            element = next(iter(_members(get_args(kind)[0])))
            if isinstance(element, type) and issubclass(element, BaseModel):
                yield from record_paths(element, f"{path}[]")
            else:
                yield path, "text_list"
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from record_paths(kind, path)
        else:
            yield path, names[kind]


def _members(annotation: Any) -> Iterator[Any]:
    """The branches of a union, without their annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation
