"""Write the JSON schemas of BuildingSpec: the record's into the package, the extraction's beside the other tasks'.

Run after changing the model or the mapping.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.model import BuildingSpec
from pcsuite.verifier.tree import Leaf, ListNode, Node, ObjectNode, compile_mapping

ROOT = Path(__file__).resolve().parents[1]
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
RANGES: dict[str, tuple[float, float]] = {
    "project.climate_zone": (1, 16),
    "envelope.window_to_floor_ratio": (0, 1),
    "slab_floors[].carpeted_fraction": (0, 1),
}


def main() -> int:
    """Write both files."""
    for path, schema in (
        (ROOT / "src/pcsuite/verifier/schemas/buildingspec.schema.json", buildingspec_schema()),
        (ROOT / "configs/schemas/buildingspec_json.json", extraction_schema()),
    ):
        path.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    return 0


def buildingspec_schema() -> Schema:
    """The schema of the whole record, as the model emits it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **BuildingSpec.model_json_schema()}


def extraction_schema(mapping: FieldMapping | None = None) -> Schema:
    """The schema of an extraction: compared fields only, absent rather than null, everything bounded.

    Bounds matter where decoding is constrained to the schema: an unbounded text or list runs into the
    completion limit. Sections of the same shape share one definition, because the schema is also what a
    prompt shows, and its tokens leave less room for the document.
    """
    schema = _object(compile_mapping(mapping or load_mapping()), item=False)
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
        if node.type == "text_list":
            return {"type": "array", "items": {"$ref": "#/$defs/text"}, "maxItems": MAX_LAYERS}
        if node.pattern in RANGES:
            low, high = RANGES[node.pattern]
            return {"type": node.type, "minimum": low, "maximum": high}
        if node.type == "integer":
            return {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
        return {"$ref": f"#/$defs/{node.type}"} if node.type in SCALARS else {"type": node.type}
    if isinstance(node, ObjectNode):
        shape = _object(node, item=False)
        return shape if shape["properties"] else None
    if isinstance(node, ListNode):
        return {"type": "array", "items": _object(node.item, item=True), "maxItems": MAX_ITEMS}
    return None


if __name__ == "__main__":
    sys.exit(main())
