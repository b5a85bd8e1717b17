"""TruthfulQA: references, options and versions."""

from __future__ import annotations

import pytest

from pcsuite.data.export.truthful_qa import _split_answers
from pcsuite.data.truths import is_no_comment


def test_truthful_qa_splits_references_and_marks_the_unanswerable(exported):
    first, second = exported("truthful_qa_validation", "truthful_qa")
    assert first["input_text"] == "Do owls read?"
    assert first["truth"] == {
        "best_answer": "Owls cannot read",
        "correct_answers": ["Owls cannot read", "No"],
        "incorrect_answers": ["Owls read", "Yes"],
        "unanswerable": False,
        "category": "Myths",
    }
    assert second["truth"]["unanswerable"] is True


def test_truthful_qa_helpers():
    assert _split_answers("a; b ;;c;") == ["a", "b", "c"]
    assert is_no_comment(" I  have no comment. ")
    assert not is_no_comment("I have no comments on owls")


def test_truthful_qa_mc_keeps_the_true_option_wherever_it_is_put(exported):
    rows = {
        row["input_text"].split("\n")[0]: row
        for row in exported("truthful_qa_mc_validation", "truthful_qa_mc")
    }
    owls = rows["Do owls read?"]["truth"]
    assert owls["choices"][owls["choice"]] == "Owls cannot read."
    assert sorted(owls["choices"]) == ["A", "B", "C"]
    open_rows = exported("truthful_qa_validation", "truthful_qa")
    assert rows["Do owls read?"]["item_id"] == open_rows[0]["item_id"]


def test_truthful_qa_revision_is_looked_for_in_its_own_folder(exported):
    with pytest.raises(Exception, match=r"none of v2025/TruthfulQA\.csv found"):
        exported("truthful_qa_validation", "truthful_qa", truthfulqa_version="v2025")
    with pytest.raises(Exception, match="did you mean 'v2025'"):
        exported("truthful_qa_validation", "truthful_qa", truthfulqa_version="v225")
