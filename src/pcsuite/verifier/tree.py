"""A mapping compiled to the shape of the record, and the JSON schemas that follow from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pcsuite.errors import ConfigError
from pcsuite.verifier.mapping import FieldMapping, FieldRule, Pairing, load_mapping
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.values import FieldType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field: a scalar, or a list of texts (``type`` is ``text_list``)."""

    pattern: str
    section: str
    type: FieldType
    relative: float
    absolute: float
    modulo: float | None
    weight: float


@dataclass(frozen=True, slots=True)
class Ignored:
    """A part of the record that counts nowhere: excluded from the comparison, or metadata."""


@dataclass(slots=True)
class ObjectNode:
    """An object with named parts."""

    children: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True)
class ListNode:
    """A list of objects, paired by name and content."""

    pattern: str
    item: ObjectNode
    pairing: Pairing
    scalars: list[tuple[tuple[str, ...], Leaf]] = field(default_factory=list)
    """Scalar fields of an item except its name, with the keys that lead to them: what pairs are judged by."""
    lists: list[tuple[str, ...]] = field(default_factory=list)
    """Keys of the lists inside an item."""


Node = Leaf | Ignored | ObjectNode | ListNode


_COMPILED: dict[int, tuple[FieldMapping, ObjectNode]] = {}
_KEPT = 16


def compile_mapping(mapping: FieldMapping) -> ObjectNode:
    """The tree of a mapping, built once per mapping object."""
    known = _COMPILED.get(id(mapping))
    if known is not None:
        return known[1]
    if len(_COMPILED) >= _KEPT:
        _COMPILED.clear()
    root = _build(mapping)
    _COMPILED[id(mapping)] = (mapping, root)  # the mapping is held, so that its id stays its own
    return root


def _build(mapping: FieldMapping) -> ObjectNode:
    root = ObjectNode()
    for pattern, rule in mapping.patterns():
        leaf: Node = Ignored()
        if rule.extractable:
            leaf = _leaf(pattern, rule, mapping)
        _place(root, pattern, leaf, mapping.pairing)
    for path in mapping.metadata:
        _place(root, path, Ignored(), mapping.pairing)
    _collect(root)
    return root


def _leaf(pattern: str, rule: FieldRule, mapping: FieldMapping) -> Leaf:
    bounds = mapping.tolerances[rule.tolerance]
    section = pattern.split(".")[0].removesuffix("[]")
    return Leaf(pattern, section, rule.type, bounds.relative, bounds.absolute, rule.modulo, rule.weight)


def _place(root: ObjectNode, pattern: str, leaf: Node, pairing: Pairing) -> None:
    *holders, last = pattern.split(".")
    node = root
    walked: list[str] = []
    for holder in holders:
        walked.append(holder)
        key = holder.removesuffix("[]")
        child = node.children.get(key)
        if child is None:
            child = (
                ListNode(".".join(walked), ObjectNode(), pairing) if holder.endswith("[]") else ObjectNode()
            )
            node.children[key] = child
        if isinstance(child, ListNode) == holder.endswith("[]") and isinstance(child, ListNode | ObjectNode):
            node = child.item if isinstance(child, ListNode) else child
        else:
            raise ConfigError(f"'{pattern}' does not fit the other paths at '{'.'.join(walked)}'")
    if last.endswith("[]") or isinstance(node.children.get(last), ListNode | ObjectNode):
        raise ConfigError(f"'{pattern}' does not fit the other paths")
    node.children[last] = leaf


def _collect(node: ObjectNode) -> None:
    """Note in each list which fields of its items pairs are judged by."""
    for child in node.children.values():
        if isinstance(child, ObjectNode):
            _collect(child)
        elif isinstance(child, ListNode):
            _collect(child.item)
            _collect_item(child, child.item, ())


def _collect_item(holder: ListNode, node: ObjectNode, keys: tuple[str, ...]) -> None:
    for key, child in node.children.items():
        steps = (*keys, key)
        if isinstance(child, Leaf) and child.type != "text_list":
            if steps != ("name",):
                holder.scalars.append((steps, child))
        elif isinstance(child, ObjectNode):
            _collect_item(holder, child, steps)
        elif isinstance(child, ListNode | Leaf):
            holder.lists.append(steps)


def compared_record(record: Mapping[str, Any], mapping: FieldMapping) -> dict[str, Any]:
    """The record without what counts nowhere: excluded fields, metadata, nulls and empty parts."""
    kept: dict[str, Any] = _compared(compile_mapping(mapping), record)
    return kept


def _compared(node: ObjectNode, value: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, child in node.children.items():
        part = value.get(key)
        if isinstance(child, ObjectNode) and isinstance(part, dict):
            part = _compared(child, part)
        elif isinstance(child, ListNode) and isinstance(part, list):
            part = [_compared(child.item, item) for item in part if isinstance(item, dict)]
        elif not isinstance(child, Leaf):
            continue
        if part is not None and part != {} and part != []:
            kept[key] = part
    return kept


# JSON schemas of BuildingSpec: the whole record, and the part a document can contain.


Schema = dict[str, Any]

MAX_ITEMS = 60
MAX_LAYERS = 12
MAX_TEXT = 80
MAX_COUNT = 999
SCALARS: dict[str, Schema] = {
    "text": {"type": "string", "maxLength": MAX_TEXT},
    "number": {"type": "number", "minimum": -9_999_999, "maximum": 99_999_999},
}
"""Bounded scalars, defined once: without bounds a small model may write digits up to its completion limit."""


def buildingspec_schema() -> Schema:
    """The schema of the whole record, as the model emits it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **BuildingSpec.model_json_schema()}


def extraction_schema(mapping: FieldMapping | None = None) -> Schema:
    """The schema of an extraction: compared fields only, absent rather than null, everything bounded.

    Bounds matter where decoding is constrained to the schema: an unbounded text or list runs into the
    completion limit. Sections of the same shape share one definition, because the schema is also what a
    prompt shows, and its tokens leave less room for the document.
    """
    return _shared(_object(compile_mapping(mapping or load_mapping()), item=False))


def _shared(schema: Schema) -> Schema:
    """The same schema with lists of one shape defined once, under the name of the first section that has it."""
    sections: Mapping[str, Schema] = schema["properties"]
    shapes = {name: json.dumps(shape) for name, shape in sections.items() if shape.get("type") == "array"}
    repeated = {shape for shape, count in Counter(shapes.values()).items() if count > 1}
    names: dict[str, str] = {}
    for section, shape in shapes.items():
        if shape in repeated:
            names.setdefault(shape, section)
    properties = {
        section: {"$ref": f"#/$defs/{names[shapes[section]]}"} if shapes.get(section) in names else shape
        for section, shape in sections.items()
    }
    return {
        **schema,
        "properties": properties,
        "$defs": {**SCALARS, **{name: sections[name] for name in names.values()}},
    }


def _object(node: ObjectNode, *, item: bool) -> Schema:
    properties = {
        key: schema for key, child in node.children.items() if (schema := _schema(child)) is not None
    }
    shape: Schema = {"type": "object", "properties": properties}
    if item and "name" in properties:
        shape["required"] = ["name"]
    shape["additionalProperties"] = False
    return shape


def _schema(node: Node) -> Schema | None:
    if isinstance(node, Leaf):
        return _schema_leaf(node)
    if isinstance(node, ObjectNode):
        shape = _object(node, item=False)
        return shape if shape["properties"] else None
    if isinstance(node, ListNode):
        return {"type": "array", "items": _object(node.item, item=True), "maxItems": MAX_ITEMS}
    return None


_RANGES: dict[str, tuple[float, float]] = {
    "project.climate_zone": (1, 16),
    "envelope.window_to_floor_ratio": (0, 1),
    "slab_floors[].carpeted_fraction": (0, 1),
}


def _schema_leaf(leaf: Leaf) -> Schema:
    if leaf.type == "text_list":
        return {"type": "array", "items": {"$ref": "#/$defs/text"}, "maxItems": MAX_LAYERS}
    if leaf.pattern in _RANGES:
        low, high = _RANGES[leaf.pattern]
        return {"type": leaf.type, "minimum": low, "maximum": high}
    if leaf.type == "integer":
        return {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
    return {"$ref": f"#/$defs/{leaf.type}"} if leaf.type in SCALARS else {"type": leaf.type}
