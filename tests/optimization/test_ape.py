"""APE's own parts: cleaning, races, confidence bounds."""

import math

import pytest

from pcsuite.optimization.ape import clean_instruction, rungs, upper_bound
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.stats.objective import Objective, Replicate, item_parts


def score(items, *, crashed=False):
    parts = item_parts({str(n): [Replicate(1.0, None, "a", 0)] * 2 for n in range(items)}, token_budget=100)
    candidate = Candidate.of_text("x {{input}}", method="ape")
    return CandidateScore(candidate, Objective(), 0.5, parts.parts(), parts, 2, False, crashed=crashed)


def test_the_upper_bound_is_mean_plus_c_root_log_total_over_n():
    assert upper_bound(score(4), 100, 0.2) == pytest.approx(0.5 + 0.2 * math.sqrt(math.log(100) / 4))
    assert upper_bound(score(16), 100, 0.2) < upper_bound(score(4), 100, 0.2)
    assert upper_bound(score(4, crashed=True), 100) == -math.inf


def test_rungs_are_nested_and_end_with_all_items():
    assert rungs(500, 24) == [63, 125, 250, 500]
    assert rungs(80, 24) == [40, 80]
    assert rungs(24, 24) == [24]
    assert rungs(1, 24) == [1]


@pytest.mark.parametrize(
    ("answer", "instruction"),
    [
        ("Sort the news.", "Sort the news."),
        ('"Sort the news."', "Sort the news."),
        ("The instruction was: Sort the news.", "Sort the news."),
        ("```text\nSort the news.\n```", "Sort the news."),
        ("Instruction: 'Sort {{input}}.'", "Sort the input."),
        ("  \n", ""),
    ],
)
def test_an_instruction_is_read_out_of_an_answer(answer, instruction):
    assert clean_instruction(answer) == instruction
