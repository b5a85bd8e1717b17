"""Which mentions of a text stand."""

from __future__ import annotations

import pytest

from pcsuite.evaluation.claims import AMBIGUOUS, MARKED, RETRACTION, Conclusion, Mention, Statement


def settle(text: str, *, closed: bool = True) -> Conclusion:
    """What stands of the words red and blue."""
    mentions = [
        Mention(word, start, start + len(word))
        for word in ("red", "blue")
        for start in range(len(text))
        if text.startswith(word, start)
    ]
    return Statement(text).settle(mentions, closed=closed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("red", "red"), ("red, not blue", "red"), ("It isn't red, it's blue.", "blue"), ("blue instead of red", "blue"), ("anything but red", None),
        ("all of them except red", None), ("not red or blue", None), ("neither red nor blue", None), ("It can't be red, so it must be blue.", "blue"),
        ("red is wrong, blue is right", "blue"), ("nothing but red", "red"), ("no doubt it is red", "red"), ("It fails to be red.", None),
        ("red or blue", AMBIGUOUS), ("red. blue.", AMBIGUOUS), ("It might be red.", AMBIGUOUS), ("It might be red, but it is blue.", "blue"),
        ("red?", AMBIGUOUS), ("Is it red? It is blue.", "blue"), ("I can't tell whether it is red.", None), ("red, but I'm not sure.", AMBIGUOUS),
        ("red. I'm not sure, though.", AMBIGUOUS), ("red, if it is dark; otherwise blue", AMBIGUOUS), ("red. It could also be blue.", AMBIGUOUS),
        ("red. Wait, blue.", "blue"), ("red. Wait, that's wrong.", AMBIGUOUS), ("red, I can't wait.", "red"), ("red. Actually", "red"),
        ("I made a mistake: red. No, blue.", "blue"), ("I first thought red, but blue.", "blue"), ("Some say red. It is blue.", "blue"),
        ("I'm sorry, I can't help with red.", None), ("Sorry for the delay: red.", "red"), ("Although red is near, blue.", "blue"),
        ("more blue than red", "blue"), ("If it were dark, it would be red.", AMBIGUOUS),
    ],
)  # fmt: skip
def test_what_stands(text: str, value: Conclusion) -> None:
    assert settle(text) == value


def test_the_heaviest_mention_counts_and_those_joined_to_it() -> None:
    text = "red, then blue"
    assert Statement(text).settle([Mention("red", 0, 3, MARKED), Mention("blue", 10, 14)]) == "red"
    text = "red or blue"
    assert Statement(text).settle([Mention("red", 0, 3, MARKED), Mention("blue", 7, 11)]) is AMBIGUOUS


def test_of_an_open_question_a_remark_on_the_answer_denies_nothing() -> None:
    assert settle("red is not bright", closed=False) == "red"
    assert settle("red is not bright") is None
    assert settle("red is not the answer", closed=False) is None


def test_words_that_take_back_by_themselves() -> None:
    assert [bool(cue[1]) for cue in RETRACTION.finditer("Wait. Scratch that. Hmm. That can't be right.")] == [
        False,
        True,
        False,
        True,
    ]
