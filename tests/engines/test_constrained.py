from __future__ import annotations

import asyncio
import json

import pytest

from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.engines.adapters.base import Constraint, Decoding, ModelAdapter, NoAdapterOptions, Request
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.constrained import (
    AUTO_ORDER,
    CONSTRAINTS,
    ConstraintBackend,
    backend_for,
    choose_backend,
    generate_constrained,
)
from pcsuite.engines.response_cache import response_key
from pcsuite.engines.session import Session
from pcsuite.errors import ConfigError, ConstraintUnavailableError, MissingExtraError

HF = (LocalHfAdapter, HfOptions(weights="smollm2-135m-instruct-q4_1"))
LLAMACPP = (LlamaCppAdapter, LlamaCppOptions(weights="smollm2-135m-instruct-q4_1"))
D0 = Decoding("d0", 0.0, 1.0, 8)


@pytest.fixture
def nothing_missing(monkeypatch):
    monkeypatch.setattr(ConstraintBackend, "missing", lambda self: None)


def without(monkeypatch, *names):
    monkeypatch.setattr(
        ConstraintBackend, "missing", lambda self: self.libraries[0] if self.name in names else None
    )


def test_all_four_backends_are_registered():
    assert set(AUTO_ORDER) <= set(CONSTRAINTS)
    assert [CONSTRAINTS.get(name).name for name in AUTO_ORDER] == list(AUTO_ORDER)


@pytest.mark.usefixtures("nothing_missing")
def test_auto_prefers_the_models_own_enforcement():
    assert choose_backend("auto", *LLAMACPP, "cfg").name == "native"
    assert choose_backend("auto", *HF, "json_schema").name == "outlines_json"
    vllm = OpenAIOptions(base_url="http://127.0.0.1:1/v1", structured="structured_outputs")
    assert choose_backend("auto", OpenAIAdapter, vllm, "regex").name == "native"


def test_auto_passes_over_what_is_not_installed(monkeypatch):
    without(monkeypatch, "outlines_json")
    assert choose_backend("auto", *HF, "cfg").name == "guidance_cfg"
    without(monkeypatch, "outlines_json", "guidance_cfg", "lmql_program")
    with pytest.raises(ConstraintUnavailableError, match=r"pip install .*\[outlines\]"):
        choose_backend("auto", *HF, "json_schema")


@pytest.mark.usefixtures("nothing_missing")
def test_a_named_backend_is_taken_or_refused():
    assert choose_backend("lmql_program", *HF, "cfg").name == "lmql_program"
    with pytest.raises(ConstraintUnavailableError, match="'outlines_json' cannot enforce"):
        choose_backend("outlines_json", *LLAMACPP, "json_schema")
    with pytest.raises(ConfigError, match="did you mean 'outlines_json'"):
        choose_backend("outlines", *HF, "json_schema")


def test_a_named_backend_that_is_not_installed_names_its_extra(monkeypatch):
    without(monkeypatch, "guidance_cfg")
    with pytest.raises(MissingExtraError, match=r"pip install .*\[guidance\]"):
        choose_backend("guidance_cfg", *HF, "regex")


def test_a_model_without_any_way_is_not_applicable():
    ollama = OpenAIOptions(base_url="http://127.0.0.1:1/v1", structured="none")
    with pytest.raises(ConstraintUnavailableError, match="cannot enforce a json_schema"):
        choose_backend("auto", OpenAIAdapter, ollama, "json_schema")


def test_the_cache_keeps_backends_and_programs_apart():
    def key(**changes):
        constraint = Constraint("regex", "a", **changes)
        return response_key({}, "m", Request("p", D0, 0, constraint))

    assert key() == key(backend="native")
    keys = {
        key(),
        key(backend="guidance_cfg"),
        key(backend="lmql_program"),
        key(backend="lmql_program", program="x"),
    }
    assert len(keys) == 4


class Obedient(ModelAdapter):
    """Enforces enumerations by looking at them, and refuses schemas with uniqueItems."""

    native_constraints = frozenset({"json_schema"})

    def __init__(self):
        super().__init__("obedient", NoAdapterOptions())
        self.asked = []

    def generate(self, prompt, decoding, seed):
        raise AssertionError("every call here is constrained")

    def generate_constrained(self, prompt, decoding, seed, constraint):
        schema = json.loads(constraint.value)
        self.asked.append(decoding.max_tokens)
        if "uniqueItems" in constraint.value:
            raise ConstraintUnavailableError("cannot enforce uniqueItems")
        reply = {name: part["enum"][0] for name, part in schema["properties"].items()}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"text": json.dumps(reply), "finish_reason": "stop", "latency_ms": 0.0, "usage": usage}


def test_a_constraint_is_proven_once_by_canary_and_once_by_itself():
    adapter = Obedient()
    suite = load_suite(bundled_configs() / "quickstart.yaml")
    client = Session(suite).add("smollm2-135m", adapter)
    fine = Constraint("json_schema", json.dumps({"properties": {"a": {"enum": [1]}}}))
    refused = Constraint("json_schema", json.dumps({"properties": {"a": {"uniqueItems": True}}}))

    async def ask_all():
        return [await client.why_unenforced(constraint) for constraint in (fine, fine, refused, refused)]

    assert asyncio.run(ask_all()) == [None, None, *["cannot enforce uniqueItems"] * 2]
    # One absurd answer of up to 48 tokens, then one by each of the two constraints themselves.
    assert adapter.asked == [48, 64, 64]


def test_a_routed_call_goes_to_the_model_itself_where_it_enforces():
    adapter = Obedient()
    constraint = Constraint("json_schema", json.dumps({"properties": {"a": {"enum": ["x"]}}}))
    assert backend_for(adapter, constraint).name == "native"
    answer = asyncio.run(generate_constrained(adapter, Request("p", D0, 0, constraint)))
    assert json.loads(answer["text"]) == {"a": "x"}
