"""Truths in other forms than the suite's own; whole tasks on them are in ``tests/specification``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.items import SAMPLES, read_items
from pcsuite.data.truths import normalise_truth
from pcsuite.errors import DataError


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*_*.jsonl")), ids=lambda path: path.stem)
def test_truths_in_the_suites_own_form_stay_as_they_are(path):
    if path.stem.endswith("_pages"):
        return
    for item in read_items(path):
        assert normalise_truth(item.input_text, item.truth, "x") == (item.input_text, item.truth)


def test_solutions_as_published_end_in_their_number():
    _, truth = normalise_truth("?", {"answer": "2 + 2 = 4\n#### 4"}, "x")
    assert truth == {"answer": "4", "solution": "2 + 2 = 4"}


def test_tags_of_both_schemes_and_of_the_hub():
    text, tokens = "Bo Li met Ada .", ["Bo", "Li", "met", "Ada", "."]
    for tags in (
        ["B-PER", "I-PER", "O", "B-PER", "O"],
        ["I-PER", "I-PER", "O", "I-PER", "O"],
        [1, 2, 0, 1, 0],
    ):
        _, truth = normalise_truth(text, {"tokens": tokens, "ner_tags": tags}, "x")
        assert [entity["text"] for entity in truth["entities"]] == ["Bo Li", "Ada"]
    _, truth = normalise_truth("Ab Cd", {"tokens": ["Ab", "Cd"], "tags": ["I-ORG", "B-ORG"]}, "x")
    assert [(entity["start"], entity["end"]) for entity in truth["entities"]] == [(0, 2), (3, 5)]


def test_flat_evidence_is_grouped_by_its_id():
    rows = [[1, 7, "A", 0], [1, 8, "B", 1], [1, 7, "C", 2]]
    _, truth = normalise_truth("?", {"label": "SUPPORTS", "evidence": rows}, "x")
    assert [[row["page"] for row in one] for one in truth["evidence_sets"]] == [["A", "C"], ["B"]]


def test_a_field_called_choices_that_is_none_of_ours_is_left_alone():
    record = {"choices": ["red", "blue"], "size": 4}
    assert normalise_truth("?", record, "x") == ("?", record)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["label", "choice", "choices", "evidence", "correct_answers", "incorrect_answers", "answer", "tokens", "ner_tags",
     "entities", "mc1_targets", "best_answer"]
)  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(_KEYS, _JSON, max_size=5))
def test_any_truth_is_read_or_refused_in_one_line(truth):
    said = "file line 1: "
    try:
        normalise_truth("some input", truth, "file line 1")
    except DataError as error:
        said = str(error)
    assert said.startswith("file line 1: ")
    assert "\n" not in said
