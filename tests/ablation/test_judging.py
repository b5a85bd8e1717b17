import msgspec

from pcsuite.ablation.judging import answer_alarms
from pcsuite.logging.log import iter_rows


def test_an_arm_that_always_says_the_same_is_told(ablated):
    rows = [row for row in iter_rows(ablated.log) if row.condition.id == "full"]
    assert answer_alarms(rows, by_words=True) == []

    def answering(answer):
        change = msgspec.structs.replace
        return [change(row, parsed=change(row.parsed, answer=answer)) for row in rows[:20]]

    same = answering("billing")
    assert answer_alarms(same, by_words=True) == [
        "Nearly constant: the full prompt is answered “billing” for 20 of 20 items."
    ]
    assert answer_alarms(same[:7], by_words=True) == []  # too few to tell
    right = [msgspec.structs.replace(row, metrics=row.metrics | {"task_score": 1.0}) for row in same]
    assert answer_alarms(right, by_words=True) == []  # what is true of all may be said of all
    assert answer_alarms(answering(None), by_words=True) == [
        "20 of 20 answers to the full prompt could not be read and score 0."
    ]
