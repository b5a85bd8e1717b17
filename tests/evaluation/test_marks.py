"""What an answer marks as its answer."""

from __future__ import annotations

import pytest

from pcsuite.evaluation.claims import FINAL, MARKED, PLAIN, POINTED, Mention
from pcsuite.evaluation.marks import field_line, marked_answer, marks_of, weighed


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("thinking\nAnswer: yes, it is", "yes, it is"), ("The answer is B.\n#### C", "C"), ("yes", None), ("<answer>7</answer> done", "7"),
        ("**Final Answer:** 7", "7"), ("### Answer\n7", "7"), ("Die Antwort lautet 7", "7"), ("La réponse est 7", "7"), ("Respuesta: 7", "7"),
        ("答案是7", "7"), ("Ответ: 7", "7"), ("A resposta final é 7", "7"), ("The answer is 6. The answer is 7", "7"), ("Answers vary.", None),
        ("\\boxed{7}", None),
    ],
)  # fmt: skip
def test_the_marked_answer(text: str, marked: str | None) -> None:
    assert marked_answer(text) == marked


def test_boxes_hold_braces_and_close_soon() -> None:
    text = "so \\boxed{\\frac{1}{2}} and \\boxed{7"
    assert [text[mark.start : mark.end] for mark in marks_of(text)] == ["\\frac{1}{2}", ""]


def test_lines_that_name_a_field() -> None:
    assert field_line("Label: World\nLabel: Sports", ["label"]) == "Sports"
    assert field_line('{"label": "Sports", "conf', ["label"]) is None
    assert field_line("- **Final label:** 'Sports'", ["label"]) == "Sports"


@pytest.mark.parametrize(
    ("text", "weight"),
    [("Final answer: World", FINAL), ("Label: World", MARKED), ("the label is World", MARKED), ("It is World", POINTED), ("see **World** there", POINTED),
     ("World\nbecause", POINTED), ("a \"World\" item", POINTED), ("all of World news", PLAIN)],
)  # fmt: skip
def test_weights(text: str, weight: int) -> None:
    start = text.index("World")
    assert [
        mention.weight for mention in weighed(text, [Mention("World", start, start + 5)], ("label",))
    ] == [weight]
