"""FEVER: evidence sets, and texts where the page is sure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcsuite.data.export.fever import certain_index


def test_fever_has_one_item_a_claim_with_distinct_evidence_sets_and_texts(exported):
    rows = exported("fever_opt", "fever")
    assert [row["item_id"] for row in rows] == ["fever-11", "fever-12", "fever-13"]
    page = "Tarn_-LRB-town-RRB-"
    assert rows[0]["truth"] == {
        "label": "SUPPORTS",
        "evidence_sets": [
            [{"page": page, "sentence": 0, "text": "Tarn has a mill ."}],
            [
                {"page": page, "sentence": 3, "text": "The mill is old ."},
                {"page": "Bræ", "sentence": 1, "text": "It is near Tarn ."},
            ],
        ],
    }
    assert rows[1]["truth"] == {"label": "NOT_ENOUGH_INFO", "evidence_sets": []}
    assert rows[2]["truth"]["evidence_sets"] == [[{"page": "Elsewhere", "sentence": 0, "text": None}]]
    pages = exported("fever_pages", "fever")
    assert pages[0] == {
        "page": page,
        "sentences": ["Tarn has a mill .", "It lies north .", "", "The mill is old ."],
    }


@pytest.mark.parametrize(
    ("sentence_id", "known", "length", "place"),
    [
        (0, [0], 5, 0),
        (1, [1], 5, 1),  # line 0 is never blank
        (2, [2], 5, None),  # line 1 may have been blank
        (2, [1, 2], 5, 2),
        (4, [4], 2, 1),  # a page of two sentences: the last one
        (9, [9], 1, None),  # contradicts the page: nothing is guessed
        (2, [2, 7], 3, 1),
    ],
)
def test_place_of_a_sentence_where_blank_lines_were_dropped(sentence_id, known, length, place):
    assert certain_index(sentence_id, known, length) == place


def test_fever_repacked_pages_give_text_only_where_the_place_is_sure(originals: Path, exported):
    (originals / "fever" / "wiki_pages.jsonl").write_text(
        json.dumps({"page": "Tarn_-LRB-town-RRB-", "sentences": ["One .", "Two .", "Three .", "Four ."]})
        + "\n"
        + json.dumps({"page": "Bræ", "sentences": ["Hill .", "Near ."]})  # decomposed form
        + "\n",
        encoding="utf-8",
    )
    sets = exported("fever_opt", "fever")[0]["truth"]["evidence_sets"]
    assert [[part["text"] for part in one] for one in sets] == [["One ."], [None, "Near ."]]
