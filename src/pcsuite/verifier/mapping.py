"""The mapping file: from labels and columns of the truth to paths of the record, and how each field compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from pcsuite._util.hashing import digest
from pcsuite.config.definitions import Definition
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.tree import compile_mapping
from pcsuite.verifier.value_reader import TypeOptions, ValueReader
from pcsuite.verifier.value_types import READERS
from pcsuite.verifier.values import LIST_TYPES, FieldType

_PATTERN = re.compile(r"[^.\[\]]*[^.\[\]\s](?:\[\])?(?:\.[^.\[\]]*[^.\[\]\s](?:\[\])?)*")
RULES_VERSION = {"buildingspec": 2, "free": 3}
"""Raised whenever the comparison itself changes, so that old scores are not taken for new ones."""


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _with_synonyms(value: Any) -> Any:
    """``[paid, open]``, ``{paid: settled}`` and ``{paid: [settled, done], open: []}`` as the last of them."""
    if isinstance(value, list | tuple):
        return {str(one): () for one in value}
    if isinstance(value, dict):
        return {str(key): () if one is None else _one_or_more(one) for key, one in value.items()}
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
"""One name, or a list of them."""
Likeness = Annotated[float, Field(gt=0, le=1)]
_DEFAULT_LIKENESS = 0.8


def _likeness(value: Any) -> Any:
    """``fuzzy: true`` is the usual threshold, ``fuzzy: false`` none."""
    return {True: _DEFAULT_LIKENESS, False: None}[value] if isinstance(value, bool) else value


Fuzzy = Annotated[Likeness | None, BeforeValidator(_likeness)]


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

    formats: Names = ()
    """Of a date: how it is written besides ISO (``DD.MM.YYYY`` or ``%d.%m.%Y``); none for the usual ways."""
    day_first: bool | None = None
    """Of a date: whether 03/04/2026 is in April."""
    precision: Literal["year", "month", "day"] | None = None
    """Of a date: how far it is compared; by default as far as it is given."""
    months: tuple[str, ...] = ()
    """Of a date: twelve names of months, where they are not English."""
    values: Annotated[dict[str, Names], BeforeValidator(_with_synonyms)] = Field(default_factory=dict)
    """Of an enum (and words in place of a date, ``present``): the values, each with its synonyms."""
    currency: str | None = None
    """Of money: what an amount without a currency is in."""
    decimal: Literal[".", ","] | None = None
    """Of money, percent, quantity: the decimal mark in texts, where it cannot be seen."""
    fraction: bool = False
    """Of percent: whether a number without a sign is a fraction of 1."""
    threshold: Likeness | None = None
    """Of fuzzy text: least similarity of what counts as the same (0.85)."""
    region: str | None = None
    """Of a phone number: country of numbers without a country code."""
    separator: str | None = None
    """Of a list: what divides one cell of the truth into several elements; by default nothing does."""

    @model_validator(mode="after")
    def _options_of_type(self) -> FieldRule:
        known = {"separator"} if self.type in LIST_TYPES else set()
        known |= READERS[self.type].options if self.type in READERS else set()
        # day_first: false is one of the options that say something, though it is not "true".
        if self.day_first is False and "day_first" not in known:
            raise ValueError(f"'day_first' says nothing about a field of type {self.type}")
        options = ("formats", "day_first", "precision", "months", "values", "currency", "decimal", "fraction",
                   "threshold", "region", "separator")  # fmt: skip
        for name in options:
            if getattr(self, name) not in (None, (), {}, False) and name not in known:
                raise ValueError(f"'{name}' says nothing about a field of type {self.type}")
        return self

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
    key: Names = ()
    """Fields that tell the items apart, the most telling first: ``[employer, start]``."""
    fuzzy: Fuzzy = None
    """Least similarity (0 to 1; ``true`` is 0.8) of texts that may stand for each other when items are paired."""


class BlockRule(Definition):
    """Key/value rows that come once for each item of a list."""

    path: str
    """Path of the list."""
    fields: tuple[FieldRule, ...] = Field(min_length=1)
    """Fields; the first one's label starts a new item."""
    key: Names = ()
    """Fields that tell the items apart."""
    fuzzy: Fuzzy = None
    """Least similarity of texts that may stand for each other when items are paired."""


class Pairing(Definition):
    """When two list items are taken for the same thing."""

    name_weight: float = Field(default=0.5, ge=0, le=1)
    """Share of the name in the similarity of two items; with 0 names decide nothing."""
    gate: float = Field(default=0.45, gt=0, le=1)
    """Share of the fields both items give that must agree for a pair that no name suggests: about half."""
    position: bool = True
    """Whether items left over are paired in order where both lists have equally many."""
    key: Names = ()
    """Fields that tell items apart, the most telling first; ``name`` is the key of lists that have such a field."""
    fuzzy: Fuzzy = None
    """Least similarity of texts that may stand for each other; lists with a key have 0.8 unless they say otherwise."""


class PairingOverride(Definition):
    """What one list does otherwise; what is left out is as for all lists."""

    name_weight: float | None = Field(default=None, ge=0, le=1)
    """Share of the name in the similarity of two items."""
    gate: float | None = Field(default=None, gt=0, le=1)
    """Share of agreeing fields."""
    position: bool | None = None
    """Whether items left over are paired in order; where a key tells items apart only if this says so."""
    key: Names | None = None
    """Fields that tell the items apart."""
    fuzzy: Fuzzy = None
    """Least similarity of texts that may stand for each other."""


class PairingRules(Pairing):
    """How list items are paired, and which lists do it otherwise."""

    lists: dict[str, PairingOverride] = Field(default_factory=dict)
    """Overrides by path of the list: ``windows``, ``water_heating_systems[].water_heaters``."""

    def of_list(self, pattern: str, key: tuple[str, ...] = (), fuzzy: float | None = None) -> Pairing:
        """The rules of a list, given by its pattern (``windows[]``).

        What the list's own entry leaves out is as ``key`` and ``fuzzy`` say (those of its table), and then as for all
        lists. A list with a key compares texts by likeness, and leaves over what no key and no content pairs.
        """
        override = self.lists.get(pattern.removesuffix("[]"))
        overrides = override.model_dump(exclude_none=True) if override else {}
        if key:
            overrides.setdefault("key", key)
        if fuzzy is not None:
            overrides.setdefault("fuzzy", fuzzy)
        rules = Pairing(**{**self.model_dump(exclude={"lists"}), **overrides})
        if not rules.key:
            return rules
        return rules.model_copy(
            update={"fuzzy": rules.fuzzy or _DEFAULT_LIKENESS, "position": overrides.get("position", False)}
        )


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
    units: tuple[str, ...] = ()
    """Units that quantities use and pint does not know, as pint defines them: ``IU = [iu]``."""
    record_key: str | None = None
    """Of truths with many records in one file: the field (or column) that tells records apart."""
    confidence: str | None = None
    """Key under which an extraction states how sure it is of a record or item; ``confidence`` in a free record."""
    concluded: dict[str, Names] = Field(default_factory=dict)
    """Keys by path of the list that were concluded from a truth, where the mapping named none."""
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
        version = RULES_VERSION[self.record]
        return digest({"rules_version": version, "mapping": _stated(self.model_dump(mode="json"))})

    @property
    def confidence_key(self) -> str | None:
        """The key of an extraction's confidence; none where it is a field that is compared, or of a building."""
        key = self.confidence or ("confidence" if self.record == "free" else None)
        return None if key in dict(self.patterns()) else key

    def pairing_of(self, pattern: str) -> Pairing:
        """How the items of a list are paired, given by its pattern (``windows[]``)."""
        path = pattern.removesuffix("[]")
        lists = [(one.path, one.key, one.fuzzy) for one in self.tables]
        lists += [(one.path, one.key, one.fuzzy) for one in self.blocks]
        key, fuzzy = next(((key, fuzzy) for name, key, fuzzy in lists if name == path), ((), None))
        return self.pairing.of_list(pattern, key or self.concluded.get(path, ()), fuzzy)

    def reader(self, rule: FieldRule) -> ValueReader | None:
        """What reads the values of a field, ``None`` for the plain types.

        Raises ``ConfigError`` where the field's options make no sense or its library is missing.
        """
        reader = READERS.get(rule.type)
        if reader is None:
            return None
        options = {name: getattr(rule, name) for name in reader.options if name not in ("values", "unit")}
        values = tuple((value, tuple(synonyms)) for value, synonyms in rule.values.items())
        return reader(TypeOptions(**options, values=values, unit=rule.unit, units=self.units))


_LATER = frozenset({
    "formats", "day_first", "precision", "months", "values", "currency", "decimal", "fraction", "threshold",
    "region", "separator", "key", "fuzzy", "units", "record_key", "concluded", "confidence",
})  # fmt: skip
"""Keys that mappings did not always have: left out they change no hash, so that scores of old stay comparable."""


def _stated(value: Any) -> Any:
    """A dumped mapping without the later keys that say nothing."""
    if isinstance(value, dict):
        # False states something (day_first), except where it is what was always so.
        empty = {
            key for key, one in value.items() if one in (None, [], {}) or (key, one) == ("fraction", False)
        }
        return {key: _stated(one) for key, one in value.items() if key not in _LATER & empty}
    return [_stated(one) for one in value] if isinstance(value, list) else value


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
        plain = _PLAIN.get(rule.type, rule.type)
        if model_paths is not None and model_paths[pattern] not in (rule.type, plain, "any"):
            declared = f"declared {rule.type}, but BuildingSpec says {model_paths[pattern]}"
            raise ConfigError(f"{path}: '{pattern}' is {declared}")
    for metadata in mapping.metadata:
        if not _PATTERN.fullmatch(metadata):
            raise ConfigError(f"{path}: metadata: '{metadata}' is no path")
    lists = list_paths(mapping)
    for where, names in (("pairing", mapping.pairing.lists), ("concluded", mapping.concluded)):
        for name in names:
            if name not in lists:
                raise ConfigError(f"{path}: {where}: no list '{name}'", hint=did_you_mean(name, lists))
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
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from error
    return mapping


def list_paths(mapping: FieldMapping) -> set[str]:
    """Every list that a path leads through: ``a[].b[].c`` has ``a`` and ``a[].b``."""
    patterns = (pattern for pattern, _ in mapping.patterns())
    return {pattern[: bracket.start()] for pattern in patterns for bracket in re.finditer(r"\[\]", pattern)}


_PLAIN = {
    "fuzzy": "text", "enum": "text", "identifier": "text", "date": "text", "phone": "text", "text_set": "text_list",
    "money": "number", "percent": "number", "quantity": "number",
}  # fmt: skip
"""What a field of a type is called where only plain types are known."""


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
