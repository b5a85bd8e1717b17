"""Base templates that name the blocks of operators: each in its place, none lost, nothing of what is not there."""

from __future__ import annotations

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.prompts.prompt import fit

JSON = """{% if role_block %}R<{{ role_block }}>{% endif %}{% if goal_block %}G<{{ goal_block }}>{% else %}T<{{ task_title }}|{{ task_goal }}>{% endif %}
{% for rule in rules %}[{{ rule }}]{% endfor %}
{% if allow_abstain %}A<{{ abstain_instruction }}>{% endif %}
{% if exemplars_text %}E<{{ exemplars_text }}>{% endif %}
{% if schema_text %}S<{{ schema_text }}>{% endif %}
I<{{ input_text }}>
{% if verifier_block %}V<{{ verifier_block }}>{% endif %}
"""
CTX = {
    "task_id": "t",
    "task_kind": "structured",
    "task_title": "Names",
    "task_goal": "List names.",
    "input_text": "EU rejects.",
    "rules": ["Be brief."],
    "schema_text": '{"type": "object"}',
    "exemplars": [("a", "b"), ("c", "d")],
}


@pytest.fixture
def templates(tmp_path):
    (tmp_path / "json_base.j2").write_text(JSON, encoding="utf-8")
    return tmp_path


def prompt(templates, condition, **changes):
    return build_condition(condition, templates_dir=templates, ctx={**CTX, **changes}).prompt


def test_each_block_shows_in_its_place_where_the_condition_has_it(templates):
    bare, ladder = prompt(templates, "C0"), prompt(templates, "C5")
    assert bare == "T<Names|List names.>I<EU rejects.>"
    assert "[Be brief.]" in ladder
    assert "R<You are a careful specialist in Names.\n>" in ladder
    assert 'S<{"type": "object"}>' in ladder
    assert "E<Input:\na\nAnswer:\nb" in ladder
    assert ladder.index("I<") < ladder.index("V<")


def test_a_block_without_a_place_of_its_own_is_not_lost(templates):
    looped = prompt(templates, "C7")
    assert "Action: search[your query]" in looped  # the template has no place for the loop's words
    assert looped.index("Action: search") < looped.index("I<")


def test_filler_stands_before_a_template_that_knows_none(templates):
    built = build_condition("C0", templates_dir=templates, ctx=CTX)
    padded = fit(built.tree, (100, 200), "pad", lambda text: len(text.split()), templates)
    assert padded.band == "inside"
    assert padded.text.startswith("This line is filler;")
    assert padded.text.endswith("I<EU rejects.>")


def test_a_name_that_nothing_gives_is_an_error_with_the_template(templates):
    (templates / "json_base.j2").write_text("{{ role_block }}{{ nonsense }}", encoding="utf-8")
    with pytest.raises(PromptError, match=r"json_base\.j2: .*nonsense"):
        prompt(templates, "C1")
