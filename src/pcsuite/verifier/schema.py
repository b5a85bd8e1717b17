"""JSON schemas of BuildingSpec: the whole record, and the part a document can contain."""

from __future__ import annotations

from typing import Any

from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.tree import Leaf, ListNode, Node, ObjectNode, compile_mapping

Schema = dict[str, Any]

MAX_ITEMS = 60
MAX_LAYERS = 12
MAX_TEXT = 80


def buildingspec_schema() -> Schema:
    """The schema of the whole record, as the model emits it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **BuildingSpec.model_json_schema()}


def extraction_schema(mapping: FieldMapping | None = None) -> Schema:
    """The schema of an extraction: compared fields only, absent rather than null, everything bounded.

    Bounds matter where decoding is constrained to the schema: an unbounded text or list runs into the
    completion limit.
    """
    return _object(compile_mapping(mapping or load_mapping()), item=False)


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
        return _leaf(node)
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


def _leaf(leaf: Leaf) -> Schema:
    text: Schema = {"type": "string", "maxLength": MAX_TEXT}
    if leaf.type == "text":
        return text
    if leaf.type == "text_list":
        return {"type": "array", "items": text, "maxItems": MAX_LAYERS}
    shape: Schema = {"type": leaf.type}
    if leaf.pattern in _RANGES:
        shape["minimum"], shape["maximum"] = _RANGES[leaf.pattern]
    return shape
