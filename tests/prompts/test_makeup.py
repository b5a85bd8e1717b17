"""The make-up of a text by its cues."""

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.adapters._simulated_proposer import OPENING, SENTENCES
from pcsuite.perturbations.paraphrase import reworded_instruction, reworded_operator
from pcsuite.prompts.context import Exemplar, TaskPrompting
from pcsuite.prompts.makeup import makeup_cues, operator_makeup
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
                assert operator_makeup(text) == (name,), (wording, text)


@pytest.mark.parametrize("task_id", sorted(SUITE.tasks))
def test_no_bare_instruction_is_taken_for_an_operator(task_id):
    ctx = context(task_id)
    texts = [ctx.instruction, *(reworded_instruction(task_id, ctx.instruction, n) for n in (1, 2, 3))]
    assert [operator_makeup(text) for text in texts] == [()] * 4


def test_the_simulated_proposers_sentences_show_exactly_their_operator():
    assert operator_makeup(OPENING) == ()
    for name, sentence in SENTENCES.items():
        assert operator_makeup(f"{OPENING}\n{sentence}") == (name,)
    assert set(operator_makeup("\n".join(SENTENCES.values()))) == set(SENTENCES)


def test_free_words_and_what_gave_them_away():
    text = "As an expert editor, sort the story. Double-check your answer, and if unsure, say you don't know."
    assert makeup_cues(text) == {
        "ROLE": "As an expert editor",
        "ABSTAIN": "if unsure",
        "VERIFIER": "Double-check your answer",
    }
