"""Which label, choice, yes or no an answer in words claims."""

from __future__ import annotations

import time

import pytest

from pcsuite.evaluation.claims import AMBIGUOUS, Conclusion
from pcsuite.evaluation.mentions import (
    YES_NO_WORDS,
    claimed_choice,
    claimed_label,
    claimed_yes_or_no,
    claims_reference,
)

UNSURE = AMBIGUOUS
DESKS = {"Sports": "Sports", "World": "World", "Business": "Business", "Sci/Tech": "Sci/Tech"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Sports, Sports!", "Sports"), ("not Sports but World", "World"), ("Sports and World", UNSURE), ("sci_tech", "Sci/Tech"),
        ("I can't tell whether this is Sports.", None), ("Anything but Sports.", None), ("Everything except Sports.", None),
        ("This isn't Sports.", None), ("World rather than Sports", "World"), ("Neither World nor Sports.", None),
        ("Some would file it under Sports, but it is World.", "World"), ("Sports? No, World.", "World"), ("Sports?", UNSURE),
        ("Sports. Wait, no, World.", "World"), ("It is Sports. Scratch that.", UNSURE), ("It might be Sports.", UNSURE),
        ("Among World, Sports, Business and Sci/Tech, the best fit is Sports.", "Sports"), ("World, Sports, Business, Sci/Tech", UNSURE),
        ("I'm sorry, I cannot help with Sports.", None), ("**Sports**, although World is mentioned", "Sports"),
        ("Label: World\nFinal label: Sports", "Sports"), ("$\\boxed{\\text{Sci/Tech}}$", "Sci/Tech"),
    ],
)  # fmt: skip
def test_labels(text: str, label: Conclusion) -> None:
    assert claimed_label(text, DESKS) == label


def test_in_a_longer_text_a_label_counts_as_it_is_spelled() -> None:
    assert (
        claimed_label("The news went all over the world, and nobody had expected that it would.", DESKS)
        is None
    )
    assert (
        claimed_label(
            "The news went all over the world, so the desk for it is World, as it was before.", DESKS
        )
        == "World"
    )


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The review is Positive, although a negative remark is made about the delivery.", "positive"),
        ("Positive. The customer is delighted with the shoes, nothing negative to say of them.", "positive"),
        ("The tone of it isn't negative, and all in all the customer is clearly POSITIVE here.", "positive"),
        ("The customer is happy, and the tone is positive throughout the whole of the review.", "positive"),
        ("I would ask for the positive side of the story before I filed this anywhere at all.", None),
        ("Posıtıve", None),
    ],
)
def test_labels_that_are_words_count_where_something_points_at_them(text: str, label: str | None) -> None:
    assert claimed_label(text, {"positive": "positive", "negative": "negative"}) == label


@pytest.mark.parametrize(
    ("text", "letter"),
    [("D, beach", "D"), ("most likely D", "D"), ("A - river bank", "A"), ("A beach", "D"), ("B or C", UNSURE), ("not B but D", "D"),
     ("D - river bank", UNSURE), ("A", "A"), ("It is a beach.", "D"), ("I think so", None), ("x" * 1000, None),
     ("The answer is A. Wait, no, the answer is B.", "B"), ("Everything except A.", None), ("C. beach", UNSURE), ("Plan B is a film.", None),
     ("A is wrong, B is wrong and C does not fit, so D.", "D"), ("A. river bank\nB. the shop\nC. castle\nD. beach", None),
     ("A. river bank\nB. the shop\nC. castle\nD. beach\nAnswer: C", "C"), ("$\\boxed{\\text{B}}$", "B"), ("I can't tell whether it is B.", None),
     ("D rather than A", "D"), ("Is it D?", UNSURE), ("| A | ✗ |\n| B | ✓ |", "B")],
)  # fmt: skip
def test_choices(text: str, letter: Conclusion) -> None:
    options = {"A": "river bank", "B": "the shop", "C": "castle", "D": "beach"}
    assert claimed_choice(text, options) == letter


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("Yes, it is", "yes"), ("No.", "no"), ("It flies. Yes, it does.", "yes"), ("No one knows", None), ("Yes or no", UNSURE), ("Yes. No.", UNSURE),
     ("It is true", "yes"), ("True", "yes"), ("Most likely yes.", "yes"), ("The answer (Yes or No) is No.", "no"), ("Yes/No: yes", "yes"),
     # Both are named: a person could not say which is meant.
     ("yes, no", UNSURE), ("Yes, but also no.", UNSURE), ("No. It could also be yes, though.", UNSURE), ("yes | no", UNSURE),
     ("Yes, the claim is false.", UNSURE), ("True, false", UNSURE),
     # The other word says something else, denies itself, is hearsay, or belongs to the question that is repeated.
     ("Yes, there is no limit.", "yes"), ("Yes, no doubt.", "yes"), ("No, that is not true.", "no"), ("No, that doesn't hold true.", "no"),
     ("No, not yes.", "no"), ("Yes, it is a true story.", "yes"), ("Is it yes or no? Yes.", "yes"), ("Yes or no?", UNSURE),
     ('Yes, although some would say "no".', "yes"), ("Yes. Wait, no.", "no"), ("No... actually, yes.", "yes"),
     ("Definitely not.", "no"), ("Of course it can.", "yes"), ("I can't say yes or no.", None), ("I can't say whether it is yes.", None)],
)  # fmt: skip
def test_yes_and_no(text: str, verdict: Conclusion) -> None:
    assert claimed_yes_or_no(text) == verdict


@pytest.mark.parametrize("language", YES_NO_WORDS)
def test_yes_and_no_in_every_language_of_the_table(language: str) -> None:
    for words, value in zip(YES_NO_WORDS[language], ("yes", "no"), strict=True):
        for word in words.split("|"):
            assert claimed_yes_or_no(f"{word.capitalize()}.") == value, word


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Paris", True), ("It is Paris.", True), ("It isn't Paris.", False), ("London rather than Paris", False), ("Paris rather than London", True),
        ("Any city but Paris", False), ("Paris or London", None), ("London. Sorry, Paris.", True), ("Paris. Sorry, London.", None),
        ("Many believe it is Paris, but it is London.", False), ("London, a city north of Paris", False), ("Paris, the capital", True),
        ("The answer is **London**, not far from Paris", False), ("I can't discuss Paris.", False), ("Final answer: London. Paris is larger.", False),
        ("Lyon, Nice, Paris, Lille", None), ("Could it be Paris?", None), ("Paris has two million people and lies on a river.", True),
    ],
)  # fmt: skip
def test_references(text: str, claims: bool | None) -> None:
    assert claims_reference(text, ["Paris"]) is claims


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "A " * 50_000,
        "yes no " * 20_000,
        "not " * 30_000 + "Sports",
        "Sports, " * 20_000,
        "Wait, Sports. " * 8_000,
        "(A) x" * 20_000,
    ],
)
def test_long_texts_are_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    claimed_choice(text, {"A": "x", "B": "y"})
    claimed_label(text, DESKS)
    claimed_yes_or_no(text)
    claims_reference(text, ["Sports"])
    assert time.process_time() - started < 5.0
