"""What services keep of a schema, as declared, and how a service is known."""

from __future__ import annotations

import json

import pytest

from pcsuite.config.model_names import model_by_name, provider_presets
from pcsuite.config.yaml_source import bundled_configs
from pcsuite.engines.schema_limits import beyond_limits, schema_limits, service_of
from pcsuite.engines.session import check_model

SCHEMAS = {
    path.name: json.loads(path.read_text()) for path in sorted((bundled_configs() / "schemas").glob("*.json"))
}


def test_every_entry_is_of_a_declared_provider_and_has_date_and_source():
    for name, limits in schema_limits().items():
        assert name in provider_presets()
        assert limits.source
        assert limits.checked.year >= 2026


@pytest.mark.parametrize(("service", "count"), [("anthropic", 13), ("openai", 2), ("vllm", 0)])
def test_how_many_of_the_bundled_schemas_go_beyond(service, count):
    beyond = [name for name, schema in SCHEMAS.items() if beyond_limits(schema, schema_limits()[service])]
    assert (len(SCHEMAS), len(beyond)) == (13, count)


@pytest.mark.parametrize(
    ("service", "schema", "told"),
    [
        ("anthropic", {"type": "array", "minItems": 2}, "minItems at the top (only 0 or 1 is kept)"),
        ("anthropic", {"type": "string", "format": "regex"}, "format at the top (the format 'regex' is not kept)"),
        ("anthropic", {"enum": [{"a": 1}]}, "enum at the top (only plain values are kept)"),
        ("openai", {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
         "required at the top (all properties must be required, and a are not)"),
        ("openai", {"type": "string"}, "type at the top (the whole answer must be an object)"),
        ("google", {"type": "string", "maxLength": 3}, "maxLength at the top (the service drops it in silence)"),
        ("anthropic", {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
         "$ref at the top (references must not lead back to themselves)"),
    ],
)  # fmt: skip
def test_each_limit_is_told_with_its_place(service, schema, told):
    assert told in [str(entry) for entry in beyond_limits(schema, schema_limits()[service])]


def test_bounds_of_integers_are_kept_where_those_of_numbers_are_not():
    ollama = schema_limits()["ollama"]
    assert not beyond_limits({"type": "integer", "minimum": 1}, ollama)
    assert beyond_limits({"type": "number", "minimum": 1}, ollama)


def test_a_definition_that_leads_back_by_another_is_recursive():
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"items": {"$ref": "#/$defs/a"}}},
    }
    assert "$ref" in {entry.keyword for entry in beyond_limits(schema, schema_limits()["xai"])}
    chain = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}}}
    assert not beyond_limits(chain, schema_limits()["xai"])


@pytest.mark.parametrize(
    ("name", "variable", "service"),
    [
        ("openai/gpt-4o", None, "openai"),
        ("openai/gpt-4o", "http://127.0.0.1:9/v1", None),  # who knows what listens there
        ("anthropic/claude-sonnet-4-5", "http://127.0.0.1:9", "anthropic"),
        ("anthropic/claude-3-haiku", None, None),  # a tool is forced, no schema enforced
        ("google/gemini-2.5-flash", None, "google"),
        ("groq/llama-3.3-70b-versatile", None, "groq"),
        ("ollama/llama3", None, "ollama"),
        ("vllm/x", None, "vllm"),
        ("llama-server/x", None, "llama-server"),
        ("mistral/mistral-small", None, None),
        ("azure/mine", "https://r.openai.azure.com", "openai"),
        ("vertex/claude-sonnet-4-5", None, "anthropic"),
        ("vertex/gemini-2.5-flash", None, "google"),
    ],
)
def test_a_service_is_known_by_its_address_its_wire_or_its_dialect(name, variable, service, monkeypatch):
    preset = provider_presets()[name.partition("/")[0]]
    monkeypatch.delenv(preset.url_env, raising=False)
    for setting, value in (("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "us-central1")):
        monkeypatch.setenv(setting, value)
    if variable is not None:
        monkeypatch.setenv(preset.url_env, variable)
    assert service_of(*check_model(name, model_by_name(name))) == service
