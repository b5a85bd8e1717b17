"""Candidates and their layout."""

from dataclasses import replace

from pcsuite.optimization.problem import Candidate, instruction_template, named_random
from pcsuite.prompts.context import Exemplar, PromptContext

DEMOS = (Exemplar("grass", "green", "t1"),)


def context(kind):
    return PromptContext(task_id="t", task_kind=kind, input_text="", instruction="", input_label="Thing")


def test_an_instruction_is_laid_out_with_examples_and_one_slot():
    text = instruction_template(" Name the colour of {{input}}. ", context("structured"), DEMOS)
    shown = "Examples:\n\nThing:\ngrass\nAnswer:\ngreen"
    assert text == f"Name the colour of the input.\n\n{shown}\n\nThing:\n{{{{input}}}}\nAnswer:"
    assert instruction_template("Name it.", context("reasoning")) == "Name it.\n\nThing:\n{{input}}"
    assert instruction_template("", context("reasoning")) == "Thing:\n{{input}}"
    first = replace(context("reasoning"), wording="1")
    assert instruction_template("Name it.", first) == "Name it.\n\nThing: {{input}}"


def test_the_same_prompt_is_the_same_candidate_whatever_its_origin():
    first = Candidate.of_instruction(
        "Name it.", context("reasoning"), method="ape", origin="proposal 1", demos=DEMOS
    )
    again = Candidate.of_text(first.prompt.template, method="hand", demos=DEMOS, parents=["p"])
    assert first.id == again.id == first.prompt.hash[:12]
    assert again.parents == ("p",)
    assert Candidate.of_text("Other. {{input}}", method="ape").id != first.id


def test_a_random_stream_belongs_to_its_seed_and_name():
    assert named_random(3, "a", 1).random() == named_random(3, "a", 1).random()
    drawn = {named_random(seed, name).random() for seed in (3, 4) for name in ("a", "b")}
    assert len(drawn) == 4
