"""The bridge between DSPy and the suite's engines."""

from __future__ import annotations

import pytest

from pcsuite.optimization.dspy_opt import load_dspy
from pcsuite.prompts.context import PromptContext

pytest.importorskip("dspy", reason="the dspy extra is not installed")
load_dspy()

import dspy  # noqa: E402
from dspy.teleprompt.copro_optimizer import BasicGenerateInstruction  # noqa: E402

from pcsuite.optimization.dspy_bridge import (  # noqa: E402
    ANSWER,
    INPUT,
    PlainAdapter,
    SeededEngine,
    TaskEngine,
    language_model,
    signature_template,
    task_signature,
    unquoted,
)

CTX = PromptContext(
    task_id="t", task_kind="structured", input_text="", instruction="Name the colour.", input_label="Thing"
)


class Recorder:
    """Answers with a number and remembers what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, prompt, *, seed, temperature, max_tokens):
        self.calls.append((prompt, seed, temperature, max_tokens))
        return f"answer {len(self.calls)}"


def test_equal_requests_get_seeds_of_their_own_and_the_same_ones_next_time():
    first, second = Recorder(), Recorder()
    for recorder in (first, second):
        lm = language_model("x", SeededEngine(recorder, 7))
        assert lm("Say something.", n=3, temperature=1.2) == ["answer 1", "answer 2", "answer 3"]
        assert lm("Say more.") == ["answer 4"]
    seeds = [seed for _, seed, _, _ in first.calls]
    assert len(set(seeds)) == 4
    assert first.calls == second.calls
    assert [temperature for _, _, temperature, _ in first.calls] == [1.2, 1.2, 1.2, 1.0]

    other = Recorder()
    language_model("x", SeededEngine(other, 8))("Say something.")
    assert other.calls[0][1] not in seeds


def test_a_program_sends_the_text_that_its_template_says():
    prompts = []

    def answer(prompt):
        prompts.append(prompt)
        return ""

    predictor = dspy.Predict(task_signature(CTX, "Name the colour."))
    predictor.demos = [dspy.Example({INPUT: "grass", ANSWER: "green"})]
    with dspy.context(lm=language_model("task", TaskEngine(answer)), adapter=PlainAdapter(CTX)):
        predicted = predictor(input_text="a sky\nat noon")

    template, demos = signature_template(predictor.signature, predictor.demos, CTX)
    assert template == (
        "Name the colour.\n\nExamples:\n\nThing:\ngrass\nAnswer:\ngreen\n\nThing:\n{{input}}\nAnswer:"
    )
    assert [(demo.input_text, demo.output_text) for demo in demos] == [("grass", "green")]
    assert prompts == [template.replace("{{input}}", "a sky\nat noon")]
    assert predicted.answer == "", "an empty answer is an answer"


def test_the_beginning_that_copro_proposes_stands_after_the_input():
    signature = task_signature(CTX, "Name the colour.").with_updated_fields(ANSWER, prefix="The colour is")
    assert signature_template(signature, [], CTX)[0] == (
        "Name the colour.\n\nThing:\n{{input}}\n\nThe colour is"
    )


@pytest.mark.parametrize(
    ("text", "instruction", "prefix"),
    [
        (
            "Proposed instruction: Be brief.\nProposed prefix for output field: Colour:",
            "Be brief.",
            "Colour:",
        ),
        (
            '**Proposed Instruction:** "Be brief.\nSay why."\n\n- proposed_prefix_for_output_field: Colour:',
            "Be brief.\nSay why.",
            "Colour:",
        ),
        ("Be brief: one word.", "Be brief: one word.", ""),
        ("", "", ""),
        ("Proposed prefix for output field: Colour:", "", "Colour:"),
    ],
)
def test_fields_are_found_by_their_labels_and_no_answer_is_refused(text, instruction, prefix):
    fields = PlainAdapter(CTX).parse(BasicGenerateInstruction, text)
    assert fields == {"proposed_instruction": instruction, "proposed_prefix_for_output_field": prefix}


def test_a_proposing_prompt_has_no_markers_and_no_overlong_field():
    (message,) = PlainAdapter(CTX).format(BasicGenerateInstruction, [], {"basic_instruction": "x" * 5000})
    assert message["role"] == "user"
    assert "[[" not in message["content"]
    assert "x" * 2000 + " …\n" in message["content"]
    assert "x" * 2001 not in message["content"]
    assert "Proposed instruction: The improved instructions" in message["content"]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('"Be brief."', "Be brief."),
        ('Say "yes" or "no"', 'Say "yes" or "no"'),
        ("```text\nBe brief.\n```", "Be brief."),
        ("New instruction: Be brief.", "Be brief."),
        ("Here is the improved prompt:\nBe brief.", "Be brief."),
        ("Instruction follows: be brief.", "Instruction follows: be brief."),
    ],
)
def test_wrapping_around_a_proposal_is_taken_off(text, bare):
    assert unquoted(text) == bare
