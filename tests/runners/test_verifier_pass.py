from __future__ import annotations

import pytest

from pcsuite.runners.verifier_pass import (
    ANSWER_CHARACTERS,
    DECODING,
    read_verdict,
    verdict_prompt,
    verdict_text,
)


@pytest.mark.parametrize(
    ("text", "contradiction", "correct"),
    [
        (verdict_text(contradiction=True, correct=False), True, False),
        ('Sure: ```json\n{"contradiction": false, "correct": true}\n```', False, True),
        ('{"contradiction": "No", "correct": "yes"}', False, True),
        ('{"contradiction": false}', False, None),
        ('{"contradiction": 0, "correct": 1}', None, None),
        ("1. Contradiction: no\n2. correct: YES", False, True),
        ("contradiction: no\ncontradiction: yes\ncorrect: no", None, False),
        ("The answer has no contradiction and is correct: yes, I think.", None, None),
        ("", None, None),
    ],
)
def test_verdicts_are_read_and_never_guessed(text, contradiction, correct):
    verdict = read_verdict(text, "stop")
    assert (verdict.contradiction, verdict.correct) == (contradiction, correct)


def test_a_truncated_verdict_is_none_unless_it_is_whole():
    assert read_verdict("contradiction: no", "length").contradiction is None
    assert read_verdict(verdict_text(contradiction=False, correct=True) + " and", "length").correct is True


def test_the_question_shows_the_answer_but_not_too_much_of_it():
    prompt = verdict_prompt("Sort it.", "News", "A match.", "  Sports ")
    assert "Task:\nSort it.\n\nNews:\nA match.\n\nAnswer:\nSports\n\nTwo questions" in prompt
    long = verdict_prompt("Sort it.", "News", "A match.", "a" * 9_000 + "z")
    assert len(long) < ANSWER_CHARACTERS + 800
    assert "[…]" in long
    assert "z\n\nTwo questions" in long
    assert DECODING.temperature == 0.0
