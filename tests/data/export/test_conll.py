"""CoNLL-2003: tags, spans and offsets."""

from __future__ import annotations

import pytest

from pcsuite.data.export.conll import sentence_item
from pcsuite.data.truths import entity_spans


def test_conll_item_has_character_offsets(exported):
    first, second = exported("conll2003_test", "conll2003")
    assert first["item_id"] == "conll2003-test-000001"
    assert first["input_text"] == "Tarn Brack Lines hired Mira ."
    assert first["truth"] == {
        "tokens": ["Tarn", "Brack", "Lines", "hired", "Mira", "."],
        "entities": [
            {"text": "Tarn", "type": "LOC", "start": 0, "end": 4},
            {"text": "Brack Lines", "type": "ORG", "start": 5, "end": 16},
            {"text": "Mira", "type": "PER", "start": 23, "end": 27},
        ],
    }
    assert second["truth"]["entities"] == [{"text": "Tarnish", "type": "MISC", "start": 4, "end": 11}]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["I-PER", "I-PER", "O"], [("PER", 0, 2)]),  # IOB1
        (["I-PER", "B-PER", "I-PER"], [("PER", 0, 1), ("PER", 1, 3)]),  # IOB1: B- parts neighbours
        (["I-PER", "I-LOC"], [("PER", 0, 1), ("LOC", 1, 2)]),
        (["B-PER", "I-PER", "B-PER"], [("PER", 0, 2), ("PER", 2, 3)]),  # IOB2
        (["O", "O"], []),
        ([], []),
    ],
)
def test_one_rule_reads_iob1_and_iob2(tags, spans):
    assert entity_spans(tags) == spans


def test_offsets_count_code_points():
    item = sentence_item("x", ["Zoë", "😀", "Tarn"], ("O", "O", "I-LOC"))
    assert item.truth["entities"] == [{"text": "Tarn", "type": "LOC", "start": 6, "end": 10}]
