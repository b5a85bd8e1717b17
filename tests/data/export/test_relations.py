"""CoNLL04 and SciERC from both file formats, written here by hand."""

from __future__ import annotations

import json

import pytest

from pcsuite.data.export import EXPORTERS
from pcsuite.data.export.base import ExportOptions
from pcsuite.data.export.pipeline import export_datasets
from pcsuite.data.items import load_items

SPERT = {
    "tokens": ["Ana", "Quill", "works", "for", "Lintor", "Bank", "."],
    "entities": [{"type": "Peop", "start": 0, "end": 2}, {"type": "Org", "start": 4, "end": 6}],
    "relations": [{"type": "Work_For", "head": 0, "tail": 1}],
    "orig_id": 7,
}
DYGIE = {
    "doc_key": "d1",
    "sentences": [["We", "parse", "text", "."], ["A", "parser", "is", "used", "for", "tagging", "."]],
    "ner": [[], [[5, 5, "Method"], [9, 9, "Task"]]],
    "relations": [[], [[5, 5, 9, 9, "USED-FOR"]]],
    "clusters": [],
}


def export(folder, dataset, **files):
    source = folder / "from" / dataset
    source.mkdir(parents=True)
    for name, text in files.items():
        (source / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return export_datasets(
        folder / "cache", from_dir=folder / "from", only=[dataset], options=ExportOptions(allow_partial=True)
    )


def test_sperts_lists(tmp_path):
    text = json.dumps([SPERT])
    (result,) = export(
        tmp_path, "conll04", conll04_train__json=text, conll04_dev__json=text, conll04_test__json=text
    )
    assert result.error is None
    assert result.outputs == {"conll04_train.jsonl": 1, "conll04_dev.jsonl": 1, "conll04_test.jsonl": 1}
    (item,) = load_items("conll04", "test", tmp_path / "cache").items
    assert (item.item_id, item.input_text) == ("conll04-test-000001", "Ana Quill works for Lintor Bank .")
    assert item.truth["relations"] == [{"head": "Ana Quill", "type": "Work_For", "tail": "Lintor Bank"}]
    assert (item.truth["entities"][1]["text"], item.truth["entities"][1]["type"]) == ("Lintor Bank", "Org")


def test_dygies_documents_become_sentences(tmp_path):
    text = json.dumps(DYGIE) + "\n"
    (result,) = export(tmp_path, "scierc", train__json=text, dev__json=text, test__json=text)
    assert result.error is None
    first, second = load_items("scierc", "test", tmp_path / "cache").items
    assert first.truth["relations"] == []
    assert second.input_text == "A parser is used for tagging ."
    assert second.truth["relations"] == [{"head": "parser", "type": "USED-FOR", "tail": "tagging"}]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"relations": [{"type": "Kill", "head": 0, "tail": 2}]}, "a relation names entities [0, 2] of 2"),
        ({"entities": [{"type": "Peop", "start": 3, "end": 9}]}, "an entity spans tokens 3 to 9 of 7"),
        ({"relations": [{"head": 0, "tail": 1}]}, "a relation has no type"),
        ({"tokens": None}, "'tokens' should be a list"),
    ],
)
def test_what_is_not_as_published_is_refused_by_file_and_entry(change, problem, tmp_path):
    text = json.dumps([SPERT | change])
    (result,) = export(tmp_path, "conll04", train__json=text, dev__json=text, test__json=text)
    assert problem in str(result.error)
    assert "conll04/train.json entry 1" in str(result.error)


def test_a_relation_between_no_entities_is_refused(tmp_path):
    text = json.dumps(DYGIE | {"relations": [[], [[4, 4, 9, 9, "USED-FOR"]]]}) + "\n"
    (result,) = export(tmp_path, "scierc", train__json=text, dev__json=text, test__json=text)
    assert "sentence 2: a relation names the span (0, 1) that is no entity" in str(result.error)


def test_published_numbers_of_sentences():
    counts = {name: EXPORTERS.get(name)().official_counts(ExportOptions()) for name in ("conll04", "scierc")}
    assert counts == {
        "conll04": {"train": 922, "dev": 231, "test": 288},
        "scierc": {"train": 1861, "dev": 275, "test": 551},
    }
