"""Prompts in YAML and JSON documents: found, split, and written back with every other byte as it was."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import split_source
from pcsuite.prompts.reading import source_of

YAML_CHAT = """# the triage chat, reviewed in May
- role: system   # who it is
  content: |
    You are a clerk.

    Name the queue.

    Be kind.

# one worked example
- role: user
  content: "Where is my parcel?"
- role: assistant
  content: delivery
- role: user
  content: 'Ticket: {{ ticket }}'  # the item
"""


def made(text, suffix, name=""):
    return split_source(source_of(text, suffix, name))


def test_a_chat_in_yaml_keeps_its_comments_and_styles():
    prompt = made(YAML_CHAT, ".yaml")
    assert [block.name for block in prompt.blocks] == [
        "you_are_a",
        "name_the_queue",
        "be_kind",
        "example_1",
        "user",
    ]
    assert prompt.written() == YAML_CHAT
    assert prompt.written(["you_are_a", "be_kind", "example_1", "user"]) == YAML_CHAT.replace(
        "    Name the queue.\n\n", ""
    )
    without_example = prompt.written(["you_are_a", "name_the_queue", "be_kind", "user"])
    gone = '- role: user\n  content: "Where is my parcel?"\n- role: assistant\n  content: delivery\n'
    assert without_example == YAML_CHAT.replace(gone, "")
    # The blank line below the second block is part of it, so the block scalar must keep it.
    assert "content: |+\n    You are a clerk.\n\n    Name the queue.\n\n" in prompt.written(
        ["you_are_a", "name_the_queue", "example_1", "user"]
    )
    crlf = made(YAML_CHAT.replace("\n", "\r\n"), ".yaml")
    assert crlf.written(["you_are_a", "be_kind", "example_1", "user"]) == YAML_CHAT.replace(
        "    Name the queue.\n\n", ""
    ).replace("\n", "\r\n")


def test_a_whole_message_goes_from_json_with_its_comma():
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{ x }}"}]
    text = json.dumps(chat, indent=2)
    assert (
        made(text, ".json").written(["user"])
        == '[\n  {\n    "role": "user",\n    "content": "{{ x }}"\n  }\n]'
    )
    last = json.dumps([*chat, {"role": "system", "content": "Bye."}])
    assert json.loads(made(last, ".json").written(["system", "user"])) == chat


PROMPTFOO = """description: triage
prompts:
  - label: short
    raw: "Ticket: {{ticket}}"
  - label: long
    raw: |
      You are a clerk.

      Ticket: {{ticket}}
providers: [openai:gpt-5-mini]
tests: []
"""


def test_a_promptfoo_configuration_is_asked_which_prompt():
    with pytest.raises(PromptError, match="it has 2 prompts.*short, long"):
        source_of(PROMPTFOO, ".yaml")
    prompt = made(PROMPTFOO, ".yaml", "long")
    assert prompt.written(["ticket"]) == PROMPTFOO.replace("      You are a clerk.\n\n", "")
    assert made(PROMPTFOO, ".yaml", "2").sent() == prompt.sent()
    with pytest.raises(PromptError, match="there is no 'lnog' in it.*long"):
        made(PROMPTFOO, ".yaml", "lnog")


LANGCHAIN = {
    "lc": 1, "type": "constructor", "id": ["langchain", "prompts", "chat", "ChatPromptTemplate"],
    "kwargs": {"input_variables": ["ticket"], "messages": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "chat", "SystemMessagePromptTemplate"],
         "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "prompt", "PromptTemplate"],
                               "kwargs": {"input_variables": [], "template_format": "f-string",
                                          "template": "Be kind.\n\nAnswer {{\"queue\": \"x\"}}."}}}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "chat", "HumanMessagePromptTemplate"],
         "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "prompt", "PromptTemplate"],
                               "kwargs": {"input_variables": ["ticket"], "template": "{ticket}"}}}},
    ]},
}  # fmt: skip


def test_an_export_of_langsmith_is_a_chat_of_format_templates():
    text = json.dumps(LANGCHAIN, indent=1)
    prompt = made(text, ".json").check_placeholders(["ticket"])
    assert [text.role for text in prompt.source.texts] == ["system", "user"]
    assert 'Answer {"queue": "x"}.' in prompt.sent()
    assert "{{ ticket }}" in prompt.sent()
    shorter = json.loads(prompt.written(["be_kind", "user"]))
    template = shorter["kwargs"]["messages"][0]["kwargs"]["prompt"]["kwargs"]["template"]
    assert template == "Be kind.\n\n"
    old = made("_type: prompt\ninput_variables: [ticket]\ntemplate: 'Be kind. {{x}} {ticket}'\n", ".yaml")
    assert old.check_placeholders(["ticket"]).sent() == "Be kind. {x} {{ ticket }}"


def test_exports_of_langfuse_are_texts_and_chats():
    text = json.dumps(
        {"name": "triage", "version": 4, "type": "text", "prompt": "Be kind.\n\n{{ticket}}", "labels": []}
    )
    assert made(text, ".json").check_placeholders(["ticket"]).sent() == "Be kind.\n\n{{ticket}}"
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{ticket}}"}]
    exported = json.dumps(
        {"name": "triage", "type": "chat", "prompt": chat, "config": {"model": "m"}}, indent=2
    )
    assert json.loads(made(exported, ".json").written(["user"]))["prompt"] == chat[1:]
    history = [{"type": "placeholder", "name": "history"}, chat[1]]
    with pytest.raises(PromptError, match=r"message 1 is a placeholder for further messages \('history'\)"):
        made(json.dumps({"type": "chat", "prompt": history}), ".json")


def test_a_text_of_any_document_is_named_by_its_path():
    text = "service:\n  prompts:\n    triage: >\n      You are a clerk.\n      Be kind. {{ ticket }}\n    other: x\n"
    prompt = made(text, ".yaml", "service.prompts.triage")
    assert prompt.sent() == "You are a clerk. Be kind. {{ ticket }}\n"
    with pytest.raises(PromptError, match="name a text of it after a colon: service.prompts.triage"):
        made(text.replace("Be kind.", "Be kind and brief and clear, always, to all."), ".yaml")
    roles = made("system: Be kind.\nuser: '{{ ticket }}'\n", ".yaml")
    assert [text.role for text in roles.source.texts] == ["system", "user"]
    assert yaml.safe_load(roles.written(["user"])) == {"system": "", "user": "{{ ticket }}"}


WORDS = st.sampled_from(
    ["# Role", "You are kind.", "- item", "", "ü 🎉", "'quoted' \"words\"", "a: b", "  indented", "end "]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map("\n".join).filter(lambda text: text.strip() != "")


def documents(texts, style, rng):
    """A document of these texts in a form, and the ending of its name."""
    chat = [{"role": rng.choice(["system", "user"]), "content": text} for text in texts]
    if style == "json":
        return json.dumps(
            {"messages": chat}, indent=rng.choice([None, 2]), ensure_ascii=rng.random() < 0.5
        ), ".json"
    dumped = yaml.safe_dump(
        {"about": "x", "messages": chat, "after": 1}, default_style=style, allow_unicode=True, width=60
    )
    return f"# kept\n{dumped}# kept too\n", ".yaml"


@pytest.mark.slow
@given(
    st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(["json", "|", ">", '"', "'", None]), st.randoms()
)
@settings(max_examples=150)
def test_any_part_can_be_left_out_of_any_document_and_reading_it_gives_the_rest(texts, style, rng):
    text, suffix = documents(texts, style, rng)
    prompt = made(text, suffix)
    assert [one.text for one in prompt.source.texts] == texts
    assert prompt.written() == text
    kept = [block.name for block in prompt.blocks if rng.random() < 0.6]
    if not kept:
        return
    again = source_of(prompt.written(kept), suffix)
    wanted = {}
    for block in prompt.blocks:
        for number, start, end in block.spans if block.name in kept else ():
            wanted[number] = wanted.get(number, "") + texts[number][start:end]
    # A message of nothing but blanks is none: it is refused where it is read.
    assert [one.text for one in again.texts] == [words for _, words in sorted(wanted.items()) if words]
    if suffix == ".yaml":
        assert prompt.written(kept).startswith("# kept\n")
        assert prompt.written(kept).endswith("# kept too\n")


def test_an_anchor_stays_before_its_text():
    text = "tone: &tone |\n  Be kind.\n\n  Be brief.\nchat:\n  - role: system\n    content: *tone\n  - {role: user, content: '{{ x }}'}\n"
    prompt = made(text, ".yaml", "chat")
    assert prompt.written(["be_brief", "user"]) == text.replace("  Be kind.\n\n", "")
