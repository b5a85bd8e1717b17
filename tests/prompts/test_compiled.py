"""The make-up of a text by its cues."""

import json

import pytest

from pcsuite.config.load import load_suite
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.engines.adapters.simulated import OPENING, bundled_sentences
from pcsuite.errors import PromptError
from pcsuite.perturbations.paraphrase import reworded_instruction, reworded_operator
from pcsuite.prompts.compiled import BlockChoice, CompiledPrompt, compiled_path, makeup_cues, read_compiled
from pcsuite.prompts.conditions.conditions import ConditionBundle, apply_condition
from pcsuite.prompts.context import Exemplar, PromptContext, TaskPrompting
from pcsuite.prompts.operators import Operator

SUITE = load_suite("quickstart")
NAMES = (
    "ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "DECOMPOSE", "REASONING_MODE", "VERIFIER", "EXEMPLARS",
    "REACT_LOOP",
)  # fmt: skip


def context(task_id):
    shown = (Exemplar("first input", "first answer"), Exemplar("second input", "second answer"))
    return TaskPrompting(task_id, SUITE.tasks[task_id], SUITE.schema(task_id), None, shown).context("")


@pytest.mark.parametrize("task_id", sorted(SUITE.tasks))
def test_every_wording_of_an_operator_is_recognised_as_that_operator_alone(task_id):
    ctx = context(task_id)
    for name in NAMES:
        spec = SUITE.operators[name]
        for mode in ("none", "brief", "full") if name == "REASONING_MODE" else (spec.mode,):
            operator = Operator(name, spec.model_copy(update={"mode": mode}))
            for wording in range(4):
                text = (reworded_operator(operator, wording) if wording else operator).render(ctx)
                assert tuple(makeup_cues(text)) == (name,), (wording, text)


@pytest.mark.parametrize("task_id", sorted(SUITE.tasks))
def test_no_bare_instruction_is_taken_for_an_operator(task_id):
    ctx = context(task_id)
    texts = [ctx.instruction, *(reworded_instruction(task_id, ctx.instruction, n) for n in (1, 2, 3))]
    assert [makeup_cues(text) for text in texts] == [{}] * 4


def test_the_simulated_proposers_sentences_show_exactly_their_operator():
    sentences = bundled_sentences()
    assert len(sentences) == 8
    assert makeup_cues(OPENING) == {}
    for name, sentence in sentences.items():
        assert tuple(makeup_cues(f"{OPENING}\n{sentence}")) == (name,)
    assert set(makeup_cues("\n".join(sentences.values()))) == set(sentences)


def test_cues_of_ones_own_operators_count_beside_the_bundled_ones():
    own = {
        "TONE": OperatorSpec(type="rule", template="Be kind.", cues=(r"\bkindly\b",)),
        "ROLE": OperatorSpec(type="rule", template="Be it.", cues=(r"\bbe it\b",)),
        "GOAL": OperatorSpec(type="rule", template="Score."),
    }
    text = "Act as a judge. Kindly abstain. Your goal is justice."
    assert makeup_cues(text, own) == {"GOAL": "Your goal is", "ABSTAIN": "abstain", "TONE": "Kindly"}
    condition = ConditionBundle("C8", "", (), known=own).with_prompt(
        CompiledPrompt(template=text + "{{input}}")
    )
    assert condition.operator_names(condition.bundle(context("gsm8k")))[1:] == ("GOAL", "ABSTAIN", "TONE")


def test_free_words_and_what_gave_them_away():
    text = "As an expert editor, sort the story. Double-check your answer, and if unsure, say you don't know."
    assert makeup_cues(text) == {
        "ROLE": "As an expert editor",
        "ABSTAIN": "if unsure",
        "VERIFIER": "Double-check your answer",
    }


CTX = PromptContext(
    task_id="t", task_kind="structured", input_text="a {{ b }} c", instruction="Do it.", role="a cook"
)
C8 = ConditionBundle("C8", "compiled", (), compiled=True)
ROLE = BlockChoice("ROLE", 0, OperatorSpec(type="prefix_block", template="You are {{ role }}."))
SHOTS = BlockChoice(
    "EXEMPLARS",
    0,
    OperatorSpec(type="fewshot", k=1, template="{% for e in exemplars %}{{ e.input_text }}{% endfor %}"),
)


def shown(prompt, ctx=CTX):
    return apply_condition(C8.with_prompt(prompt), ctx)


def test_a_free_text_is_sent_as_it_is_with_the_input_in_its_slot():
    template = 'You are a cook.  {% raw %} {"x": "{{y}}"}\n\n Input -> {{input}}\t<-\n\nGo.\n'
    condition = shown(CompiledPrompt(template=template))
    assert condition.prompt == template.replace("{{input}}", "a {{ b }} c")
    assert condition.bundle.names == ("COMPILED",)
    assert condition.tree.template == f"compiled:{CompiledPrompt(template=template).hash[:12]}"


def test_rows_name_the_operators_whose_cues_a_free_text_shows():
    prompt = CompiledPrompt(template="You are a cook. Check your answer.\n{{input}}")
    bundle = C8.with_prompt(prompt)
    assert bundle.operator_names(bundle.bundle(CTX)) == ("COMPILED", "ROLE", "VERIFIER")


def test_blocks_are_composed_like_any_condition_with_their_own_demonstrations():
    prompt = CompiledPrompt(
        blocks=(ROLE, SHOTS), instruction="Do this.", demos=(Exemplar("shown input", "shown answer"),)
    )
    condition = shown(prompt)
    assert condition.prompt == "You are a cook.\n\nDo this.\n\nshown input\n\nInput:\na {{ b }} c"
    assert condition.bundle.names == ("ROLE", "EXEMPLARS")
    assert shown(CompiledPrompt()).prompt == "Do it.\n\nInput:\na {{ b }} c"


@pytest.mark.parametrize("template", ["no slot", "{{input}} and {{input}}"])
def test_a_free_text_needs_exactly_one_slot(template):
    with pytest.raises(PromptError, match="exactly one"):
        CompiledPrompt(template=template)


def test_the_hash_is_that_of_the_words_and_survives_a_file(tmp_path):
    prompts = [
        CompiledPrompt(template="a {{input}}"),
        CompiledPrompt(template="b {{input}}"),
        CompiledPrompt(),
        CompiledPrompt(blocks=(ROLE, SHOTS)),
        CompiledPrompt(blocks=(SHOTS, ROLE)),
        CompiledPrompt(blocks=(SHOTS, ROLE), instruction="x"),
        CompiledPrompt(blocks=(SHOTS,), demos=(Exemplar("i", "o", "id"),)),
    ]
    assert len({prompt.hash for prompt in prompts}) == len(prompts)
    for prompt in prompts:
        path = tmp_path / "c.json"
        path.write_text(json.dumps({"hash": prompt.hash, "prompt": prompt.as_dict()}), encoding="utf-8")
        assert read_compiled(path) == prompt


def test_an_edited_or_broken_file_is_told(tmp_path):
    prompt = CompiledPrompt(template="a {{input}}")
    path = compiled_path(tmp_path, "my_task", "org/model:7b")
    assert path == tmp_path / "compiled" / "my_task__org-model-7b.json"
    path.parent.mkdir()
    edited = {"hash": prompt.hash, "prompt": {**prompt.as_dict(), "template": "b {{input}}"}}
    path.write_text(json.dumps(edited), encoding="utf-8")
    with pytest.raises(PromptError, match="edited by hand"):
        read_compiled(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(PromptError, match="not a readable compiled prompt"):
        read_compiled(path)
