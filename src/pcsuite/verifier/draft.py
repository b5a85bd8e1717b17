"""A first mapping, drafted from a sample of the extraction, a truth, a JSON Schema or a pydantic model.

Every field says in a comment why it has its type; what could not be concluded is listed for the user to decide. The
draft is a mapping like any other: it is loaded once before it is shown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pcsuite.data.workbook import MAGIC
from pcsuite.errors import ConfigError, DataError, PcsuiteError
from pcsuite.verifier.cells import (
    CsvRow,
    decode_text,
    label_key,
    parse_rows,
    read_bytes,
    split_unit,
    workbook_rows,
)
from pcsuite.verifier.draft_types import Conclusion, conclude_type
from pcsuite.verifier.extraction import parse_json
from pcsuite.verifier.json_truth import is_json, json_records
from pcsuite.verifier.keys import conclude_keys
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.paths import parse_path, pattern_of
from pcsuite.verifier.plain_truth import RECORD, is_long
from pcsuite.verifier.truth import parse_truth
from pcsuite.verifier.values import normalise_text

_METADATA = ("confidence", "extraction_status", "warnings", "notes_of_extractor")


class Draft(NamedTuple):
    """A drafted mapping: its text, and what it leaves to be decided."""

    text: str
    open_questions: tuple[str, ...]


@dataclass(slots=True)
class _Evidence:
    """What is known of one field: values of sample and truth, the schema's word, labels of the truth."""

    values: list[Any] = field(default_factory=list)
    truth_values: list[str] = field(default_factory=list)
    schema: Mapping[str, Any] | None = None
    labels: list[str] = field(default_factory=list)
    unit: str | None = None


def draft_mapping(
    sample: Path | None, truth: Path | None = None, schema: str | None = None, record_key: str | None = None
) -> Draft:
    """Draft a mapping from what is there of a sample, a truth and a schema.

    ``sample`` is JSON or JSON Lines, with one record or many; ``truth`` a table, JSON or a workbook; ``schema`` a JSON
    Schema file or ``FILE.py:CLASS`` of a pydantic model. Raises ``DataError`` or ``ConfigError`` where one of them
    cannot be read.
    """
    fields: dict[str, _Evidence] = {}
    questions: list[str] = []
    sampled: list[Mapping[str, Any]] = []
    true: list[Mapping[str, Any]] = []
    if schema is not None:
        _add_schema(read_schema(schema), fields, questions)
    if sample is not None:
        sampled = _sample_records(sample)
        for record in sampled:
            _add_values(record, "", fields)
        for name in dict.fromkeys(_unnameable(sampled)):
            questions.append(
                f"the key '{name}' holds a dot or bracket, so that no path can name it; left out"
            )
    truth_data = read_bytes(truth) if truth is not None else b""
    if truth is not None:
        true = _add_truth(truth_data, str(truth), fields, questions, alone=sample is None and schema is None)
    records = [*sampled, *true]
    fields = {
        pattern: one
        for pattern, one in fields.items()
        if pattern.rpartition(".")[2].removesuffix("[]") not in _METADATA
    }
    if not fields:
        raise DataError("there is no field to draft a mapping from", hint="give a sample that has values")
    conclusions = {
        pattern: conclude_type(pattern, one.values, one.truth_values, one.schema)
        for pattern, one in fields.items()
    }
    key = record_key or _record_key(sampled, true, conclusions, fields)
    if key is not None and label_key(key) == RECORD and len(fields) > 1:
        # A name that we give a record is nothing that was extracted: compared, it would always be right.
        fields.pop(key, None)
        conclusions.pop(key, None)
    elif key in conclusions and conclusions[key].type == "enum" and fields[key].schema is None:
        # What tells records apart has as many values as there are records in the world.
        conclusions[key] = Conclusion("text", "tells the records apart")
    sources = (sample, truth, schema)
    mapping = _loaded(_written(fields, conclusions, {}, key, sources))
    if truth is not None:
        try:
            read = parse_truth(truth_data, mapping, str(truth))
            records += [one.record for one in (read.records or {"": read}).values()]
        except PcsuiteError as error:
            questions.append(f"the truth cannot be read under this draft yet: {error.message}")
    keys = {one.path: one.key for one in conclude_keys(mapping, records)}
    for pattern in (f"{path}[].{name}" for path, key_fields in keys.items() for name in key_fields):
        if conclusions[pattern].type == "enum" and fields[pattern].schema is None:
            # What tells items apart has as many values as there are items in the world.
            conclusions[pattern] = Conclusion("text", "tells the items apart")
    guessed = _guessed_keys(fields, conclusions, keys) if not records else {}
    questions += [f"{pattern}: {one.question}" for pattern, one in conclusions.items() if one.question]
    for path in _list_paths(fields):
        if path in guessed:
            questions.append(f"{path}: does {guessed[path][0]} tell its items apart? A schema does not say")
        elif path not in keys and f"{path}[].name" not in fields:
            questions.append(f"{path}: nothing tells its items apart in what was read; name it: key: [FIELD]")
    if len(records) > 1 and key is None:
        questions.append("no field tells the records apart: name it as record_key where one file has many")
    text = _written(fields, conclusions, {**keys, **guessed}, key, sources)
    _loaded(text)
    return Draft(text, tuple(questions))


def _guessed_keys(
    fields: Mapping[str, _Evidence], conclusions: Mapping[str, Conclusion], keys: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """For lists that only a schema knows: their first identifier, or else their first text."""
    guessed: dict[str, tuple[str, ...]] = {}
    for path in _list_paths(fields):
        columns = [pattern for pattern in fields if pattern.rpartition("[].")[0] == path]
        names = {pattern.rpartition("[].")[2]: conclusions[pattern].type for pattern in columns}
        telling = [
            name
            for kind in ("identifier", "text")
            for name in names
            if names[name] == kind and "." not in name
        ]
        if path not in keys and "name" not in names and telling:
            guessed[path] = (telling[0],)
    return guessed


def _loaded(text: str) -> Any:
    """The mapping that a text is; a draft that does not load is a fault of the draft."""
    with tempfile.TemporaryDirectory(prefix="pcsuite-draft-") as folder:
        path = Path(folder) / "draft.yaml"
        path.write_text(text, encoding="utf-8")
        return load_mapping(path)


def _sample_records(path: Path) -> list[Mapping[str, Any]]:
    data = read_bytes(path)
    content = json_records(data, str(path)) if is_json(data) else parse_json(data, str(path))
    if isinstance(content, dict):
        inner = list(content.values())
        # An object of records by name, as many extractions are kept.
        if len(inner) > 1 and all(isinstance(one, dict) and one.keys() == inner[0].keys() for one in inner):
            return inner
        return [content]
    records = [value for _, value in content] if isinstance(content, list) else []
    if not records or not all(isinstance(one, dict) for one in records):
        raise DataError(f"{path}: a sample is a JSON object, or several of them")
    return records


def _add_values(value: Mapping[str, Any], prefix: str, fields: dict[str, _Evidence]) -> None:
    """Add every value of a record to the evidence of its field."""
    for key, child in value.items():
        if not key.strip() or set(key) & set(".[]"):
            continue  # no path can name it; said by _unnameable
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(child, dict) and child:
            _add_values(child, path, fields)
        elif isinstance(child, list) and any(isinstance(item, dict) for item in child):
            for item in child:
                if isinstance(item, dict):
                    _add_values(item, f"{path}[]", fields)
        elif any(pattern.startswith((f"{path}[]", f"{path}.")) for pattern in fields):
            continue  # an empty list or object that other records fill
        else:
            fields.setdefault(path, _Evidence()).values.append(child)


def _unnameable(value: Any) -> Iterator[str]:
    """Keys that no path can name, wherever they stand."""
    if isinstance(value, dict):
        for key, child in value.items():
            if not key.strip() or set(key) & set(".[]"):
                yield key
            else:
                yield from _unnameable(child)
    elif isinstance(value, list):
        for child in value:
            yield from _unnameable(child)


def _add_truth(
    data: bytes, source: str, fields: dict[str, _Evidence], questions: list[str], *, alone: bool
) -> list[Mapping[str, Any]]:
    """Add the columns (or values) of a truth; those that are no field of the sample are asked about."""
    if is_json(data):
        content = json_records(data, source)
        records = [content] if isinstance(content, dict) else [value for _, value in content]
        for record in records:
            if isinstance(record, dict):
                _add_values(record, "", fields)
        return [record for record in records if isinstance(record, dict)]
    if data.startswith(MAGIC):
        tables = workbook_rows(data, source)
    else:
        tables = {"": [row for row in parse_rows(data, source) if row.cells]}
    for name, rows in tables.items():
        prefix = f"{name}[]." if name and name != next(iter(tables)) else ""
        for label, values in _columns(rows):
            pattern = _pattern_of_label(f"{prefix}{label}", label, values, fields)
            if pattern is None and (alone or "[" in label or "." in label):
                pattern = _path_of_label(f"{prefix}{label}")
            if pattern is None:
                if label_key(label) != RECORD:
                    questions.append(
                        f"'{label}' of the truth is no field of the sample: give one that label, or leave it out"
                    )
                continue
            one = fields.setdefault(pattern, _Evidence())
            one.truth_values += values
            bare, unit = split_unit(label)
            if label_key(pattern.rpartition(".")[2]) != label_key(label) and not {"[", "."} & set(label):
                one.labels.append(bare if unit else label)
            one.unit = one.unit or unit
    return []


def _columns(rows: Sequence[CsvRow]) -> Iterator[tuple[str, list[str]]]:
    """Labels of a plain table with the values below each; list steps of long tables are left open."""
    if not rows:
        return
    if is_long(rows[0]):
        header = [cell.casefold() for cell in rows[0].cells]
        at = (header.index("field"), header.index("value"))
        columns: dict[str, list[str]] = {}
        for row in rows[1:]:
            label = row.cell(at[0])
            with suppress(ValueError):
                label = pattern_of(parse_path(label))
            columns.setdefault(label, []).append(row.cell(at[1]))
        yield from columns.items()
        return
    for index, label in enumerate(rows[0].cells):
        if label:
            yield label, [row.cell(index) for row in rows[1:] if row.cell(index)]


def _pattern_of_label(
    prefixed: str, label: str, values: Sequence[str], fields: Mapping[str, _Evidence]
) -> str | None:
    """The field of the sample that a label of the truth means: by its name, or by holding the same values."""
    for spelling in (prefixed, label, split_unit(label)[0]):
        by_name = [
            pattern
            for pattern in fields
            if label_key(spelling) in (label_key(pattern), label_key(pattern.rpartition(".")[2]))
        ]
        exact = [pattern for pattern in by_name if label_key(pattern) == label_key(spelling)]
        if exact or len(by_name) == 1:
            return (exact or by_name)[0]
    truth = {normalise_text(value) for value in values if value}
    shared = {
        pattern: len(truth & {normalise_text(str(value)) for value in one.values if value is not None})
        for pattern, one in fields.items()
    }
    best = sorted(shared, key=lambda pattern: -shared[pattern])
    is_clear = len(best) > 0 and shared[best[0]] > 0 and (len(best) == 1 or shared[best[0]] > shared[best[1]])
    return best[0] if is_clear else None


def _path_of_label(label: str) -> str:
    """A path for a label of a truth that nothing else names: itself where it is one, else in small letters."""
    bare, _ = split_unit(label)
    if "[" in bare or "." in bare:
        return bare
    words = "".join(mark if mark.isalnum() else " " for mark in bare.casefold()).split()
    return "_".join(words) or bare


def read_schema(reference: str) -> dict[str, Any]:
    """The JSON Schema in a file, or of the pydantic model that ``FILE.py:CLASS`` names."""
    name, _, attribute = reference.rpartition(":")
    if attribute and name.endswith(".py"):
        return _schema_of_model(Path(name), attribute)
    path = Path(reference)
    if path.suffix == ".py":
        raise ConfigError(f"{path}: name the model too", hint=f"--schema {path}:Class")
    data = read_bytes(path)
    try:
        schema = json.loads(decode_text(data, str(path)))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(schema, dict) or not ({"properties", "$ref", "allOf", "anyOf"} & schema.keys()):
        raise DataError(f"{path}: no JSON Schema of an object (it has no 'properties')")
    return schema


def _schema_of_model(path: Path, attribute: str) -> dict[str, Any]:
    source = decode_text(read_bytes(path), str(path))
    module = ModuleType(f"pcsuite_schema_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # pydantic looks up what annotations name
    sys.path.insert(0, str(path.resolve().parent))
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
        model = module.__dict__.get(attribute)
        make = getattr(model, "model_json_schema", None)
        if make is None:
            models = [name for name, value in module.__dict__.items() if hasattr(value, "model_json_schema")]
            hint = f"it has {', '.join(models)}" if models else None
            raise ConfigError(f"{path}: no pydantic model '{attribute}'", hint=hint)
        schema: dict[str, Any] = make()
    except PcsuiteError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
        sys.modules.pop(module.__name__, None)
    return schema


def _add_schema(schema: Mapping[str, Any], fields: dict[str, _Evidence], questions: list[str]) -> None:
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}

    def resolved(node: Any, depth: int = 0) -> dict[str, Any]:
        """A schema without references, and without the branch that only allows null."""
        if not isinstance(node, Mapping) or depth > 20:
            return {}
        if "$ref" in node:
            target = definitions.get(str(node["$ref"]).rpartition("/")[2], {})
            return {**resolved(target, depth + 1), **{key: node[key] for key in node if key != "$ref"}}
        for key in ("anyOf", "oneOf"):
            if key in node:
                branches = [resolved(one, depth + 1) for one in node[key]]
                branches = [one for one in branches if one.get("type") != "null"]
                if len(branches) == 1 or {one.get("type") for one in branches} == {"number", "string"}:
                    return {**branches[0], **{name: node[name] for name in node if name != key}}
                return {**node, "x-branches": len(branches)}
        if "allOf" in node:
            merged: dict[str, Any] = {}
            for one in node["allOf"]:
                part = resolved(one, depth + 1)
                merged = {
                    **merged,
                    **part,
                    "properties": {**merged.get("properties", {}), **part.get("properties", {})},
                }
            return {**merged, **{name: node[name] for name in node if name != "allOf"}}
        if isinstance(node.get("type"), list):
            kinds = [kind for kind in node["type"] if kind != "null"]
            return {**node, "type": kinds[0] if len(kinds) == 1 else None}
        return dict(node)

    def walk(node: Mapping[str, Any], prefix: str, seen: int) -> None:
        for key, child in node.get("properties", {}).items():
            path = f"{prefix}.{key}" if prefix else key
            part = resolved(child)
            if seen > 8:
                questions.append(f"{path}: nested deeper than eight levels, or in itself; left out")
            elif part.get("properties"):
                walk(part, path, seen + 1)
            elif part.get("type") == "array":
                items = resolved(part.get("items"))
                if items.get("properties"):
                    walk(items, f"{path}[]", seen + 1)
                else:
                    fields.setdefault(path, _Evidence()).schema = {**part, "items": items}
            elif part.get("type") == "object" or "x-branches" in part:
                questions.append(f"{path}: the schema leaves its shape open; left out")
            else:
                fields.setdefault(path, _Evidence()).schema = part

    walk(resolved(schema), "", 0)


def _record_key(
    sampled: Sequence[Mapping[str, Any]],
    true: Sequence[Mapping[str, Any]],
    conclusions: Mapping[str, Conclusion],
    fields: Mapping[str, _Evidence],
) -> str | None:
    """The field that tells the records of the sample apart, and those of the truth, and is the same in both.

    One called ``record``, else the first identifier, else the first text that every record has. Of a sample and a truth
    it is the one that most records of the truth share with the sample: a field that was extracted wrongly tells no
    record apart. Where only a table is there, its first column is, if it has several values.
    """
    sides = [side for side in (sampled, true) if side]
    if not sides:
        first = next(iter(fields), "")
        return first if len(set(fields[first].truth_values)) > 1 and "[]" not in first else None
    if max(map(len, sides)) < 2:
        return None
    top = [pattern for pattern in conclusions if "[]" not in pattern and "." not in pattern]
    named = [pattern for pattern in top if label_key(pattern) == RECORD]
    of_kind = [
        [pattern for pattern in top if conclusions[pattern].type == kind] for kind in ("identifier", "text")
    ]
    candidates: dict[str, int] = {}
    for pattern in dict.fromkeys([*named, *of_kind[0], *of_kind[1]]):
        values = [_telling_values(pattern, side) for side in sides]
        if any(one is None for one in values):
            continue
        by_side = [set(one) for one in values if one is not None]
        if not true and (cells := fields[pattern].truth_values):
            by_side.append({normalise_text(cell) for cell in cells})
        candidates[pattern] = len(set.intersection(*by_side))
    most = max(candidates.values(), default=0)
    return next((pattern for pattern, shared in candidates.items() if shared == most > 0), None)


def _telling_values(pattern: str, records: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """What a field is in each record, where every one has it and no two the same."""
    values = [record.get(pattern) for record in records]
    texts = [normalise_text(str(value)) for value in values if isinstance(value, str | int)]
    return texts if all(texts) and len(set(texts)) == len(records) else None


def _list_paths(fields: Mapping[str, Any]) -> list[str]:
    """The lists of the fields, those that hold others first."""
    paths: dict[str, None] = {}
    for pattern in fields:
        parts = pattern.split("[].")
        for count in range(1, len(parts)):
            paths.setdefault("[].".join(parts[:count]))
    return list(paths)


def _written(
    fields: Mapping[str, _Evidence],
    conclusions: Mapping[str, Conclusion],
    keys: Mapping[str, tuple[str, ...]],
    record_key: str | None,
    sources: Sequence[Path | str | None],
) -> str:
    """The text of the mapping."""
    drawn = ", ".join(Path(str(one)).name for one in sources if one is not None)
    lines = [
        f"# Drafted from {drawn}. A comment says why a field has its type; change what is wrong.",
        "record: free",
    ]
    if record_key is not None:
        lines.append(f"record_key: {_scalar(record_key)}  # tells records apart where one file has many")
    tolerances = {"default": 0.005} | {
        one.tolerance: 0.5 * 10.0 ** -int(one.tolerance.rpartition("_")[2])
        for one in conclusions.values()
        if one.tolerance is not None
    }
    lines.append("tolerances:  # half of the last digit that the values have")
    lines += [f"  {name}: {{absolute: {bound:g}}}" for name, bound in tolerances.items()]
    plain = [pattern for pattern in fields if "[]" not in pattern]
    if plain:
        lines.append("fields:")
        lines += [
            _field_line(pattern, pattern, fields[pattern], conclusions[pattern], "  ") for pattern in plain
        ]
    lists = _list_paths(fields)
    if lists:
        lines.append("tables:")
    for path in lists:
        columns = [pattern for pattern in fields if pattern.rpartition("[].")[0] == path]
        if not columns:
            continue
        lines.append(f"  - path: {_scalar(path)}")
        if path in keys:
            lines.append(
                f"    key: [{', '.join(map(_scalar, keys[path]))}]  # tells the items of every list apart"
            )
        elif f"{path}[].name" in columns:
            lines.append("    # paired by name")
        lines.append("    columns:")
        lines += [
            _field_line(
                pattern.rpartition("[].")[2], pattern, fields[pattern], conclusions[pattern], "      "
            )
            for pattern in columns
        ]
    return "\n".join(lines) + "\n"


def _field_line(path: str, pattern: str, evidence: _Evidence, conclusion: Conclusion, indent: str) -> str:
    parts = [f"label: {_scalar(label)}" for label in evidence.labels[:1]]
    if len(evidence.labels) > 1:
        parts.append(f"also: [{', '.join(map(_scalar, evidence.labels[1:]))}]")
    parts += [f"path: {_scalar(path)}", f"type: {conclusion.type}"]
    parts += [f"{name}: {_scalar(value)}" for name, value in conclusion.options.items()]
    if conclusion.tolerance:
        parts.append(f"tolerance: {conclusion.tolerance}")
    if evidence.unit and conclusion.type in ("number", "integer"):
        parts.append(f"unit: {_scalar(evidence.unit)}")
    mark = " ? " if conclusion.question else " "
    return f"{indent}- {{{', '.join(parts)}}}  #{mark}{conclusion.why}"


def _scalar(value: Any) -> str:
    """A value as flow YAML has it: JSON, or bare where that is safe."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.replace("_", "").isalnum()
        and value[:1].isalpha()
    ):
        return (
            value
            if value.casefold() not in ("yes", "no", "true", "false", "null", "on", "off", "y", "n")
            else json.dumps(value)
        )
    return json.dumps(value, ensure_ascii=False)
