"""The schemas that ship are those of the model and the mapping, and bounded."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest

from pcsuite.config.load import bundled_configs
from pcsuite.verifier.mapping import bundled_mapping

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "make_buildingspec_schemas.py"))
buildingspec_schema, extraction_schema = SCRIPT["buildingspec_schema"], SCRIPT["extraction_schema"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "make"),
    [
        (bundled_mapping("buildingspec.schema.json"), buildingspec_schema),
        (bundled_configs() / "schemas" / "buildingspec_json.json", extraction_schema),
    ],
)
def test_the_shipped_schema_is_the_one_of_the_model(path, make):
    assert json.loads(path.read_text(encoding="utf-8")) == make()
    jsonschema.Draft202012Validator.check_schema(make())


@pytest.mark.slow
def test_sections_of_one_shape_share_a_definition():
    schema = extraction_schema()
    constructions = [name for name in schema["properties"] if name.endswith("_constructions")]
    assert len(constructions) == 6
    for name in constructions:
        assert schema["properties"][name] == {"$ref": "#/$defs/wall_constructions"}
        jsonschema.validate({name: [{"name": "R-21", "cavity_r_value": 21}]}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: [{"name": "R-21", "colour": "red"}]}, schema)
    assert set(schema["$defs"]) == {"text", "number", "wall_constructions", "ceilings_below_attic"}


@pytest.mark.slow
def test_numbers_are_bounded():
    schema = extraction_schema()
    jsonschema.validate({"project": {"front_orientation": -45.5, "stories": 2}}, schema)
    for wrong in (
        {"front_orientation": 1e8},
        {"front_orientation": "45"},
        {"stories": 1000},
        {"stories": -1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"project": wrong}, schema)


@pytest.mark.slow
def test_only_the_name_of_an_item_is_required():
    for schema in (buildingspec_schema(), extraction_schema()):
        jsonschema.validate({"windows": [{"name": "101"}]}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"windows": [{"area": 3}]}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"project": {"climate_zone": 17}}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"colour": "red"}, schema)


def test_the_extraction_schema_has_no_excluded_fields_and_no_unbounded_text():
    text = json.dumps(extraction_schema())
    assert "run_title" not in text
    assert "extraction_status" not in text

    def walk(node):
        if isinstance(node, dict):
            if node.get("type") == "string":
                assert "maxLength" in node
            if node.get("type") in ("number", "integer"):
                assert "maximum" in node
            if node.get("type") == "array":
                assert "maxItems" in node
            for child in node.values():
                walk(child)

    walk(extraction_schema())
