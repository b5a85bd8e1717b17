"""One sample of an inspect_ai log: its score, answer, prompt and tokens."""

import math

import pytest

from pcsuite.importers.inspect_ai_log import InspectLog
from pcsuite.importers.inspect_sample import value_as_number
from support.import_logs import FIXTURES, with_sample

ODD = FIXTURES / "odd.eval"


GRADES = {"full": 1.0, "half": 0.5, "wrong": 0.0, "silent": 0.0, "word": 1.0, "vague": 0.0, "open": None}


def samples_of(path, measure="grade"):
    log = InspectLog(path)
    found = {(sample.item_id, sample.epoch): sample for sample in log.samples(measure)}
    log.close()
    return log.header, found


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), ("yes", 1.0), ("True", 1.0), ("no", 0.0), ("false", 0.0),
        ("0.25", 0.25), (" 3 ", 3.0), (True, 1.0), (False, 0.0), (7, 7.0), (-0.5, -0.5), (None, None),
        (math.nan, None), (math.inf, None),
    ],
)  # fmt: skip
def test_scalars_become_numbers_as_in_the_tool(value, number):
    assert value_as_number(value) == (number, None)


@pytest.mark.parametrize("value", ["good", "c", "nan", "inf", [1], {"a": 1}])
def test_what_is_no_number_counts_as_zero_and_is_named(value):
    assert value_as_number(value) == (0.0, str(value))


def test_answer_prompt_and_tokens():
    _, samples = samples_of(ODD)
    full = samples["full", 1]
    assert full.prompt == "user: Say something about full."
    assert full.text.startswith("answer ")
    assert full.answer == full.text
    assert full.finish_reason == "stop"
    assert (full.usage.prompt_tokens, full.usage.completion_tokens, full.usage.total_tokens) == (10, 2, 12)


def test_a_grader_of_the_same_model_is_not_counted_as_the_answer(tmp_path):
    def graded(sample):
        sample["output"]["usage"] = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}

    alone = with_sample(ODD, tmp_path / "a.eval", "full_epoch_1", graded)
    usage = samples_of(alone)[1]["full", 1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 3, 10)

    def conversed(sample):
        graded(sample)
        sample["messages"] += [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]

    # Of several answers only the last has a count of its own: all of the model's tokens are taken.
    several = with_sample(ODD, tmp_path / "b.eval", "full_epoch_1", conversed)
    assert samples_of(several)[1]["full", 1].usage.total_tokens == 12


def test_a_score_in_spite_of_an_error_counts_and_is_remarked(tmp_path):
    path = with_sample(
        ODD, tmp_path / "a.eval", "full_epoch_1", lambda sample: sample.update(error={"message": "late"})
    )
    full = samples_of(path)[1]["full", 1]
    assert (full.error, full.scores["grade"]) == (None, 1.0)
    assert full.remarks == ("scored in spite of an error: late",)


def test_attachments_are_put_back_and_media_named(tmp_path):
    def attach(sample):
        sample["messages"][0]["content"] = [
            {"type": "text", "text": "attachment://abc"},
            {"type": "image", "image": "attachment://def"},
        ]
        sample["attachments"] = {"abc": "a long text"}

    full = samples_of(with_sample(ODD, tmp_path / "a.eval", "full_epoch_1", attach))[1]["full", 1]
    assert full.prompt == "user: a long text\n[image]"
