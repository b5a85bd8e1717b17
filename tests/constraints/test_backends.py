"""Every backend on the embedded model's weights: obeyed in full, or refused by name.

What holds for any weights (bounds and nesting) is asked of a tiny model of the same tokens.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from functools import lru_cache

import jsonschema
import pytest

from constraints.corpus import PATTERNS, SCHEMAS
from pcsuite._util.patterns import read_pattern
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.constrained import CONSTRAINTS
from pcsuite.errors import ConstraintUnavailableError
from pcsuite.evaluation.schema_check import schema_error
from pcsuite.runners.task_plan import plan_task
from support.hf_model import NEEDED, WEIGHTS, shared_hf_model
from support.tiny_gguf import tiny_gguf
from support.tiny_hf import tiny_chat_adapter

pytestmark = pytest.mark.model

JSON_TASKS = ("conll03_ner_json", "agnews_json", "csqa_json", "truthfulqa_gen", "truthfulqa_mc", "fever_json")
STEERING = ("outlines_json", "guidance_cfg", "lmql_program")
LIBRARY = {"outlines_json": "outlines", "guidance_cfg": "guidance", "lmql_program": "lmql"}
D0 = Decoding("d0", 0.0, 1.0, 72)
D1 = Decoding("d1", 0.7, 0.95, 72)
REGIMES = ((D0, 0), (D1, 1))
NESTED = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["x", "y"]},
        "score": {"type": "integer", "minimum": 17, "maximum": 23},
        "share": {"type": "number", "minimum": 2, "maximum": 3},
        "tags": {"type": "array", "items": {"enum": ["p", "q"]}, "minItems": 1, "maxItems": 2},
        "place": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 6},
                "known": {"type": "boolean"},
            },
            "required": ["name", "known"],
            "additionalProperties": False,
        },
    },
    "required": ["kind", "score", "share", "tags", "place"],
    "additionalProperties": False,
}

OPTIONAL = {
    "type": "object",
    "properties": {
        "site": {
            "type": "object",
            "properties": {"zone": {"$ref": "#/$defs/small"}, "town": {"$ref": "#/$defs/word"}},
            "additionalProperties": False,
        },
        "rooms": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "area": {"$ref": "#/$defs/small"},
                    "name": {"$ref": "#/$defs/word"},
                    "use": {"$ref": "#/$defs/word"},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "minItems": 2,
            "maxItems": 3,
        },
        "floors": {"$ref": "#/$defs/small"},
    },
    "required": ["rooms"],
    "additionalProperties": False,
    "$defs": {
        "small": {"type": "integer", "minimum": 1, "maximum": 40},
        "word": {"type": "string", "maxLength": 5},
    },
}
"""As records of documents are: little is sure to be stated, and types have names."""


@lru_cache(maxsize=1)
def llama_cpp():
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed")
    from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions

    return LlamaCppAdapter("smollm2-135m", LlamaCppOptions(weights=WEIGHTS, workers=1))


@lru_cache(maxsize=1)
def tiny_llama_cpp():
    from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions

    return LlamaCppAdapter("tiny", LlamaCppOptions(path=tiny_gguf(), workers=1))


def backend_and_model(name, hf_model=shared_hf_model):
    if name == "native":
        return CONSTRAINTS.get(name)(), llama_cpp()
    pytest.importorskip(LIBRARY[name], reason=NEEDED)
    return CONSTRAINTS.get(name)(), hf_model()


@lru_cache(maxsize=8)
def question(task_id):
    """The task's bare instruction and first item, and its schema."""
    plan = plan_task(load_suite("quickstart"), task_id)
    return f"{plan.spec.instruction}\n{plan.items[0].input_text}", plan.prompting.schema


@pytest.mark.parametrize("name", [*STEERING, "native"])
def test_json_tasks_validate_and_repeat(name):
    backend, model = backend_and_model(name)

    async def ask(task_id, decoding, seed):
        prompt, schema = question(task_id)
        constraint = Constraint("json_schema", json.dumps(schema), name)
        return await backend.agenerate_constrained(
            model, Request(prompt, decoding, seed, constraint), constraint
        )

    async def ask_all():
        calls = [(task, *(REGIMES[index % 2])) for index, task in enumerate(JSON_TASKS)]
        calls += [("truthfulqa_mc", *regime) for regime in REGIMES]
        return await asyncio.gather(*(ask(*call) for call in calls))

    answers = asyncio.run(ask_all())
    *first, greedy, sampled = answers
    # Tasks alternate between the regimes, so one of the two repeats an earlier call.
    assert first[JSON_TASKS.index("truthfulqa_mc")]["text"] in (greedy["text"], sampled["text"])
    ended = 0
    for task_id, answer in zip(JSON_TASKS, first, strict=True):
        assert answer["constraint_backend"].startswith(name)
        assert answer["usage"]["completion_tokens"] <= D0.max_tokens
        if answer["finish_reason"] == "stop":
            jsonschema.validate(json.loads(answer["text"]), question(task_id)[1])
            ended += 1
        else:
            assert answer["finish_reason"] == "length"
    assert ended >= 3, "most answers end within the limit; without that the test would prove nothing"


@pytest.mark.parametrize("name", [*STEERING, "native"])
@pytest.mark.parametrize("schema", [NESTED, OPTIONAL], ids=["nested", "optional"])
def test_bounds_and_nesting_are_obeyed(name, schema):
    backend, model = backend_and_model(name, tiny_chat_adapter)
    constraint = Constraint("json_schema", json.dumps(schema), name)
    hot = Decoding("hot", 1.5, 1.0, 160)  # hot enough to break any bound that is not enforced
    for seed in range(2 if schema is NESTED else 4):
        answer = backend.generate_constrained(
            model, Request("Give an example record.", hot, seed, constraint), constraint
        )
        assert answer["finish_reason"] == "stop"
        jsonschema.validate(json.loads(answer["text"]), schema)
        # One layout whoever enforces it: single spaces after colons and commas, nothing else between values.
        outside = re.sub(r'"(\\.|[^"\\])*"', '""', answer["text"])
        assert re.fullmatch(r"(?:: |, |[^:,\s])*", outside), answer["text"]


@pytest.mark.parametrize("name", STEERING)
def test_an_answer_ends_where_the_context_is_full(name, monkeypatch):
    backend, model = backend_and_model(name)
    prompt = "Write letters."
    constraint = Constraint("regex", "[a-z ]{60,90}", name)
    room = replace(model.loaded, context_tokens=len(model.prompt_tokens(prompt)) + 7)
    whole = backend.generate_constrained(model, Request(prompt, D0, 0, constraint), constraint)
    monkeypatch.setattr(model, "loaded", room)
    cut = backend.generate_constrained(model, Request(prompt, D0, 0, constraint), constraint)
    assert whole["usage"]["completion_tokens"] > 7
    assert (cut["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 7)
    assert whole["text"].startswith(cut["text"])


@pytest.mark.parametrize("name", [*STEERING, "native"])
@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("uniqueItems", {"type": "array", "items": {"enum": ["p", "q"]}, "maxItems": 2, "uniqueItems": True}),
        (
            "contains",
            {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}},
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused_by_name(name, keyword, schema):
    backend, model = backend_and_model(name)
    wrapped = {
        "type": "object",
        "properties": {"a": schema},
        "required": ["a"],
        "additionalProperties": False,
    }
    with pytest.raises(ConstraintUnavailableError, match=keyword):
        backend.generate_constrained(
            model,
            Request("Go.", D0, 0, Constraint("json_schema", json.dumps(wrapped), name)),
            Constraint("json_schema", json.dumps(wrapped), name),
        )


@pytest.mark.parametrize("name", STEERING)
def test_a_pattern_that_cannot_be_followed_is_refused(name):
    backend, model = backend_and_model(name)
    with pytest.raises(ConstraintUnavailableError, match="look-?around"):
        backend.generate_constrained(
            model,
            Request("Go.", D0, 0, Constraint("regex", "(?=a)[a-z]{3}", name)),
            Constraint("regex", "(?=a)[a-z]{3}", name),
        )


@pytest.mark.parametrize("name", [*STEERING, "native"])
def test_the_answer_line_of_gsm8k_is_enforced(name):
    backend, model = backend_and_model(name)
    # The task's pattern with a shorter solution, so that the answer line is reached soon.
    pattern = load_suite("quickstart").tasks["gsm8k"].answer_regex.replace("{1,700}", "{1,20}")
    for decoding, seed in ((D0, 0), (D1, 1)):
        answer = backend.generate_constrained(
            model,
            Request("2 + 2 = ?", decoding, seed, Constraint("regex", pattern, name)),
            Constraint("regex", pattern, name),
        )
        assert answer["finish_reason"] == "stop"
        assert re.fullmatch(pattern, answer["text"])


@pytest.mark.parametrize("name", [*STEERING, "native"])
def test_the_sql_grammar_is_enforced(name):
    backend, model = backend_and_model(name)
    grammar = (bundled_configs() / "schemas" / "spider_sql.lark").read_text(encoding="utf-8")
    short = Decoding("hot", 1.0, 1.0, 24)
    answer = backend.generate_constrained(
        model,
        Request("Tell me a story.", short, 3, Constraint("cfg", grammar, name)),
        Constraint("cfg", grammar, name),
    )
    assert re.match(r"\s*(select\b|INSUFFICIENT_INFO)", answer["text"], re.IGNORECASE)
    forced = Constraint("cfg", 'start: "zqx7" " " animal\nanimal: "marmot" | "newt"\n', name)
    assert backend.generate_constrained(model, Request("Hello", D0, 0, forced), forced)["text"] in (
        "zqx7 marmot",
        "zqx7 newt",
    )


@pytest.mark.parametrize("name", STEERING)
def test_a_cut_answer_says_length_and_has_as_many_tokens_as_it_may(name):
    backend, model = backend_and_model(name)
    prompt, schema = question("agnews_json")
    brief = Decoding("d0", 0.0, 1.0, 5)
    answer = backend.generate_constrained(
        model,
        Request(prompt, brief, 0, Constraint("json_schema", json.dumps(schema), name)),
        Constraint("json_schema", json.dumps(schema), name),
    )
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["text"].startswith('{"label": "')


@pytest.mark.parametrize("name", [*STEERING, "native"])
def test_an_answer_ends_where_its_grammar_lets_it_rather_than_be_cut(name):
    if name == "native":
        backend, model = CONSTRAINTS.get(name)(), tiny_llama_cpp()
    else:
        backend, model = backend_and_model(name, tiny_chat_adapter)
    # From one accepting place to the next the model would go on for ever: its odds are flat.
    forever = Constraint("cfg", 'start: "item" (" and item"){0,400}\n', name)
    hot = Decoding("hot", 1.0, 1.0, 40)
    for seed in range(3):
        answer = backend.generate_constrained(model, Request("Go.", hot, seed, forever), forever)
        assert answer["finish_reason"] == "stop"
        assert re.fullmatch("item( and item)*", answer["text"])


@pytest.mark.parametrize("name", [*STEERING, "native"])
def test_a_sample_of_the_corpus_holds_whatever_the_model_wants(name):
    if name == "native":
        backend, model = CONSTRAINTS.get(name)(), tiny_llama_cpp()
    else:
        backend, model = backend_and_model(name, tiny_chat_adapter)
    hot = Decoding("hot", 1.6, 1.0, 48)
    ended = 0
    for kind, cases in (("json_schema", SCHEMAS[::6]), ("regex", PATTERNS[::4])):
        for case in cases:
            value = json.dumps(case.value) if kind == "json_schema" else case.value
            constraint = Constraint(kind, value, name)
            request = Request("Give an example.", hot, len(case.name), constraint)
            if case.refused:
                with pytest.raises(ConstraintUnavailableError, match=f"(?i){case.refused}"):
                    backend.generate_constrained(model, request, constraint)
                continue
            answer = backend.generate_constrained(model, request, constraint)
            if answer["finish_reason"] == "stop":
                ended += 1
                if kind == "regex":
                    assert read_pattern(case.value, "answer").fullmatch(answer["text"]), case.name
                else:
                    assert isinstance(case.value, bool) or not schema_error(
                        json.loads(answer["text"]), case.value
                    )
    assert ended > 20
