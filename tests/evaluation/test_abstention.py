"""Abstentions, and answers that read like them."""

from __future__ import annotations

import pytest

from pcsuite.evaluation.abstention import stated_abstention, text_abstains, value_abstains


@pytest.mark.parametrize(
    "text",
    ["INSUFFICIENT_INFO", "insufficient information", "I don't know.", "I have no comment.", "Unknown", "N/A",
     "It cannot be determined from the text.", "There is not enough information.", "I'm not sure", "abstain",
     "NOT_ENOUGH_INFO", "There is insufficient evidence.", "I'm not able to answer that.", "I am unsure",
     "I do not have enough information to answer.", "I have no idea", "I'd rather not say", "I will abstain.",
     "Sorry, unable to determine.", "Cannot answer", "I cannot tell.", "I can't tell which one it is", "With 3 boxes, it cannot be determined.",
     "The answer cannot be determined from the given information.", "As a model I cannot provide an answer to this"],
)  # fmt: skip
def test_abstentions(text: str) -> None:
    assert text_abstains(text)


@pytest.mark.parametrize(
    "text",
    ["World", "", "The unknown soldier is buried there.", "42", "Nobody knows his name",
     "x " * 200 + "I don't know", "comment",
     "Dogs are unable to tell red from green.", "Nobody can tell the twins apart", "I have enough information: 42",
     "I cannot tell a lie", "cannot be determined by looking", "A person's age cannot be determined from a photo.",
     "I can't answer the door", "It is impossible to tell lies there",
     "There was insufficient rain", "She could not say no"],
)  # fmt: skip
def test_answers(text: str) -> None:
    assert not text_abstains(text)


def test_fields_and_values() -> None:
    assert stated_abstention(True) is True
    assert stated_abstention(" True ") is True
    assert stated_abstention(False) is False
    assert stated_abstention("no") is False
    assert stated_abstention(1) is None
    assert value_abstains("unknown")
    assert not value_abstains(None)
