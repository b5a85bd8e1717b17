"""Files of tools: each description is a block, and what is left of the file without some is a file of tools still."""

import itertools
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.ablation.arms import SHAM_PREFIX, operator_texts
from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import split_source
from pcsuite.prompts.documents import DocumentSource
from pcsuite.prompts.reading import source_of
from pcsuite.prompts.tools import ToolsSource
from pcsuite.prompts.verbatim import decode_chat

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The place, such as {city} or $HOME."},
        "description": {"description": "A note.\nOf your own."},
        "days": {
            "type": "array",
            "items": {"anyOf": [{"type": "string", "description": "A day"}, {"type": "null"}]},
            "description": "Which days",
        },
    },
    "required": ["city"],
    "additionalProperties": False,
}
FORMS = {
    "openai": [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Says 100 % of it.",
                "parameters": SCHEMA,
                "strict": True,
            },
        },
        {
            "type": "function",
            "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}},
        },
    ],
    "responses": [
        {"type": "web_search"},
        {"type": "function", "name": "weather", "parameters": SCHEMA, "description": "Says 100 % of it."},
    ],
    "anthropic": [{"name": "weather", "description": "Says 100 % of it.", "input_schema": SCHEMA}],
    "mcp": {
        "tools": [
            {
                "name": "weather",
                "title": "Weather",
                "description": "Says 100 % of it.",
                "inputSchema": SCHEMA,
                "annotations": {"readOnlyHint": True},
            }
        ],
        "nextCursor": "next",
    },
    "functions": {
        "functions": [{"name": "weather", "description": "Says 100 % of it.", "parameters": SCHEMA}],
        "function_call": "auto",
    },
    "gemini": {
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "weather", "description": "Says 100 % of it.", "parameters": SCHEMA}
                ]
            },
            {"googleSearch": {}},
        ]
    },
    "gemini in python": [
        {
            "function_declarations": [
                {"name": "weather", "description": "Says 100 % of it.", "parameters_json_schema": SCHEMA},
                {"name": "clock"},
            ]
        }
    ],
    "bedrock": {
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "weather",
                        "description": "Says 100 % of it.",
                        "inputSchema": {"json": SCHEMA},
                    }
                }
            ]
        }
    },
    "cohere": [
        {
            "name": "weather",
            "description": "Says 100 % of it.",
            "parameter_definitions": SCHEMA["properties"],
        }
    ],
}
NAMES = ["weather", "weather_city", "weather_days", "weather_days_items_1", "weather_description"]


def as_yaml(value):
    return "# reviewed in May\n" + yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=60)


WRITTEN = {
    "indented": (".json", lambda value: json.dumps(value, indent=2) + "\n"),
    "minified": (".json", lambda value: json.dumps(value, separators=(",", ":"))),
    "yaml": (".yaml", as_yaml),
    "yaml in braces": (".yml", lambda value: yaml.safe_dump(value, default_flow_style=True, sort_keys=False)),
}


def without(value, gone, path=""):
    """The value without the descriptions whose paths are ``gone``, worked out on the value itself."""
    if isinstance(value, list):
        return [without(entry, gone, f"{path}.{n}") for n, entry in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {
        key: without(entry, gone, f"{path}.{key}")
        for key, entry in value.items()
        if not (key == "description" and isinstance(entry, str) and f"{path}.{key}" in gone)
    }


def description_paths(value, path=""):
    """Paths of the texts that are called ``description``, in the order in which they stand."""
    entries = (
        enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    )
    for key, entry in entries:
        if key == "description" and isinstance(entry, str):
            yield f"{path}.{key}"
        yield from description_paths(entry, f"{path}.{key}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("writing", WRITTEN)
def test_every_arm_is_a_file_of_tools_and_only_words_go(form, writing):
    suffix, write = WRITTEN[writing]
    text = write(FORMS[form])
    prompt = split_source(source_of(text, suffix))
    free = [block.name for block in prompt.free]
    assert sorted(free) == NAMES
    assert prompt.written() == text, "nothing left out: the file, byte for byte"
    if suffix == ".json":
        assert decode_chat(prompt.sent())[0]["content"] == text
    paths = list(description_paths(FORMS[form]))
    pinned = {block.name for block in prompt.blocks} - set(free)
    for count in range(len(free) + 1):
        for kept in itertools.combinations(free, count):  # all 32 arms
            gone = {path for name, path in zip(free, paths, strict=True) if name not in kept}
            expected = without(FORMS[form], gone)
            arm = prompt.written({*kept, *pinned})
            assert (json.loads if suffix == ".json" else yaml.safe_load)(arm) == expected
            system, user = decode_chat(prompt.sent({*kept, *pinned}))
            assert system["role"] == "system"
            assert json.loads(system["content"]) == expected
            assert user == {"role": "user", "content": "{{ input }}"}


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    ["a\nb", '"quoted"', "\\", "{{ city }}", "ends: with", "# no comment", "- dash", "yes"]
)
names = st.text("abcdescription_", min_size=1, max_size=11)
schemas = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "description": texts,
            "type": st.sampled_from(["string", "integer"]),
            "enum": st.just(["a"]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(names, inner, max_size=3)},
        optional={
            "description": texts,
            "required": st.just(["a"]),
            "items": inner,
            "oneOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=6,
)
tools = st.lists(
    st.tuples(names, texts, schemas, st.permutations(["name", "description", "input_schema"])).map(
        lambda drawn: {
            key: dict(zip(("name", "description", "input_schema"), drawn, strict=False))[key]
            for key in drawn[3]
        }
    ),
    min_size=1,
    max_size=3,
)


def words_in_place(value):
    """The number of descriptions that have words."""
    if isinstance(value, list):
        return sum(map(words_in_place, value))
    if not isinstance(value, dict):
        return 0
    own = value.get("description")
    return (isinstance(own, str) and bool(own.strip())) + sum(map(words_in_place, value.values()))


def bare(value):
    """A value without any text called ``description``: names, types, what is required."""
    return without(value, set(description_paths(value)))


@settings(max_examples=60, deadline=None)
@given(tools, st.sampled_from(sorted(WRITTEN)), st.randoms(use_true_random=False))
def test_any_tools_keep_their_names_types_and_requirements(value, writing, rng):
    suffix, write = WRITTEN[writing]
    text = write(value)
    if not words_in_place(value):
        with pytest.raises(PromptError, match="none of the tools has a description"):
            source_of(text, suffix)
        return
    prompt = split_source(source_of(text, suffix))
    free = [block.name for block in prompt.free]
    assert len(free) == words_in_place(value)
    assert prompt.written() == text
    kept = {name for name in free if rng.random() < 0.5}
    blocks = kept | {block.name for block in prompt.blocks if block.pinned}
    arm = prompt.written(blocks)
    loaded = (json.loads if suffix == ".json" else yaml.safe_load)(arm)
    assert bare(loaded) == bare(value)
    assert words_in_place(loaded) == len(kept)
    assert json.loads(decode_chat(prompt.sent(blocks))[0]["content"]) == loaded


@pytest.mark.parametrize("form", FORMS)
def test_shams_say_nothing_and_are_tools_still(form):
    prompt = split_source(source_of(json.dumps(FORMS[form]), ".json"), append_input=True)
    sent = operator_texts(prompt)
    text = "".join(
        sent[SHAM_PREFIX + block.name] if not block.pinned else block.text for block in prompt.blocks[:-1]
    )
    value = json.loads(text)
    assert bare(value) == bare(FORMS[form])
    assert words_in_place(value) == 5
    assert "Says" not in text
    assert "A note" not in text


def test_a_comment_beside_a_description_of_yaml_goes_with_it_and_others_stay():
    text = """# tools of the desk
- name: weather
  # what it is for
  description: >-
    Says it,
    every day.
  input_schema:
    type: object   # always
    properties:
      city:
        description: The place
      unit: {type: string, description: 'C or F'}  # both
"""
    prompt = split_source(source_of(text, ".yaml"))
    assert [(block.name, block.line) for block in prompt.free] == [
        ("weather", 4),
        ("weather_city", 11),
        ("weather_unit", 12),
    ]
    keep = {block.name for block in prompt.blocks}
    assert prompt.written(keep - {"weather"}) == text.replace(
        "  description: >-\n    Says it,\n    every day.\n", ""
    )
    assert prompt.written(keep - {"weather_city"}) == text.replace("description: The place", "{}")
    assert prompt.written(keep - {"weather_unit"}) == text.replace(", description: 'C or F'", "")
    assert "tools of the desk" not in prompt.sent()


def test_tools_inside_of_a_document_are_named_and_a_prompt_goes_before():
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "{{ x }}"}],
        "tools": FORMS["anthropic"],
    }
    text = json.dumps(request)
    assert isinstance(source_of(text, ".json"), DocumentSource)
    for suffix, written in ((".json", text), (".yaml", as_yaml(request))):
        source = source_of(written, suffix, "tools")
        assert isinstance(source, ToolsSource)
        prompt = split_source(source)
        arm = prompt.written([block.name for block in prompt.blocks if block.pinned])
        assert yaml.safe_load(arm) == {**request, "tools": bare(FORMS["anthropic"])}
        assert json.loads(decode_chat(prompt.sent())[0]["content"]) == FORMS["anthropic"]
    settings_of_a_prompt = {"name": "t", "parameters": {"temperature": 0}, "prompt": "Sort {{ x }}."}
    assert isinstance(source_of(json.dumps(settings_of_a_prompt), ".json"), DocumentSource)


def test_tools_are_no_template():
    prompt = split_source(source_of(json.dumps(FORMS["mcp"], indent=1), ".json"))
    ready = prompt.check_placeholders(["city", "text"], ["answer"])
    assert ready.sent() == prompt.sent()
    assert ready.filled == ("input",)
    assert [block.name for block in ready.free] == [block.name for block in prompt.free]
    text = json.dumps([{"name": "w", "description": "Of {{ city }}", "input_schema": {}}])
    assert split_source(source_of(text, ".json")).check_placeholders(["text"]).filled == ("input",)
    with pytest.raises(PromptError, match=r"\{\{ city \}\} is meant to the letter"):
        split_source(source_of(text, ".json")).check_placeholders(["city"])


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ('[{"name": "w", "input_schema": {}}]', ".json", "none of the tools has a description"),
        (
            '[{"name": "w", "description": "a", "description": "b", "input_schema": {}}]',
            ".json",
            "2 descriptions",
        ),
        ("- &w {name: w, description: a, input_schema: {}}\n- *w\n", ".yaml", "two tools by an alias"),
        (
            "- {name: w, description: &d a, input_schema: {}}\n- {name: v, description: *d, input_schema: {}}\n",
            ".yaml",
            "alias of another one",
        ),
    ],
)
def test_what_cannot_be_left_out_is_said(text, suffix, message):
    with pytest.raises(PromptError, match=message):
        source_of(text, suffix)


def test_a_description_is_split_no_further():
    prompt = split_source(source_of(json.dumps(FORMS["mcp"]), ".json"))
    assert prompt.mixed == {}
    with pytest.raises(PromptError, match="it is one description"):
        prompt.into(["weather"])
    with pytest.raises(PromptError, match="split at their descriptions"):
        split_source(source_of(json.dumps(FORMS["mcp"]), ".json"), "lines")
