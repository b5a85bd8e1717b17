"""Question sets: choices, yes or no, question classes, short answers."""

from __future__ import annotations


def test_commonsense_qa_lists_the_choices(exported):
    [row] = exported("commonsense_qa_validation", "commonsense_qa")
    assert row["item_id"] == "v1"
    assert row["input_text"] == "What floats?\nA. anvil\nB. cork\nC. brick\nD. key\nE. coin"
    assert row["truth"]["choice"] == "B"
    assert row["truth"]["choices"]["E"] == "coin"


def test_yes_no_sets(exported):
    [row] = exported("strategyqa_dev", "strategyqa")
    assert row == {
        "item_id": "strategyqa-q1",
        "input_text": "Could a goat outlive a mill?",
        "truth": {"label": "no"},
    }
    [row] = exported("boolq_dev", "boolq")
    assert row["input_text"] == "Passage: Tarn is a town.\n\nQuestion: is tarn a town?"
    assert row["truth"] == {"label": "yes"}


def test_trec_reads_the_archive_as_latin_1_and_keeps_the_coarse_class(exported):
    [row] = exported("trec_test", "trec")
    assert row["truth"] == {"label": "NUM"}
    texts = [row["input_text"] for row in exported("trec_dev", "trec")]
    assert texts == ["Which is a sister town of Tarn ?", "Who owns the mill ?"]


def test_nq_open_keeps_every_accepted_answer(exported):
    [row] = exported("nq_open_dev", "nq_open")
    assert row["input_text"] == "who built the mill?"
    assert row["truth"] == {"answers": ["Mira Oak", "Oak"]}
